"""The hospital study on simulated records: accuracy against epsilon and M, and what drives a class.

    python benchmarks/hospital.py --work FOLDER [--seeds 0 1 2] [--maps 1 2 5 10]

62 inputs, the power set of three conditions as classes, four of them kept by a public list, M = 2
maps per class, no projection (``hospital_data.py`` makes the records: the original ones are not to
be had). Like figure 6 of the thesis: accuracy on held-out records against epsilon and against M,
private and not, beside a plain network of 3 x 128 units. Like figure 7: for one record of each
class, which features matter, by integrated gradients of that network and by the weighted filters
of maps without privacy and at two epsilons. Relation add_remove, delta 2e-5 as in the thesis.

FOLDER keeps every fitted classifier, so that a run that was stopped goes on where it was. Writes
``benchmarks/results/hospital.json``, ``docs/images/hospital-accuracy.png`` and
``docs/images/hospital-features.png``.
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
import pandas as pd
import pyarrow as pa
import torch
from attributions import Array, integrated_gradients, network_scores
from hospital_data import KEPT, MEASURES, records, schema
from hospital_figures import accuracy_figure, features_figure
from machine import ROOT, write_result
from plain import plain_maps, plain_network
from private_maps import private_maps

import dpgist as dg
from dpgist.classify.explain import explain, local_contrasts
from dpgist.classify.maps import Maps
from dpgist.encode import Encoder
from dpgist.plots import write_png

DELTA = 2e-5
EPSILONS = (0.1, 0.2, 0.5, 1.5, 4.0)
MAPS = (1, 2, 5, 10)
USUAL_EPSILON, USUAL_MAPS, STRONG = 1.5, 2, 0.1
SETTINGS = {"temperature": 1.0, "scale": 1.0}
"""Of the maps; all else as the library has it. Chosen on these simulated records."""

IMAGES = ROOT / "docs" / "images"


@dataclass(frozen=True, kw_only=True)
class Study:
    """Training records as a table and as numbers, and test records as numbers."""

    schema: dg.Schema
    train: pd.DataFrame
    x: Array
    y: np.ndarray
    test_x: Array
    test_y: np.ndarray

    @staticmethod
    def make(seed: int) -> Study:
        """Simulated records, a fifth of them held out."""
        rows, public = records(rng=np.random.default_rng(seed)), schema()
        cut = len(rows) * 4 // 5
        encoder = Encoder(public)
        table = pa.Table.from_pandas(rows, preserve_index=False)
        encoded = encoder.encode({n: table[n].combine_chunks() for n in encoder.columns})
        x, y = encoded.rows, encoded.labels
        return Study(
            schema=public,
            train=rows.iloc[:cut],
            x=x[:cut],
            y=y[:cut],
            test_x=x[cut:],
            test_y=y[cut:],
        )

    def accuracy(self, scores: Array) -> float:
        """On the held-out records."""
        return float((scores.argmax(axis=1) == self.test_y).mean())


def main() -> None:
    """Fit everything, write the numbers, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--maps", type=int, nargs="+", default=list(MAPS))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    started, study, lines, kept = time.perf_counter(), Study.make(0), [], {}
    for seed in options.seeds:
        for line, maps in fits(study, seed, options.maps, options.work):
            lines.append(line)
            print(line, flush=True)
            if seed == options.seeds[0] and line["maps"] == USUAL_MAPS:
                kept[line["epsilon"]] = maps
    network = plain_network(study.x, study.y, len(KEPT), seed=0)
    accuracy = study.accuracy(network_scores(network)(study.test_x))
    lines.append({"model": "network", "epsilon": None, "maps": None, "accuracy": accuracy})
    print(lines[-1], flush=True)
    chosen = {None: kept[None], USUAL_EPSILON: kept[USUAL_EPSILON], STRONG: kept[STRONG]}
    columns, likeness = features(study, network, chosen)
    result = {
        "records": len(study.x) + len(study.test_x),
        "delta": DELTA,
        "relation": "add_remove",
        "settings": SETTINGS,
        "seconds": round(time.perf_counter() - started),
        "likeness_to_integrated_gradients": likeness,
        "lines": lines,
    }
    write_result("hospital", result)
    names = [measure.name for measure in MEASURES]
    write_png(accuracy_figure(lines), IMAGES / "hospital-accuracy.png", force=True)
    write_png(features_figure(names, KEPT, columns), IMAGES / "hospital-features.png", force=True)


