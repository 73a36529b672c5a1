"""What rows are asked for: values of columns, as parts of their cells."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpgist.encode import Encoder, option_names, position
from dpgist.features.support import Support, steps_of
from dpgist.generators.drawing import Floats, Part, whole
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    ImageColumn,
    NumberColumn,
    Schema,
)

_SAME = 1e-12
_CHOICES = BooleanColumn | CategoryColumn


def label_code(encoder: Encoder, value: Any) -> int:
    """The class code of a label's value; raises :class:`ValueError` if there is none.

    Privacy: public facts only.
    """
    column = encoder.schema.column(str(encoder.schema.label))
    classes = enumerate(zip(encoder.class_names, encoder.class_allowed, strict=True))
    allowed = {name: code for code, (name, emitted) in classes if emitted}
    return _chosen(column, allowed, value)


def parts_of(
    schema: Schema, supports: Mapping[str, Support], where: Mapping[str, Any]
) -> dict[str, Part]:
    """What each condition leaves of its column's cells.

    A choice takes a value; a number or date a value, a range ``a..b`` or a pair (a, b), both ends
    included and rounded inward to what a cell can hold. None, or an empty text, is null.

    Privacy: public facts only.
    """
    return {
        name: _part(schema.column(name), supports[name], value) for name, value in where.items()
    }


def ranges_of(schema: Schema, where: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """The first and last value of each number or date asked for, as the encoder counts.

    Privacy: public facts only.
    """
    columns = {name: schema.column(name) for name in where}
    return {
        name: _ends(column, where[name])
        for name, column in columns.items()
        if not isinstance(column, _CHOICES) and not _is_null(where[name])
    }


def kept_within(table: pa.Table, ranges: Mapping[str, tuple[float, float]]) -> pa.Table:
    """Move cells that decoding has rounded out of the range asked for back to its end.

    Privacy: row-wise; post-processing when the rows come from a generator.
    """
    for name, ends in ranges.items():
        cells = table[name]
        first, last = (_cell(end, cells.type) for end in ends)
        cells = pc.max_element_wise(cells, first, skip_nulls=False)
        cells = pc.min_element_wise(cells, last, skip_nulls=False)
        table = table.set_column(table.column_names.index(name), name, cells)
    return table


def refuse_unknown(schema: Schema, where: Mapping[str, Any]) -> None:
    """Raise :class:`ValueError` for a column that the schema does not declare.

    Privacy: public facts only.
    """
    names = [column.name for column in schema.columns]
    unknown = [name for name in where if name not in names]
    if unknown:
        raise ValueError(
            f"there is no column {', '.join(map(repr, unknown))}; "
            f"there are {', '.join(map(repr, names))}"
        )


def _part(column: Column, support: Support, value: Any) -> Part:
    if isinstance(column, _CHOICES):
        places = support.points.argmax(axis=1).tolist()
        names = option_names(column)
        cells = {names[place]: cell for cell, place in enumerate(places)}
        return _only(support, np.arange(len(places)) == _chosen(column, cells, value))
    if isinstance(column, ImageColumn):
        raise ValueError(f"rows cannot be asked for by the image column {column.name!r}")
    if _is_null(value):
        if support.width == 1:
            raise ValueError(f"{column.name!r} has no null")
        return _only(support, support.points[:, 2] == 1.0)
    span = position(column.max) - position(column.min) or 1.0
    steps = steps_of(column)
    reach = 0.5 / max(steps, 1) if steps is not None else 0.0
    first, last = ((end - position(column.min)) / span for end in _ends(column, value))
    present = np.ones(len(support.points)) if support.width == 1 else support.points[:, 1]
    if steps is None and first == last:
        return _at(support, first, present)
    return _between(support, first, last, reach, present)


def _chosen(column: Column, codes: Mapping[str | None, int], value: Any) -> int:
    """The code of a choice's value."""
    text = str(value).lower() if isinstance(value, bool | np.bool_) else str(value)
    name = None if value is None or (text == "" and "" not in codes) else text
    if name not in codes:
        known = ", ".join("null" if own is None else repr(own) for own in codes)
        raise ValueError(f"{column.name!r} has no value {text!r}; it has {known}")
    return codes[name]


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value == "")


