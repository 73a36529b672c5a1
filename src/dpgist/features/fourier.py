"""Random Fourier features of encoded rows, over all columns or over small groups of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.encode import Slot

Frequencies = npt.NDArray[np.float64]


class FourierMap(nn.Module):
    r"""Map each row to unit-norm random Fourier features.

    .. math:: \phi(x) = m^{-1/2}\,[\cos(\omega_1^\top x),\dots,\cos(\omega_m^\top x),
              \sin(\omega_1^\top x),\dots,\sin(\omega_m^\top x)], \qquad \|\phi(x)\|_2 = 1

    Symbols: ``frequencies`` is :math:`\omega`, of shape (m, d). Reference: Rahimi and Recht 2007,
    Algorithm 1. Computes in the dtype of its buffer.

    Privacy: none by itself; a pure map of the rows it is given, its frequencies are public.
    """

    frequencies: Tensor

    def __init__(self, frequencies: npt.NDArray[np.floating[Any]]) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.as_tensor(frequencies, dtype=torch.float32))

    @property
    def length(self) -> int:
        """How many numbers a row is mapped to."""
        return 2 * len(self.frequencies)

    def part(self, which: slice) -> FourierMap:
        """The map of some of the frequencies, which share their memory with this one."""
        return FourierMap(self.frequencies[which].cpu().numpy()).to(self.frequencies.device)

    def forward(self, rows: Tensor) -> Tensor:
        phases = rows.to(self.frequencies.dtype) @ self.frequencies.T
        features = torch.cat([phases.cos(), phases.sin()], dim=1)
        return features.mul_(1.0 / math.sqrt(len(self.frequencies)))


def draw_frequencies(
    slots: Sequence[Slot],
    *,
    n_frequencies: int,
    group_size: int | None,
    length_scales: Sequence[float],
    rng: np.random.Generator,
) -> Frequencies:
    r"""Draw Gaussian frequencies whose support is a random group of columns each.

    A frequency sees ``group_size`` columns drawn without replacement (``None``: every column) at
    one of the ``length_scales`` :math:`s`, taken in turn. Scales are multiples of the typical
    distance of two rows that differ in :math:`k` columns:

    .. math:: \omega_j \sim N(0,\, 6/(s^2 k)) \text{ (interval)}, \qquad
              \omega_j \sim N(0,\, 1/(s^2 k)\, I) \text{ (choice)}

    because the mean squared distance of two uniform points of [0, 1] is 1/6, and that of two
    one-hots is about 1. Half the variance of an ordered choice's weights is a random walk over its
    options: a thermometer code, so that neighbours stay close.

    Privacy: none needed; depends on the schema and public randomness alone.
    """
    columns = list(dict.fromkeys(slot.column for slot in slots))
    size = len(columns) if group_size is None else min(group_size, len(columns))
    chosen = _groups(len(columns), size=size, n=n_frequencies, rng=rng)
    scales = np.resize(np.asarray(length_scales, dtype=np.float64), n_frequencies)
    unit = 1.0 / (scales * math.sqrt(max(size, 1)))
    width = sum(slot.width for slot in slots)
    frequencies = np.zeros((n_frequencies, width))
    for slot in slots:
        seen = chosen[:, columns.index(slot.column)] * unit
        weights = _slot_weights(slot, n=n_frequencies, rng=rng) * seen[:, None]
        frequencies[:, slot.start : slot.start + slot.width] = weights
    return frequencies


def draw_pixel_frequencies(
    n_pixels: int,
    *,
    n_frequencies: int,
    length_scales: Sequence[float],
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    r"""Draw Gaussian frequencies over all pixels of an image, in float32.

    .. math:: \omega \sim N(0, \ell^{-2} I), \qquad \ell = s \sqrt{d / 6}

    The length scales :math:`s`, taken in turn, are multiples of the typical distance of two images
    of :math:`d` independent uniform pixels (counted once per channel): a public constant of the
    cube, 11.4 for 28 x 28.

    Privacy: none needed; depends on the schema and public randomness alone.
    """
    frequencies = rng.standard_normal((n_frequencies, n_pixels), dtype=np.float32)
    scales = np.resize(np.asarray(length_scales, dtype=np.float64), n_frequencies)
    lengths = scales * math.sqrt(n_pixels / 6.0)
    frequencies /= lengths[:, None].astype(np.float32)
    return frequencies


def _groups(n_columns: int, *, size: int, n: int, rng: np.random.Generator) -> Frequencies:
    """Indicator matrix (n, n_columns) of ``size`` distinct columns per row, equal rows adjacent.

    Adjacent, so that scales taken in turn are spread evenly over each group.
    """
    ranks = rng.random((n, n_columns)).argsort(axis=1).argsort(axis=1)
    chosen = (ranks < size).astype(np.float64)
    return chosen[np.lexsort(-chosen.T[::-1])] if n_columns else chosen


def slot_spread(slot: Slot) -> float:
    """Standard deviation of a frequency's coordinates in a slot, at scale 1 for one column.

    Privacy: public facts only.
    """
    return math.sqrt(6.0) if slot.kind == "interval" else 1.0


def _slot_weights(slot: Slot, *, n: int, rng: np.random.Generator) -> Frequencies:
    """Unit-scale Gaussian weights of one slot's coordinates, shape (n, width)."""
    normals = rng.standard_normal((n, slot.width))
    if slot.kind == "interval" or not slot.ordered:
        return normals * slot_spread(slot)
    # The walk's variance over the whole range is an interval's, so both bend alike. Half of each
    # weight stays the option's own: null and the bucket stand in the row too, without an order.
    steps = rng.standard_normal((n, slot.width)) * math.sqrt(6.0 / max(slot.width - 1, 1))
    return (np.cumsum(steps, axis=1) + normals) * math.sqrt(0.5)
