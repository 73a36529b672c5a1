"""A first schema from PUBLIC data, with comments on what a person has still to check.

A draft shows bounds and values of the rows it reads, so it must never be made from private ones.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpgist.cells import days, flat, is_numeric, is_text, is_whole, numbers, texts, truths
from dpgist.columns import EXACT_LIMIT, repeated, text_problems
from dpgist.errors import DataError
from dpgist.sources import table_file
from dpgist.sources.csv_file import CsvFile

MOST_VALUES = 50
"""A text column of more values than this is taken for free text."""

_MOST_DECIMALS = 6
_LARGEST = 1e300
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y")
_MARKS = pa.array(
    ["?", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan"], pa.large_string()
)
_EPOCH = dt.date(1970, 1, 1)
_WARNING = """\
# Drafted by dpgist from PUBLIC data. Check every line against what you know without looking at
# private rows: whether the bounds hold for everybody, whether any value is missing from a list.
# A schema is public. Never draft one from private rows: it would publish their extremes and values.
"""
_TABLE = """
[table]
name = {name}
{label}
max_rows_per_person = 1  # how many rows may one person have? declared, not checked
# rows_about = 10000  # a public guess of the number of private rows, if there is one
"""


def draft_schema(path: str | Path) -> str:
    """The text of a schema file (TOML) that fits a public csv or parquet file.

    Types are inferred, bounds rounded outward, few values listed, blanks made nullable; columns
    that no type fits are ignored, with a comment.

    Privacy: for PUBLIC data only; what it returns holds bounds and values of the rows.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"there is no file or folder {path}; check the path")
    _, reader = table_file(path)
    names = reader.header().names
    if isinstance(reader, CsvFile):
        _refuse_odd_text(reader)
    if twice := repeated(names):
        raise DataError(f"the data has columns more than once: {', '.join(map(repr, twice))}")
    found = dict.fromkeys(names, _Facts())
    for table in reader.tables(names):
        found = {name: facts.joined(_facts(table.column(name))) for name, facts in found.items()}
    return _schema_text(path.name.split(".")[0] or "table", found)


