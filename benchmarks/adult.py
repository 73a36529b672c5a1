"""Adult at epsilon 1: train classifiers on synthetic rows, test them on real ones.

    python benchmarks/adult.py [--seeds 0 1 2] [--epsilon 1.0]

Reads ``$DPGIST_DATA/adult`` (default ``../shared/data``) and writes
``benchmarks/results/adult.json``. ROC AUC is the mean of logistic regression, random forest and
histogram gradient boosting, trained on as many synthetic rows as there are training rows and
tested on the held-out fifth of the real ones; settings of the method were not chosen on it.
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
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dpgist as dg

LABEL, POSITIVE = "income", ">50K"
NUMBERS = (*("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),)
PACKAGES = ("numpy", "torch", "pandas", "pyarrow", "scikit-learn")


def main() -> None:
    """Run every seed, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/adult.json")
    options = parser.parse_args()
    schema, (rows, _) = DATA["adult"].schema(), load(DATA["adult"])
    train, test = train_test_split(rows, test_size=0.2, stratify=rows[LABEL], random_state=0)
    budget = dg.Budget(epsilon=options.epsilon, delta=options.delta, relation="add_remove")
    runs = [run(train, test, schema, budget, seed=seed) for seed in options.seeds]
    report = {
        "data": "adult.data, 80/20 stratified split, seed 0",
        "method": "merf",
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": str(budget.relation),
        "runs": runs,
        "mean": summary(runs, np.mean),
        "std": summary(runs, np.std),
        "versions": {name: version(name) for name in PACKAGES},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        + platform.python_version(),
        "load_average_at_end": os.getloadavg()[0],
        "commit": commit(),
    }
    print(pd.DataFrame([*runs, report["mean"], report["std"]]).round(4).to_string())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")


def run(
    train: pd.DataFrame, test: pd.DataFrame, schema: dg.Schema, budget: dg.Budget, *, seed: int
) -> dict[str, float]:
    """Release, train, sample and score once; seconds are wall time, ``cpu_s`` all cores' work."""
    ledger = dg.Ledger.in_memory(name="adult", budget=budget, max_rows_per_person=1)
    clock, worked = [time.perf_counter()], time.process_time()
    gist = dg.release(train, schema, dg.Merf(), budget, ledger=ledger, seed=seed)
    clock.append(time.perf_counter())
    model = dg.train(gist, seed=seed, device="cpu")
    clock.append(time.perf_counter())
    synthetic = model.sample(len(train), seed=seed)
    clock.append(time.perf_counter())
    names = ("release_s", "train_s", "sample_s")
    times = dict(zip(names, np.diff(clock).tolist(), strict=True))
    times["cpu_s"] = time.process_time() - worked
    return {"seed": seed, **scores(synthetic, test), **times}


def scores(synthetic: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """ROC AUC of each classifier, and the means of ROC AUC and average precision."""
    classifiers = {
        "logistic": LogisticRegression(max_iter=1000),
        "forest": RandomForestClassifier(100, min_samples_leaf=5, random_state=0, n_jobs=2),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }
    roc, precision = {}, []
    truth = test[LABEL] == POSITIVE
    for name, classifier in classifiers.items():
        model = make_pipeline(preprocessing(test), classifier)
        model.fit(features(synthetic), synthetic[LABEL] == POSITIVE)
        chances = model.predict_proba(features(test))[:, 1]
        roc[f"roc_{name}"] = float(roc_auc_score(truth, chances))
        precision.append(average_precision_score(truth, chances))
    return {
        **roc,
        "roc_auc": float(np.mean(list(roc.values()))),
        "pr_auc": float(np.mean(precision)),
    }


def features(rows: pd.DataFrame) -> pd.DataFrame:
    """All columns but the label; null is a category of its own."""
    categories = {name: rows[name].fillna("?").astype(str) for name in choices(rows)}
    return rows.drop(columns=LABEL).assign(**categories)


def choices(rows: pd.DataFrame) -> list[str]:
    """The columns that are neither numbers nor the label."""
    return [name for name in rows.columns if name not in NUMBERS and name != LABEL]


def preprocessing(rows: pd.DataFrame) -> ColumnTransformer:
    """Standardised numbers beside one-hot categories."""
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [("numbers", StandardScaler(), list(NUMBERS)), ("choices", one_hot, choices(rows))]
    )


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
