"""Mean embeddings to match, and the unbiased distance to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dpgist.privacy.plan import COUNTS, HEALTH
from dpgist.privacy.released import Released, ReleasedBlock

Vector = npt.NDArray[np.float64]
Weigh = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Noisy mean embeddings, one row per class that will be generated.

    ``classes`` are the class codes kept, ``class_weights`` their shares (adding up to 1);
    ``means`` holds per block an array (classes, length), or (1, length) if the block is not
    labelled; ``loss_weights`` one number per block. ``noise`` is the loss that the true
    distribution itself would have on average, for the noise alone.
    """

    classes: npt.NDArray[np.int64]
    class_weights: Vector
    means: tuple[Vector, ...]
    loss_weights: tuple[float, ...]
    noise: float = 0.0

    def on(self, device: torch.device) -> TargetTensors:
        """The same as tensors. Privacy: post-processing of a release."""
        return TargetTensors(
            classes=torch.tensor(self.classes, device=device),
            class_weights=_floats(self.class_weights, device),
            means=tuple(_floats(mean, device) for mean in self.means),
            loss_weights=self.loss_weights,
        )


@dataclass(frozen=True, kw_only=True)
class TargetTensors:
    """A :class:`Target` where training runs, in float32."""

    classes: Tensor
    class_weights: Tensor
    means: tuple[Tensor, ...]
    loss_weights: tuple[float, ...]


def _floats(values: Vector, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device)


def target_from(
    released: Released,
    *,
    class_allowed: tuple[bool, ...],
    loss_factors: Sequence[float] = (),
    in_ball: bool = True,
) -> Target:
    r"""Divide the released sums by the released counts.

    .. math:: \tilde\mu_{b,c} = \tilde S_{b,c} / \tilde m_c, \qquad
              \lambda_b \propto \gamma_b / \sigma_b^2

    Symbols: :math:`\tilde S_{b,c}` noisy sum of block b in class c, :math:`\tilde m_c` noisy count,
    :math:`\sigma_b` noise of the block: the loss weighs every block by its precision, and by
    ``loss_factors`` :math:`\gamma_b` beside it, which are free to choose after a release. A class
    whose noisy count does not stand out of its noise, or that may not be emitted, is left out; if
    none stands out all are kept with equal shares, so that an empty table still trains.

    With ``in_ball`` a mean that noise made longer than any mean embedding is pulled back into the
    unit ball. The signal then shrinks along with the noise, and an image network, free to draw
    anything, answers a mean that is too short by images far from all others: it takes the mean as
    it is.

    Privacy: post-processing of a release; touches no row.
    """
    counts = released.last[COUNTS]
    kept, sizes = class_sizes(counts, class_allowed, n_rows=released.n_rows)
    blocks = [b for b in released.last.blocks if b.block.name not in (COUNTS, HEALTH)]
    weights = _loss_weights(blocks, loss_factors)
    noises = [_noise(block, sizes, in_ball=in_ball) for block in blocks]
    return Target(
        classes=kept,
        class_weights=sizes / sizes.sum(),
        means=tuple(_means(b, kept=kept, sizes=sizes, in_ball=in_ball) for b in blocks),
        loss_weights=weights,
        noise=sum(weight * noise for weight, noise in zip(weights, noises, strict=True)),
    )


def class_sizes(
    counts: ReleasedBlock, class_allowed: tuple[bool, ...], *, n_rows: int | None
) -> tuple[npt.NDArray[np.int64], Vector]:
    """Codes and positive sizes of the classes to generate.

    Privacy: post-processing of a release; touches no row.
    """
    allowed = np.asarray(class_allowed, dtype=bool)
    noisy = counts.sums()[:, 0]
    if len(noisy) == 1 and n_rows is not None:  # unlabelled, row count public
        noisy = np.array([float(n_rows)])
    kept = np.flatnonzero(allowed & (noisy > max(counts.noise_std, 1.0)))
    if len(kept) == 0:
        kept = np.flatnonzero(allowed)
        return kept, np.full(len(kept), max(counts.noise_std, 1.0))
    return kept, noisy[kept]


