"""The twelve classifiers with which the DP-MERF papers score images, and the CNN."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgist.evaluate.cnn import cnn_guesses

TWELVE = ("LR", "RF", "GNB", "BNB", "SVM", "DT", "LDA", "Ada", "MLP", "Bag", "GBM", "XGB")
CNN = "CNN"
THREE = ("LR", "MLP", CNN)
ALL = (*TWELVE, CNN)
SLOW = ("SVM", "Ada", "Bag", "GBM")
FAST = tuple(name for name in TWELVE if name not in SLOW)
_TREES = ("RF", "DT", "Ada", "Bag", "GBM", "XGB")

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much of the papers' work is done.

    ``slow_rows`` is the most rows on which the slow four (SVM, Ada, Bag, GBM) are trained, None
    for all; ``svm_iterations`` was 10,000 in the papers. ``device`` is the CNN's.

    Privacy: settings only.
    """

    slow_rows: int | None = 10_000
    svm_iterations: int = 1_000
    cnn_epochs: int = 5
    device: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Guesses:
    """A classifier's labels for the test images; None where ``why`` says what went wrong.

    Privacy: computed from real rows without noise; outside the guarantee.
    """

    model: str
    codes: Codes | None
    why: str | None = None


def guess(
    name: str,
    train: tuple[Array, Codes],
    images: Array,
    *,
    n_classes: int,
    seed: int,
    effort: Effort,
) -> Guesses:
    """Train one classifier on (images, codes) and let it label ``images``.

    Pixels go in as value / 255, as in the papers. Where fewer rows were used than there are, the
    model's name says so.

    Privacy: reads the rows it is given without noise; outside the guarantee.
    """
    if name not in ALL:
        raise ValueError(f"unknown classifier {name!r}; choose from {', '.join(ALL)}")
    (x, y), model = _rows_for(name, train, effort.slow_rows, seed=seed)
    if len(y) == 0:
        return Guesses(model=model, codes=None, why="no rows to train on")
    if len(images) == 0:
        return Guesses(model=model, codes=None, why="no test images")
    if np.all(y == y[0]):
        why = "one class among the training rows: it is always guessed"
        return Guesses(model=model, codes=np.full(len(images), y[0]), why=why)
    if name == CNN:
        epochs, device = effort.cnn_epochs, effort.device
        codes = cnn_guesses(
            (x, y), images, seed=seed, device=device, epochs=epochs, n_classes=n_classes
        )
        return Guesses(model=model, codes=codes)
    return _fitted(name, model, (x, y), images, seed=seed, effort=effort)


def _rows_for(
    name: str, train: tuple[Array, Codes], slow_rows: int | None, *, seed: int
) -> tuple[tuple[Array, Codes], str]:
    x, y = train
    if name not in SLOW or slow_rows is None or len(y) <= slow_rows:
        return train, name
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(y))[:slow_rows]
    return (x[order], y[order]), f"{name} ({slow_rows:,} rows)"


def _fitted(
    name: str, model: str, train: tuple[Array, Codes], images: Array, *, seed: int, effort: Effort
) -> Guesses:
    present, inner = np.unique(train[1], return_inverse=True)  # xgboost wants 0, 1, 2, ...
    try:
        classifier = _build(name, n_classes=len(present), seed=seed, effort=effort)
    except ImportError:
        why = f"{name} needs xgboost; run: pip install 'dpgist[evaluate]'"
        return Guesses(model=model, codes=None, why=why)
    # Trees work in float32 in any case; in float64 they would copy the images once more.
    dtype = np.float32 if name in _TREES else np.float64
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            classifier.fit(_scaled(train[0], dtype), inner)
            codes = present[np.asarray(classifier.predict(_scaled(images, dtype)), dtype=np.int64)]
        except (ValueError, np.linalg.LinAlgError):  # its words may quote cells
            return Guesses(model=model, codes=None, why=f"{name} cannot be fitted to these rows")
    return Guesses(model=model, codes=codes, why=_stopped(caught))


def _scaled(images: Array, dtype: type[np.floating[Any]]) -> Array:
    return np.asarray(images.reshape(len(images), -1).astype(dtype) / dtype(255))


def _stopped(caught: list[warnings.WarningMessage]) -> str | None:
    names = {warning.category.__name__ for warning in caught}
    return "stopped before it converged" if "ConvergenceWarning" in names else None


def _build(name: str, *, n_classes: int, seed: int, effort: Effort) -> Any:
    """Settings of the authors' ``synth_data_benchmark.py``, less what newer versions dropped.

    AdaBoost was SAMME.R there, which scikit-learn no longer has; it is SAMME here. Depth 3 and
    rate 0.1 were xgboost's defaults when the papers appeared, and no longer are.
    """
    # Imported here: it takes seconds, and no other verb needs it.
    from sklearn import (
        discriminant_analysis,
        ensemble,
        linear_model,
        naive_bayes,
        neural_network,
        svm,
        tree,
    )

    components = min(9, n_classes - 1)
    objective = "multi:softprob" if n_classes > 2 else "binary:logistic"
    builders: dict[str, Callable[[], Any]] = {
        "LR": lambda: linear_model.LogisticRegression(max_iter=5000, random_state=seed),
        "RF": lambda: ensemble.RandomForestClassifier(
            n_estimators=100, class_weight="balanced", random_state=seed
        ),
        "GNB": lambda: naive_bayes.GaussianNB(),
        "BNB": lambda: naive_bayes.BernoulliNB(binarize=0.5),
        "SVM": lambda: svm.LinearSVC(
            max_iter=effort.svm_iterations, tol=1e-8, loss="hinge", random_state=seed
        ),
        "DT": lambda: tree.DecisionTreeClassifier(class_weight="balanced", random_state=seed),
        "LDA": lambda: discriminant_analysis.LinearDiscriminantAnalysis(
            solver="eigen", n_components=components, tol=1e-8, shrinkage=0.5
        ),
        "Ada": lambda: ensemble.AdaBoostClassifier(n_estimators=100, random_state=seed),
        "MLP": lambda: neural_network.MLPClassifier(random_state=seed),
        "Bag": lambda: ensemble.BaggingClassifier(
            max_samples=0.1, n_estimators=20, random_state=seed
        ),
        "GBM": lambda: ensemble.GradientBoostingClassifier(
            subsample=0.1, n_estimators=50, random_state=seed
        ),
        "XGB": lambda: _xgboost(objective=objective, seed=seed),
    }
    return builders[name]()


def _xgboost(*, objective: str, seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(
        colsample_bytree=0.1,
        n_estimators=50,
        objective=objective,
        max_depth=3,
        learning_rate=0.1,
        random_state=seed,
    )
