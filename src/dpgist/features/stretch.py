"""Numeric columns stretched by released histograms: each mode gets the room of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.features.binning import Binning
from dpgist.features.leaves import Leaves
from dpgist.features.support import Support

Floats = npt.NDArray[np.float64]

_NUMBERS = ("cells", "lows", "widths", "floors", "shares")


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Cells of one numeric column: where they lie, and which part of [0, 1] each one gets.

    ``cells`` is the cell of every leaf.
    """

    leaves: Leaves
    cells: npt.NDArray[np.int64]
    lows: Floats
    widths: Floats
    floors: Floats
    shares: Floats


class Stretch(nn.Module):
    r"""Replace each number by the released share of rows below it.

    .. math:: v_j = \tilde F_j(x_j)

    Symbols: :math:`\tilde F_j` is the distribution function of column j by its noisy histogram:
    a cell of the column gets as much room as it has rows, a value within it its place, and an
    atom the middle. What a column crowds into narrow modes is spread out evenly, so that one
    length scale suits every column and every mode. Null stays 0.

    ``leaves``, ``binnings`` and ``most_leaves`` say how columns are cut, as in
    :class:`~dpgist.features.marginal.MarginalMap`.

    Privacy: none by itself; a row-wise map whose cells come from the schema and a release.
    """

    def __init__(
        self, leaves: Sequence[Leaves], binnings: Sequence[Binning], *, most_leaves: int
    ) -> None:
        super().__init__()
        self.leaves, self.binnings = tuple(leaves), tuple(binnings)
        self.most_leaves = most_leaves
        cut = zip(leaves, binnings, strict=True)
        self._lines = [_line(own, binning) for own, binning in cut if own.numeric]
        for number, line in enumerate(self._lines):
            for name in _NUMBERS:
                self.register_buffer(f"{name}_{number}", torch.tensor(getattr(line, name)))

    def forward(self, rows: Tensor) -> Tensor:
        parts, done = [], 0
        for number, line in enumerate(self._lines):
            start = line.leaves.start
            value = self._value(number, line.leaves, rows)
            if line.leaves.nullable:
                value = value * rows[:, start + 1]
            parts += [rows[:, done:start], value[:, None]]
            done = start + 1
        return torch.cat([*parts, rows[:, done:]], dim=1)

    def supports(self) -> tuple[Support, ...]:
        """The cells of every column after stretching: still evenly filled, so means are exact.

        Privacy: post-processing of a release.
        """
        lines = {line.leaves.start: line for line in self._lines}
        cut = zip(self.leaves, self.binnings, strict=True)
        return tuple(_stretched(own.support(b.firsts), lines.get(own.start)) for own, b in cut)

    def _value(self, number: int, leaves: Leaves, rows: Tensor) -> Tensor:
        cells, lows, widths, floors, shares = (
            self.get_buffer(f"{name}_{number}") for name in _NUMBERS
        )
        cell = cells[leaves.codes(rows.detach()).clamp_max(leaves.ordered - 1)]
        wide = widths[cell] > 0
        gap = rows[:, leaves.start].to(lows.dtype) - lows[cell]
        place = torch.where(wide, gap / torch.where(wide, widths[cell], 1.0), 0.5)
        return (floors[cell] + place.clamp(0.0, 1.0) * shares[cell]).to(rows.dtype)


def _line(leaves: Leaves, binning: Binning) -> _Line:
    support = leaves.support(binning.firsts)
    n_cells = len(binning.firsts)
    shares = np.maximum(np.asarray(binning.shares[:n_cells]), 0.0)
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(n_cells, 1.0 / n_cells)
    middles, reach = support.points[:n_cells, 0], support.half_widths[:n_cells]
    return _Line(
        leaves=leaves,
        cells=np.searchsorted(binning.firsts, np.arange(leaves.ordered), side="right") - 1,
        lows=middles - reach,
        widths=2 * reach,
        floors=np.cumsum(shares) - shares,
        shares=shares,
    )


def _stretched(support: Support, line: _Line | None) -> Support:
    if line is None:
        return support
    points, half_widths = support.points.copy(), support.half_widths.copy()
    n_cells = len(line.shares)
    points[:n_cells, 0] = line.floors + line.shares / 2
    half_widths[:n_cells] = np.where(line.widths > 0, line.shares / 2, 0.0)
    return replace(support, points=points, half_widths=half_widths)
