"""What the DP-MERF authors' image code does, re-written from its description, for comparison.

Batches of 100; each row's features times its one-hot label as an outer product of 100 x D x 10
numbers, summed; the same outer product again in every training step.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

BATCH = 100


def features(rows: Tensor, frequencies: Tensor) -> Tensor:
    """Cosines and sines with norm 1."""
    phases = rows @ frequencies.T
    return torch.cat([phases.cos(), phases.sin()], dim=1) / math.sqrt(len(frequencies))


def embedding(images: Tensor, one_hot: Tensor, frequencies: Tensor) -> Tensor:
    """The sum over all rows of features x label, batch by batch."""
    total = torch.zeros(2 * len(frequencies), one_hot.shape[1])
    for rows, labels in zip(images.split(BATCH), one_hot.split(BATCH), strict=True):
        outer = torch.einsum("ki,kj->kij", features(rows, frequencies), labels)
        total += outer.sum(dim=0)
    return total / len(images)


def step(
    generator: nn.Module,
    optimiser: torch.optim.Optimizer,
    target: Tensor,
    frequencies: Tensor,
    one_hot: Tensor,
    noise: Tensor,
) -> None:
    """One training step on the squared distance of one batch's mean outer product."""
    outer = torch.einsum("ki,kj->kij", features(generator(noise, one_hot), frequencies), one_hot)
    loss = (target - outer.mean(dim=0)).square().sum()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
