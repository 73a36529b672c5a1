"""The same classifiers without privacy, and a plain network beside them: Adam, nothing clipped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dpgist.classify.maps import Maps

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


class _Maps(nn.Module):
    """Locally linear maps as a torch module: inputs to class scores."""

    def __init__(self, inputs: int, classes: int, maps: int, temperature: float, seed: int):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        bound = 1 / np.sqrt(inputs)
        shape = (classes * maps, inputs)
        self.weights = nn.Parameter((2 * torch.rand(shape, generator=generator) - 1) * bound)
        self.biases = nn.Parameter(torch.zeros(classes * maps))
        self.shape, self.temperature = (classes, maps), temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        responses = (x @ self.weights.T + self.biases).reshape(-1, *self.shape)
        return (torch.softmax(self.temperature * responses, 2) * responses).sum(2)


def plain_maps(
    x: Array,
    y: Codes,
    classes: tuple[str, ...],
    *,
    maps: int,
    temperature: float,
    seed: int,
    epochs: int = 10,
    scaled: bool = True,
) -> Maps:
    """Locally linear maps fitted without privacy.

    ``scaled`` inputs are standardised by the very rows while fitting, which a private fit could
    not do, and the scaling is folded into the weights afterwards; pixels are only centred.
    """
    mean, std = x.mean(axis=0), x.std(axis=0) + 1e-9
    if not scaled:
        mean, std = np.full_like(mean, x.mean()), np.full_like(std, x.std())
    model = _Maps(x.shape[1], len(classes), maps, temperature, seed)
    fit(model, (x - mean) / std, y, seed=seed, epochs=epochs)
    weights = model.weights.detach().double().numpy() / std
    biases = model.biases.detach().double().numpy() - weights @ mean
    shape = (len(classes), maps)
    return Maps(
        weights=weights.reshape(*shape, -1),
        biases=biases.reshape(shape),
        temperature=temperature,
        classes=classes,
    )


def plain_network(
    x: Array, y: Codes, n_classes: int, *, seed: int, epochs: int = 5, width: int = 128
) -> nn.Module:
    """Three hidden layers of 128 units, as the paper's baseline; scaling is its first layer."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers: list[nn.Module] = [_Scale(x.mean(axis=0), x.std(axis=0) + 1e-9)]
        for before in (x.shape[1], width, width):
            layers += [nn.Linear(before, width), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(width, n_classes))
    fit(model, x, y, seed=seed, epochs=epochs, learning_rate=3e-3)
    return model.eval()


def fit(
    model: nn.Module,
    x: Array,
    y: Codes,
    *,
    seed: int,
    epochs: int,
    learning_rate: float = 0.02,
    batch: int = 1024,
) -> None:
    """Adam; the learning rate falls by a fifth every five epochs."""
    rows, classes = torch.from_numpy(x).float(), torch.from_numpy(y)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.8)
    generator = torch.Generator().manual_seed(seed)
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for chosen in torch.randperm(len(rows), generator=generator).split(batch):
            optimizer.zero_grad()
            loss(model(rows[chosen]), classes[chosen]).backward()
            optimizer.step()
        schedule.step()


class _Scale(nn.Module):
    """Standardise by fixed numbers."""

    def __init__(self, mean: Array, std: Array) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(mean).float())
        self.register_buffer("std", torch.from_numpy(std).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of mean 0 and standard deviation 1."""
        return (x - self.mean) / self.std
