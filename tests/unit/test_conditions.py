"""Rows that are asked for by conditions keep to them to the last digit."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.made_gists import gist_of

from dpgist.encode import Encoder
from dpgist.features.support import column_supports
from dpgist.generators.conditions import kept_within, label_code, parts_of, ranges_of
from dpgist.methods import Marginal, Merf
from dpgist.schema import CategoryColumn, DateColumn, IntegerColumn, NumberColumn, Schema
from dpgist.training.loop import Training, train_generator

FINE = Schema(
    name="fine",
    columns=(
        IntegerColumn(name="age", min=0, max=100),
        IntegerColumn(name="big", min=-(10**15), max=10**15),
        NumberColumn(name="x", min=0.0, max=1.0, decimals=2),
        NumberColumn(name="fee", min=-0.125, max=500.125, decimals=2, nullable=True),
        NumberColumn(name="price", min=0.1, max=100.0),
        DateColumn(name="day", min="0001-01-01", max="2020-12-31", nullable=True),
        CategoryColumn(name="ward", values=("a", "b")),
    ),
)


def fine_table(n=2_000):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 101, n),
            "big": rng.integers(-(10**15), 10**15, n),
            "x": rng.random(n).round(2),
            "fee": (500 * rng.random(n)).round(2),
            "price": rng.uniform(0.1, 100.0, n),
            "day": "2001-02-03",
            "ward": rng.choice(["a", "b"], n),
        }
    )


@pytest.fixture(
    scope="module", params=[Merf(joint_frequencies=20, pair_frequencies=40), Marginal()]
)
def model(request):
    gist = gist_of(fine_table(), FINE, request.param)
    training = Training(steps=5, components=10)
    rng = np.random.default_rng(0)
    return train_generator(gist, request.param, training, rng=rng, device="cpu")


@pytest.mark.parametrize(
    ("name", "asked", "value"),
    [
        ("age", "40", 40),
        ("age", 0, 0),
        ("age", "39.5..40.5", 40),
        ("big", 123, 123),
        ("big", "-999999999999999", -(10**15) + 1),
        ("big", 10**15, 10**15),
        ("x", "0.29", 0.29),
        ("x", "0.281..0.299", 0.29),
        ("fee", 1.15, 1.15),
        ("fee", -0.125, -0.125),
        ("fee", "500.121..500.125", 500.125),
        ("price", "3.46", 3.46),
        ("price", 0.1, 0.1),
        ("price", 0.1 + 1e-15, 0.1 + 1e-15),
        ("day", "0001-01-02", dt.date(1, 1, 2)),
        ("day", ("2020-12-31", "2020-12-31"), dt.date(2020, 12, 31)),
    ],
)
def test_a_single_value_is_the_only_one_in_the_table(model, name, asked, value):
    table = model.sample(3_000, seed=1, where={name: asked}, kind="pyarrow")
    assert set(table[name].to_pylist()) == {value}


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("age", 39.5, 42.5),
        ("big", 122, 125),
        ("big", -(10**15) + 1, -(10**15) + 9),
        ("x", 0.111, 0.149),
        ("fee", 0.0, 0.05),
        ("price", 3.46, 3.47),
        ("price", 3.46, np.nextafter(3.46, 4)),
    ],
)
def test_no_row_lies_outside_of_a_range_and_both_ends_can_be_had(model, name, low, high):
    table = model.sample(3_000, seed=1, where={name: (low, high)}, kind="pyarrow")
    values = np.array(table[name].to_pylist())
    assert low <= values.min() <= values.max() <= high
    if name != "price":
        step = 1 if name in ("age", "big") else 0.01
        assert values.min() - step < low
        assert values.max() + step > high


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        ("age", "40.5", "'age' holds whole numbers only, and 40.5 is none; the nearest are 40 and"),
        ("age", "40.2..40.4", r"'age' holds whole numbers only, and 40.2..40.4 has none; .* 41"),
        ("x", 0.123, "'x' holds numbers of 2 decimals only, and 0.123 is none; .* 0.12 and 0.13"),
        ("x", 0.1 + 0.2, "'x' holds numbers of 2 decimals only, .* the nearest are 0.3 and 0.31"),
        ("fee", (500.121, 500.124), "'fee' holds numbers .* the nearest are 500.12 and 500.125"),
        ("big", "1e14..-5", "'big' takes a range a..b from low to high; swap"),
    ],
)
def test_what_no_cell_can_hold_is_refused_with_the_rule_and_the_nearest(
    model, name, asked, message
):
    with pytest.raises(ValueError, match=message):
        model.sample(1, seed=1, where={name: asked})


def test_a_value_beside_a_bound_is_not_taken_for_the_bound(model):
    """Both bounds are cells of their own, and what weighs there says nothing about their side."""
    products = model.generator.products()
    supports = {support.column: support for support in products.supports}
    for name, asked in [("price", 0.1 + 1e-12), ("big", -(10**15) + 1), ("big", 10**15 - 1)]:
        support = supports[name]
        weights = parts_of(FINE, supports, {name: asked})[name].weights
        assert weights.any()
        assert not weights[support.half_widths == 0].any()


@pytest.mark.parametrize("most", [0.625, 0.63, 3.999])
def test_every_step_can_be_had_even_if_the_bounds_lie_between_steps(most):
    column = NumberColumn(name="x", min=0.125, max=most, decimals=2)
    schema = Schema(name="t", columns=(column,))
    supports = {support.column: support for support in column_supports(Encoder(schema))}
    steps = [n / 100 for n in range(13, int(100 * most) + 1)]
    for value in [column.min, *steps, column.max]:
        assert parts_of(schema, supports, {"x": value})["x"].weights.any(), value


def test_ranges_are_those_of_numbers_and_dates_alone_and_nulls_stay():
    where = {"ward": "a", "fee": None, "age": "3..4.5", "day": "1970-01-03"}
    assert ranges_of(FINE, where) == {"age": (3.0, 4.0), "day": (2.0, 2.0)}
    table = pa.table({"age": [2, 3, None, 5], "fee": [1.0, 2.0, 3.0, 4.0]})
    kept = kept_within(table, {"age": (3.0, 4.0)})
    assert kept.to_pydict() == {"age": [3, 3, None, 4], "fee": [1.0, 2.0, 3.0, 4.0]}


@pytest.mark.parametrize("asked", [0, "0", "-0", "0..0.004", (-0.0, 0)])
@pytest.mark.parametrize("least", [-1.0, 0.0])
@pytest.mark.parametrize("decimals", [2, None])
def test_a_zero_that_was_asked_for_has_no_sign(asked, least, decimals):
    column = NumberColumn(name="dose", min=least, max=10.0, decimals=decimals)
    schema = Schema(name="t", columns=(column,))
    first, last = ranges_of(schema, {"dose": asked})["dose"]
    assert not np.signbit([first, last]).any()
    kept = kept_within(pa.table({"dose": [-0.0, 0.0]}), {"dose": (first, first)})
    assert not np.signbit(kept["dose"].to_numpy()).any()


def test_null_and_the_bucket_of_a_label_are_two_classes():
    open_label = CategoryColumn(name="ward", values=("a", "b"), nullable=True)
    closed = replace(open_label, nullable=False)
    named = replace(open_label, other="c")
    for column, codes in (
        (open_label, {"a": 0, "b": 1, None: 2, "": 2}),
        (named, {"a": 0, "b": 1, None: 2, "c": 3}),
        (closed, {"a": 0, "b": 1}),
    ):
        age = IntegerColumn(name="age", min=0, max=9)
        encoder = Encoder(Schema(name="t", columns=(age, column), label="ward"))
        assert {value: label_code(encoder, value) for value in codes} == codes
    with pytest.raises(ValueError, match="'ward' has no value"):
        label_code(encoder, None)


def test_a_range_with_its_ends_swapped_is_told_so():
    for name, asked in (("age", "60..40"), ("day", ("2001-02-03", "2001-02-02"))):
        with pytest.raises(ValueError, match=f"'{name}' takes a range .* swap the ends"):
            ranges_of(FINE, {name: asked})
