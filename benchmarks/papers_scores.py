"""The papers' evaluation of a table: 12 classifiers trained on given rows, tested on real ones.

Numbers go in as they are, categories as integer codes (place in the schema's list), without any
scaling: some classifiers suffer from it, in the papers as here. ``roc_hard`` and ``pr_hard`` come
from hard 0/1 labels, as in the papers (ROC is balanced accuracy then); ``roc_auc`` and ``pr_auc``
from scores.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xgboost
from papers_data import PaperData
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import dpgist as dg

Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Scores = dict[str, dict[str, float]]


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


def table_scores(
    train: pd.DataFrame,
    test: pd.DataFrame,
    data: PaperData,
    *,
    seed: int,
    progress: Callable[[str], None],
) -> Scores:
    """Every classifier's scores on the test rows; ``seconds`` are its own."""
    schema = data.schema()
    (x, y), (test_x, truth) = _arrays(train, test, data, schema)
    scores = {}
    for name, classifier in classifiers(seed).items():
        started = time.perf_counter()
        scores[name] = _one_score(classifier, (x, y), (test_x, truth))
        scores[name]["seconds"] = round(time.perf_counter() - started, 2)
        progress(f"{name} {next(iter(scores[name].values())):.3f} {scores[name]['seconds']:.0f} s")
    return scores


def _arrays(
    train: pd.DataFrame, test: pd.DataFrame, data: PaperData, schema: dg.Schema
) -> list[tuple[Numbers, Codes]]:
    """Features and labels of both; a missing number becomes the median of the training rows."""
    x, test_x = _features(train, data, schema), _features(test, data, schema)
    middles = np.nan_to_num(
        np.array([np.nanmedian(c) if not np.isnan(c).all() else 0 for c in x.T])
    )
    classes = [data.positive] if data.positive else list(schema.column(schema.label).values)
    labels = [_labels(rows[schema.label], classes, data) for rows in (train, test)]
    filled = [np.where(np.isnan(part), middles, part) for part in (x, test_x)]
    return list(zip(filled, labels, strict=True))


def _labels(cells: pd.Series, classes: list[str], data: PaperData) -> Codes:
    codes = pd.Index(classes).get_indexer(cells.astype(str)).astype(np.int64)
    return codes + 1 if data.positive else codes


def _features(rows: pd.DataFrame, data: PaperData, schema: dg.Schema) -> Numbers:
    columns = [column for column in schema.columns if column.name != schema.label]
    return np.column_stack(
        [_codes(rows[c.name], c, one_hot=c.name in data.one_hot) for c in columns]
    )


def _codes(cells: pd.Series, column: Any, *, one_hot: bool) -> Numbers:
    if not isinstance(column, dg.CategoryColumn):
        return cells.to_numpy(dtype=np.float64, na_value=np.nan)
    codes = pd.Index(column.values).get_indexer(cells.astype("str"))
    if one_hot:
        return (codes[:, None] == np.arange(len(column.values))).astype(np.float64)
    return np.where(codes < 0, len(column.values), codes).astype(np.float64)


def _one_score(
    classifier: Any, train: tuple[Numbers, Codes], test: tuple[Numbers, Codes]
) -> dict[str, float]:
    """Weighted F1 for several classes; ROC and PRC, hard and from scores, for two."""
    (x, y), (test_x, truth) = train, test
    kept, y = np.unique(y, return_inverse=True)  # xgboost wants classes 0, 1, 2 ...
    if len(kept) == 1:  # one class only: whatever the classifier, it can say nothing else
        hard, soft = np.full(len(truth), kept[0]), np.zeros(len(truth))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unscaled columns: some do not converge
            classifier.fit(x, y)
            hard = kept[classifier.predict(test_x)]
            soft = _soft(classifier, test_x) if len(kept) == 2 else None
    if soft is None or truth.max() > 1:
        return {
            "f1_weighted": float(f1_score(truth, hard, average="weighted")),
            "f1_macro": float(f1_score(truth, hard, average="macro")),
            "accuracy": float(np.mean(truth == hard)),
        }
    return {
        "roc_hard": float(roc_auc_score(truth, hard)),
        "pr_hard": float(average_precision_score(truth, hard)),
        "roc_auc": float(roc_auc_score(truth, soft)),
        "pr_auc": float(average_precision_score(truth, soft)),
    }


def _soft(classifier: Any, x: Numbers) -> Numbers:
    if hasattr(classifier, "predict_proba"):
        return np.asarray(classifier.predict_proba(x)[:, 1])
    return np.asarray(classifier.decision_function(x))
