"""Tables to numbers by the schema, so that real and synthetic rows are always comparable.

Cells are read by the same rules as in a release: what breaks the schema becomes null, ``other`` or
the nearest allowed value, and is counted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgist.encode import EncodedRows, Encoder
from dpgist.errors import DataError
from dpgist.schema import BooleanColumn, CategoryColumn, Column, Schema
from dpgist.sources import Source, open_source

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BLOCK_ROWS = 8192
NULL, UNDECLARED = "(null)", "(undeclared)"
_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True, kw_only=True, repr=False)
class Rows:
    """A table's columns as numbers.

    ``numbers`` holds integers, numbers and dates (days since 1970) in their own units, NaN for
    null; ``choices`` the codes of categories and booleans, label included, whose names
    :func:`option_names` gives; ``broken`` how many cells of each column broke the schema.

    Privacy: as private as the table; its ``repr`` shows nothing of it.
    """

    schema: Schema
    n_rows: int
    numbers: Mapping[str, Floats]
    choices: Mapping[str, Codes]
    broken: Mapping[str, int]

    def __repr__(self) -> str:
        return f"<rows of {self.schema.name}>"

    def take(self, chosen: Mask | Codes) -> Rows:
        """Some of the rows, by mask or position; ``broken`` stays that of all."""
        numbers = {name: values[chosen] for name, values in self.numbers.items()}
        choices = {name: codes[chosen] for name, codes in self.choices.items()}
        n_rows = int(chosen.sum()) if chosen.dtype == np.bool_ else len(chosen)
        return replace(self, n_rows=n_rows, numbers=numbers, choices=choices)

    def at_most(self, n_rows: int, rng: np.random.Generator) -> Rows:
        """All rows, or so many drawn without replacement."""
        if self.n_rows <= n_rows:
            return self
        return self.take(np.sort(rng.choice(self.n_rows, n_rows, replace=False)))

    def features(self) -> tuple[str, ...]:
        """The names of all columns but the label, in schema order."""
        return tuple(c.name for c in self.schema.columns if c.name != self.schema.label)

    def classes(self) -> Codes:
        """The class of each row by its place in :func:`class_names`; -1 for null or undeclared."""
        if self.schema.label is None:
            raise ValueError("the schema declares no label")
        options = option_names(self.schema.column(self.schema.label))
        names = class_names(self.schema)
        places = np.array([names.index(o) if o in names else -1 for o in options])
        found: Codes = places[self.choices[self.schema.label]]
        return found


def option_names(column: Column) -> tuple[str, ...]:
    """What the codes of a choice mean: its values, then null if allowed, then other.

    Privacy: public facts only.
    """
    if not isinstance(column, CategoryColumn | BooleanColumn):
        raise ValueError(f"column {column.name!r} is not a category or a boolean")
    values = ("false", "true") if isinstance(column, BooleanColumn) else column.values
    other = column.other if isinstance(column, CategoryColumn) else None
    return (*values, *((NULL,) if column.nullable else ()), other or UNDECLARED)


def class_names(schema: Schema) -> tuple[str, ...]:
    """The label's declared classes, ``other`` included; null is none. Empty without a label.

    Of two classes the last one counts as positive.

    Privacy: public facts only.
    """
    if schema.label is None:
        return ()
    names = option_names(schema.column(schema.label))
    return tuple(name for name in names if name not in (NULL, UNDECLARED))


def bounds(column: Column) -> tuple[float, float]:
    """A numeric column's declared range, dates in days since 1970.

    Privacy: public facts only.
    """
    low, high = (_position(getattr(column, end)) for end in ("min", "max"))
    return low, high


def shared_schema(sources: Mapping[str, Source], schema: Schema) -> tuple[Schema, tuple[str, ...]]:
    """The schema of the columns that all sources have, and what had to be left out.

    Names that the schema does not declare are never quoted: the first line of a csv file without
    a header is somebody's row.

    Privacy: reads headers and no row.
    """
    notes, missing = [], set()
    for title, source in sources.items():
        names = source.names(schema)
        lacking = [c.name for c in schema.columns if c.name not in names]
        if len(lacking) == len(schema.columns):
            raise DataError(f"the {title} rows have none of the schema's columns; is it the table?")
        missing.update(lacking)
        notes += [
            f"column {name!r} is missing from the {title} rows and left out of every score"
            for name in lacking
        ]
        unknown = set(names) - {c.name for c in schema.columns} - set(schema.ignore)
        if unknown:
            some = "a column" if len(unknown) == 1 else f"{len(unknown)} columns"
            notes.append(f"the {title} rows have {some} that the schema does not know: not read")
    kept = tuple(column for column in schema.columns if column.name not in missing)
    label = None if schema.label in missing else schema.label
    if not [column for column in kept if column.name != label]:
        raise DataError("the tables share no column besides the label; nothing can be compared")
    return replace(schema, columns=kept, label=label), tuple(notes)


def check_rows(source: Source, schema: Schema, *, title: str) -> Schema:
    """The schema under which a source can be read: columns that it does not name are ignored.

    Raises ``DataError`` if the header breaks the schema.

    Privacy: reads the header and no row.
    """
    declared = {column.name for column in schema.columns}
    own = replace(schema, ignore=tuple(n for n in source.names(schema) if n not in declared))
    try:
        source.check(own)
    except DataError as error:
        raise DataError(f"the {title} rows: {error}") from None
    return own


def read_rows(data: Any, schema: Schema, *, title: str = "given") -> Rows:
    """All rows of a table of any kind that ``open_source`` accepts.

    Columns that the schema does not name are not read. A header that breaks the schema raises
    ``DataError``; no cell ever does.

    Privacy: reads every row without any protection; for evaluation outside the guarantee.
    """
    source = open_source(data)
    own = check_rows(source, schema, title=title)
    blocks = [part for parts in source.partial_sums(_Collect(own)) for part in parts]
    return _joined(blocks, schema)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Block:
    numbers: dict[str, Floats]
    choices: dict[str, Codes]
    broken: Codes
    n_rows: int


class _Collect:
    """Stands where the curator's summation stands, and keeps the rows."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self.recipe, self.block_rows = schema, "{}", _BLOCK_ROWS
        self._encoder = Encoder(schema)
        self.columns = self._encoder.columns

    def __call__(self, blocks: Iterable[Mapping[str, Any]]) -> list[_Block]:
        with np.errstate(all="ignore"):
            return [_block(self._encoder, self._encoder.encode(cells)) for cells in blocks]


