"""Tables in memory: pandas and polars frames, Arrow tables.

Physical types follow from a frame's declared types, never from its cells. A pandas column of
objects may hold anything; each of its cells is turned into text on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import narwhals.dependencies as installed
import pyarrow as pa

from dpgist.cells import cell_text, is_text
from dpgist.errors import DataError
from dpgist.sources.blocks import Reader
from dpgist.sources.header import Header

_SLICE_ROWS = 65_536


def table_reader(data: Any) -> tuple[str, Reader]:
    """The kind of a table in memory, and a reader for it.

    Privacy: reads no row.
    """
    if installed.is_pandas_dataframe(data):
        return "pandas", _PandasFrame(frame=data)
    if installed.is_polars_dataframe(data):
        return "polars", _PolarsFrame(frame=data)
    if installed.is_pyarrow_table(data):
        return "pyarrow", _ArrowTable(table=data)
    if installed.is_polars_lazyframe(data):
        raise DataError("a polars LazyFrame holds no rows yet; pass frame.collect()")
    raise DataError(
        f"cannot read rows from {type(data).__name__}; pass a pandas or polars DataFrame, "
        "a pyarrow Table, or the path of a .csv, .csv.gz, .parquet or .arrow file"
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class _PandasFrame:
    frame: Any

    def header(self) -> Header:
        columns = range(self.frame.shape[1])
        return Header(
            names=self._names(),
            types=tuple(_pandas_type(self.frame.iloc[:0, at]) for at in columns),
        )

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        places = {name: self._names().index(name) for name in columns}
        for start in range(0, len(self.frame), _SLICE_ROWS):
            rows = slice(start, start + _SLICE_ROWS)
            yield pa.table(
                {name: _pandas_cells(self.frame.iloc[rows, at]) for name, at in places.items()}
            )

    def _names(self) -> tuple[str, ...]:
        return tuple(map(str, self.frame.columns))


@dataclass(frozen=True, kw_only=True, repr=False)
class _PolarsFrame:
    frame: Any

    def header(self) -> Header:
        columns = self.frame.head(0).get_columns()
        return Header(names=tuple(self.frame.columns), types=tuple(map(_polars_type, columns)))

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        for start in range(0, self.frame.height, _SLICE_ROWS):
            rows = self.frame.slice(start, _SLICE_ROWS)
            yield pa.table({name: _polars_cells(rows.get_column(name)) for name in columns})


@dataclass(frozen=True, kw_only=True, repr=False)
class _ArrowTable:
    table: pa.Table

    def header(self) -> Header:
        return Header(names=tuple(self.table.column_names), types=tuple(self.table.schema.types))

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        for start in range(0, len(self.table), _SLICE_ROWS):
            rows = self.table.slice(start, _SLICE_ROWS)
            yield pa.table({name: rows.column(name) for name in columns})


def _pandas_type(column: Any) -> pa.DataType | str | None:
    """The Arrow type, None for text and objects, or the name of a type that Arrow cannot hold."""
    if _holds_objects(column.dtype):
        return None
    try:
        found = pa.array(column, from_pandas=True).type
    except (pa.ArrowException, TypeError, ValueError):
        return str(column.dtype)
    return None if is_text(found) else found


def _pandas_cells(column: Any) -> pa.Array | pa.ChunkedArray:
    if column.dtype.name == "category":
        codes = column.cat.codes.to_numpy()
        values = [cell_text(value) for value in column.cat.categories]
        return pa.array(values, pa.large_string()).take(pa.array(codes, mask=codes < 0))
    if not _holds_objects(column.dtype) or getattr(column.dtype, "storage", None) == "pyarrow":
        return pa.array(column, from_pandas=True)
    return _texts(column.to_numpy(dtype=object))


def _holds_objects(dtype: Any) -> bool:
    return dtype.kind == "O" and not hasattr(dtype, "pyarrow_dtype")


def _polars_type(column: Any) -> pa.DataType | str | None:
    if str(column.dtype) == "Object":
        return None
    try:
        return column.to_arrow().type
    except (pa.ArrowException, TypeError, ValueError):
        return str(column.dtype)


def _polars_cells(column: Any) -> pa.Array:
    return _texts(column.to_list()) if str(column.dtype) == "Object" else column.to_arrow()


def _texts(values: Any) -> pa.Array:
    return pa.array([cell_text(value) for value in values], pa.large_string())
