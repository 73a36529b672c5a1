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
from papers_scores import table_scores

import dpgist as dg
from dpgist.testing import NoNoise, rehearse

DELTA, RELATION = 1e-5, "replace_one"
NOMINAL_EPSILON = 1.0  # a run without noise weighs its blocks as the private run does
TRAINING = dg.Training(steps=400, components=100)
MOST_ROWS = 20_000
COLUMNS = ("1", "nonprivate", "0.2", "real")
"""The paper's columns: epsilon 1, no noise, epsilon 0.2, and the real training rows."""


def identity(column: str, seed: int) -> dict[str, Any]:
    """What makes a run of one table."""
    private = column in ("1", "0.2")
    return {
        "column": column,
        "epsilon": float(column) if private else None,
        "delta": DELTA if private else None,
        "relation": RELATION if private else None,
        "seed": seed,
    }


def run_table(
    name: str,
    column: str,
    seed: int,
    *,
    progress: Callable[[str], None],
    training: dg.Training = TRAINING,
    most_rows: int = MOST_ROWS,
    samples: Path | None = None,
) -> dict[str, Any]:
    """One entry of the table's result file; seconds are wall time.

    The rows that the classifiers are trained on go to the folder ``samples``, if one is named.
    """
    data = DATA[name]
    train, test = protocol_split(*_loaded(name), data, seed=seed)
    clock = [time.perf_counter()]
    made: dict[str, Any] = {}
    rows = train
    if column != "real":
        gist = _gist(train, data, column, seed=seed)
        clock.append(time.perf_counter())
        progress("released")
        model = dg.train(gist, training, seed=seed, device="cpu", rehearsal=gist.rehearsal)
        rows = model.sample(len(train), seed=seed, kind="pandas")
        clock.append(time.perf_counter())
        progress("trained")
        made = _settings(gist, model)
    few = rows.sample(min(most_rows, len(rows)), random_state=seed)
    if samples is not None and column != "real":
        few.to_parquet(samples / f"{name}.{column}.{seed}.parquet")
    scores = table_scores(few, test, data, seed=seed, progress=progress)
    clock.append(time.perf_counter())
    names = ("classify",) if column == "real" else ("release", "train", "classify")
    seconds = zip(names, np.diff(clock), strict=True)
    return {
        **identity(column, seed),
        "rows": {"train": len(train), "test": len(test), "fitted": len(few)},
        "class_shares": {"test": _shares(test, data), "fitted": _shares(few, data)},
        **made,
        "scores": scores,
        "seconds": {name: round(float(value), 1) for name, value in seconds},
    }


@lru_cache(maxsize=1)
def _loaded(name: str) -> Loaded:
    return load(DATA[name])


def _gist(train: pd.DataFrame, data: PaperData, column: str, *, seed: int) -> dg.Gist:
    """A release through the wall, or a rehearsal without noise for the non-private column."""
    schema = data.schema()
    epsilon = NOMINAL_EPSILON if column == "nonprivate" else float(column)
    budget = dg.Budget(epsilon=epsilon, delta=DELTA, relation=RELATION)
    if column == "nonprivate":
        published = f"{data.name}: published data"
        return rehearse(
            train, schema, dg.Merf(), budget, public=published, noise=NoNoise(), seed=seed
        )
    ledger = dg.Ledger.in_memory(name=schema.name, budget=budget, max_rows_per_person=1)
    return dg.release(train, schema, dg.Merf(), budget, ledger=ledger, seed=seed)


def _settings(gist: dg.Gist, model: dg.Model) -> dict[str, Any]:
    used = {key: value for key, value in model.training.items() if value is not None}
    return {"rehearsal": gist.rehearsal, "method": {gist.method: gist.settings}, "training": used}


def _shares(rows: pd.DataFrame, data: PaperData) -> dict[str, float]:
    shares = rows[data.schema().label].value_counts(normalize=True)
    return {str(name): float(share) for name, share in shares.items()}
