"""Locally linear maps on digits and clothes: accuracy on test images under a budget.

    python benchmarks/classify.py                       # every cell that the result file lacks
    python benchmarks/classify.py --settings paper --data mnist --epsilon 2 --seeds 0 --jobs 2

Reads ``$DPGIST_DATA``. Every finished run is written to ``benchmarks/results/classify.json`` at
once, and a run that is there is not repeated; then the table is printed. The settings "ours" are
the library's defaults, chosen on a fifth of the training rows, "shifted" the same with five copies
of every image; "paper" are those of Harder, Bauer and Park (AAAI 2020) and of their code: 30 maps,
300 random features for each, 20 epochs of batches of 500, gradients of norm 0.5, Adam 1e-3 that
falls by a fifth every five epochs.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

import numpy as np
from machine import ROOT, data_folder, describe

import dpgist as dg
from dpgist.classify.descent import Descent
from dpgist.classify.estimator import LocallyLinearMaps

RESULTS = ROOT / "benchmarks" / "results" / "classify.json"
FOLDERS = {"mnist": "mnist", "fashion": "fashion_mnist"}
TARGETS = {
    ("mnist", 2.0): 95.0,
    ("mnist", 0.5): 92.5,
    ("fashion", 2.0): 84.0,
    ("fashion", 0.5): 81.5,
}
PUBLISHED = {
    ("mnist", 2.0): 94.2,
    ("mnist", 0.5): 91.8,
    ("fashion", 2.0): 83.2,
    ("fashion", 0.5): 80.7,
}
DELTA, ROWS = 1e-5, 60_000


def images(data: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 28, 28) and labels of one part of a data set."""
    folder = data_folder() / FOLDERS[data]
    x = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
    y = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    return (
        np.frombuffer(x, np.uint8, offset=16).reshape(-1, 28, 28),
        np.frombuffer(y, np.uint8, offset=8),
    )


def classifier(settings: str, data: str, seed: int, **more: Any) -> LocallyLinearMaps:
    """An unfitted classifier; the paper's settings, or the library's own."""
    common = {"classes": range(10), "rows": ROWS, "name": data, "random_state": seed}
    if settings in ("ours", "shifted"):
        copies = {"copies": 5} if settings == "shifted" else {}
        return LocallyLinearMaps(**common | copies | more)
    mnist = data == "mnist"
    paper = {
        "maps": 30,
        "projection": 300,
        "temperature": 1 / 30 if mnist else 1.0,
        "sharpness": 1.0,
        "clip": 0.5,
        "rate": 500 / ROWS,
        "steps": 20 * ROWS // 500,
        "descent": Descent(learning_rate=1e-3, schedule="staircase", second=0.999),
        "constant": 1.0,
        "centre": 0.1307 if mnist else 0.0,
        "scale": 2**-0.5 / (0.3081 if mnist else 1.0),
    }
    return LocallyLinearMaps(**common | paper | more)


def run(settings: str, data: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Fit once and score the test images once."""
    (x, y), (test_x, test_y) = images(data, "train"), images(data, "t10k")
    budget = dg.Budget(epsilon=epsilon, delta=DELTA, relation="add_remove")
    wall, cpu = time.perf_counter(), time.process_time()
    model = classifier(settings, data, seed).fit(x, y, budget=budget)
    seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {
        "settings": settings,
        "data": data,
        "epsilon": epsilon,
        "delta": DELTA,
        "relation": "add_remove",
        "seed": seed,
        "accuracy": float((model.predict(test_x) == test_y).mean()),
        "noise_multiplier": model.descended_.noise_multiplier,
        "epsilon_by_pld": model.descended_.epsilon_alone,
        **seconds,
        "machine": describe(),
    }


def known() -> list[dict[str, Any]]:
    """Runs in the result file."""
    return list(json.loads(RESULTS.read_text())["runs"]) if RESULTS.exists() else []


def is_there(runs: list[dict[str, Any]], **cell: Any) -> bool:
    """Whether a cell has been run."""
    return any(all(r[key] == value for key, value in cell.items()) for r in runs)


def table(runs: list[dict[str, Any]]) -> None:
    """Mean and standard deviation of every cell, beside target and paper."""
    print("settings  data     epsilon  accuracy %     seeds  paper  target")
    for settings, data, epsilon in sorted({(r["settings"], r["data"], r["epsilon"]) for r in runs}):
        cell = {"settings": settings, "data": data, "epsilon": epsilon}
        found = [100 * r["accuracy"] for r in runs if is_there([r], **cell)]
        key = (data, epsilon)
        spread = np.std(found, ddof=1) if len(found) > 1 else 0.0
        print(
            f"{settings:9} {data:8} {epsilon:7g}  {np.mean(found):5.2f} +- {spread:4.2f}"
            f"  {len(found):5}  {PUBLISHED.get(key, 0):5}  {TARGETS.get(key, 0):6}"
        )


def main() -> None:
    """Run what is missing, seed by seed, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--settings", nargs="+", default=["ours", "shifted", "paper"])
    parser.add_argument("--data", nargs="+", default=sorted(FOLDERS, reverse=True))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[2.0, 0.5])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="only print what is there")
    options = parser.parse_args()
    cells = itertools.product(options.seeds, options.settings, options.data, options.epsilon)
    names = ("seed", "settings", "data", "epsilon")
    asked = [dict(zip(names, cell, strict=True)) for cell in cells if not options.table]
    missing = [cell for cell in asked if not is_there(known(), **cell)]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run, **cell) for cell in missing]):
            result = future.result()
            RESULTS.write_text(json.dumps({"runs": [*known(), result]}, indent=1) + "\n")
            print({name: result[name] for name in (*names, "accuracy")}, flush=True)
    table(known())


if __name__ == "__main__":
    main()
