"""Where rows come from: tables in memory and files, streamed in blocks of one fixed size.

A source is opened without reading a row, checked against the schema by its header alone, and then
read once by the curator. Nothing that comes after the check depends on a cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dpgist.errors import DataError
from dpgist.schema import Schema
from dpgist.sources.array_file import idx_arrays, is_idx, npz_arrays
from dpgist.sources.arrays import memory_arrays
from dpgist.sources.arrow_file import ArrowFile, ParquetFiles
from dpgist.sources.blocks import Reader, cut_blocks
from dpgist.sources.csv_file import CsvFile
from dpgist.sources.header import check_header
from dpgist.sources.image_folder import ImageFolder
from dpgist.sources.images import NamedImages
from dpgist.sources.table import table_reader

__all__ = ["Reader", "Source", "Summation", "open_source", "table_file"]


_IMAGES_TOO = (
    "; images may be in .npz or images-idx3-ubyte files, or a folder with a sub-folder per class"
)


class Summation(Protocol):
    """What the curator hands to a source: it turns blocks of rows into partial sums.

    A source on a cluster would ship ``recipe`` and rebuild the summation from it.

    Privacy: private; its result never leaves the curator without noise.
    """

    @property
    def recipe(self) -> str:
        """Public JSON that describes the summation. Privacy: public."""
        ...

    @property
    def schema(self) -> Schema:
        """What the columns mean. Privacy: public."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read. Privacy: public; the schema's."""
        ...

    @property
    def block_rows(self) -> int:
        """Rows in every block but the last. Privacy: public."""
        ...

    def __call__(self, blocks: Iterable[Mapping[str, pa.Array]]) -> Any:
        """The partial sums of these blocks. Privacy: private until noise is added."""
        ...


class Source(Protocol):
    """Private rows that can be checked by their header and summed in one pass.

    ``kind`` says what the user handed over, so that sampling can return the same:
    "pandas", "polars", "pyarrow", "csv" or "parquet", and for images also "arrays", "npz", "idx"
    or "folder".

    Privacy: holds private rows; its ``repr`` shows none of them, nor how many there are.
    """

    @property
    def kind(self) -> str:
        """Public name of the table kind. Privacy: public."""
        ...

    def check(self, schema: Schema) -> None:
        """Raise ``DataError`` if the header breaks the schema. Privacy: reads no row."""
        ...

    def names(self, schema: Schema) -> tuple[str, ...]:
        """The columns' names; images have those of the schema.

        Privacy: reads no row, but do not quote a name that the schema does not know: the first
        line of a csv file without a header is somebody's row.
        """
        ...

    def partial_sums(self, summation: Summation) -> Iterator[Any]:
        """Feed every row to the summation, once. Privacy: for the curator alone."""
        ...


@dataclass(frozen=True, kw_only=True, repr=False)
class _OneProcess:
    """A source that one process reads from beginning to end."""

    kind: str
    reader: Reader

    def check(self, schema: Schema) -> None:
        check_header(self.reader.header(), schema)

    def names(self, schema: Schema) -> tuple[str, ...]:
        del schema  # tables have names of their own
        return self.reader.header().names

    def partial_sums(self, summation: Summation) -> Iterator[Any]:
        tables = self.reader.tables(summation.columns)
        yield summation(cut_blocks(tables, summation.block_rows))

    def __repr__(self) -> str:
        return f"<{self.kind} source>"


@dataclass(frozen=True, kw_only=True, repr=False)
class _Images:
    """Images without column names, which one process reads from beginning to end."""

    kind: str
    reader: Reader

    def check(self, schema: Schema) -> None:
        NamedImages(reader=self.reader, schema=schema).check()

    def names(self, schema: Schema) -> tuple[str, ...]:
        return NamedImages(reader=self.reader, schema=schema).header().names

    def partial_sums(self, summation: Summation) -> Iterator[Any]:
        named = NamedImages(reader=self.reader, schema=summation.schema)
        yield summation(cut_blocks(named.tables(summation.columns), summation.block_rows))

    def __repr__(self) -> str:
        return f"<{self.kind} source>"


def open_source(data: Any) -> Source:
    """The source for a pandas or polars frame, an Arrow table, arrays, or a path; reads no row.

    Paths: ``.csv``, ``.csv.gz``, ``.parquet`` (a file, or a folder of them) and ``.arrow``; for
    images also ``.npz``, idx files and a folder with a sub-folder per class. Arrays: a tuple
    (x, y) or a dict of numpy arrays.

    Privacy: reads no row; the result holds private rows and shows none.
    """
    if isinstance(data, str | Path):
        return _open_path(Path(data))
    if isinstance(data, tuple | dict):
        return _Images(kind="arrays", reader=memory_arrays(data))
    kind, reader = table_reader(data)
    return _OneProcess(kind=kind, reader=reader)


def _open_path(path: Path) -> Source:
    if not path.exists():
        raise DataError(f"there is no file or folder {path}; check the path")
    if path.is_dir() and not any(path.glob("*.parquet")):
        return _Images(kind="folder", reader=ImageFolder(path=path))
    if path.suffix.lower() == ".npz":
        return _Images(kind="npz", reader=npz_arrays(path))
    if is_idx(path):
        return _Images(kind="idx", reader=idx_arrays(path))
    kind, reader = table_file(path, hint=_IMAGES_TOO)
    return _OneProcess(kind=kind, reader=reader)


def table_file(path: Path, *, hint: str = "") -> tuple[str, Reader]:
    """The kind of a table in a file, by the file's name, and a reader for it.

    ``hint`` ends the refusal of a name that says nothing.

    Privacy: reads no row.
    """
    name = path.name.lower()
    if path.is_dir() or name.endswith(".parquet"):
        return "parquet", ParquetFiles(path=path)
    if name.endswith((".csv", ".csv.gz")):
        return "csv", CsvFile(path=path)
    if name.endswith(".arrow"):
        return "pyarrow", ArrowFile(path=path)
    raise DataError(
        f"the name {path.name} does not say what the file is; it must end in .csv, .csv.gz, "
        f".parquet or .arrow, or be a folder of .parquet files{hint}"
    )
