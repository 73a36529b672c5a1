"""The verb evaluate: results on stdout, progress on stderr, a line in the ledger."""

import json

import pytest

from dpgist.privacy.ledger import Ledger


@pytest.fixture
def halves(people):
    """test.csv and rows.csv, each half of the table."""
    head, *lines = (people / "people.csv").read_text().splitlines(keepends=True)
    (people / "test.csv").write_text("".join([head, *lines[::2]]))
    (people / "rows.csv").write_text("".join([head, *lines[1::2]]))
    return ["--real", "test.csv", "--synthetic", "rows.csv", "--schema", "people.toml"]


def test_evaluate_explains_itself(dpgist):
    outcome = dpgist("evaluate", "--help")
    assert outcome.status == 0
    assert "Example" in outcome.out
    assert "outside the guarantee" in outcome.out.lower()


def test_evaluate_prints_scores_references_and_groups_and_notes_the_look(dpgist, release, halves):
    assert release().status == 0
    options = ["--train", "people.csv", "--gist", "people.gist", "--group", "age"]
    outcome = dpgist("evaluate", *halves, *options, "--ledger", "people.ledger", "--out", "s.json")
    assert outcome.status == 0, outcome.err
    assert outcome.out.startswith("OUTSIDE THE GUARANTEE")
    for word in ("ROC AUC", "independent columns", "pure noise", "WORST GROUPS", "age"):
        assert word in outcome.out, word
    assert "evaluating" in outcome.err
    assert "evaluating" not in outcome.out
    lines = Ledger.open("people.ledger").entries()
    assert lines[-1].body["kind"] == "unprotected look"
    assert "unprotected look" in dpgist("ledger", "show", "people.ledger").out
    with open("s.json") as file:
        assert {"real", "noise"} < {score["source"] for score in json.load(file)["scores"]}


def test_evaluate_as_json_is_json_and_says_when_no_ledger_was_given(dpgist, people, halves):
    outcome = dpgist("evaluate", *halves, "--json")
    assert outcome.status == 0
    facts = json.loads(outcome.out)
    assert facts["stamp"].startswith("outside the guarantee")
    assert {score["source"] for score in facts["scores"]} == {"synthetic"}
    assert "no --ledger given" in outcome.err


def test_evaluate_refuses_misuse_in_one_line(dpgist, people, halves):
    (people / "there.json").write_text("keep")
    for options, words in (
        (["--classifiers", "seven"], "three or twelve"),
        (["--group", "height", "--group", "weight"], "cannot group by 'weight'"),
        (["--out", "there.json"], "there.json"),
        (["--ledger", "none.ledger"], "no ledger"),
        (["--gist", "people.csv"], "people.csv"),
    ):
        outcome = dpgist("evaluate", *halves, *options)
        assert outcome.status == 2, options
        assert words in outcome.err
    assert (people / "there.json").read_text() == "keep"


def test_a_missing_inception_file_is_refused_before_the_look(dpgist, people, halves, ledger):
    outcome = dpgist("evaluate", *halves, "--ledger", "people.ledger", "--inception", "nosuch.pt")
    assert outcome.status == 2
    assert "there is no Inception file nosuch.pt" in outcome.err
    assert outcome.out == ""
    assert [line.body["kind"] for line in Ledger.open(ledger).entries()] == ["terms"]


def test_evaluate_names_a_column_that_is_missing(dpgist, people, halves):
    (people / "rows.csv").write_text("age,smoker\n30,true\n40,false\n50,true\n" * 20)
    outcome = dpgist("evaluate", *halves)
    assert outcome.status == 0
    assert "column 'height' is missing from the synthetic rows" in outcome.out
