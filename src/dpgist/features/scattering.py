"""Wavelet scattering of images: a fixed network that no data trained.

Written here because no kept library does it: kymatio, whose filters these are, has had no release
since 2022 and no longer imports beside today's scipy. A test compares the two.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpgist.features.fourier import FourierMap

Shape = tuple[int, int, int]
Array = npt.NDArray[np.float64]

ANGLES = 8
_SMOOTH = 1e-8
_LARGEST_MATRIX = 2**24
_NOISE_IMAGES, _NOISE_SEED = 256, 1
_CONTRAST = 0.25


class ScatteringMap(nn.Module):
    r"""Map each image to its wavelet scattering coefficients of orders 0, 1 and 2.

    .. math:: S_0 = x \ast \phi_J, \qquad S_1 = |x \ast \psi_{j,\theta}| \ast \phi_J, \qquad
              S_2 = \big||x \ast \psi_{j,\theta}| \ast \psi_{j',\theta'}\big| \ast \phi_J
              \quad (j' > j)

    Symbols: :math:`\psi` Morlet wavelets at ``octaves`` scales :math:`j` and 8 angles
    :math:`\theta`, :math:`\phi_J` a Gaussian after which every :math:`2^J`-th pixel is kept;
    :math:`J` is 2 up to 40 pixels and 3 above. Colours are scattered one by one. The modulus is
    :math:`\sqrt{|\cdot|^2 + 10^{-8}}`, so that training can pass through 0. Reference: Bruna and
    Mallat 2013, sections 2 and 3.

    Each channel is divided by its standard deviation over images of 1/f noise, the simplest public
    image model, and the whole by the root of its length: a typical coordinate then moves by
    1 / sqrt(length).

    Privacy: none by itself; a pure map of the rows it is given, without a parameter from data.
    """

    spread: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, self.octaves = shape, octaves_of(shape)
        self._pad = 2 ** (self.octaves - 1)
        self._sides = _padded(shape)
        levels = range(self.octaves)
        self.first = nn.ModuleList(_Wavelets(self._sides, octave, level=0) for octave in levels)
        self._pairs = list(itertools.combinations(levels, 2))
        self.second = nn.ModuleList(
            _Wavelets(self._sides, coarser, level=octave) for octave, coarser in self._pairs
        )
        for level in levels:
            blur = _blur(self._sides, octaves=self.octaves, level=level)
            self.register_buffer(f"blur{level}", torch.tensor(blur, dtype=torch.float32))
        self.register_buffer("spread", torch.ones(_n_channels(self.octaves)))
        self.spread = _noise_spread(self)

    @property
    def length(self) -> int:
        """How many numbers a row is mapped to."""
        return scattered_length(self.shape)

    def forward(self, rows: Tensor) -> Tensor:
        coefficients = self._scatter(self._images(rows)) / self.spread[:, None]
        return coefficients.flatten(1) * (1.0 / math.sqrt(self.length))

    def _images(self, rows: Tensor) -> Tensor:
        """Rows as images, each mirrored a little beyond its edges."""
        images = rows.to(self.spread.dtype).reshape(-1, *self.shape)
        below, right = (
            want - have - self._pad for want, have in zip(self._sides, self.shape[1:], strict=True)
        )
        return functional.pad(images, [self._pad, right, self._pad, below], mode="reflect")

    def _scatter(self, images: Tensor) -> Tensor:
        """All coefficients of (B, C, H, W) images, shape (B, C, channels, pixels kept)."""
        once = [wavelets(images) for wavelets in self.first]
        seconds = zip(self.second, self._pairs, strict=True)
        twice = [wavelets(once[octave]).flatten(2, 3) for wavelets, (octave, _) in seconds]
        levels = [0, *range(self.octaves), *(coarser for _, coarser in self._pairs)]
        layers = zip([images[:, :, None], *once, *twice], levels, strict=True)
        blurred = [layer.flatten(3) @ self.get_buffer(f"blur{level}") for layer, level in layers]
        return torch.cat(blurred, dim=2)


def octaves_of(shape: Shape) -> int:
    """How often an image is halved. Privacy: public facts only."""
    return 2 if max(shape[1:]) <= 40 else 3


def scattered_length(shape: Shape) -> int:
    """How many coefficients an image has. Privacy: public facts only."""
    octaves = octaves_of(shape)
    height, width = (side >> octaves for side in _padded(shape))
    return shape[0] * _n_channels(octaves) * height * width


def _n_channels(octaves: int) -> int:
    """Coefficients of a place: the mean, each wavelet, and each pair of ever coarser ones."""
    return 1 + octaves * ANGLES + math.comb(octaves, 2) * ANGLES**2


def _padded(shape: Shape) -> tuple[int, int]:
    """Height and width with half a step of mirror on all sides, in whole steps."""
    step = 2 ** octaves_of(shape)
    height, width = (-(-(side + step) // step) * step for side in shape[1:])
    return height, width


class ScatteredFourier(nn.Module):
    """Fourier features of the scattering coefficients and of the pixels, one block a map.

    Privacy: none by itself; row-wise, because each of its maps is.
    """

    def __init__(
        self, scattering: ScatteringMap, tops: Iterable[FourierMap], pixels: Iterable[FourierMap]
    ) -> None:
        super().__init__()
        self.scattering = scattering
        self.tops, self.pixels = nn.ModuleList(tops), nn.ModuleList(pixels)

    @property
    def fouriers(self) -> list[FourierMap]:
        """The map of each block."""
        return [*self.tops, *self.pixels]

    def part(self, which: Sequence[slice]) -> ScatteredFourier:
        """The same with some of the frequencies of each block."""
        parts = [fourier.part(w) for fourier, w in zip(self.fouriers, which, strict=True)]
        return ScatteredFourier(self.scattering, parts[: len(self.tops)], parts[len(self.tops) :])

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        coefficients = self.scattering(rows)
        tops = [fourier(coefficients) for fourier in self.tops]
        return (*tops, *(fourier(rows) for fourier in self.pixels))


class _Wavelets(nn.Module):
    """Modulus of the wavelet transform at one octave, of which every 2^octave-th pixel is kept.

    Images of ``sides`` come in halved ``level`` times already, (..., H, W), and leave as
    (..., angles, h, w). Small ones take one product with a dense matrix, on which all hardware is
    fast, larger ones the Fourier transform.
    """

    spectra: Tensor
    matrix: Tensor | None

    def __init__(self, sides: tuple[int, int], octave: int, *, level: int) -> None:
        super().__init__()
        self.octave, self.level = octave, level
        spectra = torch.tensor(_wavelet_spectra(sides, octave))
        spectra = _folded(spectra, 2**level) * 4**level
        self.register_buffer("spectra", spectra.float())
        self.register_buffer("matrix", None)
        if spectra[0].numel() * spectra.numel() <= _LARGEST_MATRIX:
            dense = _shifted(torch.fft.ifft2(spectra), 2 ** (octave - level))
            self._kept = dense.shape[1:]
            self.matrix = dense.flatten(1)

    def forward(self, images: Tensor) -> Tensor:
        if self.matrix is None:
            transformed = self._transform(images)
            real, imaginary = transformed.real, transformed.imag
        else:
            parts = images.flatten(-2) @ self.matrix
            real, imaginary = parts.reshape(*parts.shape[:-1], *self._kept).unbind(dim=-4)
        return (real.square() + imaginary.square() + _SMOOTH).sqrt()

    def _transform(self, images: Tensor) -> Tensor:
        """Filter in the Fourier domain, where keeping every n-th pixel folds the spectrum."""
        filtered = torch.fft.fft2(images)[..., None, :, :] * self.spectra
        kept: Tensor = torch.fft.ifft2(_folded(filtered, 2 ** (self.octave - self.level)))
        return kept


def _folded(spectra: Tensor, factor: int) -> Tensor:
    """Mean over the parts of a spectrum that look alike once every ``factor``-th pixel is kept."""
    height, width = (side // factor for side in spectra.shape[-2:])
    parts = spectra.reshape(*spectra.shape[:-2], factor, height, factor, width)
    return parts.mean(dim=(-4, -2))


def _shifted(wavelets: Tensor, step: int) -> Tensor:
    """What every pixel adds to every ``step``-th one: the wavelets, moved to where it lies.

    From (angles, H, W) complex numbers to (H W, 2, angles, h, w), real and imaginary parts.
    """
    height, width = wavelets.shape[-2:]
    down, right = (
        (torch.arange(0, side, step) - torch.arange(side)[:, None]) % side
        for side in (height, width)
    )
    parts = torch.stack([wavelets.real, wavelets.imag]).float()
    moved = parts[:, :, down[:, None, :, None], right[None, :, None, :]]
    return moved.permute(2, 3, 0, 1, 4, 5).flatten(0, 1)


def _wavelet_spectra(sides: tuple[int, int], octave: int) -> Array:
    r"""Fourier transforms of the Morlet wavelets of one octave, shape (angles, H, W).

    .. math:: \psi(u) = \frac{s}{2\pi\sigma^2}\, e^{-\|u\|_\theta^2 / 2\sigma^2}
              \big(e^{i \xi \langle u, \theta\rangle} - \beta\big), \qquad
              \sigma = 0.8 \cdot 2^j,\; \xi = \tfrac{3\pi}{4} 2^{-j},\; s = 4 / L

    with :math:`\beta` such that the mean is 0. The transform of a wavelet is real because its
    conjugate is its mirror image.
    """
    sigma, frequency, slant = 0.8 * 2**octave, 0.75 * math.pi / 2**octave, 4.0 / ANGLES
    wavelets = []
    for turn in range(ANGLES):
        angle = (ANGLES // 2 - 1 - turn) * math.pi / ANGLES
        wave = _gabor(sides, sigma=sigma, angle=angle, frequency=frequency, slant=slant)
        bump = _gabor(sides, sigma=sigma, angle=angle, frequency=0.0, slant=slant)
        wavelets.append(np.fft.fft2(wave - bump * (wave.sum() / bump.sum())).real)
    return np.stack(wavelets)


def _gabor(
    sides: tuple[int, int], *, sigma: float, angle: float, frequency: float, slant: float
) -> npt.NDArray[np.complex128]:
    """A Gaussian times a plane wave, wrapped around the image's edges."""
    cos, sin = math.cos(angle), math.sin(angle)
    height, width = sides
    y, x = np.meshgrid(
        np.arange(-2 * height, 3 * height), np.arange(-2 * width, 3 * width), indexing="ij"
    )
    along, across = y * cos + x * sin, x * cos - y * sin
    envelope = -(along**2 + (slant * across) ** 2) / (2 * sigma**2)
    values = np.exp(envelope + 1j * frequency * along) * (slant / (2 * math.pi * sigma**2))
    return np.asarray(values.reshape(5, height, 5, width).sum(axis=(0, 2)))


def _blur(sides: tuple[int, int], *, octaves: int, level: int) -> Array:
    """Matrix from pixels halved ``level`` times to every 2^J-th pixel under the Gaussian."""
    rows, columns = (_blur_of_side(side, octaves=octaves, level=level) for side in sides)
    return np.asarray(np.kron(rows, columns).T, dtype=np.float64)


def _blur_of_side(side: int, *, octaves: int, level: int) -> Array:
    sigma = 0.8 * 2 ** (octaves - 1)
    kept, present = np.arange(0, side, 2**octaves), np.arange(0, side, 2**level)
    wrapped = (kept[:, None] - present)[..., None] + side * np.arange(-2, 3)
    bumps = np.exp(-(wrapped**2) / (2 * sigma**2)).sum(axis=-1)
    return np.asarray(bumps * (2**level / (math.sqrt(2 * math.pi) * sigma)))


@torch.no_grad()
def _noise_spread(scattering: ScatteringMap) -> Tensor:
    """Standard deviation of each channel over images of 1/f noise, to three digits.

    Rounded, because the last bits of a Fourier transform differ between machines.
    """
    _, height, width = scattering.shape
    rng = np.random.Generator(np.random.Philox(_NOISE_SEED))
    frequencies = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :])
    frequencies[0, 0] = np.inf
    spectra = np.fft.fft2(rng.standard_normal((_NOISE_IMAGES, height, width))) / frequencies
    noise = np.fft.ifft2(spectra).real
    noise = np.clip(0.5 + _CONTRAST * noise / noise.std(axis=(1, 2), keepdims=True), 0.0, 1.0)
    rows = torch.tensor(np.repeat(noise[:, None], scattering.shape[0], axis=1)).flatten(1)
    coefficients = scattering._scatter(scattering._images(rows))
    spread = coefficients[:, 0].double().transpose(0, 1).flatten(1).std(dim=1)
    digits = 10.0 ** (2 - torch.floor(torch.log10(spread)))
    return (torch.round(spread * digits) / digits).float()