def _means(
    block: ReleasedBlock, *, kept: npt.NDArray[np.int64], sizes: Vector, in_ball: bool
) -> Vector:
    if block.block.labelled:
        means = block.sums()[kept] / sizes[:, None]
    else:
        means = block.sums() / sizes.sum()
    if not in_ball:
        return np.asarray(means)
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    radius = np.sqrt(block.block.bound_squared)
    return np.asarray(means * (radius / np.maximum(norms, radius)))


def _noise(block: ReleasedBlock, sizes: Vector, *, in_ball: bool) -> float:
    r"""What the noise alone adds to a block's squared distance on average.

    .. math:: \sum_c w_c\, D_b\, \sigma_b^2 / \tilde m_c^2

    A noisy mean that is pulled back into the unit ball has less, so its norm caps each term.
    """
    rows = sizes if block.block.labelled else sizes.sum(keepdims=True)
    noise = block.block.length * (block.noise_std / rows) ** 2
    most = block.block.bound_squared if in_ball else np.inf
    return float(rows / rows.sum() @ np.minimum(noise, most))


def _loss_weights(blocks: list[ReleasedBlock], factors: Sequence[float]) -> tuple[float, ...]:
    precisions = np.array([1.0 / max(block.noise_std, 1e-300) ** 2 for block in blocks])
    weights = precisions / precisions.sum() * np.array(factors or [1.0] * len(blocks))
    return tuple(float(weight) for weight in weights / weights.sum())


def matching_loss(
    found: Sequence[Tensor],
    means: Sequence[Tensor],
    *,
    class_weights: Tensor,
    loss_weights: Sequence[float],
    weigh: Weigh = torch.sum,
) -> Tensor:
    r"""Squared distance between the generator's mean embeddings and the target's.

    .. math:: \sum_b \lambda_b \sum_c w_c \big\| E_c \phi_b - \tilde\mu_{b,c} \big\|^2

    Symbols: ``found`` holds per block :math:`E_c \phi_b`, the generator's mean features of class c,
    of shape (classes, length). This is the quantity whose unbiased estimate two independent half
    batches would give; with the means in closed form there is nothing left to estimate. ``weigh``
    is that of :func:`two_half_loss`.

    Privacy: post-processing of a release; touches no row.
    """
    return two_half_loss(
        found,
        found,
        means,
        class_weights=class_weights,
        loss_weights=loss_weights,
        weigh=weigh,
    )


def class_means(features: Tensor, n_classes: int) -> Tensor:
    """Mean features (classes, length) of rows sorted by class, equally many of each.

    Privacy: post-processing of a release; touches no row.
    """
    return features.reshape(n_classes, -1, features.shape[1]).mean(dim=1)


def two_half_loss(
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    means: Sequence[Tensor],
    *,
    class_weights: Tensor,
    loss_weights: Sequence[float],
    weigh: Weigh = torch.sum,
) -> Tensor:
    r"""Squared distance to the target, estimated from two independent half batches.

    .. math:: \sum_b \lambda_b \sum_c w_c \big\langle \bar\phi_b(a)_c - \tilde\mu_{b,c},\;
              \bar\phi_b(a')_c - \tilde\mu_{b,c} \big\rangle

    Symbols: ``first`` and ``second`` hold per block the mean features (classes, length) of the
    halves a and a'. Independent factors multiply in expectation, so the estimate is unbiased; the
    papers' squared norm of one batch also pays for the batch's own variance, which pulls a
    generator towards rows that vary less than they should. ``weigh`` adds up the products of a
    block's coordinates.

    Privacy: post-processing of a release; touches no row.
    """
    total = class_weights.new_zeros(())
    for one, other, mean, weight in zip(first, second, means, loss_weights, strict=True):
        if len(mean) == len(class_weights):
            gaps = class_weights @ ((one - mean) * (other - mean))
        else:
            gaps = (class_weights @ one - mean[0]) * (class_weights @ other - mean[0])
        total = total + weight * weigh(gaps)
    return total
