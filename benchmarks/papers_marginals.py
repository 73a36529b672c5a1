"""Marginals of discretised Adult and Census: supplement M.2 of the DP-MERF paper.

D has every number in at most 100 public bins; D* has no column with more than 15 values
(neighbouring bins, and neighbouring entries of the schema's list, share one). All rows, no label.
The authors' bins are not published; ours are even, from the schema. The error is the mean total
variation over ``MOST_SETS`` random sets of ``alpha`` columns.

The authors' code takes sets of alpha + 1 columns where the table says alpha, so a published
"alpha = 3" must be compared with our error of four columns. Both stand in the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from papers_data import DATA, load
from papers_release import gist_of, identity, settings_of
from papers_tables import TRAINING

import dpgist as dg
from dpgist.evaluate.marginals import Bins, mean_variation, subsets

VARIANTS = {"D": 100, "D*": 15}
"""The most values that a column may have."""
COLUMNS = ("1", "0.3", "0.1")
MOST_SETS = 500
ALPHAS = (1, 2, 3, 4, 5)

Codes = npt.NDArray[np.int64]


def run_marginals(
    name: str,
    variant: str,
    column: str,
    seed: int,
    *,
    quick: bool,
    progress: Callable[[str], None],
    method: str = "merf",
) -> dict[str, Any]:
    """One release, and the error of its marginals."""
    schema, real = _discretised(name, VARIANTS[variant])
    real = real.head(500) if quick else real
    training = dg.Training(steps=5, components=10) if quick else TRAINING
    clock = [time.perf_counter()]
    gist = gist_of(real, schema, column, seed=seed, method=method)
    clock.append(time.perf_counter())
    progress("released")
    model = dg.train(gist, training, seed=seed, device="cpu")
    synthetic = model.sample(len(real), seed=seed, kind="pandas")
    clock.append(time.perf_counter())
    progress("trained")
    errors = _errors(real, synthetic, schema, seed=seed)
    clock.append(time.perf_counter())
    seconds = zip(("release", "train", "marginals"), np.diff(clock), strict=True)
    return {
        **identity(column, seed),
        "variant": variant,
        "rows": {"train": len(real)},
        **settings_of(gist, model),
        "total_variation": errors,
        "seconds": {name: round(float(value), 1) for name, value in seconds},
    }


@lru_cache(maxsize=4)
def _discretised(name: str, most: int) -> tuple[dg.Schema, pd.DataFrame]:
    """Codes from 0 of every column by public rules, and their schema: integers and categories."""
    schema, (rows, _) = DATA[name].schema(), load(DATA[name])
    columns: list[Any] = []
    cells: dict[str, Any] = {}
    for column in schema.columns:
        if isinstance(column, dg.CategoryColumn):
            codes, size = _category_codes(rows[column.name], column)
            codes, size = _joined(codes, size, most)
            cells[column.name] = codes.astype(str)
            names = tuple(str(code) for code in range(size))
            columns.append(dg.CategoryColumn(name=column.name, values=names))
        elif isinstance(column, dg.IntegerColumn):
            size = column.max - column.min + 1
            codes = rows[column.name].clip(column.min, column.max).to_numpy() - column.min
            codes, size = _joined(codes.astype(np.int64), size, most)
            cells[column.name] = codes
            columns.append(dg.IntegerColumn(name=column.name, min=0, max=size - 1))
    return dg.Schema(name=f"{name}-{most}", columns=tuple(columns)), pd.DataFrame(cells)


def _category_codes(cells: pd.Series, column: dg.CategoryColumn) -> tuple[Codes, int]:
    """Places in the list; null or undeclared comes after it where a column may be null."""
    codes = pd.Index(column.values).get_indexer(cells.astype(str)).astype(np.int64)
    size = len(column.values) + column.nullable
    return np.where(codes < 0, size - 1, codes), size


def _joined(codes: Codes, size: int, most: int) -> tuple[Codes, int]:
    """Even bins of neighbouring codes, ``most`` of them."""
    return (codes, size) if size <= most else (codes * most // size, most)


def _errors(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: dg.Schema, *, seed: int
) -> dict[str, float]:
    sizes = {
        c.name: len(c.values) if isinstance(c, dg.CategoryColumn) else c.max + 1
        for c in schema.columns
    }
    bins = Bins(edges={}, sizes=sizes, ordered=dict.fromkeys(sizes, True))
    own, other = (
        {n: rows[n].astype(np.int64).to_numpy() for n in sizes} for rows in (real, synthetic)
    )
    rng = np.random.default_rng([seed, 2])
    return {
        str(alpha): mean_variation(
            own, other, subsets(tuple(sizes), alpha, most=MOST_SETS, rng=rng), bins
        )
        for alpha in ALPHAS
    }
