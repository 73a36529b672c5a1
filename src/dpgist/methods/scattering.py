"""Scattering: mean embeddings of wavelet scattering coefficients and of pixels, for images."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpgist.encode import Encoder
from dpgist.errors import DataError
from dpgist.features.fourier import FourierMap
from dpgist.features.scattering import ScatteredFourier, ScatteringMap, scattered_length
from dpgist.methods.scale import above_the_noise
from dpgist.methods.stages import recipe_of
from dpgist.privacy.accounting import mu_of
from dpgist.privacy.lattice import grid_bits
from dpgist.privacy.plan import Block, Budget, Plan, Query, Relation, Stage
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema

SCATTERED, PIXELS = "scattering", "pixels"
SMALLEST_SIDE = 8
_SCALES, _PIXEL_SCALES = (1.0, 2.0, 4.0), (0.35, 0.7, 1.4)
_ROWS_IF_UNKNOWN = 10_000
_MOST_FREQUENCIES, _MOST_PIXEL_FREQUENCIES = 12_000, 6_000
_LARGEST_MATRIX = 2**28
"""Numbers in the matrix of a view's frequencies: a gigabyte of them."""


@dataclass(frozen=True, kw_only=True)
class Scattering:
    r"""Release the mean embedding of each class of images under Gaussian kernels of two views.

    .. math:: \phi_{b}(x) = m^{-1/2}[\cos(\omega^\top v_b(x)), \sin(\omega^\top v_b(x))], \quad
              \omega \sim N(0, \ell_b^{-2} I), \qquad v_b(x) = \text{Sx or } x

    One block b for each length scale of the scattering coefficients Sx
    (:class:`~dpgist.features.scattering.ScatteringMap`) and of the pixels x, all in one joint
    Gaussian with the class counts. Wavelets see strokes and edges where pixels see only position,
    and no data trained them. A narrow scale tells fine detail; wide ones keep samples from
    escaping to where a narrow kernel is flat, so they are always there.

    Symbols: ``scales`` are :math:`\ell` of the scattering coefficients, whose typical distance is
    1 to 3 whatever the size of the image; ``pixel_scales`` multiples of :math:`\sqrt{d/6}` for
    :math:`d` pixels; ``frequencies`` and ``pixel_frequencies`` how many the scales of a view
    share (two features each); ``pixel_weight`` the pixels' weight in the release beside 1. Scales
    left out are chosen by the noise (:func:`scales_for`); 12,000 frequencies are, unless images are
    so large that these would take more than a gigabyte; likewise 6,000 of the pixels.

    Privacy: settings are public; the curator bounds every block and pays for the release.
    """

    name: ClassVar[str] = "scattering"

    frequencies: int | None = None
    pixel_frequencies: int | None = None
    scales: tuple[float, ...] | None = None
    pixel_scales: tuple[float, ...] | None = None
    pixel_weight: float = 0.6

    def __post_init__(self) -> None:
        asked = (self.frequencies, self.pixel_frequencies)
        if any(count is not None and count < 1 for count in asked):
            raise ValueError("frequencies must be at least 1")
        for field in ("scales", "pixel_scales"):
            if getattr(self, field) is not None:
                scales = tuple(float(scale) for scale in getattr(self, field))
                object.__setattr__(self, field, scales)
                if not scales or not min(scales) > 0 or len(set(scales)) < len(scales):
                    raise ValueError(f"{field} must hold different numbers above 0")
        if not 0 < self.pixel_weight < math.inf:
            raise ValueError(f"pixel_weight must be finite and above 0, got {self.pixel_weight}")

    def settled(self, schema: Schema, budget: Budget) -> Scattering:
        """The same with all scales and the number of frequencies chosen."""
        scales, pixel_scales = scales_for(schema, budget)
        shape = _shape(schema)
        affordable = _LARGEST_MATRIX // scattered_length(shape)
        affordable_pixels = _LARGEST_MATRIX // math.prod(shape)
        return replace(
            self,
            frequencies=self.frequencies or min(_MOST_FREQUENCIES, affordable),
            pixel_frequencies=self.pixel_frequencies
            or min(_MOST_PIXEL_FREQUENCIES, affordable_pixels),
            scales=self.scales or scales,
            pixel_scales=self.pixel_scales or pixel_scales,
        )

    def plan(self, schema: Schema, *, budget: Budget, feature_seed: int) -> Plan:
        """Every block in one joint release."""
        settled = self.settled(schema, budget)
        query = settled._query(Encoder(schema), feature_seed)
        return Plan(stages=(Stage(share=Fraction(1), query=lambda released: query),))

    def row_map(
        self, schema: Schema, *, feature_seed: int, released: tuple[ReleasedStage, ...] = ()
    ) -> ScatteredFourier:
        """The map of the only stage; the scales must be settled."""
        del released
        shape = _shape(schema)
        rng = np.random.Generator(np.random.Philox(feature_seed))
        scattering, n_pixels = ScatteringMap(shape), math.prod(shape)
        lengths = {SCATTERED: scattering.length, PIXELS: n_pixels}
        units = {SCATTERED: 1.0, PIXELS: math.sqrt(n_pixels / 6)}
        fouriers = {
            view: [
                _fourier(lengths[view], count, scale=units[view] * scale, rng=rng)
                for scale, count in self._frequencies(view)
            ]
            for view in (SCATTERED, PIXELS)
        }
        return ScatteredFourier(scattering, fouriers[SCATTERED], fouriers[PIXELS])

    def _frequencies(self, view: str) -> list[tuple[float, int]]:
        """The scales of a view, and how many frequencies each one gets."""
        known = {
            SCATTERED: (self.scales, self.frequencies),
            PIXELS: (self.pixel_scales, self.pixel_frequencies),
        }
        scales, count = known[view]
        if scales is None or count is None:
            raise ValueError("the scales are not settled; call settled(schema, budget) first")
        return [(scale, max(count // len(scales), 1)) for scale in scales]

    def _query(self, encoder: Encoder, feature_seed: int) -> Query:
        schema = encoder.schema
        return Query(
            encoder=encoder,
            row_map=self.row_map(schema, feature_seed=feature_seed),
            blocks=self._blocks(schema),
            batched=True,
            recipe=recipe_of(self, schema, feature_seed),
        )

    def _blocks(self, schema: Schema) -> tuple[Block, ...]:
        """One block a scale; the views share the noise by weight, their scales evenly."""
        weights = {SCATTERED: 1.0, PIXELS: self.pixel_weight}
        return tuple(
            Block(
                name=f"{view} {scale:g}",
                length=2 * count,
                weight=weight / math.sqrt(len(self._frequencies(view))),
                bits=grid_bits(schema.rows_about, 2 * count),
                labelled=schema.label is not None,
            )
            for view, weight in weights.items()
            for scale, count in self._frequencies(view)
        )


def scales_for(schema: Schema, budget: Budget) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Length scales of both views that stand out of the noise; one rule for all data.

    See :func:`~dpgist.methods.scale.above_the_noise`.

    Privacy: schema and budget only.
    """
    classes = Encoder(schema).n_classes
    rows = (schema.rows_about or _ROWS_IF_UNKNOWN) / classes
    halves = 2.0 if budget.relation == Relation.REPLACE_ONE else 1.0
    noise = halves * schema.max_rows_per_person / mu_of(budget.epsilon, budget.delta) / rows
    return above_the_noise(_SCALES, noise), above_the_noise(_PIXEL_SCALES, noise)


def _shape(schema: Schema) -> tuple[int, int, int]:
    slots = Encoder(schema).slots
    shape = next((slot.shape for slot in slots if slot.kind == "image"), None)
    if shape is None:
        raise DataError(f"schema {schema.name!r}: method scattering is for images; use merf")
    if min(shape[1:]) < SMALLEST_SIDE:
        raise DataError(
            f"schema {schema.name!r}: method scattering needs images of at least "
            f"{SMALLEST_SIDE} pixels a side, got {shape[1]} x {shape[2]}; use merf"
        )
    return shape


def _fourier(
    length: int, n_frequencies: int, *, scale: float, rng: np.random.Generator
) -> FourierMap:
    frequencies = rng.standard_normal((n_frequencies, length), dtype=np.float32)
    frequencies /= np.float32(scale)
    return FourierMap(frequencies)
