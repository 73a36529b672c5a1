"""Cells and bins of every column, from noisy counts of its leaves: post-processing only.

Bins follow the released mass: about as much in each, so that skewed and wide columns are cut where
their rows are. Every choice is made on masses rounded to 2^-10 rows, so that a gist means the same
bins on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgist.features.leaves import BRANCHES, Leaves

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

_GRAIN = 1024.0
_SMALLEST_SHARE = 1e-9  # a cell without released mass can still be drawn, hardly ever


@dataclass(frozen=True, kw_only=True)
class Binning:
    """How one column is cut.

    ``firsts`` are the first leaves of its cells (a choice's cells are its leaves, and null is a
    cell of its own after the others). ``bins`` gives each cell's bin, ``shares`` its released
    share of the rows.

    Privacy: post-processing of a release.
    """

    firsts: tuple[int, ...]
    bins: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def n_bins(self) -> int:
        """How many bins there are."""
        return max(self.bins) + 1

    def bin_shares(self) -> Floats:
        """The share of every bin, together 1."""
        shares = np.bincount(self.bins, np.maximum(self.shares, _SMALLEST_SHARE))
        return np.asarray(shares / shares.sum())

    def within(self) -> Floats:
        """The share of every cell within its bin."""
        shares = np.maximum(self.shares, _SMALLEST_SHARE)
        return np.asarray(shares / np.bincount(self.bins, shares)[np.asarray(self.bins)])

    def leaf_bins(self, leaves: Leaves) -> Codes:
        """The bin of every leaf."""
        if not leaves.numeric:
            return np.asarray(self.bins, dtype=np.int64)
        cells = np.searchsorted(self.firsts, np.arange(leaves.ordered), side="right") - 1
        bins = np.asarray(self.bins, dtype=np.int64)
        return np.append(bins[cells], bins[-1:] if leaves.nullable else bins[:0])


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """How finely columns are cut: at most so many cells, bins and groups, none below a mass.

    ``least`` (groups), ``least_bin`` and ``least_cell`` are in rows; ``cells`` and ``bins`` are of
    numeric columns, ``groups`` of choices.

    Privacy: public or released numbers.
    """

    cells: int
    bins: int
    groups: int
    least: float
    least_bin: float
    least_cell: float


def binning(
    leaves: Leaves, counts: Sequence[Floats], total: float, resolution: Resolution
) -> Binning:
    """Cut one column by the noisy counts of its tree's levels, leaves first.

    Privacy: post-processing of a release.
    """
    if not leaves.numeric:
        return _grouped(_on_simplex(counts[0], total), resolution)
    null = 0.0
    if leaves.nullable:
        null = min(max(float(counts[0][-1]), 0.0), total)
    levels = [counts[0][: leaves.ordered], *counts[1:]]
    masses = tree_masses(levels, total - null)
    cell_of = merged(masses, most=resolution.cells, least=resolution.least_cell)
    firsts = np.flatnonzero(np.diff(cell_of, prepend=-1))
    cell_masses = np.bincount(cell_of, masses).astype(np.float64)
    bins = merged(cell_masses, most=resolution.bins, least=resolution.least_bin)
    bins = at_valleys(bins, cell_masses / leaves.widths(firsts))
    if leaves.nullable:
        cell_masses, bins = np.append(cell_masses, null), np.append(bins, bins[-1] + 1)
    return _binning(firsts, bins, cell_masses)


def tree_masses(levels: Sequence[Floats], total: float) -> Floats:
    r"""Masses of the leaves, not negative and adding up to ``total``, from all levels together.

    Bottom up, a node's count is averaged with the sum of its children's, by precision; top down,
    the children of a node are moved to add up to its mass and projected onto the simplex of that
    size, so that noise among thousands of empty leaves cannot add up. Reference: Hay, Rastogi,
    Miklau and Suciu 2010, section 4, with projections for its heuristic non-negativity.

    Privacy: post-processing of a release.
    """
    estimates, variance = [np.asarray(levels[0], dtype=np.float64)], np.ones(len(levels[0]))
    for level in levels[1:]:
        parents = np.arange(len(variance)) // BRANCHES
        sums = np.bincount(parents, estimates[-1])
        spread = np.bincount(parents, variance)
        estimates.append((level * spread + sums) / (1.0 + spread))
        variance = spread / (1.0 + spread)
    masses = _on_simplex(estimates[-1], total)
    for estimate in estimates[-2::-1]:
        parts = np.split(estimate, np.arange(BRANCHES, len(estimate), BRANCHES))
        masses = np.concatenate(
            [_on_simplex(part, mass) for part, mass in zip(parts, masses, strict=True)]
        )
    return np.asarray(np.rint(masses * _GRAIN) / _GRAIN)


def _on_simplex(values: Floats, total: float) -> Floats:
    """The nearest vector with no entry below 0 that adds up to ``total``."""
    if total <= 0:
        return np.zeros(len(values))
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    threshold = excess[np.flatnonzero(falling > excess)[-1]]
    return np.asarray(np.maximum(values - threshold, 0.0))


def merged(masses: Floats, *, most: int, least: float) -> Codes:
    """The part that each of a row of cells belongs to: about ``most`` parts of equal mass.

    A cell as heavy as a part stays alone, and what is left is shared among fewer parts. None is
    lighter than ``least``, but for what is left between two heavy ones.

    Privacy: post-processing of a release.
    """
    total = float(np.cumsum(masses)[-1])
    most = max(1, min(most, int(total / least) if least > 0 else most))
    heavy = masses * most >= total if total > 0 else np.zeros(len(masses), bool)
    rest = total - float(masses[heavy].sum())
    step = max(rest / max(most - int(heavy.sum()), 1), least)
    parts, part, filled, after_heavy = np.zeros(len(masses), np.int64), -1, 0.0, True
    for i, mass in enumerate(masses.tolist()):
        if heavy[i] or after_heavy or filled + mass / 2 >= step:
            part, filled = part + 1, 0.0
        parts[i] = part
        filled += mass
        after_heavy = bool(heavy[i])
    return _without_light_tails(parts, masses, heavy, step / 2)


def at_valleys(parts: Codes, densities: Floats) -> Codes:
    """Move each cut between two parts to where the density dips, if it does so nearby.

    Parts of equal mass would join the edges of two clusters across the gap between them. A cut
    may move through half of the cells of either part, to the least dense cell if that has less
    than half the density usual there.

    Privacy: post-processing of a release.
    """
    cuts = np.flatnonzero(np.diff(parts)) + 1
    ends = [0, *cuts.tolist(), len(parts)]
    moved = []
    for before, cut, after in zip(ends, ends[1:], ends[2:], strict=False):
        low, high = cut - (cut - before) // 2, cut + (after - cut) // 2
        nearby = densities[max(low - 1, 0) : high + 1]
        dip = int(nearby.argmin())
        if nearby[dip] < 0.5 * float(np.median(nearby)):
            place = max(low - 1, 0) + dip
            cut = place if place > cut else place + 1
        moved.append(min(max(cut, low), high))
    marks = np.zeros(len(parts), np.int64)
    marks[moved] = 1
    return np.asarray(np.cumsum(marks))


def _without_light_tails(
    parts: Codes, masses: Floats, heavy: npt.NDArray[np.bool_], least: float
) -> Codes:
    """Join a light part to the one before it, if that is no single heavy cell."""
    weights = np.bincount(parts, masses)
    alone = np.bincount(parts, heavy) > 0
    new = np.arange(len(weights))
    for part in range(1, len(weights)):
        if weights[part] < least and not alone[part] and not alone[part - 1]:
            new[part] = new[part - 1]
    return np.asarray(np.unique(new, return_inverse=True)[1][parts])


def _grouped(masses: Floats, resolution: Resolution) -> Binning:
    """A group for every option that stands out, at most so many, and one for all the others."""
    masses = np.rint(masses * _GRAIN) / _GRAIN
    order = np.argsort(-masses, kind="stable")
    standing = int((masses > resolution.least).sum())
    kept = min(max(standing, 1), resolution.groups - 1)
    bins = np.full(len(masses), kept, dtype=np.int64)
    bins[order[:kept]] = np.arange(kept)
    if len(masses) <= kept + 1:
        bins = np.arange(len(masses))
    return _binning(np.arange(len(masses)), bins, masses)


def _binning(firsts: Codes, bins: Codes, masses: Floats) -> Binning:
    total = float(np.cumsum(masses)[-1])
    shares = masses / total if total > 0 else np.full(len(masses), 1.0 / len(masses))
    return Binning(
        firsts=tuple(firsts.tolist()), bins=tuple(bins.tolist()), shares=tuple(shares.tolist())
    )


def bins_for(total: float, rows_per_cell: float, *, fewest: int, most: int) -> int:
    r"""How many bins a numeric column gets, so that a pair has enough rows in each of its cells.

    .. math:: \lfloor \sqrt{n / r} \rceil

    Symbols: :math:`n` is ``total``, :math:`r` is ``rows_per_cell``.

    Privacy: a function of public or released numbers.
    """
    wanted = round(math.sqrt(max(total, 1.0) / rows_per_cell))
    return min(max(wanted, fewest), most)
