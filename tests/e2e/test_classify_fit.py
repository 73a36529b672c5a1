"""From a private CSV with a schema to the columns that drive each class, by the command line."""

import csv
import json

import numpy as np
import pyarrow.csv
import pytest

from dpgist.privacy.ledger import Ledger

SCHEMA = """
[table]
name = "patients"
label = "ill"
rows_about = 3000
[columns.age]
type = "integer"
min = 20
max = 90
[columns.town]
type = "category"
values = ["north", "south"]
[columns.shoe]
type = "number"
min = 30.0
max = 50.0
[columns.ill]
type = "boolean"
"""
CANARY = "Xq7Neverwhere"
BUDGET = ["--epsilon", "8", "--delta", "1e-5"]
SETTINGS = ["--maps", "1", "--steps", "60"]


@pytest.fixture
def patients(tmp_path):
    """Illness follows age and town, never the size of the shoes."""
    rng = np.random.default_rng(5)
    age, north = rng.integers(20, 91, 3000), rng.random(3000) < 0.5
    odds = 0.15 * (age - 55) + 2.0 * north - 1.0
    ill = rng.random(3000) < 1 / (1 + np.exp(-odds))
    with (tmp_path / "patients.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "town", "shoe", "ill"])
        writer.writerow([20, CANARY, "", CANARY])
        for row in zip(age, north, rng.uniform(30, 50, 3000), ill, strict=True):
            writer.writerow([row[0], "north" if row[1] else "south", f"{row[2]:.1f}", row[3]])
    (tmp_path / "patients.toml").write_text(SCHEMA)
    return tmp_path


@pytest.fixture
def fit(dpgist, patients):
    def run(*more, data="patients.csv"):
        fixed = ["--schema", "patients.toml", *BUDGET, "--out", "clf"]
        return dpgist("classify", "fit", data, *fixed, *SETTINGS, *more)

    return run


def test_a_csv_becomes_a_classifier_that_says_which_columns_drive_it(dpgist, fit, patients):
    outcome = fit()
    assert (outcome.status, outcome.out) == (0, "clf\n")
    assert "spending epsilon 8" in outcome.err
    found = json.loads(dpgist("classify", "explain", "clf", "--json").out)
    columns = {c["column"]: c for c in found["classes"][1]["maps"][0]["columns"]}
    assert found["classes"][1]["class"] == "true"
    assert columns["age"]["slope"] > 0  # of the score per year
    sizes = {size["cell"]: size["size"] for size in columns["town"]["sizes"]}
    assert sizes["north"] > 0 > sizes["south"]
    assert list(columns)[-1] == "shoe"
    assert "per 10 (20 to 90: +" in dpgist("classify", "explain", "clf").out
    assert _accuracy(dpgist) > 0.8
    _check_what_was_written(dpgist, patients / "clf")
    again = fit("--force")
    assert again.status == 1
    assert "No row was read" in again.err  # the folder's own ledger is spent


def _accuracy(dpgist):
    assert dpgist("classify", "predict", "clf", "patients.csv", "--out", "out.csv").status == 0
    found = pyarrow.csv.read_csv("out.csv")["ill"].to_numpy()
    truth = pyarrow.csv.read_csv("patients.csv")["ill"].to_pylist()
    return np.mean([str(a).lower() == str(b).lower() for a, b in zip(found, truth, strict=True)])


def _bytes(path):
    return path.read_bytes() if path.is_file() else b""


def _check_what_was_written(dpgist, folder):
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert names == {"classifier.maps", "card.txt", "card.json", "filters.png", "ledger.sqlite"}
    card = json.loads((folder / "card.json").read_text())
    assert (card["epsilon"], card["relation"]) == (8.0, "add_remove")
    assert "with this classifier" in (folder / "card.txt").read_text()
    shown = dpgist("show", folder / "classifier.maps")
    assert shown.out.startswith("dpgist classifier card: patients")
    assert dpgist("report", "clf").status == 0
    assert not [path for path in folder.rglob("*") if CANARY.encode() in _bytes(path)]
    assert "ε = 8" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--projection", "some"], "--projection"),
        (["--rate", "2"], "rate"),
        (["--clip", "0"], "clip"),
        (["--copies", "5"], "a table has none"),
        (["--relation", "replace_one", "--ledger", "patients.ledger"], "relation"),
    ],
    ids=["projection", "rate", "clip", "copies", "ledger"],
)
def test_bad_settings_are_refused_before_any_charge(dpgist, fit, patients, more, words):
    terms = ["--name", "patients", *BUDGET]
    assert dpgist("ledger", "create", "patients.ledger", *terms).status == 0
    ledger = [] if "--ledger" in more else ["--ledger", "patients.ledger"]
    outcome = fit(*more, *ledger)
    assert (outcome.status, outcome.out) == (2, "")
    assert words in outcome.err
    assert len(Ledger.open("patients.ledger").entries()) == 1
    assert not (patients / "clf").exists()


def test_a_table_that_lacks_a_column_is_refused_before_any_charge(fit, patients):
    (patients / "short.csv").write_text("age,town,ill\n20,north,true\n")
    outcome = fit(data="short.csv")
    assert outcome.status == 2
    assert "'shoe'" in outcome.err
    assert not (patients / "clf").exists()


def test_a_dry_run_reads_no_row_and_writes_nothing(fit, patients):
    outcome = fit("--dry-run")
    assert outcome.status == 0
    assert "no row was read" in outcome.out
    assert not (patients / "clf").exists()


def test_a_schema_without_a_label_is_refused(fit, patients):
    (patients / "patients.toml").write_text(SCHEMA.replace('label = "ill"', ""))
    outcome = fit()
    assert outcome.status == 2
    assert "label" in outcome.err


@pytest.mark.parametrize("verb", ["fit", "predict", "explain"])
def test_every_verb_explains_itself(dpgist, verb):
    assert "Example" in dpgist("classify", verb, "--help").out
