"""What every network generator shares: its first weights, and drawing rows from it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

_ROWS_AT_ONCE = 1024
_WEIGHTED = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Draw all weights anew from ``generator``: uniform by fan-in, as torch's own layers do.

    Privacy: none needed; public randomness alone.
    """
    for layer in network.modules():
        if not isinstance(layer, _WEIGHTED):
            continue
        nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5.0), generator=generator)
        if layer.bias is not None:
            reach = 1.0 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.bias, -reach, reach, generator=generator)


@torch.no_grad()
def draw_rows(
    network: nn.Module,
    classes: npt.NDArray[np.int64],
    *,
    n_noise: int,
    n_classes: int,
    rng: np.random.Generator,
) -> npt.NDArray[np.float64]:
    """One encoded row for each class code, in chunks, with batch statistics frozen.

    ``network`` maps (n, n_noise) standard normals and one-hot classes to encoded rows; all its
    randomness comes in through the noise.

    Privacy: post-processing of a release; touches no row.
    """
    network.eval()
    device = next(network.parameters()).device
    parts = []
    for start in range(0, max(len(classes), 1), _ROWS_AT_ONCE):
        codes = torch.from_numpy(classes[start : start + _ROWS_AT_ONCE])
        noise = torch.from_numpy(rng.standard_normal((len(codes), n_noise), dtype=np.float32))
        one_hot = functional.one_hot(codes, n_classes).float()
        parts.append(network(noise.to(device), one_hot.to(device)).float().cpu())
    return np.asarray(torch.cat(parts).double().numpy())
