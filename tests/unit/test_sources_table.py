"""Frames in memory: every dtype means what its cells say, whatever else the frame holds."""

import datetime as dt
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpgist.encode import Encoder
from dpgist.errors import DataError
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    NumberColumn,
    Schema,
)
from dpgist.sources import open_source

NUMBER = NumberColumn(name="a", min=0, max=8, nullable=True)
CATEGORY = CategoryColumn(name="a", values=("4", "true"), nullable=True)
DATE = DateColumn(name="a", min="2000-01-01", max="2000-01-09", nullable=True, format="%Y/%d/%m")
BOOLEAN = BooleanColumn(name="a", nullable=True)
DAY = dt.date(2000, 1, 5)


def encoded(data, column):
    """Rows and broken flags of a one-column table, read in blocks of two."""
    schema = Schema(name="t", columns=(column,))
    encoder = Encoder(schema)

    class EncodeAll:
        recipe, columns, block_rows = "{}", encoder.columns, 2

        def __call__(self, blocks):
            found = [encoder.encode(block) for block in blocks]
            assert all(len(part.rows) == 2 for part in found[:-1])
            return found

    source = open_source(data)
    source.check(schema)
    (parts,) = source.partial_sums(EncodeAll())
    rows = [row for part in parts for row in part.rows.tolist()]
    return rows, [flag for part in parts for flag in part.broken[:, 0].tolist()]


def frame(*cells, dtype=object):
    return pd.DataFrame({"a": pd.Series(cells, dtype=dtype)})


HALF, NULL = [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]
FOUR, MISSING = [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]


def in_dictionary(values):
    return pa.DictionaryArray.from_arrays(pa.array([0, None]), values)


@pytest.mark.parametrize(
    "data",
    [
        frame(4, np.nan, dtype="float64"),
        frame(4, None, dtype="Int64"),
        frame(4, None, dtype="Float32"),
        frame(4, None, dtype="int64[pyarrow]"),
        frame(Decimal(4), None, dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        frame("4", None, dtype="str"),
        frame("4", None, dtype=pd.StringDtype("python")),
        frame("4", None, dtype=pd.ArrowDtype(pa.string())),
        frame("4.0", None, dtype="category"),
        frame(4, None, dtype="category"),
        frame(4, pd.NA),
        frame(" 4 ", ""),
        frame(np.int8(4), float("nan")),
        frame(Decimal("4.0"), Decimal("NaN")),
        pl.DataFrame({"a": pl.Series([4, None], dtype=pl.UInt16)}),
        pl.DataFrame({"a": pl.Series([4, None], dtype=pl.Decimal(9, 2))}),
        pl.DataFrame({"a": pl.Series([4, None], dtype=pl.Object)}),
        pa.table({"a": pa.chunked_array([[4.0], [None]])}),
    ],
    ids=lambda data: (
        f"{type(data).__module__.split('.')[0]}-{dict(data.schema)['a']}"
        if isinstance(data, pl.DataFrame)
        else None
    ),
)
def test_a_four_and_a_missing_number_mean_the_same_in_every_dtype(data):
    assert encoded(data, NUMBER) == ([HALF, NULL], [False, False])


@pytest.mark.parametrize(
    "data",
    [
        frame("4", None),
        frame(4, None),
        frame("4", None, dtype="str"),
        frame("4", None, dtype="category"),
        frame(4.0, None),
        frame(4, None, dtype="float64"),
        frame(4, None, dtype="Float32"),
        frame(4, None, dtype="Int8"),
        pl.DataFrame({"a": ["4", None]}),
        pl.DataFrame({"a": pl.Series(["4", None], dtype=pl.Categorical)}),
        pl.DataFrame({"a": pl.Series(["4", None], dtype=pl.Enum(["3", "4"]))}),
        pa.table({"a": pa.array(["4", None], pa.string_view())}),
        pa.table({"a": in_dictionary(pa.array(["4"], pa.string_view()))}),
    ],
)
def test_a_category_and_a_missing_one_mean_the_same_in_every_dtype(data):
    assert encoded(data, CATEGORY) == ([FOUR, MISSING], [False, False])


@pytest.mark.parametrize(
    "data",
    [
        frame(DAY, pd.NaT, dtype="datetime64[ns]"),
        frame(DAY, None, dtype="datetime64[s, UTC]"),
        frame(DAY, None, dtype=pd.ArrowDtype(pa.date32())),
        frame(DAY, pd.NaT),
        frame(dt.datetime(2000, 1, 5, 7), None),
        frame(pd.Timestamp(DAY), pd.NaT),
        frame(np.datetime64("2000-01-05T07:00"), np.datetime64("NaT")),
        frame("2000/05/01", ""),
        pl.DataFrame({"a": [DAY, None]}),
        pl.DataFrame({"a": [dt.datetime(2000, 1, 5, 7), None]}),
    ],
)
def test_a_day_and_a_missing_one_mean_the_same_in_every_dtype(data):
    assert encoded(data, DATE) == ([HALF, NULL], [False, False])


@pytest.mark.parametrize(
    "data",
    [
        frame(True, None),
        frame(np.True_, None),
        frame("Yes", None),
        frame(1, None, dtype="Int64"),
        frame(True, None, dtype="boolean"),
        pl.DataFrame({"a": [True, None]}),
    ],
)
def test_a_truth_and_a_missing_one_mean_the_same_in_every_dtype(data):
    assert encoded(data, BOOLEAN) == ([[0.0, 1.0, 0.0, 0.0], MISSING], [False, False])


def test_objects_of_any_kind_are_broken_cells_and_touch_no_other():
    cells = ["4", [1, 2], {"x": 1}, object(), 10**5000, b"4", float("inf"), "\ud800", None]
    rows, broken = encoded(frame(*cells), NUMBER)
    assert [row == HALF for row in rows] == [i in (0, 5) for i in range(9)]
    assert broken == [False, True, True, True, True, False, True, True, False]
    clipped, _ = encoded(frame(10**5000, -(10**5000)), NumberColumn(name="a", min=0, max=1))
    assert clipped == [[1.0], [0.0]]


def test_the_type_of_an_object_column_does_not_follow_its_cells():
    for cells in ([], [None], [1, 2], ["x", 1.5], [dt.date(2000, 1, 1), True]):
        open_source(frame(*cells)).check(Schema(name="t", columns=(NUMBER,)))


def test_rows_are_found_by_position_whatever_the_index_says():
    data = frame(4, 8, 0, dtype="int64").set_axis([7, 7, 7])
    rows, _ = encoded(data, NUMBER)
    assert [row[0] for row in rows] == [0.5, 1.0, 0.0]


def test_strided_and_read_only_arrays_are_read():
    values = np.arange(8.0)[::-2]
    values.flags.writeable = False
    rows, _ = encoded(pd.DataFrame({"a": values}), NUMBER)
    assert [row[0] * 8 for row in rows] == [7, 5, 3, 1]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_without_rows_gives_no_block(make):
    assert encoded(make({"a": pa.array([], pa.int64()).to_numpy()}), NUMBER) == ([], [])


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (frame(True, dtype="bool"), "bool"),
        (frame(1j, dtype="complex128"), "complex128"),
        (frame(pd.Timedelta(1), dtype="timedelta64[ns]"), "duration"),
        (frame(1, dtype="Sparse[int]"), "Sparse"),
        (pl.DataFrame({"a": ["4"]}), "large_string"),
        (pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)}), "Int128"),
        (pl.DataFrame({"a": [[1]]}), "large_list"),
        (pa.table({"a": ["4"]}), "string"),
    ],
)
def test_a_declared_type_that_is_no_number_is_refused_by_name(data, found):
    with pytest.raises(DataError, match=f"column 'a' is declared number but stored as {found}"):
        open_source(data).check(Schema(name="t", columns=(NUMBER,)))


