"""What each cell becomes, and what a vector becomes again."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dpgist.encode import Encoder, Slot
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)


def encode_one(column, cells):
    """Coordinates and broken flags of a single column."""
    encoder = Encoder(Schema(name="t", columns=(column,)))
    found = encoder.encode({column.name: cells if isinstance(cells, pa.Array) else pa.array(cells)})
    return found.rows.tolist(), found.broken[:, 0].tolist()


def interval_cells(column, cells):
    rows, broken = encode_one(column, cells)
    return [row[0] for row in rows], broken


AGE = IntegerColumn(name="a", min=0, max=10)
RATE = NumberColumn(name="a", min=-1, max=1)
DAY = DateColumn(name="a", min="2000-01-01", max="2000-01-11")


def test_slots_follow_schema_order_without_the_label():
    schema = Schema(
        name="t",
        label="y",
        columns=(
            IntegerColumn(name="a", min=0, max=9, nullable=True),
            CategoryColumn(name="y", values=("n", "p"), nullable=True),
            CategoryColumn(name="c", values=("u", "v"), ordered=True),
            BooleanColumn(name="b", nullable=True),
        ),
    )
    encoder = Encoder(schema)
    assert encoder.slots == (
        Slot(column="a", kind="interval", start=0, width=1, gate=1),
        Slot(column="a", kind="choice", start=1, width=2, allowed=(True, True)),
        Slot(
            column="c", kind="choice", start=3, width=3, allowed=(True, True, False), ordered=True
        ),
        Slot(column="b", kind="choice", start=6, width=4, allowed=(True, True, True, False)),
    )
    assert encoder.width == 10
    assert encoder.columns == ("a", "y", "c", "b")
    assert encoder.n_classes == 4
    assert encoder.class_names == ("n", "p", None, None)
    assert encoder.class_allowed == (True, True, True, False)


def test_an_unlabelled_table_has_one_class():
    encoder = Encoder(Schema(name="t", columns=(AGE,)))
    assert (encoder.n_classes, encoder.class_allowed, encoder.class_names) == (1, (True,), (None,))
    assert encoder.encode({"a": pa.array([1, 2])}).labels.tolist() == [0, 0]


def test_integers_are_scaled_into_the_unit_interval():
    assert interval_cells(AGE, [0, 5, 10]) == ([0.0, 0.5, 1.0], [False] * 3)
    assert interval_cells(AGE, [" 5", "5.0", "+5", "50e-1", "5."]) == ([0.5] * 5, [False] * 5)


def test_a_number_out_of_range_is_clipped_and_broken():
    assert interval_cells(AGE, [-1, 11]) == ([0.0, 1.0], [True, True])
    assert interval_cells(AGE, ["-inf", "Infinity", "1e999", "-1e999", "9" * 400]) == (
        [0.0, 1.0, 1.0, 0.0, 1.0],
        [True] * 5,
    )
    assert interval_cells(RATE, [np.inf, -np.inf]) == ([1.0, 0.0], [True, True])


@pytest.mark.parametrize("cell", ["x", "nan", "1_0", "0x1", "٣", "1,5", "--1", "1e", ".", "e5"])
def test_text_that_is_no_number_becomes_the_middle(cell):
    assert interval_cells(AGE, [cell, "3"]) == ([0.5, 0.3], [True, False])


def test_an_unreadable_number_becomes_the_default_if_there_is_one():
    column = IntegerColumn(name="a", min=0, max=10, default=9)
    assert interval_cells(column, ["x", "", None, "99"]) == ([0.9, 0.9, 0.9, 1.0], [True] * 4)


def test_the_middle_of_an_integer_range_is_an_integer():
    column = IntegerColumn(name="a", min=0, max=5)
    assert interval_cells(column, ["x"]) == ([0.4], [True])


def test_a_fraction_in_an_integer_column_is_rounded_half_even_and_broken():
    assert interval_cells(AGE, [2.5, 3.5, 7.0]) == ([0.2, 0.4, 0.7], [True, True, False])


def test_nan_breaks_a_number_and_null_breaks_a_column_that_has_none():
    assert interval_cells(RATE, pa.array([np.nan, None, 0.5])) == (
        [0.5, 0.5, 0.75],
        [True, True, False],
    )


def test_a_broken_cell_of_a_nullable_column_is_null():
    column = IntegerColumn(name="a", min=0, max=10, nullable=True)
    rows, broken = encode_one(column, ["5", None, "", "x", "11"])
    assert rows == [[0.5, 1.0, 0.0], *[[0.0, 0.0, 1.0]] * 4]
    assert broken == [False, False, False, True, True]


def test_a_range_of_one_value_is_zero():
    column = IntegerColumn(name="a", min=3, max=3)
    assert interval_cells(column, [3, 4]) == ([0.0, 0.0], [False, True])


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([3, 1], pa.uint8()),
        pa.array([3, 1], pa.int64()),
        pa.array([3, 1], pa.float16()),
        pa.array([3, 1], pa.float32()),
        pa.array([Decimal("3.00"), Decimal("1")], pa.decimal128(10, 2)),
        pa.array([3, 1]).dictionary_encode(),
        pa.array(["3", "1"]),
        pa.array(["3", "1"], pa.large_string()),
        pa.array(["3", "1"], pa.string_view()),
        pa.array(["3", "1"]).dictionary_encode(),
    ],
    ids=lambda cells: str(cells.type),
)
def test_every_physical_type_of_a_number_means_the_same(cells):
    assert interval_cells(AGE, cells) == ([0.3, 0.1], [False, False])


def test_a_chunked_column_and_a_column_of_nulls_can_be_encoded():
    encoder = Encoder(Schema(name="t", columns=(AGE,)))
    chunked = pa.chunked_array([["3"], ["1"]])
    assert encoder.encode({"a": chunked}).rows.tolist() == [[0.3], [0.1]]
    assert encoder.encode({"a": pa.nulls(1)}).broken.tolist() == [[True]]


def test_no_rows_encode_to_no_rows():
    encoder = Encoder(Schema(name="t", columns=(AGE, BooleanColumn(name="b")), label="b"))
    found = encoder.encode({"a": pa.array([], pa.string()), "b": pa.array([], pa.bool_())})
    assert (found.rows.shape, found.labels.shape, found.broken.shape) == ((0, 1), (0,), (0, 2))


def codes(column, cells):
    rows, broken = encode_one(column, cells)
    assert all(sorted(row) == [0.0] * (len(row) - 1) + [1.0] for row in rows)
    return [row.index(1.0) for row in rows], broken


def test_categories_are_stripped_and_matched_exactly():
    column = CategoryColumn(name="a", values=("x", "y"))
    assert codes(column, ["x", " y\t", "X"]) == ([0, 1, 2], [False, False, True])


@pytest.mark.parametrize(
    ("settings", "undeclared", "absent"),
    [
        ({}, (2, True), (2, True)),
        ({"default": "y"}, (1, True), (1, True)),
        ({"other": "O"}, (2, False), (2, True)),
        ({"other": "O", "default": "y"}, (2, False), (2, True)),
        ({"nullable": True}, (2, True), (2, False)),
        ({"nullable": True, "default": "y"}, (2, True), (2, False)),
        ({"nullable": True, "other": "O"}, (3, False), (2, False)),
    ],
)
def test_an_undeclared_and_an_absent_category_go_where_the_schema_says(
    settings, undeclared, absent
):
    column = CategoryColumn(name="a", values=("x", "y"), **settings)
    found, broken = codes(column, ["zzz", None])
    assert [(found[0], broken[0]), (found[1], broken[1])] == [undeclared, absent]


def test_a_cell_that_says_other_is_the_other():
    column = CategoryColumn(name="a", values=("x",), other="O")
    assert codes(column, ["O", "x"]) == ([1, 0], [False, False])


def test_integers_and_booleans_are_categories_by_their_text():
    column = CategoryColumn(name="a", values=("1", "true"))
    assert codes(column, pa.array([1, 2])) == ([0, 2], [False, True])
    assert codes(column, pa.array([True, False])) == ([1, 2], [False, True])


def test_booleans_are_read_from_words_and_digits():
    column = BooleanColumn(name="a")
    words = ["true", "FALSE", " Yes ", "no", "T", "f", "1", "0"]
    assert codes(column, words) == ([1, 0] * 4, [False] * 8)
    assert codes(column, ["maybe", None, "2", "1.0"]) == ([2] * 4, [True] * 4)
    assert codes(column, pa.array([True, False, None])) == ([1, 0, 2], [False, False, True])
    assert codes(column, pa.array([1, 0, 7])) == ([1, 0, 2], [False, False, True])
    assert codes(BooleanColumn(name="a", default=True), ["maybe"]) == ([1], [True])
    assert codes(BooleanColumn(name="a", nullable=True), ["maybe", ""]) == ([2, 2], [True, False])


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["2000-01-06"]),
        pa.array(["2000-01-06 23:59:59"]),
        pa.array(["2000-01-06T01:00:00.123456789+00:00"]),
        pa.array(["2000-01-07T01:00:00+05:00"]),
        pa.array([dt.date(2000, 1, 6)], pa.date32()),
        pa.array([dt.date(2000, 1, 6)], pa.date64()),
        *(
            pa.array([dt.datetime(2000, 1, 6, 23)], pa.timestamp(u))
            for u in ("s", "ms", "us", "ns")
        ),
        pa.array([dt.datetime(2000, 1, 6, 23)], pa.timestamp("us", "America/New_York")),
    ],
    ids=lambda cells: f"{cells.type}",
)
def test_every_physical_type_of_a_date_means_the_same(cells):
    assert interval_cells(DAY, cells) == ([0.5], [False])


@pytest.mark.parametrize(
    "cell", ["2000-02-30", "20000106", "2000-W01-4", "06/01/2000", "2000-01-06x", "soon", ""]
)
def test_text_that_is_no_date_becomes_the_middle(cell):
    assert interval_cells(DAY, [cell]) == ([0.5], [True])


def test_a_date_out_of_range_is_clipped_also_before_1970():
    column = DateColumn(name="a", min="1960-01-01", max="1960-01-11")
    moments = pa.array([dt.datetime(1960, 1, 2, 1), dt.datetime(1950, 1, 1)], pa.timestamp("us"))
    assert interval_cells(column, moments) == ([0.1, 0.0], [False, True])
    assert interval_cells(column, ["9999-12-31"]) == ([1.0], [True])


def test_dates_are_read_by_the_declared_format():
    column = DateColumn(name="a", min="2000-01-01", max="2000-01-11", format="%d.%m.%Y")
    assert interval_cells(column, ["06.01.2000", "2000-01-06"]) == ([0.5, 0.5], [False, True])


def test_labels_are_class_codes_with_a_bucket_for_the_undeclared():
    schema = Schema(name="t", columns=(AGE, CategoryColumn(name="y", values=("n", "p"))), label="y")
    found = Encoder(schema).encode(
        {"a": pa.array([1, 2, 3, 4]), "y": pa.array(["p", "n", "q", None])}
    )
    assert found.rows.shape == (4, 1)
    assert found.labels.tolist() == [1, 0, 2, 2]
    assert found.broken.tolist() == [[False, False], [False, False], [False, True], [False, True]]


EVERY_KIND = Schema(
    name="t",
    label="y",
    columns=(
        IntegerColumn(name="i", min=-3, max=4, nullable=True),
        NumberColumn(name="n", min=0, max=2, decimals=1),
        CategoryColumn(name="c", values=("u", "v"), other="O", nullable=True),
        BooleanColumn(name="y", nullable=True),
        DateColumn(name="d", min="1999-12-30", max="2000-01-03", nullable=True),
        CategoryColumn(name="e", values=("w",)),
    ),
)


def test_decoding_gives_the_declared_types_in_schema_order():
    encoder = Encoder(EVERY_KIND)
    table = encoder.decode(np.zeros((2, encoder.width)), np.array([1, 2]))
    assert table.schema == pa.schema(
        {
            "i": pa.int64(),
            "n": pa.float64(),
            "c": pa.string(),
            "y": pa.bool_(),
            "d": pa.date32(),
            "e": pa.string(),
        }
    )
    assert table.column("y").to_pylist() == [True, None]


def test_decoding_rounds_clips_and_never_emits_the_bucket():
    encoder = Encoder(EVERY_KIND)
    at = {slot.column: slot.start for slot in reversed(encoder.slots)}
    row = np.zeros((1, encoder.width))
    row[0, at["i"] : at["i"] + 3] = [1.7, 0.6, 0.4]
    row[0, at["n"]] = 0.333
    row[0, at["c"] : at["c"] + 4] = [0.1, 0.2, 0.3, 0.4]
    row[0, at["d"] : at["d"] + 3] = [0.2, 0.4, 0.6]
    row[0, at["e"] : at["e"] + 2] = [0.1, 0.9]
    assert encoder.decode(row, np.array([0])).to_pylist() == [
        {"i": 4, "n": 0.7, "c": "O", "y": False, "d": None, "e": "w"}
    ]


def test_decoding_refuses_what_no_generator_may_hand_it():
    encoder = Encoder(EVERY_KIND)
    rows = np.zeros((1, encoder.width))
    with pytest.raises(ValueError, match=r"class codes that may be emitted: \[0, 1, 2\]"):
        encoder.decode(rows, np.array([3]))
    with pytest.raises(ValueError, match="rows must be finite"):
        encoder.decode(rows * np.nan, np.array([0]))
    with pytest.raises(ValueError, match=r"of shape \(n, 13\)"):
        encoder.decode(rows[:, 1:], np.array([0]))


def test_text_that_is_not_utf_8_is_broken_and_raises_nothing():
    data = pa.py_buffer(b"\xff\xfe3")
    cells = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 2, 3], np.int32)), data]
    )
    assert interval_cells(AGE, cells) == ([0.5, 0.3], [True, False])
    assert interval_cells(DAY, cells)[1] == [True, True]
    assert codes(CategoryColumn(name="a", values=("3",)), cells) == ([1, 0], [True, False])
    assert codes(BooleanColumn(name="a"), cells)[1] == [True, True]