def _refuse_odd_text(file: CsvFile) -> None:
    """Refuse text that would be read, but not as it was meant."""
    if not file.is_utf8():
        raise DataError(
            f"{file.path} is not in UTF-8, and values could not be told apart; convert it to "
            "UTF-8, for instance by iconv -f LATIN1 -t UTF-8"
        )
    names = file.header().names
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise DataError(
            f"the first line of {file.path} names one column, with semicolons or tabs in it; "
            "columns must be separated by commas, and decimals by points: convert it"
        )
    if file.has_surplus():
        raise DataError(
            f"{file.path} has rows with more cells than its first line names columns; is a comma "
            "used for decimals, or in a text that is not in quotes? Correct it"
        )


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What some cells of a column have in common; ``joined`` is what more of them have."""

    blank: bool = False
    marked: bool = False
    readable: bool = True
    numeric: bool = True
    truths: bool = True
    low: float = np.inf
    high: float = -np.inf
    decimals: int = 0
    formats: tuple[tuple[str, float, float], ...] | None = None
    values: frozenset[str] = frozenset()

    def joined(self, other: _Facts) -> _Facts:
        values = self.values | other.values
        return _Facts(
            blank=self.blank or other.blank,
            marked=self.marked or other.marked,
            readable=self.readable and other.readable,
            numeric=self.numeric and other.numeric,
            truths=self.truths and other.truths,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            decimals=max(self.decimals, other.decimals),
            formats=_joined_formats(self.formats, other.formats),
            values=frozenset(sorted(values)[: MOST_VALUES + 1]),
        )


def _facts(cells: pa.ChunkedArray) -> _Facts:
    cells = flat(cells)
    if not _is_readable(cells.type):
        return _Facts(readable=False)
    words = texts(cells)
    blank, words = words.null_count > 0, words.drop_null()
    if not len(words):
        return _Facts(blank=blank)
    marked = pc.is_in(words, value_set=_MARKS)
    found = _Facts(
        blank=blank,
        marked=pc.any(marked).as_py(),
        values=frozenset(pc.unique(words).slice(0, MOST_VALUES + 1).to_pylist()),
    )
    words = words.filter(pc.invert(marked))
    return found.joined(_shared_meaning(words)) if len(words) else found


def _shared_meaning(words: pa.Array) -> _Facts:
    """Whether all of these texts are truths, dates or numbers."""
    distinct = pc.unique(words)
    found = _Facts(
        numeric=False,
        truths=bool((truths(distinct)[0] >= 0).all()),
        formats=tuple(_fitting_formats(distinct)),
    )
    values = numbers(distinct)[0]
    codes = pc.any(pc.match_substring_regex(distinct, pattern=r"^[+-]?0[0-9]")).as_py()
    if codes or not (np.abs(values) <= _LARGEST).all():
        return found
    low, high = float(values.min()), float(values.max())
    return replace(found, numeric=True, low=low, high=high, decimals=_decimals(values))


def _is_readable(kind: pa.DataType) -> bool:
    checks = (is_text, is_whole, is_numeric, pa.types.is_date, pa.types.is_timestamp)
    return any(check(kind) for check in checks) or bool(pa.types.is_null(kind))


def _fitting_formats(distinct: pa.Array) -> Iterator[tuple[str, float, float]]:
    for form in _FORMATS:
        found = days(distinct, form)[0]
        if np.isfinite(found).all():
            yield form, float(found.min()), float(found.max())


def _joined_formats(
    one: tuple[tuple[str, float, float], ...] | None,
    other: tuple[tuple[str, float, float], ...] | None,
) -> tuple[tuple[str, float, float], ...] | None:
    if one is None or other is None:  # None: no cell has spoken yet
        return other if one is None else one
    seen = {form: (low, high) for form, low, high in other}
    return tuple(
        (form, min(low, seen[form][0]), max(high, seen[form][1]))
        for form, low, high in one
        if form in seen
    )


def _decimals(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    fitting = (d for d in range(_MOST_DECIMALS + 1) if (np.round(values, d) == values).all())
    return next(fitting, _MOST_DECIMALS + 1)


# --- writing --------------------------------------------------------------------------------


def _schema_text(name: str, found: dict[str, _Facts]) -> str:
    columns = {column: list(_lines(column, facts)) for column, facts in found.items()}
    declared = {column: lines for column, lines in columns.items() if lines}
    ignored = [column for column, lines in columns.items() if not lines]
    if not declared:
        raise DataError("no column is a number, a date, a truth or a short list of values")
    parts = [_WARNING, _TABLE.format(name=_quoted(name), label=_label_line(declared))]
    if ignored:
        why = "empty, of more values than can be listed, or of a type that cannot be read"
        parts.append(f"ignore = [{', '.join(map(_quoted, ignored))}]  # {why}\n")
    for column, lines in declared.items():
        parts.append("\n".join([f"\n[columns.{_key(column)}]", *lines, ""]))
    return "".join(parts)


def _label_line(declared: dict[str, list[str]]) -> str:
    choices = [c for c, lines in declared.items() if lines[0] in _CHOICE_TYPES]
    guess = _quoted(choices[-1]) if choices else '"..."'
    return f"# label = {guess}  # a category or boolean by which rows can be asked for"


_CHOICE_TYPES = ('type = "category"', 'type = "boolean"')


def _lines(name: str, facts: _Facts) -> Iterator[str]:
    """The settings of one column, the type first; nothing for a column that cannot be declared."""
    if not facts.readable or not facts.values or any(text_problems(name, "name")):
        return
    if facts.formats is None:  # nothing but marks like "NA"
        return
    listed = False
    if facts.truths:
        yield 'type = "boolean"'
    elif facts.numeric:
        yield from _number_lines(name, facts)
    elif facts.formats:
        yield from _date_lines(*facts.formats[0], others=[form for form, *_ in facts.formats[1:]])
    elif len(facts.values) <= MOST_VALUES:
        listed = True
        yield 'type = "category"'
        yield "# are these all the values there can be? anything else goes into a bucket of its own"
        yield f"values = [{', '.join(map(_quoted, sorted(facts.values)))}]"
        yield '# other = "Other"  # a name for that bucket, so that it can be sampled'
    else:
        return
    if facts.blank or (facts.marked and not listed):
        yield f"nullable = true  # {'blanks' if facts.blank else 'marks like ? or NA'} were seen"


def _number_lines(name: str, facts: _Facts) -> Iterator[str]:
    low, high = _outward(facts.low, facts.high)
    widest = max(abs(low), abs(high))
    whole = facts.decimals == 0 and widest <= EXACT_LIMIT
    yield f'type = "{"integer" if whole else "number"}"'
    if whole and re.search(r"(^|[^a-z])id$", name.lower()):
        yield "# an identifier? then list it under ignore instead"
    yield "# are these bounds true for everybody? what lies outside is clipped"
    yield f"min = {int(low) if whole else float(low)!r}"
    yield f"max = {int(high) if whole else float(high)!r}"
    if 0 < facts.decimals <= _MOST_DECIMALS and widest * 10**facts.decimals <= EXACT_LIMIT:
        yield f"decimals = {facts.decimals}"


def _date_lines(form: str, first: float, last: float, *, others: list[str]) -> Iterator[str]:
    low, high = (_EPOCH + dt.timedelta(days=day) for day in (first, last))
    yield 'type = "date"'
    yield "# are these bounds true for everybody? what lies outside is clipped"
    yield f"min = {low.year:04}-01-01"
    yield f"max = {high.year:04}-12-31"
    if form != _FORMATS[0]:
        yield f"format = {_quoted(form)}"
        if others:
            yield f"# the dates also fit {', '.join(map(_quoted, others))}: which is it?"


def _outward(low: float, high: float) -> tuple[Decimal, Decimal]:
    """The range widened to round numbers: whole steps of the span's leading digit."""
    least, most = Decimal(repr(low)), Decimal(repr(high))
    step = Decimal(1).scaleb((most - least or most or Decimal(1)).adjusted())
    down = (least / step).to_integral_value(ROUND_FLOOR) * step
    up = (most / step).to_integral_value(ROUND_CEILING) * step
    return min(down, least), max(up, most) if up > down else up + step


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)
