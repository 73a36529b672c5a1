"""Every declared value survives encoding and decoding, exactly."""

import datetime as dt

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgist.encode import Encoder
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

TYPES = {
    IntegerColumn: pa.int64(),
    NumberColumn: pa.float64(),
    CategoryColumn: pa.string(),
    BooleanColumn: pa.bool_(),
    DateColumn: pa.date32(),
}


def bounds(values):
    return st.tuples(values, values).map(sorted)


@st.composite
def integer(draw, name):
    low, high = draw(bounds(st.integers(-(10**15), 10**15)))
    return IntegerColumn(name=name, min=low, max=high, nullable=draw(st.booleans()))


@st.composite
def number(draw, name):
    decimals = draw(st.integers(0, 6))
    low, high = draw(bounds(st.integers(-(10 ** (15 - decimals)), 10 ** (15 - decimals))))
    return NumberColumn(
        name=name, min=low, max=high, decimals=decimals, nullable=draw(st.booleans())
    )


@st.composite
def category(draw, name):
    words = st.text("abcäöü01 ", min_size=1, max_size=3).filter(
        lambda w: w == w.strip() and w != "O"
    )
    values = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    other = draw(st.sampled_from([None, "O"]))
    return CategoryColumn(name=name, values=values, other=other, nullable=draw(st.booleans()))


@st.composite
def date(draw, name):
    low, high = draw(bounds(st.dates(min_value=dt.date(1000, 1, 1))))
    return DateColumn(name=name, min=low, max=high, nullable=draw(st.booleans()))


@st.composite
def boolean(draw, name):
    return BooleanColumn(name=name, nullable=draw(st.booleans()))


def cell(column):
    if isinstance(column, CategoryColumn):
        declared = st.sampled_from([*column.values, *([column.other] if column.other else [])])
    elif isinstance(column, BooleanColumn):
        declared = st.booleans()
    elif isinstance(column, DateColumn):
        declared = st.dates(column.min, column.max)
    elif isinstance(column, IntegerColumn):
        declared = st.integers(column.min, column.max)
    else:
        step = 10**column.decimals
        declared = st.integers(int(column.min) * step, int(column.max) * step).map(
            lambda k: k / step
        )
    return declared | st.none() if column.nullable else declared


@st.composite
def tables(draw):
    columns = (
        draw(integer("i")),
        draw(number("n")),
        draw(category("c")),
        draw(boolean("b")),
        draw(date("d")),
        draw(category("y")),
    )
    schema = Schema(name="t", columns=columns, label=draw(st.sampled_from([None, "y", "b"])))
    rows = draw(st.lists(st.tuples(*map(cell, columns)), min_size=1, max_size=6))
    cells = dict(zip(schema.to_dict()["table"]["order"], zip(*rows, strict=True), strict=True))
    return schema, pa.table({c.name: pa.array(cells[c.name], TYPES[type(c)]) for c in columns})


def as_text(column):
    return pa.array([None if value is None else str(value) for value in column.to_pylist()])


@settings(max_examples=150, deadline=None)
@given(tables())
def test_every_declared_value_and_null_survives_typed_or_as_text(drawn):
    schema, table = drawn
    encoder = Encoder(schema)
    typed = encoder.encode({name: table[name] for name in table.column_names})
    texts = encoder.encode({name: as_text(table[name]) for name in table.column_names})
    for found in (typed, texts):
        assert not found.broken.any()
        assert encoder.decode(found.rows, found.labels).equals(table)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.floats(0, 1))
def test_a_number_without_decimals_comes_back_to_the_precision_of_its_range(a, b, share):
    low, high = min(a, b), max(a, b)
    value = min(max(low + share * (high - low), low), high)
    encoder = Encoder(Schema(name="t", columns=(NumberColumn(name="n", min=low, max=high),)))
    found = encoder.encode({"n": pa.array([value])})
    back = encoder.decode(found.rows, found.labels)["n"][0].as_py()
    assert not found.broken.any()
    assert abs(back - value) <= 4 * np.finfo(float).eps * max(abs(low), abs(high))
