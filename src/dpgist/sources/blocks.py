"""Cutting a stream of tables into blocks of one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from dpgist.cells import without_dictionary
from dpgist.sources.header import Header


class Reader(Protocol):
    """One way of storing rows.

    Privacy: holds private rows; for a source alone.
    """

    def header(self) -> Header:
        """Names and physical types; raises ``DataError`` if unreadable. Privacy: reads no row."""
        ...

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Every row once, in tables of any size. Privacy: private rows, for the curator."""
        ...


def cut_blocks(tables: Iterable[pa.Table], block_rows: int) -> Iterator[Mapping[str, pa.Array]]:
    """The same rows in blocks of exactly ``block_rows``; only the last may be shorter.

    Privacy: private rows, for the curator alone; where the cuts fall does not depend on a cell.
    """
    waiting: list[pa.Table] = []
    n_waiting = 0
    for table in tables:
        waiting.append(table)
        n_waiting += len(table)
        if n_waiting < block_rows:
            continue
        joined = pa.concat_tables(waiting)
        whole = n_waiting - n_waiting % block_rows
        for start in range(0, whole, block_rows):
            yield _block(joined.slice(start, block_rows))
        waiting, n_waiting = [joined.slice(whole)], n_waiting - whole
    if n_waiting:
        yield _block(pa.concat_tables(waiting))


def _block(table: pa.Table) -> Mapping[str, pa.Array]:
    columns = zip(table.column_names, table.columns, strict=True)
    return {name: pa.concat_arrays(_plain(column)) for name, column in columns}


def _plain(column: pa.ChunkedArray) -> list[pa.Array]:
    """Chunks without dictionaries, which may differ from chunk to chunk."""
    return [without_dictionary(chunk) for chunk in column.chunks or [pa.nulls(0, column.type)]]
