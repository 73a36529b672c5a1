"""How to train on a processor in the time there is: settings tried on held-out digits.

    python benchmarks/images_laptop.py --images train-images-idx3-ubyte.gz [--steps 700]

Releases 50,000 of MNIST's 60,000 training images once (epsilon 1, add_remove), trains generators as
a processor would (small batches, a part of the frequencies at each step), here on whatever device
there is, and scores each by the CNN of ``images.py`` on the other 10,000. No test image is read.
A step's cost on a processor is about proportional to its batch.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import torch
from images import LABELS, append, idx
from machine import ROOT, describe

import dpgist as dg
from dpgist.evaluate.cnn import cnn_accuracy
from dpgist.training import loop, objectives

USUAL: dict[str, Any] = {"batch": 200, "learning_rate": 1e-3, "channels": 64}
VARIANTS: dict[str, dict[str, Any]] = {
    "usual": {},
    "rate 2e-3": {"learning_rate": 2e-3},
    "rate 4e-3": {"learning_rate": 4e-3},
    "rate 8e-3": {"learning_rate": 8e-3},
    "channels 32, rate 4e-3": {"channels": 32, "learning_rate": 4e-3},
    "channels 128, rate 2e-3": {"channels": 128, "learning_rate": 2e-3},
    "half the batch, twice the steps": {"batch": 100, "steps": 2},
    "half the batch, twice the steps, rate 2e-3": {"batch": 100, "steps": 2, "learning_rate": 2e-3},
    "half the batch, twice the steps, rate 4e-3": {"batch": 100, "steps": 2, "learning_rate": 4e-3},
    "a third of the batch, thrice the steps, rate 2e-3": {
        "batch": 60,
        "steps": 3,
        "learning_rate": 2e-3,
    },
    "half the batch, twice the steps, rate 8e-3": {"batch": 100, "steps": 2, "learning_rate": 8e-3},
    "rate 16e-3": {"learning_rate": 16e-3},
    "channels 128, rate 8e-3": {"channels": 128, "learning_rate": 8e-3},
    "twice the frequencies, rate 2e-3": {"frequencies": 2, "learning_rate": 2e-3},
    "half the frequencies, rate 2e-3": {"frequencies": 0.5, "learning_rate": 2e-3},
}
"""``steps`` and ``frequencies`` are factors."""


def main() -> None:
    """Try every variant with every seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--steps", type=int, nargs="+", default=[700])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--gist", type=Path, help="where to keep the release for another time")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/images_search.json")
    options = parser.parse_args()
    gist, test = held_out(options.images, options.gist)
    for steps in options.steps:
        for name in options.variants:
            for seed in options.seeds:
                found = tried(gist, test, steps, VARIANTS[name], seed=seed, device=options.device)
                append(options.out, {"variant": name, "seed": seed, **found, "machine": describe()})
                words = ", ".join(f"{key} {value:g}" for key, value in found.items())
                print(f"{name}, seed {seed}: {words}", flush=True)


def held_out(images: Path, kept: Path | None) -> tuple[dg.Gist, tuple[np.ndarray, np.ndarray]]:
    """A release of most training images, and those that it did not see."""
    x = idx(images, head=16).reshape(-1, 28, 28)
    y = idx(images.with_name(LABELS.format("train")), head=8)
    order = np.random.default_rng(0).permutation(len(x))
    seen, test = order[:50_000], order[50_000:]
    if kept is None or not kept.exists():
        gist = released(x[seen], y[seen])
        if kept is None:
            return gist, (x[test], y[test])
        gist.save(kept)
    return dg.read_gist(kept), (x[test], y[test])


def released(x: np.ndarray, y: np.ndarray) -> dg.Gist:
    """One release at epsilon 1 by the default method."""
    schema = dg.Schema.load(ROOT / "benchmarks" / "schemas" / "mnist.toml")
    budget = dg.Budget(epsilon=1.0, delta=1e-5, relation="add_remove")
    ledger = dg.Ledger.in_memory(name=schema.name, budget=budget, max_rows_per_person=1)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "images.npz"
        np.savez(path, x=x, y=y)
        return dg.release(path, schema, dg.Scattering(), budget, ledger=ledger, seed=0)


def tried(
    gist: dg.Gist,
    test: tuple[np.ndarray, np.ndarray],
    steps: int,
    change: dict[str, Any],
    *,
    seed: int,
    device: str,
) -> dict[str, Any]:
    """One generator with one change, and its score."""
    known = USUAL | change
    taken = round(steps * known.pop("steps", 1))
    at_once = round(objectives._FREQUENCIES_AT_ONCE * known.pop("frequencies", 1))
    like_a_processor = functools.partial(objectives.thinning_for, device=torch.device("cpu"))
    with (
        mock.patch.object(loop, "thinning_for", lambda row_map, _: like_a_processor(row_map)),
        mock.patch.object(objectives, "_FREQUENCIES_AT_ONCE", at_once),
    ):
        model = dg.train(gist, dg.Training(steps=taken, **known), seed=seed, device=device)
    model.generator.to(device)
    made = model.sample(60_000, seed=seed, kind="arrays")
    accuracy = cnn_accuracy((made["x"], made["y"]), test, epochs=5, seed=seed, device=device)
    used = {"steps": taken, "frequencies": at_once, **known}
    return used | {"cnn_accuracy": accuracy, "last_loss": model.losses[-1]}


if __name__ == "__main__":
    main()
