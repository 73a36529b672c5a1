"""PEARL: the characteristic function at frequencies whose scale a first stage has paid for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpgist.encode import Encoder
from dpgist.features.characteristic import (
    CharacteristicMap,
    Waves,
    draw_pixel_waves,
    draw_waves,
)
from dpgist.features.leaves import Leaves, column_leaves
from dpgist.features.marginal import LeafMap
from dpgist.features.stretch import Stretch
from dpgist.methods.histogram import cut_columns, leaf_query, released_total
from dpgist.methods.scale import above_the_noise, paid_scale, scale_query
from dpgist.methods.stages import recipe_of, refuse_bad_share, two_stages
from dpgist.privacy.accounting import mu_of
from dpgist.privacy.lattice import grid_bits
from dpgist.privacy.plan import COUNTS, Block, Budget, Plan, Query, Relation
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema

FUNCTION = "characteristic"
DISTANCE, MODES = "distance", "modes"
_CELLS, _BINS, _GROUPS = 256, 32, 32
_FEWEST_BINS, _STANDS_OUT = 8, 4.0  # bins, and noise stds in each, that make a histogram worth it


@dataclass(frozen=True, kw_only=True)
class Pearl:
    r"""Release each class's characteristic function, at a scale that was paid for.

    .. math:: S_c = \sum_{i:\,y_i = c} k^{-1/2}\,[e^{i t_1^\top x_i}, \dots, e^{i t_k^\top x_i}],
              \qquad t \sim N(0, \mathrm{diag}(\ell^{-2}))

    Stage one has ``scale_share`` of :math:`\mu^2` (the paper: half of the budget). What it
    measures is ``scaling``: "distance", how far two rows lie apart, by which all frequencies are
    scaled (:func:`~dpgist.methods.scale.paid_scale`); or "modes", every column's histogram, by
    which numbers are stretched so that each mode has the room of its rows
    (:class:`~dpgist.features.stretch.Stretch`), and on whose cells a mixture is made; for tables
    only, images always take "distance". Left out, it is "modes" where the declared rows are enough
    for histograms of eight bins that stand out of their noise, else "distance". ``most_leaves`` is
    about how many cells a histogram has.

    Stage two releases real and imaginary parts of all ``frequencies`` in one block.
    They see groups of ``group_sizes`` columns, at ``scales`` times the distance of two rows;
    ``image_frequencies`` see all pixels, at ``image_scales``. Of these scales the first stage's
    noisy count leaves those that will stand out of the second one's noise
    (:func:`~dpgist.methods.scale.above_the_noise`). Frequencies never change after the release:
    a critic re-weighs them in training (:class:`~dpgist.training.critic.Critic`).

    Reference: PEARL, Liew, Takahashi and Ueno 2022.

    Privacy: settings are public; the curator bounds the block and pays for both stages.
    """

    name: ClassVar[str] = "pearl"

    frequencies: int = 2000
    group_sizes: tuple[int, ...] = (1, 2, 4)
    scales: tuple[float, ...] = (1.0, 0.3, 0.1)
    image_frequencies: int = 3000
    image_scales: tuple[float, ...] = (0.5, 1.0)
    scaling: str | None = None
    scale_share: float = 0.1
    most_leaves: int = 1024

    def __post_init__(self) -> None:
        if min(self.frequencies, self.image_frequencies) < 1:
            raise ValueError("frequencies must be at least 1")
        if not 16 <= self.most_leaves <= 2**20:
            raise ValueError(f"most_leaves must lie between 16 and {2**20}")
        object.__setattr__(self, "group_sizes", tuple(int(size) for size in self.group_sizes))
        for field in ("scales", "image_scales"):
            object.__setattr__(self, field, tuple(float(s) for s in getattr(self, field)))
        for field in ("group_sizes", "scales", "image_scales"):
            if not getattr(self, field) or not min(getattr(self, field)) > 0:
                raise ValueError(f"{field} must hold at least one number above 0")
        if self.scaling not in (None, DISTANCE, MODES):
            raise ValueError(f"scaling must be {DISTANCE} or {MODES}, got {self.scaling!r}")
        refuse_bad_share("scale_share", self.scale_share)

    def settled(self, schema: Schema, budget: Budget) -> Pearl:
        """The same with a scaling that the declared rows can pay for."""
        return self if self.scaling else replace(self, scaling=self._affordable(schema, budget))

    def plan(self, schema: Schema, *, budget: Budget, feature_seed: int) -> Plan:
        """The scale first, then the function."""
        settled = self.settled(schema, budget)
        encoder, recipe = Encoder(schema), recipe_of(settled, schema, feature_seed)
        if settled._by_modes(schema):
            first = leaf_query(encoder, self._leaves(encoder), recipe)
        else:
            first = scale_query(encoder, recipe)

        def then(released: tuple[ReleasedStage, ...]) -> Query:
            return _query(encoder, recipe, settled._row_map(encoder, feature_seed, released))

        return two_stages(first, then, share=self.scale_share)

    def row_map(
        self,
        schema: Schema,
        *,
        feature_seed: int,
        released: tuple[ReleasedStage, ...] = (),
    ) -> CharacteristicMap:
        """The map of the second stage, at the scale that the first one led to.

        The scaling must be settled.
        """
        if self.scaling is None:
            raise ValueError("the scaling is not settled; call settled(schema, budget) first")
        return self._row_map(Encoder(schema), feature_seed, released)

    def _by_modes(self, schema: Schema) -> bool:
        return self.scaling == MODES and schema.image is None

    def _affordable(self, schema: Schema, budget: Budget) -> str:
        if schema.image is not None or schema.rows_about is None:
            return DISTANCE
        relation = math.sqrt(2.0) if budget.relation == Relation.REPLACE_ONE else 1.0
        levels = LeafMap(self._leaves(Encoder(schema))).bound_squared
        noise = (
            relation * math.sqrt(levels / self.scale_share) / mu_of(budget.epsilon, budget.delta)
        )
        needed = _FEWEST_BINS * _STANDS_OUT * noise * schema.max_rows_per_person
        return MODES if schema.rows_about >= needed else DISTANCE

    def _leaves(self, encoder: Encoder) -> tuple[Leaves, ...]:
        return column_leaves(encoder, most=self.most_leaves)

    def _row_map(
        self, encoder: Encoder, feature_seed: int, released: tuple[ReleasedStage, ...]
    ) -> CharacteristicMap:
        noise = self._noise(encoder, released[0])
        waves = self._waves(encoder, noise, np.random.Generator(np.random.Philox(feature_seed)))
        if not self._by_modes(encoder.schema):
            return CharacteristicMap(waves.scaled(paid_scale(released[0], encoder)))
        leaves, total = self._leaves(encoder), released_total(released[0], encoder.schema)
        cut = cut_columns(
            leaves, released[0], total=total, cells=_CELLS, bins=_BINS, groups=_GROUPS
        )
        return CharacteristicMap(waves, Stretch(leaves, cut, most_leaves=self.most_leaves))

    def _noise(self, encoder: Encoder, stage: ReleasedStage) -> float:
        """About the noise that stage two will have on a class's mean, from that of stage one."""
        odds = self.scale_share / (1 - self.scale_share)
        sizes = [b.block.weight**2 * b.block.bound_squared for b in stage.blocks]
        noise = stage.blocks[0].noise_std * math.sqrt(odds / sum(sizes))
        total = max(float(stage[COUNTS].sums().sum()), 1.0)  # one that drowned drowns all else
        return noise * sum(encoder.class_allowed) / total

    def _waves(self, encoder: Encoder, noise: float, rng: np.random.Generator) -> Waves:
        if encoder.schema.image is not None:
            return draw_pixel_waves(
                encoder.width,
                n_frequencies=self.image_frequencies,
                length_scales=above_the_noise(self.image_scales, noise),
                rng=rng,
            )
        return draw_waves(
            encoder.slots,
            n_frequencies=self.frequencies,
            group_sizes=self.group_sizes,
            length_scales=above_the_noise(self.scales, noise),
            rng=rng,
        )


def _query(encoder: Encoder, recipe: dict[str, Any], row_map: CharacteristicMap) -> Query:
    block = Block(
        name=FUNCTION,
        length=row_map.length,
        bits=grid_bits(encoder.schema.rows_about, row_map.length),
        labelled=encoder.schema.label is not None,
    )
    return Query(encoder=encoder, row_map=row_map, blocks=(block,), batched=True, recipe=recipe)
