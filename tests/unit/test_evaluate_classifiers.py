"""Classifiers that fail, odd rows, and means that compare."""

import numpy as np
import pyarrow as pa
import pytest

import dpgist as dg

FLAT = dg.Schema(
    name="flat",
    columns=(dg.NumberColumn(name="x", min=-5.0, max=5.0), dg.BooleanColumn(name="y")),
    label="y",
)


def flat_rows(n, seed, x=None):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=n).clip(-5, 5) if x is None else np.full(n, x)
    return pa.table({"x": values, "y": rng.random(n) < 0.5})


def test_predictions_that_are_no_numbers_have_no_score_whatever_the_order_of_the_rows():
    test = flat_rows(300, seed=1)
    for direction in ("ascending", "descending"):
        ordered = test.sort_by([("y", direction)])
        found = dg.evaluate(ordered, flat_rows(300, seed=2, x=1.0), FLAT, classifiers="twelve")
        bayes = found.find("roc_auc", model="GNB")  # divides by a spread of 0
        assert (bayes.value, bayes.why) == (None, "it predicts no numbers")
        assert found.mean("roc_auc") == pytest.approx(0.5, abs=0.01)


def test_means_of_all_kinds_of_rows_are_over_the_same_classifiers():
    train, test = flat_rows(300, seed=2), flat_rows(300, seed=1)
    constant = flat_rows(300, seed=3, x=1.0)
    found = dg.evaluate(test, constant, FLAT, train=train, classifiers="twelve", groups=("x",))
    assert found.find("roc_auc", model="GNB", source="real").value is not None
    kept = [name for name in found.models if found.find("roc_auc", model=name).value is not None]
    assert "GNB" not in kept
    for source in ("synthetic", "real"):
        mean = found.find("roc_auc", source=source)
        values = [found.find("roc_auc", source=source, model=name).value for name in kept]
        assert mean.value == pytest.approx(np.mean(values))
        assert "without GNB" in mean.why
    assert found.find("roc_auc", source="real", group=found.groups[-1]).value is not None


def test_rows_that_suit_no_classifier_take_none_from_the_means_of_the_others():
    train, test = flat_rows(300, seed=2), flat_rows(300, seed=1)
    one_class = train.filter(train["y"])
    found = dg.evaluate(test, one_class, FLAT, train=train)
    assert "one class only" in found.find("roc_auc").why
    assert found.find("roc_auc", source="real").why is None


def test_boosting_learns_from_many_rows_of_which_one_class_has_a_single_one():
    columns = (FLAT.columns[0], dg.CategoryColumn(name="y", values=("a", "b", "c")))
    schema = dg.Schema(name="rare", columns=columns, label="y")
    rng = np.random.default_rng(0)
    classes = np.r_[["c"], rng.choice(["a", "b"], 10_500)]
    rows = pa.table({"x": rng.normal(size=10_501).clip(-5, 5), "y": classes})
    found = dg.evaluate(rows.slice(0, 500), rows, schema)
    assert found.find("roc_auc", model="boosting").value is not None


# --- the ledger -----------------------------------------------------------------------------
