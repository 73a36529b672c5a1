"""Marginals: one release of every pair of columns, in bins that follow the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpgist.encode import Encoder
from dpgist.errors import DataError
from dpgist.features.binning import Binning, bins_for
from dpgist.features.leaves import Leaves, column_leaves
from dpgist.features.marginal import LeafMap, MarginalMap
from dpgist.features.subsets import Pair, choose_pairs
from dpgist.methods.histogram import BITS, LEAVES, cut_columns, leaf_query, released_total
from dpgist.methods.stages import recipe_of, refuse_bad_share, two_stages
from dpgist.privacy.plan import Block, Budget, Plan, Query
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema

PAIRS, SINGLES = "pairs", "singles"

_FEWEST_BINS = 8
_ROWS_PER_CELL = 5.0  # per root of the classes, in units of the noise: measured on Adult, Covertype


@dataclass(frozen=True, kw_only=True)
class Marginal:
    r"""Release the two-way marginals of each class, on bins that a first stage has chosen.

    .. math:: S_{b,c} = \sum_{i:\,y_i = c} \phi_b(x_i)

    Stage one (``leaf_share`` of :math:`\mu^2`) counts every column's finest public cells, its
    *leaves*, about ``most_leaves`` for a numeric column, with a tree of coarser counts above them.
    From those noisy counts alone each column is cut: a numeric one into bins of about equal mass,
    a choice into its frequent options and one group of all the others. Stage two counts, for each
    class, the bins of every pair of columns (``pairs``) and, ``single_weight`` times as precisely
    as that weighs, of each column alone (``singles``).

    The number of bins makes cells of pairs stand out of their noise, from 8 to ``most_bins``; a
    choice has at most ``most_groups`` groups. More than ``most_pairs`` pairs are thinned to a
    public random graph, and bins are widened until a class has at most ``most_coordinates``.
    Values within a bin follow the counts of stage one.

    Privacy: settings are public; the curator bounds every block and pays for both stages.
    """

    name: ClassVar[str] = "marginal"

    leaf_share: float = 0.12
    most_leaves: int = 1024
    most_cells: int = 256
    most_bins: int = 48
    most_groups: int = 24
    most_pairs: int = 300
    most_coordinates: int = 200_000
    single_weight: float = 0.3

    def __post_init__(self) -> None:
        refuse_bad_share("leaf_share", self.leaf_share)
        smallest = {"most_leaves": 16, "most_cells": 2, "most_bins": 2, "most_groups": 2}
        smallest |= {"most_pairs": 1, "most_coordinates": 1000}
        for field, least in smallest.items():
            if not least <= getattr(self, field) <= 2**20:
                raise ValueError(f"{field} must lie between {least} and {2**20}")
        if not 0 < self.single_weight < math.inf:
            raise ValueError("single_weight must be finite and above 0")

    def settled(self, schema: Schema, budget: Budget) -> Marginal:
        """The same: what depends on the budget follows from the first stage's noise."""
        del budget
        _refuse_images(schema)
        return self

    def plan(self, schema: Schema, *, budget: Budget, feature_seed: int) -> Plan:
        """Leaves first, then pairs and singles in bins."""
        del budget  # the noise is the curator's
        _refuse_images(schema)
        encoder = Encoder(schema)
        recipe = recipe_of(self, schema, feature_seed)
        return two_stages(
            leaf_query(encoder, self._leaves(encoder), recipe),
            lambda released: self._query(encoder, feature_seed, released),
            share=self.leaf_share,
        )

    def row_map(
        self,
        schema: Schema,
        *,
        feature_seed: int,
        released: tuple[ReleasedStage, ...] = (),
    ) -> MarginalMap:
        """The map of the second stage, whose bins are those that the first one led to."""
        return self._row_map(Encoder(schema), feature_seed, released)

    def _leaves(self, encoder: Encoder) -> tuple[Leaves, ...]:
        return column_leaves(encoder, most=self._most_leaves(encoder))

    def _most_leaves(self, encoder: Encoder) -> int:
        """Fewer leaves where there are many columns, so that stage one stays small too."""
        n_columns = len({slot.column for slot in encoder.slots})
        return max(min(self.most_leaves, self.most_coordinates // (2 * n_columns)), 16)

    def _query(
        self, encoder: Encoder, feature_seed: int, released: tuple[ReleasedStage, ...]
    ) -> Query:
        row_map = self._row_map(encoder, feature_seed, released)
        labelled = encoder.schema.label is not None
        n_pairs, n_columns = len(row_map.pairs), len(row_map.leaves)
        singles = Block(
            name=SINGLES,
            length=row_map.single_length,
            weight=self.single_weight * math.sqrt(max(n_pairs, 1) / n_columns),
            bits=BITS,
            bound_squared=n_columns,
            non_negative=True,
            labelled=labelled,
        )
        pairs = Block(
            name=PAIRS,
            length=max(row_map.pair_length, 1),
            bits=BITS,
            bound_squared=max(n_pairs, 1),
            non_negative=True,
            labelled=labelled,
        )
        return Query(
            encoder=encoder,
            row_map=row_map,
            blocks=(pairs, singles) if n_pairs else (singles,),
            batched=True,
            recipe={**recipe_of(self, encoder.schema, feature_seed), **_cuts(row_map)},
        )

    def _row_map(
        self, encoder: Encoder, feature_seed: int, released: tuple[ReleasedStage, ...]
    ) -> MarginalMap:
        leaves = self._leaves(encoder)
        rng = np.random.Generator(np.random.Philox(feature_seed))
        pairs = choose_pairs(len(leaves), most=self.most_pairs, rng=rng)
        return MarginalMap(
            leaves,
            self._binnings(encoder, leaves, pairs, released[0]),
            pairs,
            most_leaves=self._most_leaves(encoder),
        )

    def _binnings(
        self,
        encoder: Encoder,
        leaves: tuple[Leaves, ...],
        pairs: tuple[Pair, ...],
        stage: ReleasedStage,
    ) -> list[Binning]:
        """Cut every column by the first stage; wider, if a class would have too many cells."""
        total = released_total(stage, encoder.schema)
        bins, groups = self._bins(encoder, leaves, pairs, stage, total), self.most_groups
        while True:
            cut = cut_columns(
                leaves, stage, total=total, cells=self.most_cells, bins=bins, groups=groups
            )
            cells = sum(cut[i].n_bins * cut[j].n_bins for i, j in pairs)
            if cells <= self.most_coordinates or max(bins, groups) <= 2:
                return cut
            bins, groups = max(bins * 7 // 8, 2), max(groups * 7 // 8, 2)

    def _bins(
        self,
        encoder: Encoder,
        leaves: tuple[Leaves, ...],
        pairs: tuple[Pair, ...],
        stage: ReleasedStage,
        total: float,
    ) -> int:
        """Bins of a numeric column, from the noise that stage two will have on a pair's cell."""
        trees = LeafMap(leaves).bound_squared
        odds = self.leaf_share / (1 - self.leaf_share)
        noise = stage[LEAVES].noise_std * math.sqrt(odds * max(len(pairs), 1) / trees)
        rows_per_cell = _ROWS_PER_CELL * math.sqrt(sum(encoder.class_allowed)) * noise
        return bins_for(total, rows_per_cell, fewest=_FEWEST_BINS, most=self.most_bins)


def _cuts(row_map: MarginalMap) -> dict[str, Any]:
    """The bins as JSON-able data, so that a recipe says what stage two counts."""
    return {
        "firsts": [list(own.firsts) for own in row_map.binnings],
        "bins": [list(own.bins) for own in row_map.binnings],
        "pairs": [list(pair) for pair in row_map.pairs],
    }


def _refuse_images(schema: Schema) -> None:
    if schema.image is not None:
        raise DataError(f"schema {schema.name!r}: method marginal is for tables; use scattering")
