"""What training makes small: the distance to the target, in closed form or from two halves."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpgist.features.compose import SideBySide
from dpgist.features.expected import expected_means
from dpgist.features.scattering import ScatteredFourier
from dpgist.generators.binned import BinnedMixture
from dpgist.generators.build import Network
from dpgist.generators.mixture import MixtureGenerator
from dpgist.training.matching import (
    Target,
    TargetTensors,
    Weigh,
    class_means,
    matching_loss,
    two_half_loss,
)

_SETTLING_BATCHES = 50
_FREQUENCIES_AT_ONCE = 1000
HALF_KINDS = ("residual", "conv")
"""Generators whose convolutions run in bfloat16, channels last, on CUDA."""


class Objective(Protocol):
    """A loss of a generator's weights.

    ``betas``, ``smallest_moment`` and ``average_rate`` are what suits its noise: Adam's memories
    and epsilon, and the weight of the newest step in the running average of weights that becomes
    the model. ``enough`` is the loss below which there is only noise to learn, if that is
    known; losses are compared with it as means over ``window`` steps, and once there it takes
    ``rest`` times as many steps as before, ever smaller ones, to come to rest. ``settle`` makes an
    averaged twin ready to be sampled from.

    Privacy: post-processing of a release; touches no row.
    """

    betas: tuple[float, float]
    smallest_moment: float
    average_rate: float
    enough: float
    window: int
    rest: float

    def loss(self, rng: torch.Generator) -> Tensor: ...

    def settle(self, averaged: nn.Module, rng: torch.Generator) -> None: ...


class ClosedForm:
    """The distance of a mixture of products, exactly: nothing is drawn.

    Privacy: post-processing of a release; touches no row.
    """

    betas = (0.9, 0.99)
    smallest_moment = 1e-12  # losses end near 1e-5: the usual 1e-8 would brake the last steps
    average_rate = 1.0  # no noise to average out
    window, rest = 1, 0.0

    def __init__(
        self,
        generator: MixtureGenerator | BinnedMixture,
        row_map: nn.Module,
        target: Target,
        *,
        weigh: Weigh = torch.sum,
    ) -> None:
        device = generator.components.device
        ends = isinstance(row_map, SideBySide) and row_map.ends_at_noise and target.noise > 0
        self.enough = target.noise if ends else -math.inf
        self._generator, self._target, self._weigh = generator, target.on(device), weigh
        self._expected = expected_means(row_map, generator.supports).to(device)

    def loss(self, rng: torch.Generator) -> Tensor:
        """See :func:`matching_loss`. Privacy: post-processing of a release."""
        del rng
        components, cells = self._generator()
        if isinstance(self._generator, BinnedMixture):
            cells = torch.split(cells, self._generator.splits)
        return matching_loss(
            self._expected(components[self._target.classes], cells),
            self._target.means,
            class_weights=self._target.class_weights,
            loss_weights=self._target.loss_weights,
            weigh=self._weigh,
        )

    def settle(self, averaged: nn.Module, rng: torch.Generator) -> None:
        """Nothing to do. Privacy: post-processing of a release."""


class TwoHalves:
    """The distance of any network under any row map, estimated without bias from drawn rows.

    A step draws two independent half batches, each with as many rows of every class, sorted by
    class. Each half goes through the network on its own: batch normalisation would tie rows of
    one pass together. On CUDA convolutions run in bfloat16; features and loss are float32; and the
    hundreds of small kernels of a step are recorded once and replayed, because launching them one
    by one takes longer than running them.

    With ``thinning`` above 1 each step looks at a part of the frequencies only, drawn anew, where a
    processor could not afford them all: features of a part are as long as those of the whole, so
    the mean over all parts is the same loss.

    With ``ends_at_noise`` training ends soon after the loss is what the noise alone would leave:
    what a network learns below it is the noise.

    Privacy: post-processing of a release; touches no row.
    """

    betas = (0.5, 0.99)
    smallest_moment = 1e-8
    average_rate = 0.005
    window, rest = 50, 1.0

    def __init__(
        self,
        generator: Network,
        row_map: nn.Module,
        target: Target,
        *,
        batch: int,
        thinning: int = 1,
        ends_at_noise: bool = False,
        weigh: Weigh = torch.sum,
    ) -> None:
        self._device = next(generator.parameters()).device
        ends = ends_at_noise and target.noise > 0
        self.enough = target.noise if ends else -math.inf  # an unbiased estimate may fall below 0
        row_map.to(self._device).requires_grad_(False)
        known = target.on(self._device)
        n_classes = len(target.class_weights)
        # Batch normalisation needs two rows at least.
        each = max(batch // (2 * n_classes), 2 if n_classes == 1 else 1)
        codes = known.classes.repeat_interleave(each)
        self._one_hot = functional.one_hot(codes, generator.n_classes).float()
        self._n_noise = generator.n_noise
        self._half = generator.kind in HALF_KINDS and self._device.type == "cuda"
        self._estimates: list[nn.Module] = [
            _Estimate(
                functools.partial(self._rows, generator),
                generator,
                part,
                replace(known, means=means),
                weigh=weigh,
            )
            for part, means in _parts(row_map, known.means, thinning)
        ]
        self._recorded = weigh is not torch.sum  # a critic works between kernels

    def loss(self, rng: torch.Generator) -> Tensor:
        """See :func:`two_half_loss`. Privacy: post-processing of a release."""
        if self._device.type == "cuda" and not self._recorded:
            self._record()
        estimate = self._estimates[self._drawn_part(rng)]
        loss: Tensor = estimate(self._noise(rng), self._noise(rng))
        return loss

    @torch.no_grad()
    def settle(self, averaged: nn.Module, rng: torch.Generator) -> None:
        """Measure batch statistics anew: those of the steps belong to other weights.

        Privacy: post-processing of a release.
        """
        norms = [m for m in averaged.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain average over all batches
        averaged.train()
        for _ in range(_SETTLING_BATCHES if norms else 0):
            self._rows(averaged, self._noise(rng))
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        averaged.eval()

    def _record(self) -> None:
        """Replace every estimate by its recording, which computes the same on new noise."""
        noise = torch.randn(len(self._one_hot), self._n_noise, device=self._device)
        for estimate in self._estimates:
            torch.cuda.make_graphed_callables(estimate, (noise, noise.clone()))
        self._recorded = True

    def _drawn_part(self, rng: torch.Generator) -> int:
        if len(self._estimates) == 1:
            return 0
        drawn = torch.randint(len(self._estimates), (1,), generator=rng, device=self._device)
        return int(drawn)

    def _noise(self, rng: torch.Generator) -> Tensor:
        shape = (len(self._one_hot), self._n_noise)
        return torch.randn(shape, generator=rng, device=self._device)

    def _rows(self, network: nn.Module, noise: Tensor) -> Tensor:
        # A recording must cast weights anew each time: no cache.
        half = {"enabled": self._half, "cache_enabled": False}
        with torch.autocast(self._device.type, torch.bfloat16, **half):
            rows: Tensor = network(noise, self._one_hot)
        return rows.float()


class _Estimate(nn.Module):
    """The loss as a function of two halves' noise; a module, so that CUDA can record it."""

    def __init__(
        self,
        rows: Callable[[Tensor], Tensor],
        generator: nn.Module,
        row_map: nn.Module,
        target: TargetTensors,
        *,
        weigh: Weigh,
    ) -> None:
        super().__init__()
        self._draw, self._target, self._weigh = rows, target, weigh
        self.generator, self.row_map = generator, row_map

    def forward(self, noise: Tensor, other: Tensor) -> Tensor:
        return two_half_loss(
            self._means(noise),
            self._means(other),
            self._target.means,
            class_weights=self._target.class_weights,
            loss_weights=self._target.loss_weights,
            weigh=self._weigh,
        )

    def _means(self, noise: Tensor) -> list[Tensor]:
        n_classes = len(self._target.class_weights)
        return [class_means(part, n_classes) for part in self.row_map(self._draw(noise))]


