"""Real tables: maps of several per class beside M = 1, which is private logistic regression.

    python benchmarks/classify_tables.py [--data adult credit epileptic] [--seeds 0 1 2]

Adult, Credit and Epileptic with the public schemas of ``benchmarks/schemas``; four fifths are
fitted to, one is tested on (epileptic: split by record). Relation add_remove, delta 1e-5, epsilon
1; the row count is declared as a round public number. Reported are accuracy and the area under the
ROC curve for the rarer class, beside the same maps without privacy. Writes
``benchmarks/results/classify_tables.json``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from machine import write_result
from papers_data import DATA
from plain import plain_maps
from private_maps import private_maps
from sklearn.metrics import roc_auc_score
from tables_data import schema_of, split_of

import dpgist as dg
from dpgist.classify.maps import Maps
from dpgist.classify.tables import encoded_rows

NAMES = ("adult", "credit", "epileptic")
ROWS = {"adult": 26_000, "credit": 228_000, "epileptic": 9_200}
EPSILON, DELTA, MAPS = 1.0, 1e-5, (1, 2, 5)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    lines = []
    for name in options.data:
        for line in measured(name, options.seeds):
            lines.append(line)
            print(line, flush=True)
    write_result("classify_tables", {"epsilon": EPSILON, "delta": DELTA, "lines": lines})


def measured(name: str, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Every number of maps, private with each seed, and once without privacy."""
    schema = replace(schema_of(name), rows_about=ROWS[name])
    train, test = split_of(name)
    budget = dg.Budget(epsilon=EPSILON, delta=DELTA)
    classes = schema.column(str(schema.label)).values  # type: ignore[union-attr]
    x, test_x = encoded_rows(train, schema), encoded_rows(test, schema)
    y, test_y = codes(train, schema, classes), codes(test, schema, classes)
    positive = classes.index(DATA[name].positive)
    for n_maps in MAPS:
        for seed in seeds:
            started = time.perf_counter()
            maps = private_maps(train, schema, budget, maps=n_maps, seed=seed)
            facts = {"seed": seed, "seconds": round(time.perf_counter() - started, 1)}
            yield {**_line(name, n_maps, maps, test_x, test_y, positive), "private": True, **facts}
        maps = plain_maps(x, y, classes, maps=n_maps, temperature=1.0, seed=0)
        yield {**_line(name, n_maps, maps, test_x, test_y, positive), "private": False}


def codes(rows: pd.DataFrame, schema: dg.Schema, classes: tuple[str, ...]) -> np.ndarray:
    """Labels by their place in the public list."""
    return pd.Index(classes).get_indexer(rows[schema.label].astype(str)).astype(np.int64)


def _line(
    name: str, n_maps: int, maps: Maps, x: np.ndarray, y: np.ndarray, positive: int
) -> dict[str, Any]:
    shares = maps.probabilities(x)
    return {
        "data": name,
        "maps": n_maps,
        "accuracy": round(float((shares.argmax(axis=1) == y).mean()), 4),
        "roc_auc": round(float(roc_auc_score(y == positive, shares[:, positive])), 4),
    }


if __name__ == "__main__":
    main()
