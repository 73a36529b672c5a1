"""The characteristic function of rows at public frequencies, and how those may be re-weighted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.encode import Slot
from dpgist.features.fourier import (
    FourierMap,
    draw_frequencies,
    draw_pixel_frequencies,
    slot_spread,
)
from dpgist.features.stretch import Stretch

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Waves:
    r"""Frequencies and where each of them lies in the Gaussian it was drawn from.

    ``frequencies`` (k, d). The axes of the family are columns, or pixels of an image:
    ``squares`` (k, axes) holds :math:`\|z_{ij}\|^2`, the squared length of frequency i along axis
    j in units of its standard deviation, ``sizes`` (k, axes) how many coordinates that are, 0
    where the frequency does not see the axis.

    Privacy: public; from the schema, public randomness and released numbers.
    """

    frequencies: npt.NDArray[np.float64 | np.float32]
    squares: Floats32
    sizes: Floats32

    def scaled(self, distance: float) -> Waves:
        """The same waves for rows that lie ``distance`` times as far apart."""
        return replace(self, frequencies=self.frequencies / self.frequencies.dtype.type(distance))


class CharacteristicMap(nn.Module):
    r"""Map each row to its characteristic function at k frequencies, as one block of norm 1.

    .. math:: \phi(x) = k^{-1/2}\,[\mathrm{Re}\, e^{i t_1^\top v}, \dots,
              \mathrm{Im}\, e^{i t_k^\top v}], \qquad v = \text{x, or x stretched}

    Symbols: :math:`t` are ``frequencies``; both parts of every complex number are there, so 2k
    real numbers. A sum of such rows over their number is the empirical characteristic function.
    Reference: PEARL, Liew, Takahashi and Ueno 2022, section 3.

    Privacy: none by itself; a pure map of the rows it is given.
    """

    squares: Tensor
    sizes: Tensor

    def __init__(self, waves: Waves, stretch: Stretch | None = None) -> None:
        super().__init__()
        self.fourier = FourierMap(waves.frequencies)
        self.stretch = stretch
        self.register_buffer("squares", torch.tensor(waves.squares))
        self.register_buffer("sizes", torch.tensor(waves.sizes))

    @property
    def length(self) -> int:
        """How many numbers a row is mapped to."""
        return self.fourier.length

    def forward(self, rows: Tensor) -> tuple[Tensor]:
        return (self.fourier(rows if self.stretch is None else self.stretch(rows)),)


def draw_waves(
    slots: Sequence[Slot],
    *,
    n_frequencies: int,
    group_sizes: Sequence[int],
    length_scales: Sequence[float],
    rng: np.random.Generator,
) -> Waves:
    """Draw frequencies that see groups of columns, equally many of each of the ``group_sizes``.

    A frequency of a group belongs to the characteristic function of a marginal. Scales are
    multiples of the distance of two made-up rows, see
    :func:`~dpgist.features.fourier.draw_frequencies`; the options of an ordered choice are drawn
    independently here, so that the family is a Gaussian with a diagonal covariance.

    Privacy: none needed; depends on the schema and public randomness alone.
    """
    plain = [replace(slot, ordered=False) for slot in slots]
    n_columns = len({slot.column for slot in slots})
    ends = np.linspace(0, n_frequencies, len(group_sizes) + 1).round().astype(np.int64)
    frequencies, deviates = [], []
    for wanted, n in zip(group_sizes, np.diff(ends).tolist(), strict=True):
        size = min(wanted, n_columns)
        drawn = draw_frequencies(
            plain, n_frequencies=n, group_size=size, length_scales=length_scales, rng=rng
        )
        units = np.resize(np.asarray(length_scales), n) * math.sqrt(max(size, 1))
        spreads = np.array([slot_spread(slot) for slot in plain for _ in range(slot.width)])
        frequencies.append(drawn)
        deviates.append(drawn * units[:, None] / spreads)
    squares, sizes = _along_columns(plain, np.concatenate(deviates))
    return Waves(frequencies=np.concatenate(frequencies), squares=squares, sizes=sizes)


def draw_pixel_waves(
    n_pixels: int,
    *,
    n_frequencies: int,
    length_scales: Sequence[float],
    rng: np.random.Generator,
) -> Waves:
    """Draw frequencies over all pixels; every pixel is an axis of the family.

    Privacy: none needed; depends on the schema and public randomness alone.
    """
    drawn = draw_pixel_frequencies(
        n_pixels, n_frequencies=n_frequencies, length_scales=length_scales, rng=rng
    )
    lengths = np.resize(np.asarray(length_scales), n_frequencies) * math.sqrt(n_pixels / 6.0)
    squares = np.square(drawn * lengths[:, None].astype(np.float32))
    return Waves(frequencies=drawn, squares=squares, sizes=np.ones_like(squares))


def _along_columns(slots: Sequence[Slot], deviates: Floats) -> tuple[Floats32, Floats32]:
    """Squared lengths along each column, and how many coordinates they add up."""
    columns = list(dict.fromkeys(slot.column for slot in slots))
    squares = np.zeros((len(deviates), len(columns)), np.float32)
    sizes = np.zeros_like(squares)
    for slot in slots:
        own = deviates[:, slot.start : slot.start + slot.width]
        squares[:, columns.index(slot.column)] += np.square(own).sum(axis=1)
        sizes[:, columns.index(slot.column)] += slot.width * (own != 0).any(axis=1)
    return squares, sizes


def log_ratios(squares: Tensor, sizes: Tensor, log_scales: Tensor) -> Tensor:
    r"""How much likelier each frequency is under re-scaled axes than where it was drawn, in logs.

    .. math:: \ell_i = \sum_j \Big( -n_{ij} \log s_j - \tfrac12 \|z_{ij}\|^2
              (s_j^{-2} - 1) \Big)

    Symbols: :math:`s_j` multiplies the standard deviation of axis j (``log_scales`` is its
    logarithm), :math:`\|z_{ij}\|^2` and :math:`n_{ij}` are ``squares`` and ``sizes`` of
    :class:`Waves`. With weights :math:`e^{\ell_i}` over their sum, frequencies drawn once stand
    for any other member of the Gaussian family. Reference: PEARL, section 4, Lemma 1.

    Privacy: none needed; a function of public frequencies.
    """
    return -sizes @ log_scales - squares @ (torch.exp(-2 * log_scales) - 1) / 2


def effective_share(weights: Tensor) -> Tensor:
    r"""How many equally weighted frequencies the weights are worth, as a share of all.

    .. math:: (\textstyle\sum_i w_i)^2 / (k \sum_i w_i^2)

    Privacy: none needed; a function of public frequencies.
    """
    return weights.sum().square() / (len(weights) * weights.square().sum())
