"""Locally linear maps by Opacus: seconds for some DP-SGD steps on digits.

    PYTHON-WITH-OPACUS benchmarks/peers/opacus_maps.py ROWS.npz --steps 120

Runs in an environment of its own (torch 2.13.0 and opacus 1.6.0) and prints one line of JSON. The
model is the paper's: 30 maps for each of 10 classes on 300 random features each; Poisson batches of
500 expected rows, clipped at 0.5, noise multiplier 1.08.
"""

import argparse
import json
import math
import time
import warnings

import numpy as np
import opacus
import torch
from opacus.grad_sample import register_grad_sampler
from torch import nn

MAPS, FEATURES, CLASSES, BATCH, BETA = 30, 300, 10, 500, 1 / 30


class LinearMaps(nn.Module):
    """Responses of all maps to their own features, a constant among them."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(MAPS, FEATURES + 1, CLASSES) / math.sqrt(FEATURES))

    def forward(self, seen):
        return torch.einsum("nmf,mfk->nmk", seen, self.weight)


@register_grad_sampler(LinearMaps)
def per_example(layer, activations, backprops):
    """The gradients of every row, as Opacus wants them."""
    return {layer.weight: torch.einsum("nmf,nmk->nmfk", activations[0], backprops)}


class Classifier(nn.Module):
    """Locally linear maps with one public random projection for each map."""

    def __init__(self):
        super().__init__()
        projection = torch.randn(784, MAPS * FEATURES) / math.sqrt(2) / 0.3081
        self.register_buffer("projection", projection)
        self.maps = LinearMaps()

    def forward(self, rows):
        seen = (rows @ self.projection).view(-1, MAPS, FEATURES)
        seen = torch.cat([seen, torch.ones(len(rows), MAPS, 1)], dim=2)
        g = self.maps(seen)
        return (torch.softmax(BETA * g, dim=1) * g).sum(dim=1)


def main():
    """Time some steps of Opacus's own loop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows")
    parser.add_argument("--steps", type=int, default=120)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with np.load(options.rows) as arrays:
        rows = torch.from_numpy(arrays["x"].reshape(-1, 784) / 255.0 - 0.1307).float()
        labels = torch.from_numpy(arrays["y"].astype(np.int64))
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(rows, labels), batch_size=BATCH
    )
    model, optimizer, loader = opacus.PrivacyEngine(secure_mode=False).make_private(
        module=model, optimizer=optimizer, data_loader=loader,
        noise_multiplier=1.08, max_grad_norm=0.5, poisson_sampling=True,
    )  # fmt: skip
    batches, seconds = iter(loader), []
    for _ in range(options.steps + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        x, y = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = np.sum(seconds[1:], axis=0)  # the first step warms up
    found = {"wall_s": wall, "cpu_s": cpu, "steps": options.steps}
    print(json.dumps(found | {"opacus": opacus.__version__, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
