"""Numeric columns stretched by released histograms: each mode gets the room of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.encode import Slot
from dpgist.features.binning import tree_masses
from dpgist.features.leaves import Leaves

Floats = npt.NDArray[np.float64]

_EVEN = 0.1  # of a column's room is shared evenly, so that empty stretches keep some of it

_SHORTEST = 1e-12  # two knots may coincide once rounded to float32


@dataclass(frozen=True, kw_only=True)
class Knots:
    """A rising broken line on [0, 1] for the numeric column at ``start``.

    ``gate`` is the coordinate of "present", where the column may be null.

    Privacy: public facts and released numbers.
    """

    start: int
    gate: int | None
    xs: Floats
    ys: Floats


class Stretch(nn.Module):
    r"""Replace each number by the released share of rows below it, on a broken line.

    .. math:: v_j = (1 - e)\, \tilde F_j(x_j) + e\, x_j

    Symbols: :math:`\tilde F_j` is the distribution function by the noisy histogram of column j,
    half of a leaf's own share counted at its middle; :math:`e` is a tenth. Rows that a column
    crowds into narrow modes are spread evenly, so that one length scale suits all columns. Null
    stays 0.

    Privacy: none by itself; a row-wise map whose lines come from the schema and a release.
    """

    def __init__(self, lines: Sequence[Knots]) -> None:
        super().__init__()
        self._lines = tuple(lines)
        for number, line in enumerate(lines):
            self.register_buffer(f"xs_{number}", torch.tensor(line.xs))
            self.register_buffer(f"ys_{number}", torch.tensor(line.ys))

    def forward(self, rows: Tensor) -> Tensor:
        parts, done = [], 0
        for number, line in enumerate(self._lines):
            parts.append(rows[:, done : line.start])
            value = self._value(number, rows[:, line.start])
            present = 1.0 if line.gate is None else rows[:, line.gate]
            parts.append((value * present)[:, None])
            done = line.start + 1
        return torch.cat([*parts, rows[:, done:]], dim=1)

    def column(self, start: int, values: Floats) -> Floats | None:
        """The stretched values of the column at ``start``; None if it is not a number.

        Privacy: post-processing of a release.
        """
        line = next((line for line in self._lines if line.start == start), None)
        return None if line is None else np.interp(values, line.xs, line.ys)

    def _value(self, number: int, values: Tensor) -> Tensor:
        xs, ys = self.get_buffer(f"xs_{number}"), self.get_buffer(f"ys_{number}")
        exact = values.to(xs.dtype)
        place = torch.bucketize(exact.detach().contiguous(), xs, right=True)
        place = place.clamp(1, len(xs) - 1)
        run = (xs[place] - xs[place - 1]).clamp_min(_SHORTEST)
        slope = (ys[place] - ys[place - 1]) / run
        return (ys[place - 1] + (exact - xs[place - 1]) * slope).to(values.dtype)


def stretch_by(
    slots: Sequence[Slot],
    leaves: Sequence[Leaves],
    counts: Sequence[Sequence[Floats]],
    total: float,
) -> Stretch:
    """The stretch of every numeric column by the noisy counts of its tree's levels.

    Privacy: post-processing of a release.
    """
    gates = {slot.start: slot.gate for slot in slots if slot.kind == "interval"}
    return Stretch(
        [
            _knots(own, levels, total, gates[own.start])
            for own, levels in zip(leaves, counts, strict=True)
            if own.numeric
        ]
    )


def _knots(leaves: Leaves, levels: Sequence[Floats], total: float, gate: int | None) -> Knots:
    null = min(max(float(levels[0][-1]), 0.0), total) if leaves.nullable else 0.0
    masses = tree_masses([levels[0][: leaves.ordered], *levels[1:]], total - null)
    shares = masses / masses.sum() if masses.sum() > 0 else np.full(len(masses), 1 / len(masses))
    middles = leaves.support(range(leaves.ordered)).points[: leaves.ordered, 0]
    below = np.cumsum(shares) - shares / 2
    xs, first = np.unique(middles, return_index=True)
    ys = (1 - _EVEN) * below[first] + _EVEN * xs
    if len(xs) == 1:  # a column of one value: a line needs two ends
        xs, ys = np.array([xs[0], xs[0] + 1.0]), np.repeat(ys, 2)
    return Knots(start=leaves.start, gate=gate, xs=xs, ys=ys)
