"""Where a column's encoded cell may lie: finitely many cells, from the schema alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgist.encode import Encoder, Slot
from dpgist.schema import Column, DateColumn, IntegerColumn, NumberColumn

Floats = npt.NDArray[np.float64]

_EXACT_STEPS = 128
_UNIFORM_CELLS = 48
_HALVINGS = 3  # finer cells than the finest features resolve could only blur the atoms


@dataclass(frozen=True, kw_only=True)
class Support:
    """The cells of one column.

    ``points`` (cells, width) are encoded cells, ``start`` the first of their coordinates in the
    row. Within a cell the first coordinate is uniform on plus or minus ``half_widths``; 0 makes
    the cell an atom.

    Privacy: public; follows from the schema.
    """

    column: str
    start: int
    points: Floats
    half_widths: Floats

    @property
    def width(self) -> int:
        """How many coordinates of the row the column fills."""
        return int(self.points.shape[1])


def column_supports(encoder: Encoder) -> tuple[Support, ...]:
    """The cells of every column but the label, in the order of the encoded row.

    A choice has an atom for each option that may be emitted. A numeric column of few values has
    an atom for each; any other is cut into cells that halve again and again towards both bounds,
    and the bounds themselves are atoms: that is where real columns pile up (no gain, full score),
    and no row is needed to know it. A nullable column has one more atom, null.

    Privacy: public facts only.
    """
    slots: dict[str, list[Slot]] = {}
    for slot in encoder.slots:
        slots.setdefault(slot.column, []).append(slot)
    steps = {name: steps_of(encoder.schema.column(name)) for name in slots}
    return tuple(_support(own, steps) for own in slots.values())


def _support(slots: list[Slot], steps: Mapping[str, int | None]) -> Support:
    first = slots[0]
    if first.kind == "choice":
        points = np.eye(first.width)[np.array(first.allowed, dtype=bool)]
        half_widths = np.zeros(len(points))
    else:
        middles, half_widths = _cells(steps[first.column])
        points = middles[:, None]
        if first.gate is not None:
            present = np.column_stack([points, np.ones(len(points)), np.zeros(len(points))])
            points = np.vstack([present, [0.0, 0.0, 1.0]])
            half_widths = np.append(half_widths, 0.0)
    return Support(column=first.column, start=first.start, points=points, half_widths=half_widths)


def _cells(steps: int | None) -> tuple[Floats, Floats]:
    """Middles and half widths on [0, 1]."""
    if steps is not None and steps <= _EXACT_STEPS:
        return np.arange(steps + 1) / max(steps, 1), np.zeros(steps + 1)
    uniform = np.arange(_UNIFORM_CELLS + 1) / _UNIFORM_CELLS
    near = 2.0 ** -np.arange(1, _HALVINGS + 1) / _UNIFORM_CELLS
    edges = np.unique(np.concatenate([uniform, near, 1.0 - near]))
    middles, half_widths = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    return np.append(middles, [0.0, 1.0]), np.append(half_widths, [0.0, 0.0])


def steps_of(column: Column) -> int | None:
    """How many steps from min to max, or None for a continuous or a choice column.

    Privacy: public facts only.
    """
    if isinstance(column, IntegerColumn):
        return column.max - column.min
    if isinstance(column, NumberColumn) and column.decimals is not None:
        return round((column.max - column.min) * 10.0**column.decimals)
    if isinstance(column, DateColumn):
        low, high = column.min, column.max
        return (high - low).days if isinstance(low, dt.date) and isinstance(high, dt.date) else None
    return None
