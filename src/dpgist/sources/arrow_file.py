"""Parquet and Arrow files, read in batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpgist.errors import DataError
from dpgist.pixels import is_file, is_raw
from dpgist.sources.damage import damage_reported
from dpgist.sources.header import Header

_BATCH_ROWS = 65_536
_BATCH_IMAGES = 1_024
_FILE_MAGIC = b"ARROW1"


@dataclass(frozen=True, kw_only=True)
class ParquetFiles:
    """One parquet file, or the ``*.parquet`` files of a folder in the order of their names.

    Privacy: holds a path to private rows; for a source alone.
    """

    path: Path

    def header(self) -> Header:
        """Names and types from the footers. Privacy: reads no row."""
        schemas = []
        for path in self._files():
            with damage_reported(path), pq.ParquetFile(path) as file:
                schemas.append((path, _header(file.schema_arrow)))
        _, first = schemas[0]
        for path, other in schemas[1:]:
            if other != first:
                raise DataError(
                    f"{path.name} has other columns or types than {schemas[0][0].name}; "
                    "all files of a folder must have the same columns, in the same order"
                )
        return first

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Every row once. Privacy: private rows, for the curator."""
        for path in self._files():
            # Buffering ahead would keep every row group read so far in memory.
            with damage_reported(path), pq.ParquetFile(path, pre_buffer=False) as file:
                large = any(is_raw(kind) or is_file(kind) for kind in file.schema_arrow.types)
                batch_rows = _BATCH_IMAGES if large else _BATCH_ROWS
                for batch in file.iter_batches(batch_rows, columns=list(columns)):
                    yield _selected(batch, columns)

    def _files(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        files = sorted(self.path.glob("*.parquet"))
        if not files:
            raise DataError(f"the folder {self.path} holds no .parquet file")
        return files


@dataclass(frozen=True, kw_only=True)
class ArrowFile:
    """An Arrow IPC file, of the file or the stream form.

    Privacy: holds a path to private rows; for a source alone.
    """

    path: Path

    def header(self) -> Header:
        """Names and types from the file's schema. Privacy: reads no row."""
        with damage_reported(self.path), self._opened() as (schema, _):
            self._check_whole()
            return _header(schema)

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Every row once. Privacy: private rows, for the curator."""
        with damage_reported(self.path), self._opened() as (_, batches):
            for batch in batches:
                yield _selected(batch, columns)

    def _check_whole(self) -> None:
        """Walk a stream's messages to its end; the file form vouches for itself by its footer."""
        with pa.memory_map(str(self.path)) as file:
            if file.read(len(_FILE_MAGIC)) != _FILE_MAGIC:
                file.seek(0)
                for _ in pa.ipc.MessageReader.open_stream(file):
                    pass

    @contextmanager
    def _opened(self) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        with pa.memory_map(str(self.path)) as file:
            if file.read(len(_FILE_MAGIC)) == _FILE_MAGIC:
                reader: Any = pa.ipc.open_file(file)
                yield reader.schema, map(reader.get_batch, range(reader.num_record_batches))
            else:
                file.seek(0)
                reader = pa.ipc.open_stream(file)
                yield reader.schema, iter(reader)


def _selected(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.Table:
    """These columns, without the nullability and metadata in which files may differ."""
    return pa.table({name: batch.column(name) for name in columns})


def _header(schema: pa.Schema) -> Header:
    return Header(names=tuple(schema.names), types=tuple(schema.types))
