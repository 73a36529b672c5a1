"""Which settings make private locally linear maps accurate: a greedy search on training rows.

    python benchmarks/classify_search.py --calibrate                 # noise multipliers, once
    python benchmarks/classify_search.py --device cuda --seconds 190
    python benchmarks/classify_search.py --only default --seeds 0 --epsilon 2

Simulates private training (``classify_simulation.py``) on all but the last 12,000 of MNIST's
training rows and scores those 12,000; no test file is ever read. First every single change from
what the library's defaults were then; after that, change by change in the order of what they gained
alone, whatever improves the best so far and does no harm on FashionMNIST; at the end the defaults
and the best once more with other seeds, on both. Reads ``--images FILE`` and ``--check FILE`` (each
a ``train-images-idx3-ubyte.gz`` with its labels beside it), else ``$DPGIST_DATA``.

Noise multipliers are the library's own, kept in ``results/classify_search_noise.json``, so that a
machine without the whole library can run the search.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from classify_simulation import Images, Runs, Simulation, Variant

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "classify_search.json"
NOISE = ROOT / "benchmarks" / "results" / "classify_search_noise.json"
IMAGES = "train-images-idx3-ubyte.gz"
EPSILONS, DELTA = (2.0, 0.5), 1e-5
WORTH = 0.04
"""Points that a change must gain, on average over the epsilons, to be kept."""

HARM = 0.2
"""Points that a change may cost on FashionMNIST before it is not kept after all."""

APART = {"sheared"}
"""What suits handwriting alone is tried alone and with the best, but is no part of the best."""

LOOKS = [(0.1, 240), (0.1, 480), (0.2, 240), (0.2, 120), (0.1, 120), (0.05, 480)]

AXES: dict[str, list[dict[str, Any]]] = {
    "shifts": [
        {"shifts": 5, "drawn": 1},
        {"shifts": 9, "drawn": 1},
        {"shifts": 5},
        {"shifts": 9},
        {"shifts": 9, "drawn": 2},
        {"shifts": 9, "drawn": 4},
        {"shifts": 5, "each": True},
    ],
    "predicted": [{"predicted": 5}, {"predicted": 9}],
    "readout": [{"readout": "average"}],
    "normalised": [{"normalised": n} for n in ("after", "half", "before", "contrast")],
    "sheared": [{"sheared": True}],
    "way": [{"way": w} for w in (0.5, 0.7, 1.4, 2.0)],
    "shorter": [{"shorter": s} for s in (0.25, 0.75)],
    "clip": [{"clip": c} for c in (0.5, 0.75, 1.0, 2.0)],
    "fading": [{"fading": f} for f in (0.3, 0.6)],
    "looks": [{"rate": rate, "steps": steps} for rate, steps in LOOKS[1:]],
    "rule": [
        {"rule": "sgd"},
        {"rule": "shared"},
        {"rule": "known"},
        {"rule": "known", "floor": 0.2},
        {"second": 0.999},
        {"momentum": 0.95},
        {"momentum": 0.7},
    ],
    "schedule": [{"schedule": s} for s in ("cosine", "late", "square", "constant")],
    "beta": [{"beta": b} for b in (0.1, 0.2, 0.7, 1.0, 2.0)],
    "maps": [{"maps": m} for m in (3, 5, 7, 15)],
    "features": [{"features": n} for n in (100, 144, 256)],
    "tilt": [{"tilt": t} for t in (-0.5, -0.25, 0.25, 0.5)],
    "flat": [{"flat": f} for f in (0.0, 1.0)],
    "basis": [
        {"basis": "strokes"},
        {"basis": "strokes", "tilt": 0.25},
        {"basis": "strokes", "tilt": 0.5},
        {"basis": "blur"},
        {"basis": "pixels"},
    ],
    "initial": [{"initial": i} for i in (0.1, 0.6, 1.0, 2.0)],
    "constant": [{"constant": c} for c in (0.3, 1.0)],
    "loss": [
        {"smoothing": 0.1},
        {"margin": 1.0},
        {"margin": 2.0},
        {"sharpness": 0.5},
        {"sharpness": 2.0},
    ],
}


class Search:
    """Evaluates variants, prints and keeps every result."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.began = options, time.perf_counter()
        self.noise = json.loads(NOISE.read_text())
        self.results: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self.data: dict[str, Images] = {}
        self.known: dict[Any, dict[str, list[float]]] = {}

    @property
    def seconds(self) -> float:
        """Since the search began."""
        return time.perf_counter() - self.began

    def images(self, name: str) -> Images:
        """A data set on the device, read once."""
        if name not in self.data:
            given = self.options.images if name == "mnist" else self.options.check
            folder = Path(os.environ.get("DPGIST_DATA", ROOT.parent / "shared" / "data"))
            path = given or folder / {"mnist": "mnist", "fashion": "fashion_mnist"}[name] / IMAGES
            self.data[name] = Images(path, self.options.device, self.options.rows)
        return self.data[name]

    def score(
        self, variant: Variant, name: str, *, seeds: list[int] | None = None, data: str = "mnist"
    ) -> float:
        """Mean accuracy over epsilons and seeds as the variant reads out; everything is kept."""
        began, seeds = time.perf_counter(), seeds or self.options.seeds
        epsilons = [e for e in self.options.epsilon for _ in seeds]
        looks = [f"{e:g} {variant.rate:g} {variant.steps}" for e in epsilons]
        runs = Runs(
            seeds=tuple(seeds) * len(self.options.epsilon),
            multipliers=tuple(self.noise["multipliers"][look] for look in looks),
            mus=tuple(self.noise["mu"][f"{e:g}"] for e in epsilons),
        )
        found = self._simulated(variant, runs, data)
        self._keep(variant, name, data, epsilons, found, time.perf_counter() - began)
        return float(np.mean(found[f"{variant.readout} {variant.predicted}"]))

    def _simulated(self, variant: Variant, runs: Runs, data: str) -> dict[str, list[float]]:
        """Every read-out of a variant; one that differs in the read-out alone is not run again."""
        key = (replace(variant, readout="end", predicted=1), runs, data)
        if key not in self.known:
            simulation = Simulation(variant, runs, self.images(data))
            simulation.train()
            self.known[key] = simulation.accuracies()
        return self.known[key]

    def _keep(
        self,
        variant: Variant,
        name: str,
        data: str,
        epsilons: list[float],
        found: dict[str, list[float]],
        seconds: float,
    ) -> None:
        entry = {"name": name, "data": data, "variant": changed(variant), "seconds": seconds}
        entry["accuracy"] = {
            f"{e:g}": {
                k: [a for a, b in zip(v, epsilons, strict=True) if b == e] for k, v in found.items()
            }
            for e in self.options.epsilon
        }
        self.results.append(entry)
        self.write()
        chosen = f"{variant.readout} {variant.predicted}"
        means = [
            f"eps {e}: {np.mean(a[chosen]):5.2f} +- {np.std(a[chosen]):4.2f}"
            f" (all shifts {np.mean(a[variant.readout + ' 9']):5.2f})"
            for e, a in entry["accuracy"].items()
        ]
        print(f"{self.seconds:6.1f} s  {data:8} {name:44} {'  '.join(means)}", flush=True)

    def write(self) -> None:
        """Save all results so far."""
        self.options.out.parent.mkdir(parents=True, exist_ok=True)
        whole = {
            "device": str(self.options.device),
            "torch": torch.__version__,
            "seeds": self.options.seeds,
            "rows": self.options.rows,
            "best": self.best,
            "results": self.results,
        }
        self.options.out.write_text(json.dumps(whole, indent=1) + "\n")

    def singles(self) -> dict[str, float]:
        """What every change gains alone, by axis: the most of its values."""
        base = self.score(Variant(), "default")
        gains = {}
        for axis, values in AXES.items():
            if self.seconds < 0.45 * self.options.seconds:
                found = [self.score(replace(Variant(), **v), named(v)) for v in values]
                gains[axis] = max(found) - base
        return gains

    def greedy(self, gains: dict[str, float]) -> Variant:
        """Keep whatever improves the best so far, the most promising first, twice round."""
        best, reached = Variant(), self.score(Variant(), "default, again")
        beside = self.score(best, "default", data="fashion")
        order = sorted(gains.keys() - APART, key=gains.__getitem__, reverse=True)
        for axis, values in [(name, v) for name in 2 * order for v in [*AXES[name], {}]]:
            candidate = replace(best, **fresh(axis) | values)
            if self.seconds > 0.88 * self.options.seconds or candidate == best:
                continue
            score = self.score(candidate, f"best so far with {named(values)}")
            if score > reached + WORTH:
                other = self.score(candidate, f"the same with {named(values)}", data="fashion")
                if other > beside - HARM:
                    best, reached, beside = candidate, score, max(beside, other)
                    print(
                        f"          kept: {changed(best)}: {reached:.2f}, {other:.2f}", flush=True
                    )
        return best

    def confirm(self, best: Variant) -> None:
        """Defaults, the best, and the best on upright digits, with five other seeds."""
        upright = replace(best, sheared=True)
        named_variants = (("default", Variant()), ("best", best), ("best, sheared", upright))
        self.best = changed(best)
        for data in ("mnist", "fashion"):
            for name, variant in named_variants:
                self.score(variant, f"{name}, other seeds", seeds=[*range(100, 105)], data=data)


