"""Simulated mixtures of the DP-MERF paper: the 2-D grid (figure 1) and 5-D (supplement M.1).

Nobody's data, so that the truth is known: the mean log-likelihood of synthetic points, how many
modes they cover, and in 5-D how far the mean embedding of some of them lies from the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from papers_release import REAL, gist_of, identity, settings_of
from papers_tables import TRAINING

import dpgist as dg
from dpgist.evaluate.mixtures import (
    FIVE_DIMENSIONAL,
    FIVE_DIMENSIONAL_LENGTH_SCALE,
    GRID,
    Mixture,
    count_modes,
    embedding_distance,
    mean_log_likelihood,
    simulate,
)

N_ROWS = {"grid": 90_000, "mixture5": 100_000}
MIXTURES = {"grid": GRID, "mixture5": FIVE_DIMENSIONAL}
BOUNDS = {"grid": (-1.0, 5.0), "mixture5": (-700.0, 900.0)}
"""Five centres from 0 to 4; centres drawn around 100 with std 200: four std each way."""
SIZES = (10, 100, 1_000, 10_000)

Points = npt.NDArray[np.float64]


def run_mixture(
    name: str,
    column: str,
    seed: int,
    *,
    quick: bool,
    progress: Callable[[str], None],
    method: str = "merf",
) -> dict[str, Any]:
    """One release of simulated rows, and scores of synthetic points against the truth."""
    mixture, n_rows = MIXTURES[name], 1_000 if quick else N_ROWS[name]
    train = _table(mixture, n_rows, name, seed=[seed, 3])
    clock = [time.perf_counter()]
    made: dict[str, Any] = {}
    if column == REAL:
        synthetic = _table(mixture, n_rows, name, seed=[seed, 4])
    else:
        training = dg.Training(steps=5, components=10) if quick else TRAINING
        gist = gist_of(train, _schema(name), column, seed=seed, public="simulated", method=method)
        model = dg.train(gist, training, seed=seed, device="cpu", rehearsal=gist.rehearsal)
        synthetic = model.sample(n_rows, seed=seed, kind="pandas")
        made = settings_of(gist, model)
    clock.append(time.perf_counter())
    progress("sampled")
    scores = _scores(name, synthetic)
    clock.append(time.perf_counter())
    seconds = zip(("make", "score"), np.diff(clock), strict=True)
    return {
        **identity(column, seed),
        "rows": {"train": n_rows},
        **made,
        "scores": scores,
        "seconds": {name: round(float(value), 1) for name, value in seconds},
    }


def _table(mixture: Mixture, n_rows: int, name: str, *, seed: list[int]) -> pd.DataFrame:
    points, modes = simulate(mixture, n_rows, rng=np.random.default_rng(seed))
    rows = pd.DataFrame(points, columns=_names(mixture))
    return rows if mixture.classes is None else rows.assign(kind=mixture.classes[modes].astype(str))


def _names(mixture: Mixture) -> list[str]:
    return [f"x{i + 1}" for i in range(mixture.centres.shape[1])]


def _schema(name: str) -> dg.Schema:
    mixture, (low, high) = MIXTURES[name], BOUNDS[name]
    columns = tuple(dg.NumberColumn(name=n, min=low, max=high) for n in _names(mixture))
    if mixture.classes is None:
        return dg.Schema(name=name, columns=columns)
    kinds = tuple(str(kind) for kind in np.unique(mixture.classes))
    kind = dg.CategoryColumn(name="kind", values=kinds)
    return dg.Schema(name=name, columns=(*columns, kind), label="kind")


def _scores(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    mixture = MIXTURES[name]
    points = rows[_names(mixture)].to_numpy(dtype=np.float64)
    classes = None if mixture.classes is None else rows["kind"].astype(np.int64).to_numpy()
    modes = count_modes(mixture, points, classes)
    scores: dict[str, Any] = {
        "mean_log_likelihood": mean_log_likelihood(mixture, points),
        "modes": mixture.n_modes,
        "covered": modes.covered,
        "dropped": modes.dropped,
    }
    if name == "mixture5":
        scale = FIVE_DIMENSIONAL_LENGTH_SCALE
        scores["embedding_distance"] = {
            str(size): embedding_distance(mixture, points[:size], length_scale=scale)
            for size in SIZES
            if size <= len(points)
        }
    return scores
