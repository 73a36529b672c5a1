"""Rows to vectors and back, from the schema alone.

A cell that breaks the schema never raises and never touches another row. It becomes null where
the column is nullable; otherwise a category becomes ``other``, else its ``default``, else falls
into an implicit bucket that always exists, and a number or date is clipped into its range, or
becomes its ``default``, else the middle of the range, if it cannot be read at all; an image is
all zeros. Only ``+ - * /``, rounding and comparisons in float64 touch the values, so a row's bits
do not depend on where it stands.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgist import cells as read
from dpgist.cells import Codes, Floats, Mask
from dpgist.pixels import pixels, raw_images
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    ImageColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A run of coordinates of the encoded row that belongs to one column.

    ``interval``: one coordinate in [0, 1]. ``choice``: a one-hot of ``width`` options;
    ``allowed`` says which options a generator may emit (the implicit bucket for undeclared
    values is never emitted). A nullable interval column has two slots: the interval, and a
    choice (present, null) right after it; the interval is 0 wherever the cell is null
    (``gate`` is the coordinate of "present" that multiplies it). ``image``: ``width`` coordinates
    in [0, 1], one channel after the other; ``shape`` is (channels, height, width).

    Privacy: public; follows from the schema.
    """

    column: str
    kind: Literal["interval", "choice", "image"]
    start: int
    width: int
    allowed: tuple[bool, ...] = ()
    ordered: bool = False
    gate: int | None = None
    shape: tuple[int, int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class EncodedRows:
    """Vectors of a block of rows.

    ``rows`` (n, width) float64; ``labels`` (n,) class codes, 0 if unlabelled; ``broken``
    (n, columns), True where a cell broke the schema.

    Privacy: as private as the rows themselves.
    """

    rows: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    broken: npt.NDArray[np.bool_]


class Encoder:
    """Encode and decode rows by a schema.

    Attributes: ``schema``; ``slots`` (every column but the label, in schema order); ``width``;
    ``columns`` (names in schema order, label included: the order of ``broken``); ``n_classes``
    (1 if unlabelled; the implicit bucket and null included); ``class_allowed`` (which classes a
    generator may emit); ``class_names`` (None for null and, not allowed, the implicit bucket).

    Privacy: built from public facts alone; holds no row.
    """

    schema: Schema
    slots: tuple[Slot, ...]
    width: int
    columns: tuple[str, ...]
    n_classes: int
    class_allowed: tuple[bool, ...]
    class_names: tuple[str | None, ...]

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.columns = tuple(column.name for column in schema.columns)
        codecs = {column.name: _codec(column) for column in schema.columns}
        label = codecs.pop(schema.label) if schema.label is not None else None
        self._label = label if isinstance(label, _Choice) else None
        self._codecs = codecs
        self.slots = tuple(self._place_slots())
        self._starts = {slot.column: slot.start for slot in reversed(self.slots)}
        self.width = sum(slot.width for slot in self.slots)
        self.class_names = self._label.names if self._label else (None,)
        self.class_allowed = self._label.allowed if self._label else (True,)
        self.n_classes = len(self.class_names)

    def encode(self, cells: Mapping[str, Any]) -> EncodedRows:
        """Encode pyarrow arrays (one per column); a bad cell never raises, it is marked broken.

        Privacy: row-wise; row i of the result depends on row i of the cells alone.
        """
        n_rows = len(cells[self.columns[0]])
        rows, labels = np.zeros((n_rows, self.width)), np.zeros(n_rows, np.int64)
        broken = {}
        if self._label:
            name = self._label.column.name
            labels, broken[name] = self._label.encode(cells[name])
        for name, codec in self._codecs.items():
            broken[name] = codec.fill(rows, self._starts[name], cells[name])
        in_order = np.stack([broken[name] for name in self.columns], axis=1)
        return EncodedRows(rows=rows, labels=labels, broken=in_order)

    def decode(self, rows: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> pa.Table:
        """A pyarrow table with the schema's types, in schema order.

        Privacy: row-wise; post-processing when the rows come from a generator.
        """
        rows = np.asarray(rows, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width or not np.isfinite(rows).all():
            raise ValueError(f"rows must be finite and of shape (n, {self.width})")
        decoded = {}
        if self._label:
            decoded[self._label.column.name] = self._label.decode(self._emitted(labels))
        for name, codec in self._codecs.items():
            decoded[name] = codec.take(rows, self._starts[name])
        return pa.table({name: decoded[name] for name in self.columns})

    def _emitted(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        codes, allowed = np.asarray(labels), np.flatnonzero(self.class_allowed)
        if not np.isin(codes, allowed).all():
            raise ValueError(f"labels must be class codes that may be emitted: {allowed.tolist()}")
        return codes

    def _place_slots(self) -> Iterator[Slot]:
        start = 0
        for codec in self._codecs.values():
            for slot in codec.slots(start):
                yield slot
                start += slot.width


@dataclass(frozen=True, kw_only=True)
class _Interval:
    """Integers, numbers and dates: one coordinate, and a choice (present, null) if nullable."""

    column: IntegerColumn | NumberColumn | DateColumn
    low: float
    high: float
    fallback: float
    whole: bool

    @property
    def span(self) -> float:
        return self.high - self.low or 1.0

    def slots(self, start: int) -> tuple[Slot, ...]:
        gate = start + 1 if self.column.nullable else None
        name = self.column.name
        interval = Slot(column=name, kind="interval", start=start, width=1, gate=gate)
        if gate is None:
            return (interval,)
        return interval, Slot(column=name, kind="choice", start=gate, width=2, allowed=(True, True))

    def fill(self, rows: Floats, start: int, cells: pa.Array) -> Mask:
        values, absent = self._read(cells)
        fitting = np.clip(np.rint(values) if self.whole else values, self.low, self.high)
        # True where rounding or clipping changed the value, and for NaN, which equals nothing.
        broken: Mask = fitting != values
        if self.column.nullable:
            null = absent | broken
            fitting[null] = self.low
            rows[:, start + 1], rows[:, start + 2] = ~null, null
            broken &= ~absent
        else:
            fitting[np.isnan(values)] = self.fallback
        rows[:, start] = (fitting - self.low) / self.span
        return broken

    def take(self, rows: Floats, start: int) -> pa.Array:
        values = self.low + rows[:, start] * self.span
        if self.whole:
            values = np.rint(values)
        elif isinstance(self.column, NumberColumn) and self.column.decimals is not None:
            values = np.round(values, self.column.decimals)
        values = np.clip(values, self.low, self.high)
        null = rows[:, start + 2] > rows[:, start + 1] if self.column.nullable else None
        if isinstance(self.column, NumberColumn):
            return pa.array(values, pa.float64(), mask=null)
        if isinstance(self.column, IntegerColumn):
            return pa.array(values.astype(np.int64), pa.int64(), mask=null)
        return pa.array(values.astype(np.int32), pa.int32(), mask=null).cast(pa.date32())

    def _read(self, cells: pa.Array) -> tuple[Floats, Mask]:
        if isinstance(self.column, DateColumn):
            return read.days(cells, self.column.format)
        return read.numbers(cells)


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """Categories and booleans: the values, null if nullable, and ``other`` or the bucket."""

    column: CategoryColumn | BooleanColumn
    values: tuple[str, ...]
    other: str | None
    default: int | None

    @property
    def names(self) -> tuple[str | None, ...]:
        return (*self.values, *((None,) if self.column.nullable else ()), self.other)

    @property
    def allowed(self) -> tuple[bool, ...]:
        return (True,) * (len(self.names) - 1) + (self.other is not None,)

    def slots(self, start: int) -> tuple[Slot, ...]:
        return (
            Slot(
                column=self.column.name,
                kind="choice",
                start=start,
                width=len(self.names),
                allowed=self.allowed,
                ordered=isinstance(self.column, CategoryColumn) and self.column.ordered,
            ),
        )

    def encode(self, cells: pa.Array) -> tuple[Codes, Mask]:
        """Codes of the options, and where the cell broke the schema."""
        codes, absent = self._read(cells)
        bucket, null = len(self.names) - 1, len(self.values)
        if self.other is not None:
            codes[(codes < 0) & ~absent] = bucket
        if self.column.nullable:
            codes[absent] = null
        broken = codes < 0
        if self.column.nullable:
            codes[broken] = null
        elif self.other is None and self.default is not None:
            codes[broken] = self.default
        else:
            codes[broken] = bucket
        return codes, broken

    def decode(self, codes: npt.NDArray[np.int64]) -> pa.Array:
        if isinstance(self.column, CategoryColumn):
            return pa.array(self.names, pa.string()).take(pa.array(codes))
        null = codes == len(self.values) if self.column.nullable else None
        return pa.array(codes == 1, pa.bool_(), mask=null)

    def fill(self, rows: Floats, start: int, cells: pa.Array) -> Mask:
        codes, broken = self.encode(cells)
        rows[np.arange(len(rows)), start + codes] = 1.0
        return broken

    def take(self, rows: Floats, start: int) -> pa.Array:
        allowed = np.flatnonzero(self.allowed)
        return self.decode(allowed[rows[:, start + allowed].argmax(axis=1)])

    def _read(self, cells: pa.Array) -> tuple[Codes, Mask]:
        if isinstance(self.column, BooleanColumn):
            return read.truths(cells)
        return read.choices(cells, self.values)


@dataclass(frozen=True, kw_only=True)
class _Image:
    """Images: a coordinate for each channel of each pixel, channels first as networks want them."""

    column: ImageColumn

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.column.channels, self.column.height, self.column.width

    @property
    def n_pixels(self) -> int:
        return self.column.height * self.column.width

    def slots(self, start: int) -> tuple[Slot, ...]:
        name, width = self.column.name, self.column.n_values
        return (Slot(column=name, kind="image", start=start, width=width, shape=self.shape),)

    def fill(self, rows: Floats, start: int, cells: pa.Array) -> Mask:
        values, broken = pixels(cells, self.column)
        channels = self.column.channels
        by_channel = values.reshape(-1, self.n_pixels, channels).swapaxes(1, 2)
        part = rows[:, start : start + self.column.n_values]
        np.divide(by_channel, 255.0, out=part.reshape(-1, channels, self.n_pixels))
        return broken

    def take(self, rows: Floats, start: int) -> pa.Array:
        part = rows[:, start : start + self.column.n_values]
        values = np.rint(np.clip(part, 0.0, 1.0) * 255.0).astype(np.uint8)
        by_pixel = values.reshape(-1, self.column.channels, self.n_pixels).swapaxes(1, 2)
        return raw_images(by_pixel.reshape(values.shape))


def _codec(column: Column) -> _Interval | _Choice | _Image:
    if isinstance(column, ImageColumn):
        return _Image(column=column)
    if isinstance(column, BooleanColumn):
        default = None if column.default is None else int(column.default)
        return _Choice(column=column, values=("false", "true"), other=None, default=default)
    if isinstance(column, CategoryColumn):
        default = None if column.default is None else column.values.index(column.default)
        return _Choice(column=column, values=column.values, other=column.other, default=default)
    low, high = position(column.min), position(column.max)
    whole = not isinstance(column, NumberColumn)
    fallback = low + (high - low) / 2 if column.default is None else position(column.default)
    if whole:
        fallback = float(np.floor(fallback))
    return _Interval(column=column, low=low, high=high, fallback=fallback, whole=whole)


def option_names(column: BooleanColumn | CategoryColumn) -> tuple[str | None, ...]:
    """A choice's options in the order of its coordinates; None is null and, last, the bucket.

    Privacy: public facts only.
    """
    codec = _codec(column)
    assert isinstance(codec, _Choice)  # what the argument's type makes of it
    return codec.names


def position(bound: float | dt.date | str) -> float:
    """Where a bound lies as a number; dates are days since 1970.

    Privacy: public facts only.
    """
    if isinstance(bound, str):
        bound = dt.date.fromisoformat(bound)
    return float((bound - _EPOCH).days if isinstance(bound, dt.date) else bound)
