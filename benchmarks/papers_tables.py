"""The tables of the DP-MERF paper: train 12 classifiers on synthetic rows, test them on real ones.

    python benchmarks/papers_tables.py adult census [--seeds 0 1 2]

Reads ``$DPGIST_DATA`` (default ``../shared/data``) and writes
``benchmarks/results/papers_tables.json``. Every finished (data, seed) is appended at once, and what
the file holds already is skipped (whatever commit it was measured at: for new settings of the
method name another ``--out``).

Protocol of the paper (Harder, Adamczewski and Park 2021, Table 1): epsilon 1, delta 1e-5, relation
replace_one; the majority class under-sampled to 40 % by a public coin per row before the split and
the release; 90/10 (adult) and 80/20 (census) splits by the run's seed; as many synthetic rows as
training rows; integer codes for categories, no scaling, default settings; ROC and PRC from hard
labels, so that ROC is balanced accuracy. Beside them stand ROC and PRC from scores, and the same
classifiers trained on the real training rows. Settings of the method were not chosen on the test
rows.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xgboost
from machine import ROOT, describe
from papers_data import DATA, PaperData, numbers, split, under_sample
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import dpgist as dg

SCORES = ("roc", "prc", "score_roc", "score_prc")
PAPER = {"adult": (0.650, 0.564), "census": (0.686, 0.358)}
PROTOCOL = {
    "paper_roc_prc": PAPER,
    "roc, prc": "from hard labels, as in the paper (ROC = balanced accuracy)",
    "score_roc, score_prc": "from scores (probability or distance to the boundary)",
    "under_sampling": "before split and release: all rows of the positive class are kept, each"
    " other row by a public coin of the published rate; it depends on the row's own label and the"
    " recorded seed alone. The number of rows left counts as public, as in the papers, and the"
    " guarantee is about these rows; none is claimed for the coin",
    "test_rows": "under-sampled too, as in the papers (matters to PRC, hardly to ROC)",
    "features": "numbers as they are, categories as integer codes (place in the schema's list)",
    "classes": "synthetic labels drawn with the gist's noisy class shares (the default)",
    "std": "of the population of seeds (ddof 0)",
}
SHORT = {"synthetic": "synth", "real": "real"}
Labels = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


def main() -> None:
    """Run what the file does not hold yet, print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="+", choices=sorted(DATA))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--relation", default="replace_one")
    parser.add_argument("--reference-rows", type=int, default=20_000, help="real rows at most")
    default = ROOT / "benchmarks" / "results" / "papers_tables.json"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    machine = describe() | {name: version(name) for name in ("scikit-learn", "pandas")}
    machine["xgboost"] = xgboost.__version__
    budget = dg.Budget(epsilon=options.epsilon, delta=options.delta, relation=options.relation)
    for name in options.data:
        wanted = [seed for seed in options.seeds if not on_file(options.out, name, budget, seed)]
        if wanted:
            schema, rows = DATA[name].load()
        for seed in wanted:
            run = run_seed(DATA[name], schema, rows, budget, seed=seed, most=options.reference_rows)
            append(options.out, run | {"machine": machine})
        show(options.out, name, budget)


def run_seed(
    data: PaperData,
    schema: dg.Schema,
    rows: pd.DataFrame,
    budget: dg.Budget,
    *,
    seed: int,
    most: int,
) -> dict[str, Any]:
    """One release, one generator, and the 12 classifiers twice; seconds are wall time."""
    train, test = split(under_sample(rows, data, schema, seed=seed), data, seed=seed)
    clock = [time.perf_counter()]
    ledger = dg.Ledger.in_memory(name=data.name, budget=budget, max_rows_per_person=1)
    gist = dg.release(train, schema, dg.Merf(), budget, ledger=ledger, seed=seed)
    clock.append(time.perf_counter())
    model = dg.train(gist, seed=seed, device="cpu")
    clock.append(time.perf_counter())
    synthetic = model.sample(len(train), seed=seed)
    print(f"{data.name}, seed {seed}: model after {clock[-1] - clock[0]:.0f} s", flush=True)
    known = {"schema": schema, "positive": data.positive, "seed": seed}
    made = all_scores(synthetic, test, title="synthetic", **known)
    clock.append(time.perf_counter())
    real = train.sample(min(most, len(train)), random_state=seed)
    reference = all_scores(real, test, title="real", **known)
    clock.append(time.perf_counter())
    seconds = zip(("release", "train", "classify", "reference"), np.diff(clock), strict=True)
    return {
        **identity(data.name, budget, seed),
        "under_sampling": {"majority_rate": data.majority_rate, "seed": seed},
        "schema_from": data.schema_from,
        "rows": {"train": len(train), "test": len(test), "reference": len(real)},
        "positive_share": {
            "test": float((test[schema.label] == data.positive).mean()),
            "synthetic": float((synthetic[schema.label] == data.positive).mean()),
        },
        "method": {gist.method: gist.settings},
        "training": {key: value for key, value in model.training.items() if value is not None},
        "synthetic": made,
        "real": reference,
        "seconds": {name: round(float(value), 1) for name, value in seconds},
    }


