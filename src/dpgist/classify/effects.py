"""Filters in the columns' own units: how much of a score is a year, a kilogram, a category.

The encoder scales a number to [0, 1] over its declared range and makes a category a one-hot block.
Undone here: a number's weight is divided by its range, and a block becomes one signed size for
each option. Sizes are counted from the *middle row*: numbers in the middle of their range, every
option in equal shares. Against it a filter has one value for each cell, whereas the weights of a
one-hot block alone could be moved up and down together with the bias.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgist.encode import Encoder, Slot, option_names, position
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

Floats = npt.NDArray[np.float64]
NULL = "null"
_YEAR = 365.25


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What one column does to a score, in its own units.

    ``sizes`` pairs cells with what they add to the score beside the middle row: every option of a
    choice; the smallest and the largest number of an interval, in between it is a straight line
    of ``slope`` per unit (a day for dates); null where it may occur. ``span`` is the length of the
    declared range, None for choices.

    Privacy: post-processing of a released classifier.
    """

    column: str
    sizes: tuple[tuple[str, float], ...]
    span: float | None = None
    days: bool = False

    @property
    def slope(self) -> float | None:
        """How much the score changes by when the column grows by 1 (dates: by a day)."""
        return None if self.span is None else self._change / (self.span or 1.0)

    @property
    def strength(self) -> float:
        """The largest difference that this column can make to the score."""
        values = [size for _, size in self.sizes]
        return max(values) - min(values)

    def bars(self) -> Iterator[tuple[str, float]]:
        """Signed sizes with a label: a number's change over its range, each option's own size."""
        rest = self.sizes
        if self.span is not None:
            (low, _), (high, _), *others = self.sizes
            yield f"{self.column}  {low} → {high}", self._change
            rest = tuple(others)
        for option, size in rest:
            yield f"{self.column} = {option}", size

    def text(self, most: int = 4) -> str:
        """The effect in a line: the slope of a number, the strongest options of a choice."""
        parts = [] if self.slope is None else [self._slope_text(self.slope)]
        rest = self.sizes if self.slope is None else self.sizes[2:]
        strongest = sorted(rest, key=lambda pair: -abs(pair[1]))[:most]
        parts += [f"{option} {signed(size)}" for option, size in strongest]
        if len(rest) > most:
            parts.append(f"{len(rest) - most} more options")
        return ", ".join(parts)

    @property
    def _change(self) -> float:
        return self.sizes[1][1] - self.sizes[0][1]

    def _slope_text(self, slope: float) -> str:
        (low, _), (high, _) = self.sizes[:2]
        step, word = _step(self.span or 0.0, days=self.days)
        return f"{signed(slope * step)} per {word} ({low} to {high}: {signed(self._change)})"


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one cell of a row adds to a score, beside the middle row; ``cell`` as text.

    Privacy: as confidential as the row.
    """

    column: str
    cell: str
    size: float

    def text(self) -> str:
        """The contribution in a line."""
        return f"{self.column} = {self.cell}: {signed(self.size)}"


def effects(filter_: Floats, schema: Schema) -> tuple[Effect, ...]:
    """A filter (inputs,) as effects of the schema's columns, the strongest first.

    Privacy: post-processing of a released classifier.
    """
    encoder = _table_encoder(schema, filter_)
    found = [_effect(encoder, filter_, column) for column in _inputs(schema)]
    return tuple(sorted(found, key=lambda effect: -effect.strength))


def contributions(filter_: Floats, row: Floats, schema: Schema) -> tuple[Contribution, ...]:
    """What each cell of one encoded row adds under a filter, the largest first.

    Privacy: as confidential as the row.
    """
    encoder = _table_encoder(schema, filter_)
    sizes = filter_ * (row - middle_row(encoder))
    texts = cell_texts(encoder, row)
    found = [
        Contribution(
            column=column.name,
            cell=texts[column.name],
            size=float(sum(sizes[_coordinates(slot)].sum() for slot in _slots(encoder, column))),
        )
        for column in _inputs(schema)
    ]
    return tuple(sorted(found, key=lambda part: -abs(part.size)))


def middle_row(encoder: Encoder) -> Floats:
    """The encoded row that sizes are counted from: middle of each range, options in equal shares.

    Privacy: public; follows from the schema.
    """
    middle = np.zeros(encoder.width)
    gates = {slot.gate for slot in encoder.slots}
    for slot in encoder.slots:
        if slot.kind == "interval":
            middle[slot.start] = 0.5
        elif slot.start in gates:
            middle[slot.start] = 1.0  # present
        elif slot.kind == "choice":
            middle[_coordinates(slot)] = np.array(slot.allowed) / sum(slot.allowed)
    return middle


def cell_texts(encoder: Encoder, row: Floats) -> dict[str, str]:
    """One encoded row as texts, column by column.

    Privacy: as confidential as the row.
    """
    label = np.flatnonzero(encoder.class_allowed)[:1]
    table = encoder.decode(row[None, :], label)
    cells = {name: table[name][0].as_py() for name in table.column_names}
    texts = {name: _cell(cell) for name, cell in cells.items() if name != encoder.schema.label}
    gates = {slot.gate for slot in encoder.slots}
    for slot in encoder.slots:  # the bucket for undeclared values cannot be decoded
        last = slot.start + slot.width - 1
        if slot.kind == "choice" and slot.start not in gates and not slot.allowed[-1] and row[last]:
            texts[slot.column] = "(undeclared)"
    return texts


def as_images(filters: Floats, schema: Schema) -> Floats:
    """Filters (..., inputs) of an image schema as (..., height, width), or with channels last.

    Privacy: post-processing of a released classifier.
    """
    if schema.image is None:
        raise ValueError("this schema has no image column; its filters are not images")
    image = schema.image
    shaped = filters.reshape(*filters.shape[:-1], image.channels, image.height, image.width)
    return shaped[..., 0, :, :] if image.channels == 1 else np.moveaxis(shaped, -3, -1)


def _table_encoder(schema: Schema, filter_: Floats) -> Encoder:
    if schema.image is not None:
        raise ValueError("an image has no columns; look at its filters as images")
    encoder = Encoder(schema)
    if filter_.shape != (encoder.width,):
        raise ValueError(f"a filter of this schema has {encoder.width} numbers")
    return encoder


def _inputs(schema: Schema) -> list[Column]:
    return [column for column in schema.columns if column.name != schema.label]


def _slots(encoder: Encoder, column: Column) -> list[Slot]:
    return [slot for slot in encoder.slots if slot.column == column.name]


def _coordinates(slot: Slot) -> slice:
    return slice(slot.start, slot.start + slot.width)


def _effect(encoder: Encoder, filter_: Floats, column: Column) -> Effect:
    first, *null = _slots(encoder, column)
    weights = filter_[_coordinates(first)]
    if isinstance(column, CategoryColumn | BooleanColumn):
        return _choice(column, weights, first)
    assert isinstance(column, IntegerColumn | NumberColumn | DateColumn)  # images were refused
    weight = float(weights[0])
    sizes = [(_cell(column.min), -weight / 2), (_cell(column.max), weight / 2)]
    if null:
        present, absent = filter_[_coordinates(null[0])]
        sizes.append((NULL, float(absent - present - weight / 2)))
    return Effect(
        column=column.name,
        sizes=tuple(sizes),
        span=position(column.max) - position(column.min),
        days=isinstance(column, DateColumn),
    )


def _choice(column: CategoryColumn | BooleanColumn, weights: Floats, slot: Slot) -> Effect:
    allowed = np.array(slot.allowed)
    sizes = weights - weights[allowed].mean()
    names = [NULL if name is None else name for name in option_names(column)]
    kept = zip(names, sizes.tolist(), slot.allowed, strict=True)
    return Effect(column=column.name, sizes=tuple((name, size) for name, size, may in kept if may))


def _step(span: float, *, days: bool) -> tuple[float, str]:
    """A round step, a tenth of the range or so, and its name."""
    if days:
        return (_YEAR, "year") if span > 2 * _YEAR else (1.0, "day")
    step = 10.0 ** (round(math.log10(span)) - 1) if span > 0 else 1.0
    return step, f"{step:,.0f}" if step >= 1 else f"{step:g}"


def _cell(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def signed(value: float) -> str:
    """A size with its sign, short. Privacy: writes what it is given."""
    return f"{value:+.3g}"
