"""Comma-separated text: one record is one row, its cells are text, the schema gives them meaning.

A record is what RFC 4180 says: a line, or several of them where a cell in quotes holds line ends.
Whatever a person writes into a cell, a CSV writer puts it into quotes and doubles the quotes in it,
so that it changes this person's row alone. A file written without that care can let one cell join
or split rows, and no reader could tell: write such files anew before they are released.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import pyarrow as pa

from dpgist.errors import DataError
from dpgist.sources.damage import damage_reported
from dpgist.sources.header import Header

_BATCH_ROWS = 8_192

_FIELD = re.compile(r' *+(?:"((?:[^"]++|"")*+)"([^,]*+)|((?!")[^,]*+))(,|\Z)', re.DOTALL)
"""A field in quotes with whatever follows them, or a plain one, and the comma after it."""
_CLOSING = re.compile(r'(?:[^"]++|"")*+"[^,]*+,?', re.DOTALL)
"""From inside a field in quotes to the comma after it."""
MOST_CHARACTERS = 1 << 24
"""What a record has beyond is not kept: a quote that nobody closed must not fill the memory."""


@dataclass(frozen=True, kw_only=True)
class CsvFile:
    """A ``.csv`` or ``.csv.gz`` file in UTF-8 with a header line.

    Privacy: holds a path to private rows; for a source alone.
    """

    path: Path

    def header(self) -> Header:
        """The names in the first line. Privacy: reads no row; a .gz is unpacked to test it."""
        self._check_whole()
        with self._lines() as lines:
            names = _names(lines)
        if not names:
            raise DataError(
                f"{self.path} has no header; its first line must name the columns, "
                "separated by commas and with every quote closed, and end in \\n or \\r\\n"
            )
        return Header(names=names, types=(None,) * len(names))

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Every row once, as text. Privacy: private rows, for the curator."""
        with self._lines() as lines:
            names = _names(lines)
            rows = records(lines, n_fields=len(names))
            while batch := list(islice(rows, _BATCH_ROWS)):
                cells = list(zip(*batch, strict=True))
                arrays = {c: pa.array(cells[names.index(c)], pa.large_string()) for c in columns}
                yield pa.table(arrays)

    def has_surplus(self) -> bool:
        """Whether a row has more cells than columns. Privacy: reads every row; PUBLIC data only."""
        with self._lines() as lines:
            names = _names(lines)
            return any(len(fields) > len(names) for fields in _records(lines))

    def is_utf8(self) -> bool:
        """Whether every byte is text. Privacy: reads every row; for PUBLIC data only."""
        try:
            with self._lines(errors="strict") as lines:
                while lines.read(1 << 20):
                    pass
        except UnicodeDecodeError:
            return False
        return True

    @property
    def _packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    @contextmanager
    def _lines(self, *, errors: str = "replace") -> Iterator[IO[str]]:
        opened = gzip.open if self._packed else open
        # A newline and nothing else ends a line; a lone \r, or a byte that is not UTF-8, stays in
        # its cell.
        with opened(self.path, "rt", encoding="utf-8-sig", errors=errors, newline="\n") as file:
            yield file

    def _check_whole(self) -> None:
        with damage_reported(self.path), self._lines() as lines:
            while self._packed and lines.read(1 << 20):
                pass


def records(lines: Iterator[str], *, n_fields: int) -> Iterator[list[str | None]]:
    """The rows in these lines, each with exactly ``n_fields`` cells; blank lines are not rows.

    Missing cells are None and surplus ones are dropped.

    Privacy: private rows; what a CSV writer wrote as one record is one row, whatever is in it.
    """
    for fields in _records(lines):
        if len(fields) != n_fields:
            yield [*fields, *[None] * n_fields][:n_fields]
        else:
            yield fields  # type: ignore[misc]


def _records(lines: Iterator[str]) -> Iterator[list[str]]:
    """The fields of each row, however many."""
    for line in lines:
        if line.isspace():
            continue
        fields, left_open = split_line(line)
        if left_open:
            fields, _ = split_line(line + _rest_of_record(lines))
        yield fields


def split_line(line: str) -> tuple[list[str], bool]:
    """The fields of a line or a record, and whether it leaves a quote open.

    Privacy: row-wise; for the private pass alone.
    """
    text = line.rstrip("\r\n")
    if '"' not in text:
        return text.split(","), False
    # Not the csv module: it refuses a bare carriage return and long fields.
    fields, place = [], 0
    while found := _FIELD.match(text, place):
        quoted, rest, plain, comma = found.groups()
        fields.append(plain if quoted is None else quoted.replace('""', '"') + rest)
        if not comma:
            return fields, False
        place = found.end()
    return [*fields, text[place:].lstrip(" ")[1:]], True


def _rest_of_record(lines: Iterator[str]) -> str:
    """Take the lines that belong to a record whose last field so far is in quotes and open."""
    kept: list[str] = []
    room, left_open = MOST_CHARACTERS, True
    while left_open and (line := next(lines, None)) is not None:
        kept.append(line[:room])
        room -= len(kept[-1])
        closing = _CLOSING.match(line)
        left_open = closing is None or split_line(line[closing.end() :])[1]
    return "".join(kept)


def _names(lines: Iterator[str]) -> tuple[str, ...]:
    line = next((line for line in lines if not line.isspace()), "")
    fields, left_open = split_line(line) if line else ([], False)
    # Where bare carriage returns end lines, the first line is the whole file.
    return () if left_open or "\r" in line.rstrip("\r\n") else tuple(map(str.strip, fields))
