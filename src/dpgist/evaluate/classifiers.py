"""The classifiers that are trained on synthetic rows: three quick ones, and the papers' twelve."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpgist.errors import DataError
from dpgist.evaluate.table import Rows

Floats = npt.NDArray[np.floating[Any]]
Codes = npt.NDArray[np.int64]
Features = Literal["one_hot", "codes"]

_MOST_DOUBLE_CELLS = 50_000_000


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """One classifier: its name, how rows are shown to it, and how it is made from a seed.

    Privacy: settings only.
    """

    name: str
    features: Features
    make: Callable[[int], Any]


@dataclass(frozen=True, kw_only=True, repr=False)
class Predictions:
    """What a classifier says of the test rows: scores (rows, classes) and labels (rows,).

    Privacy: a function of real rows; outside the guarantee.
    """

    scores: npt.NDArray[np.float64]
    labels: Codes


def classifiers(which: str) -> tuple[Classifier, ...]:
    """The classifiers of a set: "three" or "twelve".

    Three: logistic regression on standardised numbers and one-hot categories, a random forest of
    100 trees with at least 5 rows in a leaf, histogram gradient boosting. Twelve: those of DP-MERF
    (Harder, Adamczewski and Park 2021) for tables, with default settings but for what the paper
    states, on raw numbers and integer codes.

    Privacy: settings only.
    """
    if which not in ("three", "twelve"):
        raise ValueError(f"classifiers must be three or twelve, got {which!r}")
    made, shown = (_THREE, "one_hot") if which == "three" else (_TWELVE, "codes")
    return tuple(
        Classifier(name=name, features=shown, make=make)  # type: ignore[arg-type]
        for name, make in made.items()
    )


def fit_and_predict(
    classifier: Classifier, train: Rows, test: Rows, *, n_classes: int, seed: int
) -> Predictions:
    """Train on one table and predict the classes of another; both have labelled rows only.

    A class that the training rows lack is never predicted and scores lowest. Scores that are not
    numbers have no order, so they are refused with ``DataError``.

    Privacy: reads rows without any protection; outside the guarantee.
    """
    shown = one_hot_features if classifier.features == "one_hot" else code_features
    x, test_x = shown(train, test)
    present, y = np.unique(train.classes(), return_inverse=True)
    model = classifier.make(seed)
    if np.bincount(y).min() < 2 and "early_stopping" in model.get_params():
        model.set_params(early_stopping=False)  # it would split every class in two
    model.fit(x, y)
    scores = np.full((test.n_rows, n_classes), -np.inf)
    scores[:, present] = _scores(model, test_x)
    if not np.isfinite(scores[:, present]).all():
        raise DataError("it predicts no numbers")
    return Predictions(scores=scores, labels=present[np.asarray(model.predict(test_x), np.int64)])


def _scores(model: Any, x: Floats) -> Floats:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(x), np.float64)
    distance = np.asarray(model.decision_function(x), np.float64)
    return np.column_stack([-distance, distance]) if distance.ndim == 1 else distance


def one_hot_features(train: Rows, test: Rows) -> tuple[Floats, Floats]:
    """Standardised numbers beside one-hot categories, both as the training rows have them.

    A null number is the mean, and marked in a column of its own.

    Privacy: row-wise but for mean and spread; outside the guarantee.
    """
    numbers = [_standardised(train.numbers[n], test.numbers[n]) for n in train.numbers]
    choices = [
        _indicators(train.choices[n], test.choices[n])
        for n in train.features()
        if n in train.choices
    ]
    wide = sum(part.shape[1] for part, _ in (*numbers, *choices))
    kind = np.float64 if wide * train.n_rows <= _MOST_DOUBLE_CELLS else np.float32
    sides = zip(*numbers, *choices, strict=True)
    x, test_x = (np.concatenate([part.astype(kind) for part in side], axis=1) for side in sides)
    return x, test_x


def _standardised(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    present = train[~np.isnan(train)]
    mean, spread = (present.mean(), present.std()) if len(present) else (0.0, 0.0)
    sides = [np.nan_to_num((side - mean) / (spread or 1.0)) for side in (train, test)]
    if len(present) == len(train):
        return sides[0][:, None], sides[1][:, None]
    nulls = (np.isnan(side) for side in (train, test))
    first, second = (np.column_stack([side, null]) for side, null in zip(sides, nulls, strict=True))
    return first, second


def _indicators(train: Codes, test: Codes) -> tuple[Floats, Floats]:
    seen = np.unique(train)
    first, second = ((side[:, None] == seen).astype(np.float64) for side in (train, test))
    return first, second


def code_features(train: Rows, test: Rows) -> tuple[Floats, Floats]:
    """Numbers as they are and categories as integer codes, as the papers' classifiers see them.

    A null number is the median of the training rows.

    Privacy: row-wise but for the median; outside the guarantee.
    """
    x, test_x = (np.empty((rows.n_rows, len(train.features()))) for rows in (train, test))
    for at, name in enumerate(train.features()):
        if name in train.choices:
            x[:, at], test_x[:, at] = train.choices[name], test.choices[name]
            continue
        present = train.numbers[name][~np.isnan(train.numbers[name])]
        middle = np.median(present) if len(present) else 0.0
        for side, rows in ((x, train), (test_x, test)):
            side[:, at] = np.nan_to_num(rows.numbers[name], nan=middle)
    return x, test_x


def n_workers() -> int:
    """How many classifiers are trained at once: one per core.

    Privacy: public facts only.
    """
    return max(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, 1)


# scikit-learn is imported when a classifier is made: it takes seconds, and no other verb needs it.


def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000, random_state=seed)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(100, min_samples_leaf=5, random_state=seed)


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _lr(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=2000, random_state=seed)


def _gnb(seed: int) -> Any:
    from sklearn.naive_bayes import GaussianNB

    del seed
    return GaussianNB()


def _bnb(seed: int) -> Any:
    from sklearn.naive_bayes import BernoulliNB

    del seed
    return BernoulliNB(alpha=0.02)


def _svm(seed: int) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(random_state=seed)


def _tree(seed: int) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(random_state=seed)


def _lda(seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    del seed
    return LinearDiscriminantAnalysis()


def _ada(seed: int) -> Any:
    from sklearn.ensemble import AdaBoostClassifier

    return AdaBoostClassifier(random_state=seed)


def _bagging(seed: int) -> Any:
    from sklearn.ensemble import BaggingClassifier

    return BaggingClassifier(random_state=seed)


def _default_forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=seed)


def _gbm(seed: int) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(random_state=seed)


def _mlp(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(random_state=seed)


def _xgb(seed: int) -> Any:
    try:
        from xgboost import XGBClassifier
    except ImportError:
        raise DataError("xgboost is missing; run: pip install 'dpgist[evaluate]'") from None
    return XGBClassifier(random_state=seed, n_jobs=1)


_THREE = {"logistic": _logistic, "forest": _forest, "boosting": _boosting}
_TWELVE = {
    "LR": _lr,
    "GNB": _gnb,
    "BNB": _bnb,
    "SVM": _svm,
    "DT": _tree,
    "LDA": _lda,
    "Ada": _ada,
    "Bag": _bagging,
    "RF": _default_forest,
    "GBM": _gbm,
    "MLP": _mlp,
    "XGB": _xgb,
}
