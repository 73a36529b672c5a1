"""Comma-separated text: one line is one row, its cells are text, the schema gives them meaning.

Every line is parsed on its own, so a stray quote cannot swallow other people's rows. A line that
leaves a quote open is joined with the lines after it only if together they make a complete row
and none of them is one by itself.
"""

from __future__ import annotations

import gzip
import re
from collections import deque
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
MOST_LINES = 64
"""A quoted cell may run over this many lines; what runs on longer is a stray quote."""


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
                "separated by commas and with every quote closed"
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

    @property
    def _packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    @contextmanager
    def _lines(self) -> Iterator[IO[str]]:
        opened = gzip.open if self._packed else open
        # A newline and nothing else ends a line; a lone \r, or a byte that is not UTF-8, stays in
        # its cell.
        with opened(self.path, "rt", encoding="utf-8-sig", errors="replace", newline="\n") as file:
            yield file

    def _check_whole(self) -> None:
        with damage_reported(self.path), self._lines() as lines:
            while self._packed and lines.read(1 << 20):
                pass


def records(lines: Iterator[str], *, n_fields: int) -> Iterator[list[str | None]]:
    """The rows in these lines, each with exactly ``n_fields`` cells; blank lines are not rows.

    Missing cells are None and surplus ones are dropped.

    Privacy: private rows; a line changes no row but its own, where each line is one row.
    """
    ahead: deque[str] = deque()
    while (line := ahead.popleft() if ahead else next(lines, None)) is not None:
        if line.isspace():
            continue
        fields, left_open = split_line(line)
        if left_open and n_fields > 1:
            fields = _joined(line, ahead, lines, n_fields) or fields
        if len(fields) != n_fields:
            yield [*fields, *[None] * n_fields][:n_fields]
        else:
            yield fields  # type: ignore[misc]


def split_line(line: str) -> tuple[list[str], bool]:
    """The fields of one line taken by itself, and whether it leaves a quote open.

    Privacy: row-wise; for the private pass alone.
    """
    text = line.rstrip("\r\n")
    if '"' not in text:
        return text.split(","), False
    # Not the csv module: it refuses a bare carriage return and long fields, and where it does, a
    # complete row would no longer be recognised as one.
    fields, place = [], 0
    while found := _FIELD.match(text, place):
        quoted, rest, plain, comma = found.groups()
        fields.append(plain if quoted is None else quoted.replace('""', '"') + rest)
        if not comma:
            return fields, False
        place = found.end()
    return [*fields, text[place:].lstrip(" ")[1:]], True


def _joined(first: str, ahead: deque[str], lines: Iterator[str], n_fields: int) -> list[str] | None:
    """The row that starts in ``first`` and ends lines later, taken out of ``ahead``, if any."""
    text = first
    for count in range(1, MOST_LINES):
        if len(ahead) < count:
            ahead.extend(islice(lines, 1))
        if len(ahead) < count or _is_complete(ahead[count - 1], n_fields):
            return None
        text += ahead[count - 1]
        fields, left_open = split_line(text)
        if not left_open and len(fields) == n_fields:
            for _ in range(count):
                ahead.popleft()
            return fields
        if not left_open:
            return None
    return None


def _is_complete(line: str, n_fields: int) -> bool:
    fields, left_open = split_line(line)
    return not left_open and line.count('"') % 2 == 0 and len(fields) == n_fields


def _names(lines: Iterator[str]) -> tuple[str, ...]:
    line = next((line for line in lines if not line.isspace()), None)
    fields, left_open = split_line(line) if line else ([], False)
    return () if left_open else tuple(name.strip() for name in fields)