def fits(
    study: Study, seed: int, numbers: list[int], work: Path
) -> Iterator[tuple[dict[str, Any], Maps]]:
    """All maps of one seed: over epsilon at the usual M, over M at the usual epsilon.

    Without privacy once only: there the seed matters little and time more.
    """
    wanted: list[tuple[float | None, int]] = [(epsilon, USUAL_MAPS) for epsilon in EPSILONS]
    wanted += [(USUAL_EPSILON, n_maps) for n_maps in numbers if n_maps != USUAL_MAPS]
    wanted += [(None, n_maps) for n_maps in numbers] if seed == 0 else []
    for epsilon, n_maps in wanted:
        path = work / f"hospital-{epsilon}-{n_maps}-{seed}.maps"
        if not path.exists():
            _fitted(study, epsilon, n_maps, seed).save(path)
        maps = Maps.load(path)
        model = "plain" if epsilon is None else "private"
        yield _line(study, maps, model, epsilon, n_maps, seed), maps


def _fitted(study: Study, epsilon: float | None, n_maps: int, seed: int) -> Maps:
    if epsilon is None:
        beta = SETTINGS["temperature"]
        return plain_maps(study.x, study.y, KEPT, maps=n_maps, temperature=beta, seed=seed)
    budget = dg.Budget(epsilon=epsilon, delta=DELTA)
    return private_maps(study.train, study.schema, budget, maps=n_maps, seed=seed, **SETTINGS)


def _line(
    study: Study, maps: Maps, model: str, epsilon: float | None, n_maps: int, seed: int
) -> dict[str, Any]:
    accuracy = round(study.accuracy(maps.scores(study.test_x)), 4)
    return {"model": model, "epsilon": epsilon, "maps": n_maps, "seed": seed, "accuracy": accuracy}


def features(
    study: Study, network: torch.nn.Module, chosen: dict[float | None, Maps]
) -> tuple[dict[str, Array], dict[str, float]]:
    """Features x classes for one record of each class, and how alike the explanations are.

    Each explanation is the slope of the class's score less the mean over classes, times the
    feature's standard deviation, so that features in different units compare. Likeness is the mean
    cosine with integrated gradients over the first 300 held-out records, for their true class.
    """
    spread, few = study.x.std(axis=0), slice(0, 300)
    x, y = study.test_x[few], study.test_y[few]
    slopes = {"integrated\ngradients": _network_slopes(network, study, x)}
    for epsilon, maps in chosen.items():
        title = "maps, not\nprivate" if epsilon is None else f"maps,\nε = {epsilon:g}"
        slopes[title] = local_contrasts(maps, explain(maps, x))
    first = [int(np.flatnonzero(y == place)[0]) for place in range(len(KEPT))]
    columns = {
        title: np.stack([found[row, place] for place, row in enumerate(first)], axis=1)
        * spread[:, None]
        for title, found in slopes.items()
    }
    own = {title: found[np.arange(len(x)), y] * spread for title, found in slopes.items()}
    target = own.pop("integrated\ngradients")
    return columns, {t.replace("\n", " "): _cosine(found, target) for t, found in own.items()}


def _network_slopes(network: torch.nn.Module, study: Study, x: Array) -> Array:
    """Integrated gradients from the mean record, of every class, less their mean: (n, k, d)."""
    start = study.x.mean(axis=0)
    each = [
        integrated_gradients(network, x, np.full(len(x), place), start=start)
        for place in range(len(KEPT))
    ]
    stacked = np.stack(each, axis=1)
    return stacked - stacked.mean(axis=1, keepdims=True)


def _cosine(a: Array, b: Array) -> float:
    sizes = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return round(float(((a * b).sum(axis=1) / sizes).mean()), 4)


if __name__ == "__main__":
    main()
