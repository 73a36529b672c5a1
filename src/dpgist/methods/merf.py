"""DP-MERF: mean embeddings with random Fourier features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from dpgist.encode import Encoder
from dpgist.features.compose import ChoiceMap, SideBySide
from dpgist.features.fourier import FourierMap, draw_frequencies, draw_pixel_frequencies
from dpgist.features.whole import WholeFourierMap, draw_whole_frequencies, suits
from dpgist.methods.scale import paid_scale, scale_query
from dpgist.methods.stages import recipe_of, refuse_bad_share, two_stages
from dpgist.privacy.accounting import mu_of
from dpgist.privacy.lattice import grid_bits
from dpgist.privacy.plan import Block, Budget, Plan, Query, Relation, Stage
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema

JOINT, PAIRS, CHOICES = "fourier", "pairs", "categories"


@dataclass(frozen=True, kw_only=True)
class Merf:
    r"""Release the mean embedding of each class in random Fourier features.

    .. math:: S_{b,c} = \sum_{i:\,y_i = c} \phi_b(x_i), \qquad
              \phi(x) = m^{-1/2}[\cos(\omega^\top x), \sin(\omega^\top x)], \quad
              \omega \sim N(0, \ell^{-2} I)

    Three blocks b in one joint Gaussian, with the class counts: Fourier features of whole rows
    (``fourier``), of random pairs of columns at finer scales (``pairs``), and the one-hot
    categories over the root of their number (``categories``, left out if there are none).

    Symbols: :math:`\omega` are public frequencies, ``*_frequencies`` how many; :math:`\ell` comes
    from ``*_scales``, multiples of the typical distance of two rows (public constants of the
    encoded cube, see :func:`~dpgist.features.fourier.draw_frequencies`); ``*_weight`` share the
    noise between the blocks. ``pair_frequencies=None`` takes 32 per pair of columns, from 1,000
    to 6,000. A frequency sees at most ``most_columns`` columns.

    Images have one block, ``fourier``: ``image_frequencies`` (two features each) over all pixels at
    ``image_scales``, multiples of :math:`\sqrt{d/6}` for :math:`d` pixels. Two images of a kind are
    much closer than two of uniform noise, so a scale below 1 tells them apart; a wide one beside it
    keeps far-away images from escaping to where a narrow kernel is flat. The noise at one point of
    the embedding does not grow with the number of features. ``image_law="whole"`` rounds the
    frequencies to whole multiples of a unit, which leaves the kernel what it was and makes the
    private pass exact and quick (:class:`~dpgist.features.whole.WholeFourierMap`); ``"real"`` takes
    them as they are drawn, as do images of more than 133,000 numbers.

    ``length_scale="paid"`` spends ``scale_share`` of :math:`\mu^2` on a first stage that measures
    how far rows really lie apart, and multiplies ``joint_scales`` and ``image_scales`` by that
    distance over the public one (see :func:`~dpgist.methods.scale.paid_scale`).

    Reference: DP-MERF, Harder, Adamczewski and Park 2021, sections 3 and 4. Unlike the authors'
    code: categories are one-hot, scales are public, and one joint release has exact accounting.

    Privacy: settings are public; the curator bounds every block and pays for the release.
    """

    name: ClassVar[str] = "merf"

    joint_frequencies: int = 500
    joint_scales: tuple[float, ...] = (0.5, 1.0)
    joint_weight: float = 1.0
    most_columns: int = 32
    pair_frequencies: int | None = None
    pair_scales: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01)
    pair_weight: float = 1.0
    category_weight: float = 1.0
    image_frequencies: int = 5000
    image_scales: tuple[float, ...] = (0.4, 0.8)
    image_law: str = "whole"
    length_scale: str = "public"
    scale_share: float = 0.1

    def __post_init__(self) -> None:
        counts = (
            self.joint_frequencies,
            self.most_columns,
            self.pair_frequencies,
            self.image_frequencies,
        )
        if any(count is not None and count < 1 for count in counts):
            raise ValueError("frequencies and most_columns must be at least 1")
        for field in ("joint_scales", "pair_scales", "image_scales"):
            object.__setattr__(self, field, tuple(float(s) for s in getattr(self, field)))
            if not getattr(self, field) or not min(getattr(self, field)) > 0:
                raise ValueError(f"{field} must hold at least one number above 0")
        weights = (self.joint_weight, self.pair_weight, self.category_weight)
        if not all(0 < weight < math.inf for weight in weights):
            raise ValueError("block weights must be finite and above 0")
        if self.length_scale not in ("public", "paid"):
            raise ValueError(f"length_scale must be public or paid, got {self.length_scale!r}")
        if self.image_law not in ("whole", "real"):
            raise ValueError(f"image_law must be whole or real, got {self.image_law!r}")
        refuse_bad_share("scale_share", self.scale_share)

    def settled(self, schema: Schema, budget: Budget) -> Merf:
        """The same: nothing here depends on the budget."""
        del schema, budget
        return self

    def plan(self, schema: Schema, *, budget: Budget, feature_seed: int) -> Plan:
        """Every block in one joint release; a paid length scale comes in a stage before it."""
        del budget  # the noise is the curator's; nothing here depends on its size
        encoder = Encoder(schema)

        def embedding(released: tuple[ReleasedStage, ...]) -> Query:
            return self._query(encoder, self._distance(encoder, released), feature_seed)

        if self.length_scale == "public":
            return Plan(stages=(Stage(share=Fraction(1), query=embedding),))
        first = scale_query(encoder, recipe_of(self, schema, feature_seed))
        return two_stages(first, embedding, share=self.scale_share)

    def row_map(
        self,
        schema: Schema,
        *,
        feature_seed: int,
        released: tuple[ReleasedStage, ...] = (),
    ) -> SideBySide:
        """The map of the last stage, differentiable; of what was released it needs a paid scale."""
        encoder = Encoder(schema)
        released_map = self._row_map(encoder, self._distance(encoder, released), feature_seed)
        return SideBySide(
            part.smooth() if isinstance(part, WholeFourierMap) else part
            for part in released_map.maps
        )

    def _distance(self, encoder: Encoder, released: tuple[ReleasedStage, ...]) -> float:
        """What the scales are multiplied by."""
        return 1.0 if self.length_scale == "public" else paid_scale(released[0], encoder)

    def _query(self, encoder: Encoder, distance: float, feature_seed: int) -> Query:
        schema = encoder.schema
        row_map = self._row_map(encoder, distance, feature_seed)
        named = zip(self._weights(), row_map.maps, strict=False)
        blocks = tuple(
            _block(name, feature_map, weight=weight, schema=schema)
            for (name, weight), feature_map in named
        )
        return Query(
            encoder=encoder,
            row_map=row_map,
            blocks=blocks,
            batched=True,
            recipe={**recipe_of(self, schema, feature_seed), "distance": distance},
        )

    def _weights(self) -> tuple[tuple[str, float], ...]:
        return (
            (JOINT, self.joint_weight),
            (PAIRS, self.pair_weight),
            (CHOICES, self.category_weight),
        )

    def _row_map(self, encoder: Encoder, distance: float, feature_seed: int) -> SideBySide:
        rng = np.random.Generator(np.random.Philox(feature_seed))
        if encoder.schema.image is not None:
            return SideBySide([self._pixel_map(encoder, distance, rng)])
        joint = draw_frequencies(
            encoder.slots,
            n_frequencies=self.joint_frequencies,
            group_size=self.most_columns,
            length_scales=[distance * scale for scale in self.joint_scales],
            rng=rng,
        )
        pairs = draw_frequencies(
            encoder.slots,
            n_frequencies=self._n_pair_frequencies(encoder),
            group_size=2,
            length_scales=self.pair_scales,
            rng=rng,
        )
        choices = [ChoiceMap(encoder.slots)] if _has_choices(encoder) else []
        return SideBySide([FourierMap(joint), FourierMap(pairs), *choices])

    def _pixel_map(
        self, encoder: Encoder, distance: float, rng: np.random.Generator
    ) -> FourierMap | WholeFourierMap:
        scales = [distance * scale for scale in self.image_scales]
        n_frequencies, n_pixels = self.image_frequencies, encoder.width
        if self.image_law == "whole" and suits(n_pixels, scales):
            return WholeFourierMap(
                draw_whole_frequencies(
                    n_pixels, n_frequencies=n_frequencies, length_scales=scales, rng=rng
                )
            )
        return FourierMap(
            draw_pixel_frequencies(
                n_pixels, n_frequencies=n_frequencies, length_scales=scales, rng=rng
            )
        )

    def _n_pair_frequencies(self, encoder: Encoder) -> int:
        if self.pair_frequencies is not None:
            return self.pair_frequencies
        n_columns = len({slot.column for slot in encoder.slots})
        return min(max(32 * math.comb(n_columns, 2), 1000), 6000)


def suggest_features(
    rows_about: int, epsilon: float, delta: float, *, relation: Relation | str = "add_remove"
) -> int:
    r"""How many Fourier features make the error bound of DP-MERF, Prop. 3.1, smallest.

    .. math:: \frac{4 D \sigma^2}{m^2} +
        \frac{8\sqrt2\,\sigma}{m} \frac{\Gamma((D+1)/2)}{\Gamma(D/2)} + 8\sqrt{2\pi/D}

    Symbols: :math:`m` is the declared row count, :math:`\sigma` half the noise on a sum (the
    proposition is for replace-one, sensitivity 2). The bound is loose: take its word for how the
    number should grow with rows and epsilon rather than for the number itself.

    Privacy: arithmetic on public numbers.
    """
    if rows_about < 1:
        raise ValueError(f"rows_about must be at least 1, got {rows_about}")
    halves = 1.0 if Relation(relation) == Relation.REPLACE_ONE else 0.5
    noise = halves / mu_of(epsilon, delta) / rows_about
    counts = 2 * np.unique(np.geomspace(1, 2**20, 2000).astype(np.int64))
    gammas = np.exp(gammaln((counts + 1) / 2) - gammaln(counts / 2))
    bound = (
        4 * counts * noise**2
        + 8 * math.sqrt(2) * noise * gammas
        + 8 * np.sqrt(2 * math.pi / counts)
    )
    return int(counts[np.argmin(bound)])


def _has_choices(encoder: Encoder) -> bool:
    return any(slot.kind == "choice" for slot in encoder.slots)


def _block(name: str, feature_map: Any, *, weight: float, schema: Schema) -> Block:
    return Block(
        name=name,
        length=feature_map.length,
        weight=weight,
        bits=grid_bits(schema.rows_about, feature_map.length),
        non_negative=name == CHOICES,
        labelled=schema.label is not None,
    )
