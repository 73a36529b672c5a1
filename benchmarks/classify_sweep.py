"""Accuracy against epsilon, number of maps and projection, as one plot: figure 5 of the paper.

    python benchmarks/classify_sweep.py [--data mnist] [--seeds 0 1 2] [--rows 60000]

Every finished run is kept in ``benchmarks/results/classify_sweep.json`` and not repeated; the plot
``docs/images/classifier-sweep.png`` shows what is there. One setting is varied at a time; the
others are the library's defaults at epsilon 2.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from classify import DELTA, classifier, images
from machine import ROOT, describe

import dpgist as dg

RESULTS = ROOT / "benchmarks" / "results" / "classify_sweep.json"
PLOT = ROOT / "docs" / "images" / "classifier-sweep.png"
SWEEPS: dict[str, list[Any]] = {
    "epsilon": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
    "maps": [1, 3, 5, 10, 30],
    "frequencies": [50, 100, 196, 400, 784],
}


def run(data: str, sweep: str, value: Any, seed: int, rows: int) -> dict[str, Any]:
    """Fit with one setting changed and score on test images."""
    from dpgist.classify.projections import low_frequencies

    (x, y), (test_x, test_y) = images(data, "train"), images(data, "t10k")
    epsilon = value if sweep == "epsilon" else 2.0
    more: dict[str, Any] = {"rows": rows}
    if sweep == "maps":
        more["maps"] = value
    if sweep == "frequencies":
        more["projection"] = low_frequencies(1, 28, 28, features=value)
    budget = dg.Budget(epsilon=epsilon, delta=DELTA, relation="add_remove")
    model = classifier("ours", data, seed, **more).fit(x[:rows], y[:rows], budget=budget)
    accuracy = float((model.predict(test_x) == test_y).mean())
    cell = {"data": data, "sweep": sweep, "value": value, "seed": seed, "rows": rows}
    terms = {"epsilon": epsilon, "delta": DELTA, "relation": "add_remove"}
    return cell | terms | {"accuracy": accuracy, "machine": describe()}


def known() -> list[dict[str, Any]]:
    """Runs in the result file."""
    return list(json.loads(RESULTS.read_text())["runs"]) if RESULTS.exists() else []


def plot(data: str, rows: int) -> None:
    """One panel for each sweep: mean and spread over seeds."""
    figure, panels = plt.subplots(1, len(SWEEPS), figsize=(12, 3.5), sharey=True)
    for panel, (sweep, values) in zip(panels, SWEEPS.items(), strict=True):
        cell = {"data": data, "sweep": sweep, "rows": rows}
        found = {
            value: [
                100 * r["accuracy"]
                for r in known()
                if r["value"] == value and all(r[key] == cell[key] for key in cell)
            ]
            for value in values
        }
        there = {value: scores for value, scores in found.items() if scores}
        means = [np.mean(scores) for scores in there.values()]
        panel.errorbar(list(there), means, [np.std(s) for s in there.values()], marker="o")
        panel.set(xscale="log", xlabel=sweep)
        panel.set_xticks(values, [f"{value:g}" for value in values])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"{data}: test accuracy, %")
    figure.tight_layout()
    figure.savefig(PLOT, dpi=80)
    print(f"written: {PLOT.relative_to(ROOT)}")


def main() -> None:
    """Run what is missing and plot what is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rows", type=int, default=60_000, help="the first training rows")
    options = parser.parse_args()
    for seed in options.seeds:
        for sweep, values in SWEEPS.items():
            for value in values:
                cell = {"data": options.data, "sweep": sweep, "value": value, "seed": seed}
                cell["rows"] = options.rows
                if not any(all(r[key] == cell[key] for key in cell) for r in known()):
                    result = run(**cell)
                    RESULTS.write_text(json.dumps({"runs": [*known(), result]}, indent=1) + "\n")
                    print(f"{cell}: {100 * result['accuracy']:.2f} %", flush=True)
    plot(options.data, options.rows)


if __name__ == "__main__":
    main()
