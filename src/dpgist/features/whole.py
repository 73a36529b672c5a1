r"""Fourier features of 8-bit images in whole numbers: exact phases, quick, the same in any block.

Pixels are integers already. With frequencies that are whole multiples of a unit the product of the
two is an integer that no order of additions can change, and processors multiply 8-bit integers
several times as fast as floats.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.features.fourier import FourierMap
from dpgist.features.looked import LookedUp

LARGEST = 63
"""Two products with a byte stay below 2^15: processors that add pairs in 16 bits are exact too."""

_STD = 10.0  # of whole frequencies: one in 10^9 lies beyond the largest and is clipped
_STEPS = 2**14  # of a full turn; what half a step moves in a feature, 2e-4, averages out over rows
_STEPS_A_UNIT = _STEPS / (2 * math.pi * 255)  # that one pixel value times one unit turns
_INSIDE = 1 - 2.0**-22  # what float32 rounds up stays below norm 1


def suits(n_pixels: int, length_scales: Sequence[float]) -> bool:
    """Whether phases at these length scales stay within 32 bits, counted in steps, for any image.

    Privacy: public numbers only.
    """
    largest = 255 * LARGEST * n_pixels
    steps = _unit(n_pixels, min(length_scales)) * _STEPS_A_UNIT
    return largest < 2**31 and largest * steps < 2**31


@dataclass(frozen=True, kw_only=True)
class WholeFrequencies:
    r"""Frequencies :math:`\omega_k = u_k f_k` with whole :math:`f_k` and one unit each.

    Symbols: ``whole`` is :math:`f` (m, d) in int8; ``units`` are :math:`u` (m,), for pixels between
    0 and 1.

    Privacy: public randomness; depends on no row.
    """

    whole: npt.NDArray[np.int8]
    units: npt.NDArray[np.float64]


def draw_whole_frequencies(
    n_pixels: int,
    *,
    n_frequencies: int,
    length_scales: Sequence[float],
    rng: np.random.Generator,
) -> WholeFrequencies:
    r"""Draw Gaussian frequencies over all pixels of an image, rounded to whole multiples of a unit.

    .. math:: f = \mathrm{round}(\sigma g),\ g \sim N(0, I), \qquad
              u = \ell^{-1} (\sigma^2 + 1/12)^{-1/2}, \qquad \ell = s \sqrt{d / 6}

    so that :math:`u f` has variance :math:`\ell^{-2}`. Rounding multiplies the characteristic
    function of a Gaussian by :math:`\mathrm{sinc}(u \delta / 2)` at a pixel difference of
    :math:`\delta`, of which the variance is the first term; the next is
    :math:`(u \delta)^4 / 2880` a pixel, and :math:`u \delta \le 0.025` for digits at
    :math:`s = 0.35`: the kernel is the Gaussian one to eight digits. The length scales :math:`s`,
    taken in turn, mean what they do in :func:`~dpgist.features.fourier.draw_pixel_frequencies`.

    Privacy: none needed; depends on the schema and public randomness alone.
    """
    drawn = rng.standard_normal((n_frequencies, n_pixels), dtype=np.float32)
    drawn *= np.float32(_STD)
    whole = np.clip(np.rint(drawn, out=drawn), -LARGEST, LARGEST).astype(np.int8)
    units = np.array([_unit(n_pixels, scale) for scale in length_scales])
    return WholeFrequencies(whole=whole, units=np.resize(units, n_frequencies))


def _unit(n_pixels: int, length_scale: float) -> float:
    return 1.0 / (length_scale * math.sqrt(n_pixels / 6.0) * math.sqrt(_STD**2 + 1 / 12))


class WholeFourierMap(nn.Module):
    r"""Map each 8-bit image to random Fourier features of norm at most 1, without rounding errors.

    .. math:: n_k = \sum_j f_{kj} p_j \in \mathbb{Z}, \qquad
              t_k = \mathrm{round}(n_k\, u_k T / 510 \pi) \bmod T, \qquad
              \phi(p) = m^{-1/2} [\cos(2 \pi t / T), \sin(2 \pi t / T)]

    Symbols: :math:`p_j` are pixels from 0 to 255, :math:`f` and :math:`u` the
    :class:`WholeFrequencies`, :math:`T` = 16384 the steps of a full turn. Rows are taken to the
    nearest such image; :meth:`smooth` is the same map for training, differentiable and for any row.

    Row-wise by construction: :math:`n_k` is an exact integer in whatever order it is added up (all
    sums below 2^31, see :func:`suits`), its product with a constant is a single IEEE operation, and
    the rest looks up a table. Norm at most 1 by construction: :math:`c_t^2 + s_t^2 \le 1/m` holds
    for all 16384 pairs of the table, because they are a factor :math:`1 - 2^{-22}` shorter than
    :math:`m^{-1/2}`, which is more than float32 can round up.

    Privacy: none by itself; a pure map of the rows it is given, its frequencies are public.
    """

    whole: Tensor
    units: Tensor
    dark: Tensor
    steps: Tensor
    pairs: Tensor

    def __init__(self, frequencies: WholeFrequencies) -> None:
        super().__init__()
        whole, units = torch.from_numpy(frequencies.whole), torch.from_numpy(frequencies.units)
        self.register_buffer("whole", whole)
        self.register_buffer("units", units)
        # Pixels are multiplied as p - 128, which fits 8 bits with a sign; this makes up for it.
        self.register_buffer("dark", 128 * whole.sum(dim=1, dtype=torch.int32))
        self.register_buffer("steps", (units * _STEPS_A_UNIT).to(torch.float32))
        self.register_buffer("pairs", torch.from_numpy(_turn(len(whole))))

    @property
    def length(self) -> int:
        """How many numbers a row is mapped to."""
        return 2 * len(self.whole)

    @property
    def frequencies(self) -> Tensor:
        """The frequencies for pixels between 0 and 1, (m, d) in float32."""
        return (self.whole * self.units[:, None]).to(torch.float32)

    def smooth(self) -> FourierMap:
        """The same map for any row, differentiable; features agree to half a step of a turn."""
        return FourierMap(self.frequencies.numpy())

    def forward(self, rows: Tensor) -> LookedUp:
        pixels = rows.to(torch.float32).mul(255.0).round_().clamp_(0.0, 255.0).sub_(128.0)
        products = _whole_product(pixels.to(torch.int8), self.whole).add_(self.dark)
        turned = products.to(torch.float32).mul_(self.steps).round_()
        places = turned.to(torch.int32).bitwise_and_(_STEPS - 1)
        return LookedUp(places=places, pairs=self.pairs)


def _turn(n_frequencies: int) -> npt.NDArray[np.float32]:
    """The cosine and sine of every step of a turn, (steps, 2), over the root of their number."""
    angles = np.arange(_STEPS) * (2 * math.pi / _STEPS)
    pairs = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return (pairs * (_INSIDE / math.sqrt(n_frequencies))).astype(np.float32)


def _whole_product(pixels: Tensor, whole: Tensor) -> Tensor:
    """Exact products (B, m) in int32 of (B, d) and (m, d) in int8."""
    if _multiplies_bytes():
        return torch._int_mm(pixels, whole.T)
    return (pixels.to(torch.float64) @ whole.to(torch.float64).T).to(torch.int32)


@functools.cache
def _multiplies_bytes() -> bool:
    """Whether this build of torch multiplies bytes, and rightly where it is hardest."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch, "_int_mm")):  # type: ignore[no-untyped-call]
        return False
    pixels = torch.tensor([-128, 127], dtype=torch.int8)[:, None].expand(2, 1024).contiguous()
    whole = torch.tensor([LARGEST, -LARGEST], dtype=torch.int8)[:, None].expand(2, 1024)
    found = torch._int_mm(pixels, whole.contiguous().T)
    return found.tolist() == (pixels.to(torch.int32) @ whole.to(torch.int32).T).tolist()