def all_scores(
    train: pd.DataFrame,
    test: pd.DataFrame,
    *,
    schema: dg.Schema,
    positive: str,
    seed: int,
    title: str,
) -> dict[str, dict[str, float]]:
    """Every classifier's scores on the test rows, and their mean."""
    x, test_x = numbers(train, schema), numbers(test, schema)
    y, test_y = ((rows[schema.label] == positive).to_numpy() for rows in (train, test))
    scores = {}
    for name, classifier in classifiers(seed).items():
        started = time.perf_counter()
        scores[name] = one_score(classifier, (x, y), (test_x, test_y))
        took = time.perf_counter() - started
        print(f"  {title:9} {name:4} ROC {scores[name]['roc']:.3f} {took:6.1f} s", flush=True)
    means = {key: float(np.mean([score[key] for score in scores.values()])) for key in SCORES}
    return {**scores, "mean": means}


def one_score(
    classifier: Any, train: tuple[Numbers, Labels], test: tuple[Numbers, Labels]
) -> dict[str, float]:
    """ROC and PRC from hard labels, and from scores."""
    (x, y), (test_x, truth) = train, test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unscaled columns: some do not converge, as in the papers
        classifier.fit(x, y)
        hard = classifier.predict(test_x)
        if hasattr(classifier, "predict_proba"):
            soft = classifier.predict_proba(test_x)[:, 1]
        else:
            soft = classifier.decision_function(test_x)
    return {
        "roc": float(roc_auc_score(truth, hard)),
        "prc": float(average_precision_score(truth, hard)),
        "score_roc": float(roc_auc_score(truth, soft)),
        "score_prc": float(average_precision_score(truth, soft)),
    }


def classifiers(seed: int) -> dict[str, Any]:
    """The paper's 12, default settings but for what it states."""
    return {
        "LR": LogisticRegression(max_iter=2000, random_state=seed),
        "GNB": GaussianNB(),
        "BNB": BernoulliNB(alpha=0.02),
        "SVM": LinearSVC(random_state=seed),
        "DT": DecisionTreeClassifier(random_state=seed),
        "LDA": LinearDiscriminantAnalysis(),
        "Ada": AdaBoostClassifier(random_state=seed),
        "Bag": BaggingClassifier(random_state=seed),
        "RF": RandomForestClassifier(random_state=seed),
        "GBM": GradientBoostingClassifier(random_state=seed),
        "MLP": MLPClassifier(random_state=seed),
        "XGB": xgboost.XGBClassifier(random_state=seed, n_jobs=1),
    }


def identity(name: str, budget: dg.Budget, seed: int) -> dict[str, Any]:
    """What no two runs on file share."""
    return {
        "data": name,
        "seed": seed,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": str(budget.relation),
    }


def runs_of(path: Path) -> list[dict[str, Any]]:
    """All runs on file."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["runs"] if path.exists() else []
    return found


def on_file(path: Path, name: str, budget: dg.Budget, seed: int) -> bool:
    """Whether this run is done."""
    return any(agrees(run, identity(name, budget, seed)) for run in runs_of(path))


def agrees(run: dict[str, Any], known: dict[str, Any]) -> bool:
    """Whether a run has all these entries."""
    return all(run[key] == value for key, value in known.items())


def append(path: Path, run: dict[str, Any]) -> None:
    """Add one run to the file; none is ever dropped."""
    write(path, [*runs_of(path), run])


def write(path: Path, runs: list[dict[str, Any]]) -> None:
    """Put protocol, summary and runs in the file at once, so that a stop leaves it whole."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        title = f"{run['data']}, epsilon {run['epsilon']:g}, delta {run['delta']:g}"
        groups.setdefault(f"{title}, {run['relation']}", []).append(run)
    summary = {title: summed_up(group) for title, group in groups.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    content = {"protocol": PROTOCOL, "summary": summary, "runs": runs}
    beside.write_text(json.dumps(content, indent=1) + "\n")
    beside.replace(path)


def summed_up(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, by source of the rows and classifier."""
    result: dict[str, Any] = {"seeds": [run["seed"] for run in runs]}
    for source in ("synthetic", "real"):
        table = result.setdefault(source, {})
        for name in runs[0][source]:
            values = {key: [run[source][name][key] for run in runs] for key in SCORES}
            mean = {key: float(np.mean(value)) for key, value in values.items()}
            std = {key: float(np.std(value)) for key, value in values.items()}
            table[name] = {"mean": mean, "std": std}
    return result


def show(path: Path, name: str, budget: dg.Budget) -> None:
    """Print mean +- std over the seeds on file, and the paper's mean beside it."""
    wanted = {key: value for key, value in identity(name, budget, 0).items() if key != "seed"}
    runs = [run for run in runs_of(path) if agrees(run, wanted)]
    summary = summed_up(runs)
    columns = {
        f"{SHORT[source]} {key}": {
            classifier: f"{cell['mean'][key]:.3f} +- {cell['std'][key]:.3f}"
            for classifier, cell in summary[source].items()
        }
        for source in ("synthetic", "real")
        for key in SCORES
    }
    print(f"\n{name}, {wanted}, seeds {summary['seeds']}; mean +- std over seeds")
    print(f"roc, prc: hard labels (paper: DP-MERF {PAPER[name]}); score_*: from scores")
    print(f"under-sampling {PROTOCOL['under_sampling']}")
    print(pd.DataFrame(columns).to_string(), flush=True)


if __name__ == "__main__":
    main()
