"""A row's encoding is its own: no company, batch or slot changes a bit of it."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgist.cells import cell_text
from dpgist.encode import EncodedRows, Encoder
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)
from dpgist.sources import open_source

SCHEMA = Schema(
    name="t",
    label="y",
    columns=(
        IntegerColumn(name="i", min=-7, max=90),
        IntegerColumn(name="j", min=0, max=7, nullable=True),
        NumberColumn(name="n", min=-0.3, max=1e6),
        NumberColumn(name="m", min=0, max=0.7, nullable=True, decimals=3),
        CategoryColumn(name="c", values=("a", "1", "é")),
        CategoryColumn(name="o", values=("a", "true"), other="O", nullable=True),
        BooleanColumn(name="b", default=True),
        DateColumn(name="d", min="1950-03-01", max="2030-01-01"),
        DateColumn(name="f", min="1990-03-01", max="2030-01-01", format="%d/%m/%y"),
        CategoryColumn(name="y", values=("a", "b")),
    ),
)
ENCODER = Encoder(SCHEMA)


class Unprintable:
    """Whatever asks this object anything is in for a surprise."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __eq__ = __bool__ = __float__ = __len__ = __str__
    __hash__ = object.__hash__


NUMBER_LIKE = ["1", "3.5", "-0", "+7", "1e5", "1e400", "-1E-5", "0.1", "nan", "inf", "0" * 60 + "7"]
DATE_LIKE = ["2001-02-03", "2001-02-03 04:05:06", "03/02/01"]
WORDS = ["", " ", "a", " b ", "é", "yes", "FALSE", "NULL"]
LIKELY_TEXT = st.sampled_from([*NUMBER_LIKE, *DATE_LIKE, *WORDS])
TEXT = LIKELY_TEXT | st.text(max_size=8) | st.text("0123456789+-.eE", max_size=8)
JUNK = st.one_of(
    TEXT,
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**5000, -(10**400), 2**63, np.int8(3), np.float32(0.1), np.True_]),
    st.sampled_from([pd.NA, pd.NaT, pd.Timestamp("2001-02-03 04:05", tz="UTC"), b"\xff", b"a"]),
    st.floats(),
    st.decimals(),
    st.dates() | st.datetimes(),
    st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(max_size=1), st.none()),
    st.sampled_from(
        [
            Unprintable(),
            np.datetime64("NaT"),
            "\ud800",
            object(),
            1j,
            Decimal("1e99999"),
            Decimal("sNaN"),
        ]
    ),
)
JUNK_ROWS = st.lists(st.tuples(*[JUNK] * len(SCHEMA.columns)), min_size=1, max_size=5)


def same(left: EncodedRows, right: EncodedRows) -> bool:
    return (
        left.rows.tobytes() == right.rows.tobytes()
        and left.labels.tobytes() == right.labels.tobytes()
        and left.broken.tobytes() == right.broken.tobytes()
    )


def stacked(parts) -> EncodedRows:
    parts = list(parts)
    return EncodedRows(
        rows=np.concatenate([part.rows for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        broken=np.concatenate([part.broken for part in parts]),
    )


class EncodeAll:
    """A summation that keeps every row, for tests alone."""

    recipe = "{}"
    columns = ENCODER.columns

    def __init__(self, block_rows):
        self.block_rows = block_rows

    def __call__(self, blocks):
        return stacked(ENCODER.encode(block) for block in blocks)


def encoded(data, block_rows) -> EncodedRows:
    source = open_source(data)
    source.check(SCHEMA)
    return stacked(source.partial_sums(EncodeAll(block_rows)))


def object_frame(rows) -> pd.DataFrame:
    columns = {}
    for position, name in enumerate(ENCODER.columns):
        cells = np.empty(len(rows), object)
        for index, row in enumerate(rows):
            cells[index] = row[position]
        columns[name] = pd.Series(cells, dtype=object)
    return pd.DataFrame(columns)


@settings(max_examples=60, deadline=None)
@given(JUNK_ROWS, st.integers(1, 9))
def test_junk_encodes_in_company_as_it_does_alone(rows, block_rows):
    together = encoded(object_frame(rows), block_rows)
    alone = stacked(encoded(object_frame([row]), 1) for row in rows)
    assert same(together, alone)
    assert np.isfinite(together.rows).all()
    assert ((together.rows >= 0) & (together.rows <= 1)).all()


@settings(max_examples=40, deadline=None)
@given(JUNK_ROWS, st.data())
def test_any_two_ways_of_cutting_a_text_table_give_the_same(rows, data):
    texts = [[cell_text(cell) for cell in row] for row in rows]
    columns = zip(ENCODER.columns, zip(*texts, strict=True), strict=True)
    table = pa.table({name: pa.array(cells, pa.large_string()) for name, cells in columns})
    whole = ENCODER.encode({name: table[name] for name in table.column_names})
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    edges = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    parts = [ENCODER.encode(dict_of(table.slice(a, b - a))) for a, b in edges]
    assert same(whole, stacked(parts))
    order = np.array(data.draw(st.permutations(range(len(rows)))))
    shuffled = ENCODER.encode(dict_of(table.take(pa.array(order))))
    assert shuffled.rows.tobytes() == whole.rows[order].tobytes()


def dict_of(table):
    return {name: table[name] for name in table.column_names}


FLOATS = st.floats() | st.sampled_from([0.3, 1e300, -0.0, 5e-324, 2.5])
INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-10, 100)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(INT64 | st.none(), FLOATS | st.none(), INT64, st.booleans() | st.none(), INT64),
        min_size=1,
        max_size=7,
    ),
    st.integers(1, 9),
)
def test_typed_columns_encode_in_company_as_they_do_alone(rows, block_rows):
    def table(chosen):
        whole, real, category, truth, ticks = zip(*chosen, strict=True)
        return pa.table(
            {
                "i": pa.array(whole, pa.int64()),
                "j": pa.array(whole, pa.int64()),
                "n": pa.array(real, pa.float64()),
                "m": pa.array(real, pa.float64()),
                "c": pa.array(category, pa.int64()),
                "o": pa.array(truth, pa.bool_()),
                "b": pa.array(truth, pa.bool_()),
                "d": pa.array(ticks, pa.timestamp("us")),
                "f": pa.array([tick % 2**31 for tick in ticks], pa.int32()).cast(pa.date32()),
                "y": pa.array(map(str, category)).dictionary_encode(),
            }
        )

    together = encoded(table(rows), block_rows)
    assert same(together, stacked(encoded(table([row]), 1) for row in rows))
    assert ((together.rows >= 0) & (together.rows <= 1)).all()
