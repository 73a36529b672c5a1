"""Adult at epsilon 1: train classifiers on synthetic rows, test them on real ones.

    python benchmarks/adult.py [--seeds 0 1 2] [--epsilon 1.0] [--method marginal]

Reads ``$DPGIST_DATA/adult`` (default ``../shared/data``) and writes
``benchmarks/results/adult.json``. ROC AUC is the mean of logistic regression, random forest and
histogram gradient boosting, trained on as many synthetic rows as there are training rows and
tested on the held-out fifth of the real ones; settings of the method were not chosen on it.
Marginals (tv1, tv2), Cramér's V and correlations are compared with the training rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from papers_data import DATA, load
from sklearn.model_selection import train_test_split

import dpgist as dg
from dpgist.evaluate import table as tables
from dpgist.evaluate.tables import fidelity_scores
from dpgist.methods import METHODS, Method

LABEL = "income"
PACKAGES = ("numpy", "torch", "pandas", "pyarrow", "scikit-learn")


def main() -> None:
    """Run every seed, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--method", choices=sorted(METHODS), default="marginal")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/adult.json")
    options = parser.parse_args()
    schema, (rows, _) = DATA["adult"].schema(), load(DATA["adult"])
    train, test = train_test_split(rows, test_size=0.2, stratify=rows[LABEL], random_state=0)
    budget = dg.Budget(epsilon=options.epsilon, delta=options.delta, relation="add_remove")
    method = METHODS[options.method]()
    runs = [run(train, test, schema, method, budget, seed=seed) for seed in options.seeds]
    real = dg.evaluate(test, train, schema)
    report = {
        "data": "adult.data, 80/20 stratified split, seed 0",
        "method": options.method,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": str(budget.relation),
        "runs": runs,
        "mean": summary(runs, np.mean),
        "std": summary(runs, lambda values: np.std(values, ddof=1)) if len(runs) > 1 else None,
        "real": {name: real.mean(name) for name in ("roc_auc", "pr_auc")},
        "versions": {name: version(name) for name in PACKAGES},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        + platform.python_version(),
        "load_average_at_end": os.getloadavg()[0],
        "commit": commit(),
    }
    print(pd.DataFrame([*runs, report["mean"], report["std"] or {}]).round(4).to_string())
    print(f"trained on the real rows: ROC AUC {report['real']['roc_auc']:.4f}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")


def run(
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: dg.Schema,
    method: Method,
    budget: dg.Budget,
    *,
    seed: int,
) -> dict[str, float]:
    """Release, train, sample and score once; seconds are wall time, ``cpu_s`` all cores' work."""
    ledger = dg.Ledger.in_memory(name="adult", budget=budget, max_rows_per_person=1)
    clock, worked = [time.perf_counter()], time.process_time()
    gist = dg.release(train, schema, method, budget, ledger=ledger, seed=seed)
    clock.append(time.perf_counter())
    model = dg.train(gist, seed=seed, device="cpu")
    clock.append(time.perf_counter())
    synthetic = model.sample(len(train), seed=seed)
    clock.append(time.perf_counter())
    names = ("release_s", "train_s", "sample_s")
    times = dict(zip(names, np.diff(clock).tolist(), strict=True))
    times["cpu_s"] = time.process_time() - worked
    return {"seed": seed, **scores(synthetic, train, test, schema), **times}


def scores(
    synthetic: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, schema: dg.Schema
) -> dict[str, float]:
    """ROC AUC of each classifier, means of ROC AUC and average precision, and likeness to train."""
    found = dg.evaluate(test, synthetic, schema)
    each = {model: found.find("roc_auc", model=model) for model in found.models}
    rng = np.random.Generator(np.random.PCG64(0))
    real, own = (tables.read_rows(rows, schema) for rows in (train, synthetic))
    likeness = {
        score.metric: score.value
        for score in fidelity_scores("synthetic", own, real, groups=(), rng=rng)
    }
    return {
        **{f"roc_{model}": score.value for model, score in each.items()},
        **{name: found.mean(name) for name in ("roc_auc", "pr_auc")},
        **{name: likeness[name] for name in ("tv1", "tv2", "cramers_v", "correlation")},
    }


def summary(runs: list[dict[str, float]], statistic) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """One statistic of every score over the runs."""
    names = [name for name in runs[0] if name != "seed"]
    return {name: float(statistic([run[name] for run in runs])) for name in names}


def commit() -> str:
    """The commit that was measured, marked if files were changed since."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
