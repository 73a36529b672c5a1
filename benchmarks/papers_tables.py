"""One run of one table of the DP-MERF paper: release, train, sample, 12 classifiers.

Protocol of the paper (Harder, Adamczewski and Park 2021, Table 1 and supplement K): delta 1e-5,
relation replace_one; the largest class under-sampled by the published rate before split and
release, each row by a public coin; splits by the run's seed; as many synthetic rows as training
rows. The row count after under-sampling is public, as in the paper; the guarantee is about these
rows and none is claimed for the coin. Test rows are under-sampled too, as in the paper.

Ours: the method with its default settings, public schemas, a generator of a third of the default
size trained for half the default steps, the same for all tables and columns, and at most
``MOST_ROWS`` rows for any classifier, synthetic or real. Nothing was chosen by a score. The smaller
generator is for time; that it is large enough is read off a gist alone, which is free: on Adult at
epsilon 1 its last loss (0.0051) is already below what the noise adds (0.0115), and that of the
default size not much smaller (0.0048 with half the steps).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from papers_data import DATA, Loaded, PaperData, load, protocol_split
from papers_release import NONPRIVATE, REAL, gist_of, identity, settings_of
from papers_scores import table_scores

import dpgist as dg

TRAINING = dg.Training(steps=400, components=100)
OTHER_TRAINING = {"marginal": dg.Training()}  # ends by itself within seconds
MOST_ROWS = 20_000
COLUMNS = ("1", REAL, NONPRIVATE, "0.2")
"""The paper's columns: epsilon 1, the real training rows, no noise, epsilon 0.2."""


def run_table(
    name: str,
    column: str,
    seed: int,
    *,
    progress: Callable[[str], None],
    training: dg.Training | None = None,
    most_rows: int = MOST_ROWS,
    samples: Path | None = None,
    method: str = "merf",
) -> dict[str, Any]:
    """One entry of the table's result file; seconds are wall time.

    The rows that the classifiers are trained on go to the folder ``samples``, if one is named.
    """
    data = DATA[name]
    train, test = protocol_split(*_loaded(name), data, seed=seed)
    clock = [time.perf_counter()]
    made: dict[str, Any] = {}
    rows = train
    if column != REAL:
        gist = gist_of(train, data.schema(), column, seed=seed, method=method)
        clock.append(time.perf_counter())
        progress("released")
        training = training or OTHER_TRAINING.get(method, TRAINING)
        model = dg.train(gist, training, seed=seed, device="cpu", rehearsal=gist.rehearsal)
        rows = model.sample(len(train), seed=seed, kind="pandas")
        clock.append(time.perf_counter())
        progress("trained")
        made = settings_of(gist, model)
    few = rows.sample(min(most_rows, len(rows)), random_state=seed)
    if samples is not None and column != REAL:
        few.to_parquet(samples / f"{name}.{column}.{seed}.parquet")
    scores = table_scores(few, test, data, seed=seed, progress=progress)
    clock.append(time.perf_counter())
    names = ("classify",) if column == REAL else ("release", "train", "classify")
    seconds = zip(names, np.diff(clock), strict=True)
    return {
        **identity(column, seed),
        "rows": {"train": len(train), "test": len(test), "fitted": len(few)},
        "class_shares": {"test": shares(test, data), "fitted": shares(few, data)},
        **made,
        "scores": scores,
        "seconds": {name: round(float(value), 1) for name, value in seconds},
    }


@lru_cache(maxsize=1)
def _loaded(name: str) -> Loaded:
    return load(DATA[name])


def shares(rows: pd.DataFrame, data: PaperData) -> dict[str, float]:
    """The share of every class."""
    found = rows[data.schema().label].value_counts(normalize=True)
    return {str(name): float(share) for name, share in found.items()}
