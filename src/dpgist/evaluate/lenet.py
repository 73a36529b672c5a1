"""The feature network of PEARL's FID and KID: LeNet-5, trained on real images."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.evaluate.cnn import fit, image_tensor, outputs, own_randomness

SIDE = 32
N_FEATURES = 84
EPOCHS = 5

Array = npt.NDArray[Any]


def lenet(channels: int, n_classes: int) -> nn.Sequential:
    """LeNet-5 with tanh and max pooling; all but its last layer gives the 84 features.

    Privacy: holds no data.
    """
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 120, 5),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(120, N_FEATURES),
        nn.Tanh(),
        nn.Linear(N_FEATURES, n_classes),
    )


def train_lenet(
    images: Array, codes: Array, *, n_classes: int, seed: int, device: str = "cpu"
) -> nn.Sequential:
    """Train LeNet-5 on real images: 5 epochs of Adam (1e-3) in batches of 200.

    PEARL's authors used a LeNet of somebody else's, trained on MNIST; its weights and training are
    not published with theirs, so absolute values differ from the paper's.

    Reference: Liew, Takahashi and Ueno (2022), appendix G.

    Privacy: reads real rows without noise; outside the guarantee, and so is the network.
    """
    x = lenet_input(images, device=device)
    y = torch.tensor(codes.astype(np.int64), device=device)
    with own_randomness(seed, device):
        network = lenet(x.shape[1], n_classes).to(device)
        fit(network, x, y, epochs=EPOCHS, seed=seed)
    return network


def lenet_features(network: nn.Sequential, images: Array, *, device: str = "cpu") -> Array:
    """The 84 features of each image.

    Privacy: a pure map of the images it is given.
    """
    return outputs(network[:-1], lenet_input(images, device=device))


def lenet_input(images: Array, *, device: str) -> Tensor:
    """Images (n, channels, 32, 32) in [0, 1]: smaller ones in a black frame, larger ones shrunk.

    Privacy: a pure map of the images it is given.
    """
    x = image_tensor(images, device=device)
    height, width = x.shape[2:]
    if max(height, width) > SIDE:
        return nn.functional.interpolate(x, (SIDE, SIDE), mode="bilinear", antialias=True)
    top, left = (SIDE - height) // 2, (SIDE - width) // 2
    return nn.functional.pad(x, (left, SIDE - width - left, top, SIDE - height - top))