def fresh(axis: str) -> dict[str, Any]:
    """Defaults of everything an axis touches, but for what a later value of it sets."""
    touched = {key for values in AXES[axis] for key in values} - {"tilt"}
    default = asdict(Variant())
    return {} if axis in ("loss", "rule") else {key: default[key] for key in touched}


def changed(variant: Variant) -> dict[str, Any]:
    """What of a variant differs from the defaults."""
    default = asdict(Variant())
    return {key: value for key, value in asdict(variant).items() if value != default[key]}


def named(values: dict[str, Any]) -> str:
    """A variant's changes in words."""
    return ", ".join(f"{key} {value}" for key, value in values.items()) or "default"


def calibrate() -> None:
    """Write the library's noise multipliers of every look at the data that the search tries."""
    from dpgist.privacy.accounting import mu_of, units_of
    from dpgist.privacy.plan import Budget, Relation
    from dpgist.privacy.poisson import exact_rate
    from dpgist.privacy.subsampled import Run, calibrated, terms_for

    multipliers = {}
    for epsilon in EPSILONS:
        units = units_of(Budget(epsilon=epsilon, delta=DELTA, relation="add_remove"))
        terms = terms_for(
            units, epsilon=epsilon, delta=DELTA, ledger_epsilon=epsilon, cap_units=units
        )
        for rate, steps in LOOKS:
            run = Run(rate=exact_rate(rate), steps=steps, relation=Relation.ADD_REMOVE)
            multipliers[f"{epsilon:g} {rate:g} {steps}"] = calibrated(run, terms)
    mu = {f"{epsilon:g}": mu_of(epsilon, DELTA) for epsilon in EPSILONS}
    NOISE.write_text(json.dumps({"mu": mu, "multipliers": multipliers}, indent=1) + "\n")
    print(NOISE.read_text())


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=Path, help="MNIST's training images")
    parser.add_argument("--check", type=Path, help="FashionMNIST's training images")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--seconds", type=float, default=190.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--rows", type=int, help="train on the first rows only, for a trial")
    parser.add_argument("--only", help='one variant: "default" or "key=value,key=value"')
    parser.add_argument("--calibrate", action="store_true", help="only write noise multipliers")
    return parser.parse_args()


def main() -> None:
    """Search, or score one variant, or calibrate."""
    chosen = options()
    if chosen.calibrate:
        calibrate()
        return
    search = Search(chosen)
    with torch.no_grad():
        if chosen.only:
            given = chosen.only if chosen.only != "default" else ""
            pairs = [pair.split("=") for pair in given.split(",") if pair]
            values = {key: json.loads(value) for key, value in pairs}
            search.score(replace(Variant(), **values), named(values))
            return
        best = search.greedy(search.singles())
        search.confirm(best)
    print(f"best: {changed(best)} after {search.seconds:.0f} s")


if __name__ == "__main__":
    main()