def _block(encoder: Encoder, encoded: EncodedRows) -> _Block:
    numbers, choices = {}, {}
    for slot in encoder.slots:
        part = encoded.rows[:, slot.start : slot.start + slot.width]
        if slot.kind == "choice" and slot.column not in numbers:
            choices[slot.column] = part.argmax(axis=1)
        elif slot.kind == "interval":
            present = encoded.rows[:, slot.gate] > 0 if slot.gate is not None else True
            values = _in_units(part[:, 0], encoder.schema.column(slot.column))
            numbers[slot.column] = np.where(present, values, np.nan)
    if encoder.schema.label is not None:
        choices[encoder.schema.label] = encoded.labels
    broken = encoded.broken.sum(axis=0, dtype=np.int64)
    return _Block(numbers=numbers, choices=choices, broken=broken, n_rows=len(encoded.labels))


def _in_units(unit: Floats, column: Column) -> Floats:
    """From [0, 1] back to the column's own range; whole numbers exactly."""
    low, high = bounds(column)
    values: Floats = low + unit * (high - low or 1.0)
    decimals = getattr(column, "decimals", 0)
    return values if decimals is None else np.round(values, decimals)


def _joined(blocks: Sequence[_Block], schema: Schema) -> Rows:
    names = [column.name for column in schema.columns]
    chosen = [c.name for c in schema.columns if isinstance(c, CategoryColumn | BooleanColumn)]
    broken = sum((block.broken for block in blocks), np.zeros(len(names), np.int64))
    return Rows(
        schema=schema,
        n_rows=sum(block.n_rows for block in blocks),
        numbers={n: _column([b.numbers[n] for b in blocks]) for n in names if n not in chosen},
        choices={
            n: _column([b.choices[n] for b in blocks], np.dtype(np.int64))
            for n in names
            if n in chosen
        },
        broken=dict(zip(names, broken.tolist(), strict=True)),
    )


def _column(parts: list[Any], kind: np.dtype[Any] | None = None) -> Any:
    return np.concatenate(parts) if parts else np.zeros(0, kind or np.float64)


def broken_notes(rows: Mapping[str, Rows]) -> Iterator[str]:
    """One sentence for each column with cells that break the schema.

    Privacy: counts of real rows; outside the guarantee.
    """
    for title, table in rows.items():
        for name, count in table.broken.items():
            if count:
                cells = "1 cell breaks" if count == 1 else f"{count} cells break"
                yield f"column {name!r} of the {title} rows: {cells} the schema, corrected"


def _position(bound: float | dt.date) -> float:
    return float((bound - _EPOCH).days if isinstance(bound, dt.date) else bound)
