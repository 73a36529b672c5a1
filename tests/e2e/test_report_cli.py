"""`dpgist report` on what `dpgist synthesize` wrote: results, exit status, manners."""

import json

import pytest

from dpgist.privacy.ledger import Ledger

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def made(dpgist, people):
    arguments = ["--schema", "people.toml", *BUDGET, "--out", "all", "--steps", "5"]
    assert dpgist("synthesize", "people.csv", *arguments).status == 0
    return people / "all"


def test_a_report_is_written_and_named_on_stdout(dpgist, made):
    outcome = dpgist("report", "all")
    assert (outcome.status, outcome.out) == (0, "all/report.html\n")
    assert outcome.err.startswith("Inside the guarantee.")
    assert json.loads((made / "report.json").read_text())["inside_the_guarantee"] is True
    assert dpgist("report", "all").status == 2
    assert dpgist("report", "all", "--force").status == 0


def test_a_report_beside_real_rows_warns_and_notes_the_look(dpgist, made):
    outcome = dpgist("report", "all", "--real", "people.csv")
    assert outcome.status == 0
    assert "outside the guarantee" in outcome.err
    assert json.loads((made / "report.json").read_text())["inside_the_guarantee"] is False
    kinds = [line.body["kind"] for line in Ledger.open(made / "ledger.sqlite").entries()]
    assert kinds == ["terms", "charge", "released", "unprotected look"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "release.gist"),
        (["all", "--train", "people.csv"], "--real"),
        (["all", "--group", "age"], "--real"),
        (["all", "--real", "nowhere.csv"], "nowhere.csv"),
        (["all", "--real", "people.csv", "--group", "shoe"], "shoe"),
        (["all", "--real", "people.csv", "--classifiers", "five"], "five"),
        (["all", "--real", "people.csv", "--inception", "nowhere.pt"], "nowhere.pt"),
        (["all", "--ledger", "nowhere.ledger"], "nowhere.ledger"),
        (["all", "--ledger", "people.ledger"], "not the ledger"),
    ],
    ids=" ".join,
)
def test_misuse_is_refused_in_one_line_before_a_row_is_read(dpgist, made, ledger, arguments, words):
    outcome = dpgist("report", *arguments)
    assert outcome.status == 2
    assert words in outcome.err
    assert outcome.out == ""
    assert not (made / "report.html").exists()
    assert len(Ledger.open(made / "ledger.sqlite").entries()) == 3
