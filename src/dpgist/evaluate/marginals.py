"""How far low-order marginals and range queries of two tables lie apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgist.evaluate.table import Rows, option_names
from dpgist.schema import CategoryColumn

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Subset = tuple[str, ...]

N_BINS = 20
"""Quantile bins of a numeric column."""
MOST_SUBSETS = 500
"""More sets of columns than this are sampled."""
MOST_PAIRS = 5000
"""The same for the L1 distance of pairs, which is that of all of them up to 100 columns."""
N_QUERIES = 1000
_DENSE_CELLS = 2**20


@dataclass(frozen=True, kw_only=True, repr=False)
class Bins:
    """How columns become codes: the quantile edges of real numbers, and the options of choices.

    ``sizes`` counts the codes of each column; the last code of a numeric column is null.
    ``ordered`` counts those, the first, that have an order: bins or declared values, never null
    nor what is undeclared; 0 if none.

    Privacy: edges are quantiles of real rows; outside the guarantee.
    """

    edges: Mapping[str, Floats]
    sizes: Mapping[str, int]
    ordered: Mapping[str, int]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, label included."""
        return tuple(self.sizes)

    def codes(self, rows: Rows) -> dict[str, Codes]:
        """The code of each cell."""
        return {name: self._column(name, rows) for name in self.columns}

    def _column(self, name: str, rows: Rows) -> Codes:
        if name in rows.choices:
            return rows.choices[name]
        values = rows.numbers[name]
        codes = np.searchsorted(self.edges[name], values, side="right")
        return np.where(np.isnan(values), self.sizes[name] - 1, codes)


def quantile_bins(real: Rows, n_bins: int = N_BINS) -> Bins:
    """Bins that hold about as many real rows each; values that repeat a lot share one.

    Privacy: a function of real rows; outside the guarantee.
    """
    edges, sizes, ordered = {}, {}, {}
    for column in real.schema.columns:
        name = column.name
        if name in real.choices:
            sizes[name] = len(option_names(column))
            values = column.values if isinstance(column, CategoryColumn) and column.ordered else ()
            ordered[name] = len(values)
            continue
        present = real.numbers[name][~np.isnan(real.numbers[name])]
        inner = np.arange(1, n_bins) / n_bins
        edges[name] = np.unique(np.quantile(present, inner)) if len(present) else np.zeros(0)
        sizes[name], ordered[name] = len(edges[name]) + 2, len(edges[name]) + 1
    return Bins(edges=edges, sizes=sizes, ordered=ordered)


def subsets(
    columns: Sequence[str], alpha: int, *, most: int, rng: np.random.Generator
) -> list[Subset]:
    """All sets of exactly ``alpha`` columns, or ``most`` of them drawn without replacement.

    Privacy: public names only.
    """
    if math.comb(len(columns), alpha) <= most:
        return list(itertools.combinations(columns, alpha))
    drawn: dict[Subset, None] = {}
    while len(drawn) < most:
        places = np.sort(rng.choice(len(columns), alpha, replace=False))
        drawn[tuple(columns[place] for place in places)] = None
    return list(drawn)


def total_variation(
    real: Mapping[str, Codes], other: Mapping[str, Codes], subset: Subset, bins: Bins
) -> float:
    r"""Total variation of one marginal.

    .. math:: \tfrac12 \sum_c |p(c) - q(c)|

    Symbols: :math:`c` runs over the cells of the columns in ``subset``.

    Privacy: a function of real rows; outside the guarantee.
    """
    keys = [_keys(codes, subset, bins) for codes in (real, other)]
    cells = math.prod(bins.sizes[name] for name in subset)
    if cells > _DENSE_CELLS:
        found, places = np.unique(np.concatenate(keys), return_inverse=True)
        keys, cells = np.split(places, [len(keys[0])]), len(found)
    shares = [np.bincount(key, minlength=cells) / len(key) for key in keys]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _keys(codes: Mapping[str, Codes], subset: Subset, bins: Bins) -> Codes:
    key = codes[subset[0]]
    for name in subset[1:]:
        key = key * bins.sizes[name] + codes[name]
    return key


def mean_variation(
    real: Mapping[str, Codes], other: Mapping[str, Codes], chosen: Sequence[Subset], bins: Bins
) -> float:
    """The mean total variation over the chosen sets of columns.

    Privacy: a function of real rows; outside the guarantee.
    """
    return float(np.mean([total_variation(real, other, subset, bins) for subset in chosen]))


@dataclass(frozen=True, kw_only=True)
class RangeQuery:
    """A box over a few columns: for each, which of its codes lie inside.

    Privacy: random; holds no row.
    """

    inside: tuple[tuple[str, Mask], ...]

    def share(self, codes: Mapping[str, Codes]) -> float:
        """The share of rows in the box; 0 of no rows."""
        member: Mask = np.logical_and.reduce([mask[codes[name]] for name, mask in self.inside])
        return float(member.mean()) if len(member) else 0.0


def range_queries(
    bins: Bins, *, n_queries: int = N_QUERIES, n_columns: int = 3, rng: np.random.Generator
) -> list[RangeQuery]:
    """Random boxes over three columns: a range of bins, or of unordered values a random half.

    Nulls lie in no range. Reference: PEARL, Liew et al. 2022, section 5.

    Privacy: random boxes over public or binned values.
    """
    return [_query(bins, min(n_columns, len(bins.columns)), rng) for _ in range(n_queries)]


def _query(bins: Bins, n_columns: int, rng: np.random.Generator) -> RangeQuery:
    places = rng.choice(len(bins.columns), n_columns, replace=False)
    names = [bins.columns[place] for place in places]
    return RangeQuery(inside=tuple((name, _inside(bins, name, rng)) for name in names))


def _inside(bins: Bins, name: str, rng: np.random.Generator) -> Mask:
    size = bins.sizes[name]
    if not bins.ordered[name]:
        return np.asarray(rng.random(size) < 0.5)
    low, high = np.sort(rng.integers(0, bins.ordered[name], 2))
    codes = np.arange(size)
    return np.asarray((codes >= low) & (codes <= high))


def range_error(
    real: Mapping[str, Codes], other: Mapping[str, Codes], queries: Sequence[RangeQuery]
) -> float:
    """The mean absolute difference of the shares of rows in each box.

    Privacy: a function of real rows; outside the guarantee.
    """
    return float(np.mean([abs(query.share(real) - query.share(other)) for query in queries]))
