"""Indicators of low-order marginals: every column's cells, and pairs of columns in bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.features.binning import Binning
from dpgist.features.leaves import BRANCHES, Leaves
from dpgist.features.marked import Marked
from dpgist.features.subsets import Pair, halves_of
from dpgist.features.support import Support

Floats = npt.NDArray[np.float64]

_CLOSE = 1e-9  # encoded cells are exact up to rounding


class HistogramMap(nn.Module):
    """The cell of every column as a one-hot vector, side by side: squared norm at most the columns.

    Privacy: none by itself; a pure map of the rows it is given.
    """

    def __init__(self, supports: Sequence[Support]) -> None:
        super().__init__()
        self._supports = tuple(supports)

    @property
    def length(self) -> int:
        """How many cells all columns have together."""
        return sum(len(support.points) for support in self._supports)

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        return (torch.cat([_one_hot(rows, support) for support in self._supports], dim=1),)


def _one_hot(rows: Tensor, support: Support) -> Tensor:
    """One in the first cell that holds the row's first coordinate and agrees in the others."""
    part = rows[:, support.start : support.start + support.width]
    if np.isin(support.points, (0.0, 1.0)).all() and (support.points.sum(axis=1) == 1.0).all():
        return part[:, torch.from_numpy(support.points.argmax(axis=1))]  # a choice is one already
    points = torch.from_numpy(support.points).to(rows.dtype)
    reach = torch.from_numpy(support.half_widths).to(rows.dtype) + _CLOSE
    inside = (part[:, None, 0] - points[:, 0]).abs() <= reach
    for at in range(1, support.width):
        inside &= (part[:, None, at] - points[:, at]).abs() <= 0.5 - _CLOSE
    first = inside & (inside.cumsum(dim=1) == 1)
    return first.to(rows.dtype)


class LeafMap(nn.Module):
    """The leaf of every column, and the nodes above it, as one-hot vectors side by side.

    A row has squared norm ``bound_squared``: one for each level of each column's tree.

    Privacy: none by itself; a pure map of the rows it is given.
    """

    def __init__(self, leaves: Sequence[Leaves]) -> None:
        super().__init__()
        self._leaves = tuple(leaves)
        self.bound_squared = sum(len(own.levels) for own in leaves)

    @property
    def length(self) -> int:
        """How many leaves and nodes all columns have together."""
        return sum(sum(own.levels) for own in self._leaves)

    def forward(self, rows: Tensor) -> tuple[Marked, ...]:
        places, start = [], 0
        for own in self._leaves:
            codes = own.codes(rows)
            for depth, size in enumerate(own.levels):
                nodes = codes // BRANCHES**depth
                there = codes < (own.count if depth == 0 else own.ordered)
                places.append(torch.where(there, start + nodes, self.length))
                start += size
        return (Marked(places=torch.stack(places, dim=1), length=self.length),)

    def by_column(self, sums: Floats) -> list[list[Floats]]:
        """Counts of one vector, per column and level. Privacy: a function of its argument."""
        sizes = [size for own in self._leaves for size in own.levels]
        parts = iter(np.split(sums, np.cumsum(sizes)[:-1]))
        return [[next(parts) for _ in own.levels] for own in self._leaves]


class MarginalMap(nn.Module):
    r"""Indicators of the bins of pairs of columns, and of each column alone.

    .. math:: \phi_{\text{pairs}}(x) = [\,1\{b_i(x_i) = a,\ b_j(x_j) = b\}\,]_{(i,j),\,a,\,b},
              \qquad \phi_{\text{singles}}(x) = [\,1\{b_j(x_j) = a\}\,]_{j,\,a}

    Symbols: :math:`b_j` is the bin of column j, whose leaves are the ``most_leaves`` finest cells
    of :func:`~dpgist.features.leaves.column_leaves`. Squared norms are the number of pairs and of
    columns. The coordinates of all pairs (i, .) lie in one matrix, bins of i by bins of its
    partners, as :class:`~dpgist.features.expected.ExpectedProducts` computes them.

    Privacy: none by itself; a pure map of the rows it is given, its bins are public or released.
    """

    def __init__(
        self,
        leaves: Sequence[Leaves],
        binnings: Sequence[Binning],
        pairs: Sequence[Pair],
        *,
        most_leaves: int,
    ) -> None:
        super().__init__()
        self.most_leaves = most_leaves
        self.leaves, self.binnings = tuple(leaves), tuple(binnings)
        self.pairs = tuple(pairs)
        self.sizes = tuple(binning.n_bins for binning in binnings)
        self.firsts = tuple(int(first) for first in np.cumsum([0, *self.sizes])[:-1])
        self.halves = halves_of(pairs)
        self._layout = self._laid_out()

    @property
    def pair_length(self) -> int:
        """How many cells the pairs have together."""
        return sum(self.sizes[i] * self.sizes[j] for i, j in self.pairs)

    @property
    def single_length(self) -> int:
        """How many bins the columns have together."""
        return sum(self.sizes)

    def forward(self, rows: Tensor) -> tuple[Marked, ...]:
        each = zip(self.leaves, self.binnings, strict=True)
        bins = torch.stack(
            [_looked_up(binning.leaf_bins(own), own.codes(rows)) for own, binning in each], dim=1
        )
        singles = torch.where(bins < 0, self.single_length, bins + torch.tensor(self.firsts))
        marginals = [Marked(places=singles, length=self.single_length)]
        if self.pairs:
            marginals.insert(0, Marked(places=self._pair_places(bins), length=self.pair_length))
        return tuple(marginals)

    def _pair_places(self, bins: Tensor) -> Tensor:
        first, second, begin, width = self._layout
        one, other = bins[:, first], bins[:, second]
        nowhere = (one < 0) | (other < 0)
        return torch.where(nowhere, self.pair_length, begin + one * width + other)

    def _laid_out(self) -> tuple[Tensor, ...]:
        """Of each pair: its columns, where its cells begin, how long a row of its matrix is."""
        layout, start = [], 0
        for (i,), partners in self.halves.items():
            sizes = [self.sizes[j] for (j,) in partners]
            begins = start + np.cumsum([0, *sizes[:-1]])
            layout += [(i, j, at, sum(sizes)) for (j,), at in zip(partners, begins, strict=True)]
            start += self.sizes[i] * sum(sizes)
        return torch.from_numpy(np.array(layout, np.int64).reshape(-1, 4)).unbind(dim=1)


def _looked_up(table: npt.NDArray[np.int64], codes: Tensor) -> Tensor:
    """The table's entries; -1 for codes beyond its end."""
    return torch.from_numpy(np.append(table, -1))[codes]