def test_a_strange_type_in_an_ignored_column_does_not_matter():
    data = frame(4, dtype="int64").assign(z=np.array([1j]))
    schema = Schema(name="t", columns=(NUMBER,), ignore=("z",))
    open_source(data).check(schema)


def test_duplicate_and_undeclared_columns_of_a_frame_are_refused():
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(DataError, match="has column 'a' more than once"):
        open_source(twice).check(Schema(name="t", columns=(NUMBER,)))
    with pytest.raises(DataError, match="has column '0', which the schema does not know"):
        open_source(pd.DataFrame({"a": [1], 0: [2]})).check(Schema(name="t", columns=(NUMBER,)))


@pytest.mark.parametrize("data", [[1, 2], {"a": [1]}, None, np.zeros(3), pd.Series([1])])
def test_anything_else_is_refused_with_what_is_accepted(data):
    with pytest.raises(DataError, match="pass a pandas or polars DataFrame, a pyarrow Table"):
        open_source(data)


def test_a_lazy_frame_is_refused_with_the_way_out():
    with pytest.raises(DataError, match=r"pass frame\.collect\(\)"):
        open_source(pl.LazyFrame({"a": [1]}))


def test_a_source_shows_no_cell_and_no_count():
    for data, kind in (
        (frame("canary"), "pandas"),
        (pl.DataFrame({"a": ["canary"]}), "polars"),
        (pa.table({"a": ["canary"]}), "pyarrow"),
    ):
        source = open_source(data)
        assert source.kind == kind
        shown = f"{source!r} {source} {source.reader!r}"
        assert "canary" not in shown
        assert "shape" not in shown


@pytest.mark.parametrize("cells", [["", ""], [], ["a", ""]])
def test_whether_a_column_is_empty_decides_about_no_error(cells):
    """Readers of files give a column without any value the type of numbers."""
    schema = Schema(name="t", columns=(CategoryColumn(name="c", values=("a", "07")),))
    frame = pd.read_csv(io.StringIO("\n".join(["c,n", *(f"{cell},1" for cell in cells)])))
    open_source(frame[["c"]]).check(schema)
    open_source(pd.DataFrame({"c": [cell or np.nan for cell in cells]})).check(schema)
