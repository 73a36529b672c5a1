"""Rows of a mixture of products over cells, free or under conditions on some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgist.features.support import Support

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a condition leaves of a column's cells.

    ``weights`` (cells,) says how much of each cell it leaves; within a cell the first coordinate
    is uniform from ``lows`` to ``highs``.

    Privacy: public facts only.
    """

    weights: Floats
    lows: Floats
    highs: Floats


@dataclass(frozen=True, kw_only=True)
class Products:
    """A mixture of products: components (classes, K), and per column cells (cells, K).

    Privacy: post-processing of a release.
    """

    supports: tuple[Support, ...]
    components: Floats
    cells: tuple[Floats, ...]

    def given(self, parts: Mapping[str, Part]) -> tuple[Products, Floats]:
        r"""The mixture under conditions, and the probability of those in each class.

        .. math:: \pi'_{k \mid c} \propto \pi_{k \mid c} \prod_j \sum_q w_{jq}\, p_{kjq},
                  \qquad p'_{kjq} \propto w_{jq}\, p_{kjq}

        Symbols: :math:`w_{jq}` is the weight that column j's condition leaves of its cell q.

        Privacy: post-processing of a release.
        """
        evidence, cells = self.components.copy(), list(self.cells)
        for j, support in enumerate(self.supports):
            if support.column in parts:
                kept = cells[j] * parts[support.column].weights[:, None]
                shares = kept.sum(axis=0)
                evidence *= shares
                cells[j] = kept / np.where(shares > 0, shares, 1.0)
        in_class = evidence.sum(axis=1)
        components = evidence / np.where(in_class > 0, in_class, 1.0)[:, None]
        left = Products(supports=self.supports, components=components, cells=tuple(cells))
        return left, in_class

    def draw(
        self, classes: Codes, *, rng: np.random.Generator, parts: Mapping[str, Part] | None = None
    ) -> Floats:
        """One encoded row for each class code; ``parts`` are those the mixture was given.

        Privacy: post-processing of a release; touches no row.
        """
        chosen = draw_spread(self.components, classes, rng=rng)
        rows = np.zeros((len(classes), sum(support.width for support in self.supports)))
        for support, probabilities in zip(self.supports, self.cells, strict=True):
            cell = draw_spread(probabilities.T, chosen, rng=rng)
            part = (parts or {}).get(support.column) or whole(support)
            rows[:, support.start : support.start + support.width] = support.points[cell]
            within = rng.random(len(classes))
            rows[:, support.start] = part.lows[cell] + within * (part.highs - part.lows)[cell]
        return rows


def whole(support: Support) -> Part:
    """All of every cell. Privacy: public facts only."""
    middles = support.points[:, 0]
    return Part(
        weights=np.ones(len(middles)),
        lows=middles - support.half_widths,
        highs=middles + support.half_widths,
    )


def draw_spread(probabilities: Floats, given: Codes, *, rng: np.random.Generator) -> Codes:
    """For each i one column index drawn from row ``given[i]``, evenly spread within a row.

    Among the n draws from one row every index comes up its expected number of times, give or take
    one: each draw for itself has the right probabilities, and together they repeat the row's
    distribution more closely than n independent draws would.

    Privacy: post-processing of a release.
    """
    sums = np.cumsum(probabilities, axis=1)
    sums /= np.where(sums[:, -1:] > 0, sums[:, -1:], 1.0)
    # Row r's sums lie in (r, r + 1], so one sorted search serves all rows at once.
    places = (sums + np.arange(len(sums))[:, None]).ravel()
    found = np.searchsorted(places, given + _spread(given, rng), side="right")
    return np.asarray(np.clip(found - given * sums.shape[1], 0, sums.shape[1] - 1))


def _spread(groups: Codes, rng: np.random.Generator) -> Floats:
    """Uniform numbers, one in each n-th part of [0, 1) for a group of n, in random order."""
    order = np.lexsort((rng.random(len(groups)), groups))
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    mine = groups[order]
    spread = np.empty(len(groups))
    spread[order] = (np.arange(len(groups)) - starts[mine] + rng.random(len(groups))) / sizes[mine]
    return np.minimum(spread, np.nextafter(1.0, 0.0))


def quotas(weights: Sequence[float] | Floats, n: int, *, rng: np.random.Generator) -> Codes:
    """``n`` codes in random order, each code its expected number of times, give or take one.

    Privacy: post-processing of a release.
    """
    zeros = np.zeros(n, np.int64)
    return draw_spread(np.asarray(weights, dtype=np.float64)[None, :], zeros, rng=rng)