def thinning_for(row_map: nn.Module, device: torch.device) -> int:
    """Into how many parts to cut the frequencies so that a step is affordable on the device.

    Privacy: public facts only.
    """
    if device.type == "cuda" or not isinstance(row_map, ScatteredFourier):
        return 1
    most = max(len(fourier.frequencies) for fourier in row_map.fouriers)
    return -(-most // _FREQUENCIES_AT_ONCE)


def _parts(
    row_map: nn.Module, means: Sequence[Tensor], thinning: int
) -> list[tuple[nn.Module, tuple[Tensor, ...]]]:
    """Row maps of parts of the frequencies, and the target in each one's own scaling."""
    if thinning == 1 or not isinstance(row_map, ScatteredFourier):
        return [(row_map, tuple(means))]
    sizes = [len(fourier.frequencies) for fourier in row_map.fouriers]
    parts: list[tuple[nn.Module, tuple[Tensor, ...]]] = []
    for part in range(thinning):
        which = [slice(size * part // thinning, size * (part + 1) // thinning) for size in sizes]
        cut = tuple(_cut(*known) for known in zip(means, which, sizes, strict=True))
        parts.append((row_map.part(which), cut))
    return parts


def _cut(means: Tensor, which: slice, size: int) -> Tensor:
    """Cosines and sines of some frequencies, longer by as much as there are fewer of them."""
    both = means.reshape(len(means), 2, size)[:, :, which]
    return both.flatten(1) * math.sqrt(size / both.shape[2])


@contextmanager
def fast_arithmetic(device: torch.device) -> Iterator[None]:
    """Let CUDA choose fast convolutions and TF32 while training runs, and only then.

    A recorded step hands its gradients over from the stream it was recorded on, of which PyTorch
    warns once; the wait costs nothing next to a step.

    Privacy: none needed; no private row is summed in here.
    """
    if device.type != "cuda":
        yield
        return
    backends = torch.backends
    before = backends.cudnn.benchmark, torch.get_float32_matmul_precision()
    backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The AccumulateGrad node's stream", UserWarning)
            yield
    finally:
        backends.cudnn.benchmark = before[0]
        torch.set_float32_matmul_precision(before[1])
