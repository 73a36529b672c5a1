"""The finest cells of a column that a release counts: public, from the schema alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dpgist.encode import Encoder, Slot
from dpgist.features.support import Support, steps_of

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

BRANCHES = 8
"""How many neighbours share a node of the tree."""
_FLAT = 128  # so few leaves need no tree above them
_HALVINGS = 8  # of a continuous column, towards each bound
_JUST_ABOVE = 2.0**-60  # where the interval beside the atom at 0 begins


@dataclass(frozen=True, kw_only=True)
class Leaves:
    """The finest cells of one column, in order.

    ``start`` is the first coordinate of the column in the encoded row. A choice has a leaf for
    each option that may be emitted; ``options`` are their places among the ``width`` coordinates.
    A numeric column has leaves that begin at ``firsts``: positions in steps from the minimum if
    the column has ``steps``, else in [0, 1]. Its first and its last leaf are the bounds
    themselves. A nullable one has one more leaf after those, null.

    Privacy: public; follows from the schema.
    """

    column: str
    start: int
    width: int
    options: tuple[int, ...] = ()
    firsts: Floats | None = None
    steps: int | None = None
    nullable: bool = False

    @property
    def numeric(self) -> bool:
        """Whether leaves have an order."""
        return self.firsts is not None

    @property
    def ordered(self) -> int:
        """How many leaves stand in an order: all but null, or none."""
        return 0 if self.firsts is None else len(self.firsts)

    @property
    def count(self) -> int:
        """How many leaves there are."""
        return self.ordered + int(self.nullable) if self.numeric else len(self.options)

    @property
    def levels(self) -> tuple[int, ...]:
        """Sizes of the tree's levels, leaves first; eight neighbours share a node above them."""
        sizes = [self.count]
        nodes = self.ordered
        while nodes > _FLAT or (len(sizes) > 1 and nodes > 2 * BRANCHES):
            nodes = -(-nodes // BRANCHES)
            sizes.append(nodes)
        return tuple(sizes)

    def codes(self, rows: Tensor) -> Tensor:
        """The leaf of every encoded row; ``count`` where it has none (an undeclared option).

        Privacy: row-wise.
        """
        part = rows[:, self.start : self.start + self.width]
        if self.firsts is None:
            places = torch.full((self.width,), self.count)
            places[list(self.options)] = torch.arange(self.count)
            return places[part.argmax(dim=1)]
        positions = part[:, 0] if self.steps is None else (part[:, 0] * self.steps).round()
        edges = torch.from_numpy(self.firsts[1:]).to(part.dtype)
        codes = torch.bucketize(positions.contiguous(), edges, right=True)
        if self.nullable:
            codes = torch.where(part[:, 2] > part[:, 1], self.ordered, codes)
        return codes

    def support(self, firsts: Sequence[int]) -> Support:
        """Cells that begin at some of the leaves, each up to the next; null stays on its own.

        Whole steps are spread evenly over a cell: it reaches half a step beyond its outer ones.

        Privacy: public facts and released places only.
        """
        if self.firsts is None:
            return Support(
                column=self.column,
                start=self.start,
                points=np.eye(self.width)[list(self.options)],
                half_widths=np.zeros(self.count),
            )
        lows, highs = self._ends(np.asarray(firsts, dtype=np.int64))
        points, half_widths = ((lows + highs) / 2)[:, None], (highs - lows) / 2
        if self.nullable:
            ones, zeros = np.ones(len(points)), np.zeros(len(points))
            points = np.vstack([np.column_stack([points, ones, zeros]), [0.0, 0.0, 1.0]])
            half_widths = np.append(half_widths, 0.0)
        return Support(column=self.column, start=self.start, points=points, half_widths=half_widths)

    def widths(self, firsts: Sequence[int] | Codes) -> Floats:
        """How wide cells are that begin at some of the leaves; a bound by itself is narrow.

        Privacy: public facts and released places only.
        """
        lows, highs = self._ends(np.asarray(firsts, dtype=np.int64))
        narrowest = 2.0**-30 if self.steps is None else 1.0 / max(self.steps, 1)
        return np.maximum(highs - lows, narrowest)

    def _ends(self, cells: Codes) -> tuple[Floats, Floats]:
        """First and last place of each cell in [0, 1]."""
        assert self.firsts is not None  # only numeric columns come here
        last_leaves = np.append(cells[1:], self.ordered) - 1
        if self.steps is None:
            ends = np.append(self.firsts[1:], 1.0)[last_leaves]
            lows = np.where(self.firsts[cells] <= _JUST_ABOVE, 0.0, self.firsts[cells])
            return lows, np.where(last_leaves == 0, 0.0, ends)
        lows = self.firsts[cells]
        highs = np.append(self.firsts[1:] - 1, self.steps)[last_leaves]
        reach = np.where(highs > lows, 0.5, 0.0)
        unit = max(self.steps, 1)
        return (lows - reach) / unit, (highs + reach) / unit


def column_leaves(encoder: Encoder, *, most: int) -> tuple[Leaves, ...]:
    """The leaves of every column but the label, about ``most`` for a numeric one.

    Privacy: public facts only.
    """
    slots: dict[str, list[Slot]] = {}
    for slot in encoder.slots:
        slots.setdefault(slot.column, []).append(slot)
    return tuple(
        _leaves(own, steps_of(encoder.schema.column(name)), most) for name, own in slots.items()
    )


def _leaves(slots: list[Slot], steps: int | None, most: int) -> Leaves:
    first = slots[0]
    if first.kind == "choice":
        options = tuple(i for i, allowed in enumerate(first.allowed) if allowed)
        return Leaves(column=first.column, start=first.start, width=first.width, options=options)
    return Leaves(
        column=first.column,
        start=first.start,
        width=sum(slot.width for slot in slots),
        firsts=_whole_firsts(steps, most) if steps is not None else _firsts(most),
        steps=steps,
        nullable=first.gate is not None,
    )


def _whole_firsts(steps: int, most: int) -> Floats:
    """A leaf for every step if they are few; else ranges that halve towards both bounds."""
    if steps < most:
        return np.arange(steps + 1, dtype=np.float64)
    inner = np.ceil(_edges(most, int(np.log2(steps / most))) * (steps - 1)) + 1
    return np.unique(np.concatenate([[0.0, 1.0], inner[inner < steps], [float(steps)]]))


def _firsts(most: int) -> Floats:
    inner = _edges(most, _HALVINGS)
    return np.concatenate([[0.0, _JUST_ABOVE], inner, [1.0]])


def _edges(most: int, halvings: int) -> Floats:
    """Inner edges on (0, 1): evenly spaced, and closer and closer towards 0 and 1."""
    even = np.arange(1, most) / most
    near = 2.0 ** -np.arange(1, min(halvings, 20) + 1) / most
    return np.unique(np.concatenate([even, near, 1.0 - near]))
