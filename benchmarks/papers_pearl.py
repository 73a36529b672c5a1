"""PEARL (Liew, Takahashi and Ueno 2022): Adult, Credit and images, with and without its critic.

Protocol of the paper (section 5, appendices G to I): epsilon 1, delta 1e-5, relation replace_one;
rows under-sampled and split as DP-MERF has them; ten classifiers trained on 11,000 synthetic rows
and tested on real ones, ROC and PRC from hard labels; 1,000 range queries over three columns, the
mean L1 distance of all pairs of columns and the squared MMD, all to the released rows. "floor" is
what the held-out real rows score there. Images: FID (10 bootstraps) and KID (100 subsets) of
LeNet-5 features against the test images.

Ours: ``Pearl()`` with its default settings, the generator of ``papers_tables.py``; images by the
"conv" generator, 1,000 steps of 200, or by a model that ``images.py train --models`` has left in
the folder of samples. Nothing was chosen by a score on test rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from papers_data import DATA, SCHEMAS, load, protocol_split
from papers_images import idx_images, refuse_other_budget, refuse_other_method
from papers_release import gist_of, identity, settings_of
from papers_scores import table_scores
from papers_tables import TRAINING, shares

import dpgist as dg
from dpgist.evaluate.dependence import MOST_KERNEL_ROWS, mmd_squared
from dpgist.evaluate.frechet import bootstrapped_frechet, kernel_distances
from dpgist.evaluate.lenet import lenet_features, train_lenet
from dpgist.evaluate.marginals import (
    MOST_PAIRS,
    mean_variation,
    quantile_bins,
    range_error,
    range_queries,
    subsets,
)
from dpgist.evaluate.table import Rows, read_rows

TABLES, IMAGES = ("adult", "credit"), ("mnist", "fashion_mnist")
CRITICS = {"on": True, "off": False}
TEN = ("LR", "GNB", "BNB", "SVM", "DT", "LDA", "Ada", "Bag", "GBM", "MLP")
N_ROWS, N_IMAGES = 11_000, 10_000
STEPS, BATCH = 1000, 200
Progress = Callable[[str], None]


def run_pearl(
    name: str,
    column: str,
    seed: int,
    *,
    critic: str,
    samples: Path | None,
    quick: bool,
    progress: Progress,
) -> dict[str, Any]:
    """One entry of the file ``pearl-NAME``; what was made goes to ``samples``, if named."""
    kept = None if samples is None else samples / f"pearl-{name}.{column}.{critic}.{seed}"
    run = _run_images if name in IMAGES else _run_table
    made = run(name, column, seed, critic=critic, kept=kept, quick=quick, progress=progress)
    return {**identity(column, seed), "critic": critic, **made}


def _run_table(
    name: str,
    column: str,
    seed: int,
    *,
    critic: str,
    kept: Path | None,
    quick: bool,
    progress: Progress,
) -> dict[str, Any]:
    data = DATA[name]
    train, test = protocol_split(*_loaded(name), data, seed=seed)
    clock = [time.perf_counter()]
    schema = replace(data.schema(), rows_about=len(train))  # public under replace_one
    gist = gist_of(train, schema, column, seed=seed, method=dg.Pearl())
    steps, components = (5, 20) if quick else (TRAINING.steps, TRAINING.components)
    training = dg.Training(steps=steps, components=components, critic=CRITICS[critic])
    model = dg.train(gist, training, seed=seed, device="cpu", rehearsal=gist.rehearsal)
    rows = model.sample(300 if quick else N_ROWS, seed=seed, kind="pandas")
    clock.append(time.perf_counter())
    progress("sampled")
    if kept is not None:
        rows.to_parquet(f"{kept}.parquet")
    scores = table_scores(rows, test, data, seed=seed, progress=progress, names=TEN)
    clock.append(time.perf_counter())
    real, held_out, drawn = (read_rows(part, data.schema()) for part in (train, test, rows))
    fidelity = {
        "synthetic": _fidelity(real, drawn, seed=seed),
        "floor": _fidelity(real, held_out, seed=seed),
    }
    clock.append(time.perf_counter())
    return {
        "rows": {"train": len(train), "test": len(test), "fitted": len(rows)},
        "class_shares": {"test": shares(test, data), "fitted": shares(rows, data)},
        **settings_of(gist, model),
        "scores": scores,
        "fidelity": fidelity,
        "seconds": _seconds(("make", "classify", "compare"), clock),
    }


def _fidelity(real: Rows, other: Rows, *, seed: int) -> dict[str, float | None]:
    """Range queries, L1 of pairs and squared MMD; the same queries for every table of a seed."""
    rng = np.random.default_rng([seed, 2])
    bins = quantile_bins(real)
    codes = [bins.codes(rows) for rows in (real, other)]
    pairs = subsets(bins.columns, 2, most=MOST_PAIRS, rng=rng)
    return {
        "range": range_error(*codes, range_queries(bins, rng=rng)),
        "marginal_l1": 2 * mean_variation(*codes, pairs, bins),
        "mmd": mmd_squared(real, other, rng=rng, most=MOST_KERNEL_ROWS),
    }


def _run_images(
    name: str,
    column: str,
    seed: int,
    *,
    critic: str,
    kept: Path | None,
    quick: bool,
    progress: Progress,
) -> dict[str, Any]:
    x, y = idx_images(name, "train")
    test, _ = idx_images(name, "t10k")
    most = 300 if quick else len(x)
    clock = [time.perf_counter()]
    path = None if kept is None else Path(f"{kept}.model")
    if path is not None and path.exists():
        model = dg.read_model(path)
        refuse_other_budget(model, column)
        refuse_other_method(model, dg.Pearl.name)
    else:
        images = {"x": x[:most], "y": y[:most].astype(str)}
        gist = gist_of(images, _schema(name), column, seed=seed, method=dg.Pearl())
        progress("released")
        sizes = {"steps": 2 if quick else STEPS, "batch": BATCH, "generator": "conv"}
        training = dg.Training(**sizes, critic=CRITICS[critic])
        model = dg.train(gist, training, seed=seed, rehearsal=gist.rehearsal)
        if path is not None:
            model.save(path)
    drawn = model.sample(most if quick else N_IMAGES, seed=seed, kind="arrays")["x"]
    clock.append(time.perf_counter())
    progress("sampled")
    scores = {
        source: _lenet(name, most, rows, test, seed=seed)
        for source, rows in (("synthetic", drawn), ("real", x[:N_IMAGES]))
    }
    clock.append(time.perf_counter())
    return {
        "rows": {"train": most, "test": len(test), "fitted": len(drawn)},
        "method": {model.gist_header["method"]: model.gist_header["settings"]},
        "training": {name: value for name, value in model.training.items() if value is not None},
        "scores": scores,
        "seconds": _seconds(("make", "compare"), clock),
    }


def _schema(name: str) -> dg.Schema:
    return dg.Schema.load(SCHEMAS / f"{name}.toml")


def _lenet(name: str, most: int, images: Any, test: Any, *, seed: int) -> dict[str, float]:
    network = _network(name, most)
    real, other = (lenet_features(network, rows) for rows in (test, images))
    rng = np.random.default_rng([seed, 2])
    return {
        "fid": float(bootstrapped_frechet(real, other, rng=rng).mean()),
        "kid": float(kernel_distances(real, other, rng=rng).mean()),
    }


@lru_cache(maxsize=1)
def _network(name: str, most: int) -> Any:
    """LeNet-5 trained on the real training images, the same for all runs."""
    x, y = idx_images(name, "train")
    return train_lenet(x[:most], y[:most], n_classes=10, seed=0)


@lru_cache(maxsize=1)
def _loaded(name: str) -> Any:
    return load(DATA[name])


def _seconds(names: tuple[str, ...], clock: list[float]) -> dict[str, float]:
    took = zip(names, np.diff(clock), strict=True)
    return {name: round(float(value), 1) for name, value in took}
