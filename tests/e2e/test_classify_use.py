"""Using a classifier from the command line: predict, explain, report; no row is ever private here.

The classifier is made by hand, so that what must come out is known.
"""

import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from dpgist.classify.maps import Maps
from dpgist.encode import Encoder
from dpgist.schema import Schema

CARD = {
    "guarantee": "worded anew by whoever reads it",
    "epsilon": 1.0,
    "delta": 1e-6,
    "relation": "add_remove",
    "training": {"mu_squared_units": 2**50},
}


@pytest.fixture
def made(people):
    """A classifier of smokers that knows their age only: 0.1 a year, two maps each."""
    schema = Schema.load(people / "people.toml")
    weights = np.zeros((2, 2, Encoder(schema).width))
    weights[1, :, 0] = 11.0, 22.0  # over the declared 110 years
    maps = Maps(
        weights=weights,
        biases=np.array([[6.0, 6.0], [0.0, -5.5]]),
        temperature=1.0,
        classes=("false", "true"),
        facts={"schema": schema.to_dict(), "card": CARD},
    )
    (people / "made").mkdir()
    maps.save(people / "made" / "classifier.maps")
    return people / "made"


def test_predictions_are_one_column_named_like_the_label(dpgist, made):
    outcome = dpgist("classify", "predict", "made", "people.csv", "--out", "out.csv")
    assert (outcome.status, outcome.out) == (0, "out.csv\n")
    assert "as confidential as these rows" in outcome.err
    found = pyarrow.csv.read_csv("out.csv")
    age = pyarrow.csv.read_csv("people.csv")["age"].to_numpy()
    responses = np.stack([age / 10, age / 5 - 5.5])
    shares = np.exp(responses) / np.exp(responses).sum(axis=0)
    assert found.column_names == ["smoker"]
    assert found["smoker"].to_pylist() == ((shares * responses).sum(axis=0) > 6).tolist()


def test_predictions_need_no_label_and_can_carry_probabilities(dpgist, made):
    table = pyarrow.csv.read_csv("people.csv").drop_columns(["smoker", "id"])
    pyarrow.parquet.write_table(table, "new.parquet")
    arguments = ["made", "new.parquet", "--out", "out.parquet", "--probabilities"]
    assert dpgist("classify", "predict", *arguments).status == 0
    found = pyarrow.parquet.read_table("out.parquet")
    assert found.column_names == ["smoker", "smoker=false", "smoker=true"]
    total = np.add(found["smoker=false"].to_numpy(), found["smoker=true"].to_numpy())
    np.testing.assert_allclose(total, 1.0)


def test_explain_tells_which_columns_drive_each_class_in_their_own_units(dpgist, made):
    outcome = dpgist("classify", "explain", "made")
    assert outcome.status == 0
    assert "smoker = true, map 1 of 2" in outcome.out
    # All maps together have a mean slope of 33/4 over 110 years; 11 - 8.25 and 22 - 8.25 remain.
    assert "age     +0.25 per 10 (0 to 110: +2.75)" in outcome.out
    assert "age     +1.25 per 10 (0 to 110: +13.8)" in outcome.out
    found = json.loads(dpgist("classify", "explain", "made", "--json").out)
    first = found["classes"][1]["maps"][0]["columns"][0]
    assert (first["column"], first["slope"]) == ("age", pytest.approx(2.75 / 110))


def test_explain_tells_why_a_row_got_its_class(dpgist, made):
    outcome = dpgist("classify", "explain", "made", "--row", "people.csv:1", "--json")
    (found,) = json.loads(outcome.out)
    age = pyarrow.csv.read_csv("people.csv")["age"][1].as_py()
    assert found["row"] == "people.csv:1"
    assert found["contributions"][0]["column"] == "age"
    assert found["contributions"][0]["cell"] == str(age)
    text = dpgist("classify", "explain", "made", "--row", "people.csv:1").out
    assert f"age = {age}" in text
    assert "attention" in text


def test_explain_draws_what_it_prints(dpgist, made):
    assert dpgist("classify", "explain", "made", "--plot").status == 0
    assert (made / "plots" / "explanation.png").stat().st_size > 5000
    again = dpgist("classify", "explain", "made", "--plot")
    assert again.status == 2
    assert "--force" in again.err
    assert dpgist("classify", "explain", "made", "--input", "people.csv", "--plot").status == 0
    assert (made / "plots" / "rows.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "nowhere", "people.csv", "--out", "o.csv"], "nowhere"),
        (["predict", ".", "people.csv", "--out", "o.csv"], "classify fit"),
        (["predict", "made", "nowhere.csv", "--out", "o.csv"], "nowhere.csv"),
        (["predict", "made", "people.csv", "--out", "o.txt"], ".parquet"),
        (["predict", "made", "people.toml", "--out", "o.csv"], "people.toml"),
        (["predict", "people.csv", "people.csv", "--out", "o.csv"], "people.csv"),
        (["explain", "made", "--row", "people.csv"], "new.csv:3"),
        (["explain", "made", "--row", "people.csv:300"], "no such row"),
        (["explain", "made", "--row", "people.csv:1", "--input", "people.csv"], "exclude"),
        (["explain", "made", "--out", "o.jpg"], ".png"),
    ],
    ids=" ".join,
)
def test_misuse_is_refused_in_one_line(dpgist, made, arguments, words):
    outcome = dpgist("classify", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert words in outcome.err


def test_the_report_of_a_classifier_shows_card_and_filters(dpgist, made):
    outcome = dpgist("report", "made")
    assert (outcome.status, outcome.out) == (0, "made/report.html\n")
    assert outcome.err.startswith("Inside the guarantee.")
    page = (made / "report.html").read_text()
    promise = page.index("(1, 1e-06)-differential privacy: whatever is done with this classifier")
    assert promise < page.index("smoker = true")
    assert "age  0 → 110: +13.75" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    twin = json.loads((made / "report.json").read_text())
    assert twin["inside_the_guarantee"] is True
    assert twin["filters"]["classes"][1]["class"] == "true"
    assert dpgist("report", "made", "--real", "people.csv", "--force").status == 2