def _ends(column: Any, value: Any) -> tuple[float, float]:
    """The first and last value within the range asked for that a cell of the column can hold."""
    low, high = _range(column, value)
    decimals = column.decimals if isinstance(column, NumberColumn) else 0
    if decimals is None:
        return low, high
    scale = 10.0**decimals
    least, most = position(column.min), position(column.max)
    # The bounds can be held whatever their decimals are, because decoding clips to them.
    first = low if low == least else min(_rounded_up(low, scale), most)
    last = high if high == most else max(-_rounded_up(-high, scale) + 0.0, least)  # no -0
    if first > last:
        kind = f"numbers of {decimals} decimals" if decimals else "whole numbers"
        asked = (
            f"{_short(low)} is none" if low == high else f"{_short(low)}..{_short(high)} has none"
        )
        raise ValueError(
            f"{column.name!r} holds {kind} only, and {asked}; "
            f"the nearest are {_short(last)} and {_short(first)}"
        )
    return first, last


def _rounded_up(value: float, scale: float) -> float:
    """The least multiple of 1 / scale that is not below the value, as decoding writes it."""
    whole = round(value * scale)
    return (whole if whole / scale >= value else whole + 1) / scale


def _short(value: float) -> str:
    return repr(value).removesuffix(".0")


def _cell(end: float, kind: pa.DataType) -> pa.Scalar:
    """An end as a cell of its column; dates are counted in days."""
    if pa.types.is_date(kind):
        return pa.scalar(int(end), pa.int32()).cast(kind)
    return pa.scalar(end).cast(kind)


def _range(column: Any, value: Any) -> tuple[float, float]:
    """Both ends of the range asked for, as the encoder counts."""
    ends = value.split("..", 1) if isinstance(value, str) else value
    if not isinstance(ends, list | tuple):
        ends = (ends,)
    try:
        low, high = (_number(column, end) for end in (ends[0], ends[-1]))
    except (TypeError, ValueError, IndexError):
        kind = "a date YYYY-MM-DD" if isinstance(column, DateColumn) else "a number"
        raise ValueError(f"{column.name!r} takes {kind}, or a range a..b of such") from None
    if len(ends) == 2 and low > high:
        raise ValueError(f"{column.name!r} takes a range a..b from low to high; swap the ends")
    if len(ends) > 2 or not position(column.min) <= low <= high <= position(column.max):
        raise ValueError(
            f"{column.name!r} lies between {column.min} and {column.max}; ask for a value or a "
            "range a..b within"
        )
    return low, high


def _number(column: Column, end: Any) -> float:
    if isinstance(column, DateColumn):
        day = end.strip() if isinstance(end, str) else end
        return position(dt.date.fromisoformat(day) if isinstance(day, str) else day)
    number = float(end)
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number + 0.0  # no -0


def _only(support: Support, cells: Any) -> Part:
    everything = whole(support)
    return Part(
        weights=np.asarray(cells, dtype=np.float64), lows=everything.lows, highs=everything.highs
    )


def _between(support: Support, first: float, last: float, reach: float, present: Floats) -> Part:
    """The parts of all cells within a range, by their share of the cell; atoms whole or not.

    Whole steps reach half a step beyond both ends.
    """
    cells = whole(support)
    first, last = first - reach, last + reach
    # Under a bound that is no whole step, atoms lie between the steps and must not all be missed.
    slack = min(_SAME, reach / 2)
    lows, highs = np.maximum(cells.lows, first), np.minimum(cells.highs, last)
    widths = cells.highs - cells.lows
    atoms = (widths <= 0) & (cells.lows >= first - slack) & (cells.highs <= last + slack)
    shares = np.clip(highs - lows, 0.0, None) / np.where(widths > 0, widths, 1.0)
    return Part(
        weights=np.where(widths > 0, shares, atoms.astype(np.float64)) * present,
        lows=np.where(widths > 0, lows, cells.lows),
        highs=np.where(widths > 0, np.maximum(lows, highs), cells.highs),
    )


def _at(support: Support, place: float, present: Floats) -> Part:
    """A single place of a continuous column: its atom, or the density of the cells around it."""
    cells = whole(support)
    widths = cells.highs - cells.lows
    here = (cells.lows <= place + _SAME) & (cells.highs >= place - _SAME) & (present > 0)
    atoms = here & (widths <= 0) & (cells.lows == place)
    density = np.where(widths > 0, 1.0 / np.where(widths > 0, widths, 1.0), 0.0)
    weights = np.where(atoms.any(), atoms.astype(np.float64), here * density)
    return Part(
        weights=weights, lows=np.full(len(widths), place), highs=np.full(len(widths), place)
    )
