"""Length scales: paid for by a first stage, and as narrow as the noise allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpgist.encode import Encoder
from dpgist.features.spread import SpreadMap, public_squared_distance
from dpgist.privacy.lattice import grid_bits
from dpgist.privacy.plan import COUNTS, Block, Query
from dpgist.privacy.released import ReleasedStage

MEAN, ENERGY = "mean", "energy"
_SMALLEST, _LARGEST = 0.2, 2.0
"""The paid distance is believed within these multiples of the public one."""
_NOISE_FOR_ALL = 1.5e-3


def scale_query(encoder: Encoder, recipe: Mapping[str, Any]) -> Query:
    """What the first stage asks: the mean row and the mean squared norm, whatever the class.

    Privacy: built from the schema alone.
    """
    bits = grid_bits(encoder.schema.rows_about, encoder.width)
    return Query(
        encoder=encoder,
        row_map=SpreadMap(encoder.slots),
        blocks=(
            Block(name=MEAN, length=encoder.width, bits=bits),
            Block(name=ENERGY, length=1, bits=bits, non_negative=True),
        ),
        batched=True,
        recipe={**recipe, "stage": "scale"},
    )


def paid_scale(stage: ReleasedStage, encoder: Encoder) -> float:
    r"""Typical distance of two rows as a multiple of the public one, from the first stage.

    .. math:: \hat D^2 = 2\left(\tilde e - \|\tilde m\|^2 + d \tau^2\right)

    Symbols: :math:`\tilde e` noisy mean squared norm, :math:`\tilde m` noisy mean row with noise
    :math:`\tau` on each of its :math:`d` coordinates. Without the last term the estimate would be
    too small by twice the noise energy, far below 0 for small tables. If even the row count
    drowns in noise the public constant stands.

    Privacy: post-processing of the first stage.
    """
    rows = float(stage[COUNTS].sums().sum())
    if rows < 1:
        return 1.0
    largest = SpreadMap(encoder.slots).largest
    mean = stage[MEAN].sums()[0] * (math.sqrt(largest) / rows)
    noise = stage[MEAN].noise_std * math.sqrt(largest) / rows
    energy = float(stage[ENERGY].sums()[0, 0]) * largest / rows
    squared = 2 * (energy - float(mean @ mean) + encoder.width * noise**2)
    ratio = squared / public_squared_distance(encoder.slots)
    return math.sqrt(min(max(ratio, _SMALLEST**2), _LARGEST**2))


def above_the_noise(scales: Sequence[float], noise: float) -> tuple[float, ...]:
    """Those length scales that stand out of the noise on a class's mean embedding.

    The noise is compared with 0.0015, four times that, and so on; each factor of four costs the
    narrowest scale that is left, and the widest always stays. One rule for all data, chosen on
    held-out training digits.

    Privacy: a function of public or released numbers.
    """
    dropped = math.ceil(math.log(max(noise / _NOISE_FOR_ALL, 1.0), 4))
    return tuple(sorted(scales)[min(dropped, len(scales) - 1) :])
