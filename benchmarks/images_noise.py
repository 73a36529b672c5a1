"""Noise that is longer than any mean embedding: three ways to train an image network under it.

    python benchmarks/images_noise.py GIST TEST.npz [--seed 0]

Takes what ``images.py release --held-out`` writes (the gist of five sixths of the training images,
and the last sixth to test on) for method ``scattering``, trains by each of ``WAYS``, and adds the
accuracy of the CNN of ``images.py`` on the held-out images to
``benchmarks/results/images_noise.json``. The runs on file at commit c62e730 were made by an earlier
form of this script, those at e875901 by ``images.py train``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from images import append, device_of
from machine import ROOT, describe

import dpgist as dg
from dpgist.evaluate.cnn import cnn_accuracy
from dpgist.training import loop
from dpgist.training.matching import target_from
from dpgist.training.objectives import TwoHalves

RESULTS = ROOT / "benchmarks/results/images_noise.json"
WAYS = {
    "pulled back into the unit ball": {"in_ball": True, "ends_at_noise": False},
    "as released": {"in_ball": False, "ends_at_noise": False},
    "as released, ended at the noise": {"in_ball": False, "ends_at_noise": True},
}
"""The last one is what ``dpgist.train`` does."""


def main() -> None:
    """Train and test every way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gist", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=60_000, help="synthetic images")
    parser.add_argument("--steps", type=int, help="fewer, to see that it works")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    device, training = device_of(options), dg.Training(steps=options.steps)
    gist = dg.read_gist(options.gist)
    with np.load(options.test) as arrays:
        test = arrays["x"], arrays["y"]
    budget = gist.released.budget
    known = {"data": gist.schema.name, "epsilon": budget.epsilon, "delta": budget.delta}
    known |= {"relation": str(budget.relation), "seed": options.seed}
    for way, switches in WAYS.items():
        with trained_by(**switches):
            model = dg.train(gist, training, seed=options.seed, device=device)
        model.generator.to(device)
        made = model.sample(options.rows, seed=options.seed, kind="arrays")
        train = made["x"], made["y"]
        accuracy = cnn_accuracy(train, test, epochs=5, seed=options.seed, device=device)
        run = {**known, "way": way, "steps": len(model.losses), "cnn_accuracy": accuracy}
        append(options.out, run | {"machine": describe()})
        print(json.dumps(run), flush=True)


@contextmanager
def trained_by(*, in_ball: bool, ends_at_noise: bool) -> Iterator[None]:
    """Let training take the means in another way, while the context lasts."""

    def target(*found: Any, **known: Any) -> Any:
        return target_from(*found, **known | {"in_ball": in_ball})

    def objective(*found: Any, **known: Any) -> TwoHalves:
        return TwoHalves(*found, **known | {"ends_at_noise": ends_at_noise})

    loop.target_from, loop.TwoHalves = target, objective
    try:
        yield
    finally:
        loop.target_from, loop.TwoHalves = target_from, TwoHalves


if __name__ == "__main__":
    main()
