"""The small convolutional classifier with which image papers score synthetic sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

BATCH_ROWS = 200
LEARNING_RATE = 1e-3

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]


def cnn_accuracy(
    train: tuple[Array, Array],
    test: tuple[Array, Array],
    *,
    seed: int,
    device: str = "cpu",
    epochs: int = 5,
    n_classes: int = 10,
) -> float:
    """Accuracy on the test images of the CNN trained on the others; labels are 0, 1, 2, ...

    Privacy: reads the rows it is given without noise; outside the guarantee.
    """
    guesses = cnn_guesses(
        train, test[0], seed=seed, device=device, epochs=epochs, n_classes=n_classes
    )
    return float(np.mean(guesses == np.asarray(test[1]).astype(np.int64)))


def cnn_guesses(
    train: tuple[Array, Array],
    images: Array,
    *,
    seed: int,
    device: str = "cpu",
    epochs: int = 5,
    n_classes: int = 10,
) -> Codes:
    """Labels that the CNN trained on ``train`` gives to ``images``.

    Reference: appendix F of Jiang, Sun and Yu (2023), "Functional Renyi Differential Privacy for
    Generative Modeling": 5 epochs of Adam (1e-3) in batches of 200. The softmax is part of the
    loss here; the authors' code applies it twice.

    Privacy: reads the rows it is given without noise; outside the guarantee.
    """
    x = image_tensor(train[0], device=device)
    y = torch.tensor(np.asarray(train[1]).astype(np.int64), device=device)
    with own_randomness(seed, device):
        network = cnn(x.shape[1:], n_classes=n_classes).to(device)
        fit(network, x, y, epochs=epochs, seed=seed)
    return np.asarray(outputs(network, image_tensor(images, device=device)).argmax(axis=1))


def cnn(shape: Sequence[int], *, n_classes: int = 10) -> nn.Sequential:
    """Two strided convolutions with dropout, and a linear layer.

    Privacy: holds no data.
    """
    channels, height, width = shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, stride=2, padding=1),
        nn.Dropout(0.5),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.Dropout(0.5),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * -(-height // 4) * -(-width // 4), n_classes),
    )


def fit(network: nn.Module, x: Tensor, y: Tensor, *, epochs: int, seed: int) -> None:
    """Train a classifier in place by Adam, in batches in an order drawn from ``seed``.

    Privacy: reads the rows it is given without noise; outside the guarantee.
    """
    order = torch.Generator(x.device).manual_seed(seed)
    adam = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    network.train()
    for _ in range(epochs):
        for rows in torch.split(
            torch.randperm(len(x), generator=order, device=x.device), BATCH_ROWS
        ):
            adam.zero_grad()
            loss = nn.functional.cross_entropy(network(x[rows]), y[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    network.eval()


def outputs(network: nn.Module, x: Tensor, *, batch_rows: int = 1000) -> npt.NDArray[np.float32]:
    """What a network answers to each row, in batches.

    Privacy: a pure map of the rows it is given.
    """
    with torch.no_grad():
        return torch.cat([network(part).cpu() for part in torch.split(x, batch_rows)]).numpy()


def image_tensor(images: Array, *, device: str) -> Tensor:
    """Images (n, channels, height, width) in [0, 1] from (n, height, width[, channels]) in 0..255.

    Privacy: a pure map of the images it is given.
    """
    tensor = torch.tensor(images, device=device).float() / 255.0
    tensor = tensor[:, None] if tensor.ndim == 3 else tensor.permute(0, 3, 1, 2)
    return tensor.contiguous()


@contextmanager
def own_randomness(seed: int, device: str) -> Iterator[None]:
    """Torch's own state, seeded inside and as before outside: layers and dropout take no other.

    Privacy: touches no data.
    """
    cuda = [torch.device(device)] if device.startswith("cuda") else []
    with torch.random.fork_rng(devices=cuda):
        torch.manual_seed(seed)
        yield
