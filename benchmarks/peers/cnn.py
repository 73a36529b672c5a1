"""A small convolutional network; needs torch only, so that peer and benchmark share it.

The network of Papernot et al. (2021) and Tramer and Boneh (2021) for DP-SGD on 28 x 28 images: two
convolutions with tanh, which clipped gradients like better than ReLU, and 26,010 parameters.
"""

from torch import nn


def network():
    """A fresh network: images (n, 1, 28, 28) to 10 scores."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3),
        nn.Tanh(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2),
        nn.Tanh(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )
