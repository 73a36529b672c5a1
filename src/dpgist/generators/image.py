"""Networks for images: noise and a class to pixels in [0, 1], channels first."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpgist.generators.network import draw_rows, initialise

Shape = tuple[int, int, int]

MARGIN = 0.04
"""How far beyond black and white samples are stretched.

A sigmoid seldom reaches 0 or 1, and where it stays differs from class to class. Real images are
black there, so a tree that learns from such greys learns nothing about them: with DP-MERF's digits
a tree gains from 55 % to 74 %, a forest from 83 % to 90 % (`benchmarks/images_margin.py`).
"""


class ImageNetwork(nn.Module):
    """Map noise and a class to an image, flattened channels first.

    ``layers`` turn (latent + classes) numbers into images (C, H, W) before the last sigmoid;
    samples are stretched a little beyond black and white and cut off there.

    Privacy: none needed; sees released statistics only.
    """

    def __init__(
        self, layers: nn.Module, *, kind: str, n_classes: int, sizes: dict[str, int]
    ) -> None:
        super().__init__()
        self.kind, self.sizes = kind, sizes
        self.n_noise, self.n_classes = sizes["latent"], n_classes
        self.layers = layers

    def forward(self, noise: Tensor, classes: Tensor) -> Tensor:
        images = self.layers(torch.cat([noise, classes], dim=1))
        # Under autocast the last layer speaks bfloat16, too coarse for a pixel.
        return torch.sigmoid(images.float()).flatten(1)

    def sample(
        self, classes: npt.NDArray[np.int64], *, rng: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """One encoded image (n, C H W) for each class code.

        Privacy: post-processing of a release; touches no row.
        """
        known = {"n_noise": self.n_noise, "n_classes": self.n_classes}
        rows = draw_rows(self, classes, **known, rng=rng)
        return np.clip(rows * (1 + 2 * MARGIN) - MARGIN, 0.0, 1.0)


def upsampling_images(
    shape: Shape,
    *,
    n_classes: int,
    latent: int,
    hidden: int,
    channels: int,
    generator: torch.Generator,
) -> ImageNetwork:
    """The papers' generator: two bilinear doublings, each followed by a convolution.

    Noise and class -> ``hidden`` -> ``channels`` x H/4 x W/4 -> doubled -> convolution (5 x 5,
    half the channels) -> doubled -> convolution (5 x 5) -> sigmoid. With noise of 5, 200 hidden
    units and 16 channels it is the one of DP-MERF (Harder, Adamczewski and Park 2021).

    Privacy: none needed; made from public facts and public randomness.
    """
    start, fewer = _quarter(shape, channels), max(channels // 2, 1)
    with torch.random.fork_rng(devices=[]):  # layers fill themselves from torch's own state
        layers = nn.Sequential(
            *_stem(latent + n_classes, hidden, start),
            nn.Unflatten(1, start),
            nn.UpsamplingBilinear2d(scale_factor=2),
            nn.Conv2d(channels, fewer, 5, padding=2),
            nn.ReLU(),
            nn.UpsamplingBilinear2d(scale_factor=2),
            nn.Conv2d(fewer, shape[0], 5, padding=2),
        )
    initialise(layers, generator)
    sizes = {"latent": latent, "hidden": hidden, "channels": channels}
    return ImageNetwork(layers, kind="upsampling", n_classes=n_classes, sizes=sizes)


def convolution_images(
    shape: Shape,
    *,
    n_classes: int,
    latent: int,
    hidden: int,
    channels: int,
    generator: torch.Generator,
) -> ImageNetwork:
    """Two transposed convolutions with batch normalisation.

    Noise and class -> ``hidden`` -> ``channels`` x H/4 x W/4 -> transposed convolution (4 x 4,
    stride 2, half the channels) -> transposed convolution (4 x 4, stride 2) -> sigmoid.

    Privacy: none needed; made from public facts and public randomness.
    """
    start, fewer = _quarter(shape, channels), max(channels // 2, 1)
    with torch.random.fork_rng(devices=[]):
        layers = nn.Sequential(
            *_stem(latent + n_classes, hidden, start),
            nn.ReLU(),
            nn.Unflatten(1, start),
            nn.ConvTranspose2d(channels, fewer, 4, stride=2, padding=1),
            nn.BatchNorm2d(fewer),
            nn.ReLU(),
            nn.ConvTranspose2d(fewer, shape[0], 4, stride=2, padding=1),
        )
    initialise(layers, generator)
    sizes = {"latent": latent, "hidden": hidden, "channels": channels}
    return ImageNetwork(layers, kind="conv", n_classes=n_classes, sizes=sizes)


class _Enlarged(nn.Module):
    """Every pixel twice in both directions, as precise as it comes.

    Autocast would turn it to float32, and with it all that follows up to the next convolution,
    though nothing is computed here.
    """

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, enabled=False):
            return functional.interpolate(images, scale_factor=2.0)


class _Doubling(nn.Module):
    """A residual block that doubles height and width."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            _Enlarged(),
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1), _Enlarged())

    def forward(self, images: Tensor) -> Tensor:
        changed: Tensor = self.path(images) + self.skip(images)
        return changed


def doublings(shape: Shape) -> int:
    """How many residual blocks an image takes. Privacy: public facts only."""
    return 2 if max(shape[1:]) <= 40 else 3


def residual_images(
    shape: Shape, *, n_classes: int, latent: int, channels: int, generator: torch.Generator
) -> ImageNetwork:
    """Residual blocks, each of which doubles height and width.

    Noise and class -> ``channels`` x 7 x 7 or so -> two blocks up to 40 pixels, three above, with
    half the channels after the first -> convolution (3 x 3) -> sigmoid. The shape of DP-MEPF's
    generator (Harder et al. 2023), smaller.

    Privacy: none needed; made from public facts and public randomness.
    """
    blocks, fewer = doublings(shape), max(channels // 2, 1)
    start = torch.Size((channels, *(side // 2**blocks for side in shape[1:])))
    widths = [channels, *[fewer] * blocks]
    with torch.random.fork_rng(devices=[]):
        layers = nn.Sequential(
            nn.Linear(latent + n_classes, start.numel()),
            nn.Unflatten(1, start),
            *(_Doubling(a, b) for a, b in itertools.pairwise(widths)),
            nn.BatchNorm2d(fewer),
            nn.ReLU(),
            nn.Conv2d(fewer, shape[0], 3, padding=1),
        )
    initialise(layers, generator)
    sizes = {"latent": latent, "channels": channels}
    return ImageNetwork(layers, kind="residual", n_classes=n_classes, sizes=sizes)


def _quarter(shape: Shape, channels: int) -> torch.Size:
    """The shape from which two doublings reach the image's size."""
    _, height, width = shape
    return torch.Size((channels, height // 4, width // 4))


def _stem(inputs: int, hidden: int, start: torch.Size) -> tuple[nn.Module, ...]:
    return (
        nn.Linear(inputs, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, start.numel()),
        nn.BatchNorm1d(start.numel()),
    )
