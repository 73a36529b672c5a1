"""Which columns are looked at together: public draws, and their order in a release."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

Subset = tuple[int, ...]
Pair = tuple[int, int]


def draw_subsets(
    n_columns: int, size: int, *, most: int, rng: np.random.Generator
) -> tuple[Subset, ...]:
    """All subsets of ``size`` columns, or about ``most`` of them at random, in order.

    Pairs, if there are enough of them, form a graph that reaches every column equally often. A
    table of fewer columns has one subset of all, and a single column has none.

    Privacy: none needed; depends on public numbers and public randomness alone.
    """
    size = min(size, n_columns)
    if size < 2:
        return ()
    if math.comb(n_columns, size) <= most:
        return tuple(itertools.combinations(range(n_columns), size))
    if size == 2 and most >= 2 * n_columns:
        return choose_pairs(n_columns, most=most, rng=rng)
    drawn: dict[Subset, None] = {}
    while len(drawn) < most:
        drawn[tuple(sorted(rng.choice(n_columns, size, replace=False).tolist()))] = None
    return tuple(sorted(drawn))


def choose_pairs(n_columns: int, *, most: int, rng: np.random.Generator) -> tuple[Pair, ...]:
    """All pairs of columns, or about ``most`` of them: each column in equally many.

    Too many pairs are thinned to a circulant graph on shuffled columns, one of its shifts being 1,
    so that it is connected.

    Privacy: none needed; depends on public numbers and public randomness alone.
    """
    everyone = list(itertools.combinations(range(n_columns), 2))
    if len(everyone) <= most:
        return tuple(everyone)
    order = rng.permutation(n_columns)
    shifts = 2 + rng.permutation((n_columns - 1) // 2 - 1)[: max(most // n_columns, 2) - 1]
    pairs = {
        tuple(sorted((int(order[i]), int(order[(i + shift) % n_columns]))))
        for shift in (1, *shifts)
        for i in range(n_columns)
    }
    return tuple(sorted((a, b) for a, b in pairs))


def halves_of(subsets: Sequence[Subset]) -> Mapping[Subset, tuple[Subset, ...]]:
    """For each first half of some subsets the second halves, in order.

    Privacy: public facts only.
    """
    cut = sorted((subset[: len(subset) // 2], subset[len(subset) // 2 :]) for subset in subsets)
    return {
        first: tuple(second for _, second in own)
        for first, own in itertools.groupby(cut, lambda halves: halves[0])
    }
