"""Explanations of private classifiers on MNIST: our filters beside a private network's gradients.

    python benchmarks/explanations.py --work FOLDER [--images 200]

What the thesis shows in figures 2 to 4, with a number to it. Locally linear maps at epsilon 2 and
5, with a random projection and without, and without both; a small network trained by Opacus at
epsilon 2 and 5 and not private, explained by integrated gradients and SmoothGrad. The number is
the deletion score of ``attributions.py``: how well an explanation foretells what deleting pixels
does, to the score of the model that is explained ("own") and to that of the network without
privacy ("judge"). Relation add_remove, delta 1e-5, one model of each kind; the error is that of
the mean over test images.

FOLDER lies outside the repository; it keeps the peer's environment and every trained model, so
that a second run trains nothing. Writes ``benchmarks/results/explanations.json`` and
``docs/images/explanations.png``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attributions import (
    Array,
    Masks,
    Scores,
    changes,
    deletion_score,
    integrated_gradients,
    network_scores,
    patches,
    smooth_gradients,
)
from explanations_figure import draw
from explanations_maps import SETTINGS, trained_maps
from explanations_networks import DELTA, trained_network
from images import IMAGES, LABELS, idx
from machine import ROOT, data_folder, write_result

from dpgist.classify.explain import explain
from dpgist.classify.maps import Maps

EPSILONS = (2.0, 5.0)
SHOWN = 3
FIGURE = ROOT / "docs" / "images" / "explanations.png"


@dataclass(frozen=True, kw_only=True)
class Explained:
    """One explanation of one model: pixels (n, 784) for the class that the model itself gives.

    ``pixels`` is what is drawn; times the image it is the attribution that is scored, against
    ``changed``, what deleting patches takes from the model's own scores.
    """

    model: str
    epsilon: float | None
    method: str
    accuracy: float
    changed: Array
    classes: np.ndarray
    pixels: Array


def main() -> None:
    """Train what is not there yet, score, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--images", type=int, default=200, help="test images that are explained")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if ROOT in options.work.resolve().parents:
        parser.error("--work must name a folder outside the repository")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    started, data = time.perf_counter(), Data.read(options.images, options.seed)
    masks = patches(data.images, rng=np.random.default_rng(options.seed))
    judge_network, _ = trained_network(options.work, *data.train, epsilon=None)
    judge = changes(network_scores(judge_network), data.images, masks)
    found = list(explained(data, options.work, masks, options.seed))
    lines = [line(one, data, judge, masks) for one in found]
    write_result(
        "explanations",
        {
            "data": "mnist",
            "delta": DELTA,
            "relation": "add_remove",
            "images": options.images,
            "maps": SETTINGS,
            "seconds": round(time.perf_counter() - started),
            "lines": lines,
        },
    )
    print(table(lines))
    FIGURE.parent.mkdir(exist_ok=True)
    draw(data.images[:SHOWN], columns(found), FIGURE)
    print(f"written: {FIGURE.relative_to(ROOT)}")


@dataclass(frozen=True, kw_only=True)
class Data:
    """MNIST: training images as bytes, test images in [0, 1], and those that are explained."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[Array, np.ndarray]
    chosen: np.ndarray

    @staticmethod
    def read(n_images: int, seed: int) -> Data:
        """The official split; test images to explain are drawn at random."""
        folder = data_folder() / "mnist"
        parts = {
            part: (
                idx(folder / IMAGES.format(part), head=16).reshape(-1, 28, 28),
                idx(folder / LABELS.format(part), head=8),
            )
            for part in ("train", "t10k")
        }
        x, y = parts["t10k"]
        flat = x.reshape(len(x), -1).astype(np.float64) / 255.0
        chosen = np.random.default_rng(seed).choice(len(x), n_images, replace=False)
        return Data(train=parts["train"], test=(flat, y), chosen=chosen)

    @property
    def images(self) -> Array:
        """The images that are explained."""
        return self.test[0][self.chosen]

    def accuracy(self, scores: Scores) -> float:
        """On all test images."""
        blocks = (scores(block) for block in np.array_split(self.test[0], 10))
        return float((np.concatenate(list(blocks)).argmax(axis=1) == self.test[1]).mean())


def explained(data: Data, work: Path, masks: Masks, seed: int) -> Iterator[Explained]:
    """Every explanation of the comparison, model by model."""
    for projected in (True, False):
        for epsilon in EPSILONS if projected else (None, *EPSILONS):
            name = f"maps, {'projected' if projected else 'no projection'}"
            maps = trained_maps(work, *data.train, epsilon=epsilon, projected=projected)
            yield _of_maps(name, epsilon, maps, data, masks)
    for epsilon in (None, *EPSILONS):
        network, _ = trained_network(work, *data.train, epsilon=epsilon)
        scores = network_scores(network)
        classes = scores(data.images).argmax(axis=1)
        facts: dict[str, Any] = {
            "model": "network",
            "epsilon": epsilon,
            "accuracy": data.accuracy(scores),
            "changed": changes(scores, data.images, masks),
            "classes": classes,
        }
        pixels = integrated_gradients(network, data.images, classes)
        yield Explained(method="integrated gradients", pixels=pixels, **facts)
        rng = np.random.default_rng(seed)
        pixels = smooth_gradients(network, data.images, classes, rng=rng)
        yield Explained(method="SmoothGrad", pixels=pixels, **facts)


def _of_maps(name: str, epsilon: float | None, maps: Maps, data: Data, masks: Masks) -> Explained:
    found = explain(maps, data.images, top=1)
    places = np.arange(len(data.images)), found.predicted
    return Explained(
        model=name,
        epsilon=epsilon,
        method="weighted filter",
        accuracy=data.accuracy(maps.scores),
        changed=changes(maps.scores, data.images, masks),
        classes=found.predicted,
        pixels=found.weighted[places],
    )


def line(one: Explained, data: Data, judge: Array, masks: Masks) -> dict[str, Any]:
    """One line of the table; all explanations are asked about the same patches."""
    attribution = one.pixels * data.images
    own, judged = (
        deletion_score(changed, masks, attribution, one.classes) for changed in (one.changed, judge)
    )
    return {
        "model": one.model,
        "epsilon": one.epsilon,
        "method": one.method,
        "accuracy": round(one.accuracy, 4),
        "deletion_own": round(own[0], 4),
        "deletion_own_error": round(own[1], 4),
        "deletion_judge": round(judged[0], 4),
        "deletion_judge_error": round(judged[1], 4),
    }


def columns(found: list[Explained]) -> dict[str, Array]:
    """The columns of the figure: a title and pixels for the first few images."""
    titles = {}
    for one in found:
        budget = "not private" if one.epsilon is None else f"ε = {one.epsilon:g}"
        short = {"integrated gradients": "network, IG", "SmoothGrad": "network, SG"}
        titles[f"{short.get(one.method, one.model)}\n{budget}"] = one.pixels[:SHOWN]
    return titles


def table(lines: list[dict[str, Any]]) -> str:
    """The result for people."""
    head = f"{'model':22} {'epsilon':>8} {'explanation':22} accuracy  own            judge"
    body = [
        f"{li['model']:22} {li['epsilon'] or 'none':>8} {li['method']:22} {li['accuracy']:.4f}    "
        f"{li['deletion_own']:.3f} ± {li['deletion_own_error']:.3f}  "
        f"{li['deletion_judge']:.3f} ± {li['deletion_judge_error']:.3f}"
        for li in lines
    ]
    return "\n".join([head, *body])


if __name__ == "__main__":
    main()
