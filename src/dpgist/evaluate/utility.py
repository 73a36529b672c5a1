"""Train on synthetic rows, test on real ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgist.errors import DataError
from dpgist.evaluate.classifiers import Classifier, Predictions, fit_and_predict, n_workers
from dpgist.evaluate.groups import FEWEST_ROWS, Group
from dpgist.evaluate.ranking import (
    Weights,
    interval,
    label_scores,
    ranked_scores,
    resamples,
)
from dpgist.evaluate.scores import Score, left_out_of_means, mean_without
from dpgist.evaluate.steps import Steps
from dpgist.evaluate.table import Rows, class_names

Floats = npt.NDArray[np.float64]

BINARY = ("roc_auc", "pr_auc", "roc_hard", "pr_hard", "f1_weighted", "accuracy")
SEVERAL = ("roc_auc", "pr_auc", "f1_weighted", "accuracy")
"""Metrics for two classes and for more."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One classifier on one source: samples of each metric (the plain score first), and groups.

    ``why`` is set, and the rest empty, where it could not be trained.

    Privacy: a function of real rows; outside the guarantee.
    """

    samples: Mapping[str, Floats] = field(default_factory=dict)
    groups: Mapping[tuple[str, str], float] = field(default_factory=dict)
    why: str | None = None


def metrics_for(n_classes: int) -> tuple[str, ...]:
    """The metrics that so many classes allow.

    Privacy: public facts only.
    """
    return BINARY if n_classes == 2 else SEVERAL


def utility_scores(
    sources: Mapping[str, Rows],
    test: Rows,
    *,
    classifiers: Sequence[Classifier],
    groups: Sequence[Group],
    rng: np.random.Generator,
    steps: Steps,
) -> Iterator[Score]:
    """Every classifier trained on every source and tested on the real rows, then their means.

    Rows whose label is null or undeclared take no part. Intervals are over the test rows, with the
    same bootstrap samples for all classifiers and sources.

    Privacy: reads rows without any protection; outside the guarantee.
    """
    names = class_names(test.schema)
    metrics = metrics_for(len(names))
    why = why_not(test, "real test")
    if why is not None:
        steps.finish("classifiers", len(sources) * len(classifiers))
        for source in sources:
            yield from (Score(metric=m, source=source, value=None, why=why) for m in metrics)
        return
    test = _labelled(test)
    bootstrap = rng.spawn(1)[0]
    weights = resamples(test.n_rows, rng=bootstrap, classes=max(len(names) - 1, 1))
    tester = _Tester(test=test, weights=weights, groups=tuple(groups), n_classes=len(names))
    judged = _judge_all(sources, tester, classifiers, seed=int(rng.integers(2**31)), steps=steps)
    by_source = {s: {c.name: judged[s, c.name] for c in classifiers} for s in sources}
    failed = [[name for name, j in own.items() if j.why] for own in by_source.values()]
    left_out = left_out_of_means(failed, len(classifiers))
    for source, own in by_source.items():
        yield from _source_scores(source, own, metrics, groups, left_out)


def why_not(rows: Rows, title: str) -> str | None:
    """Why these rows cannot train or test a classifier, or None.

    Privacy: a function of real rows; outside the guarantee.
    """
    label = rows.schema.label
    if label is None:
        return "there is no label to predict"
    if not rows.features():
        return f"there is no column besides the label {label!r}"
    classes = rows.classes()
    present = np.unique(classes[classes >= 0])
    if not rows.n_rows:
        return f"there are no {title} rows"
    if not len(present):
        return f"column {label!r}: no {title} row has a declared label"
    if len(present) == 1:
        return f"column {label!r}: the {title} rows hold one class only"
    return None


def _labelled(rows: Rows) -> Rows:
    kept = rows.classes() >= 0
    return rows if kept.all() else rows.take(kept)


# --- training -------------------------------------------------------------------------------


def _judge_all(
    sources: Mapping[str, Rows],
    tester: _Tester,
    classifiers: Sequence[Classifier],
    *,
    seed: int,
    steps: Steps,
) -> dict[tuple[str, str], Judgement]:
    """One thread per core, each on one thread: the long ones, which come last, start first."""
    judged: dict[tuple[str, str], Judgement] = {}
    running: dict[Future[Judgement], tuple[str, str]] = {}
    with _quiet(), ThreadPoolExecutor(n_workers(), initializer=_one_thread) as pool:
        for classifier in reversed(classifiers):
            for source, rows in sources.items():
                work = pool.submit(_judge, classifier, rows, source, tester, seed)
                running[work] = (source, classifier.name)
        steps.doing("training classifiers")
        for done in as_completed(running):
            judged[running[done]] = done.result()
            source, name = running[done]
            steps.finish(f"{name} on {source} rows")
    return judged


def _judge(
    classifier: Classifier, rows: Rows, source: str, tester: _Tester, seed: int
) -> Judgement:
    why = why_not(rows, source)
    if why is not None:
        return Judgement(why=why)
    try:
        predicted = fit_and_predict(
            classifier, _labelled(rows), tester.test, n_classes=tester.n_classes, seed=seed
        )
    except DataError as error:  # a library that is not there, or no numbers
        return Judgement(why=str(error))
    except Exception as error:  # a classifier may fail on odd rows; its message could quote a cell
        return Judgement(why=f"the classifier could not be trained ({type(error).__name__})")
    return tester.judge(predicted)


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings and no threads of its own in any classifier, here and in all threads.

    Columns are not scaled: some classifiers do not converge, in the papers as here.
    """
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        yield


def _one_thread() -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)  # OpenMP counts for each thread; this one ends with the pool


# --- testing --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class _Tester:
    """The real test rows, and how predictions about them are scored."""

    test: Rows
    weights: Weights
    groups: tuple[Group, ...]
    n_classes: int

    def judge(self, predicted: Predictions) -> Judgement:
        truth = self.test.classes()
        samples = _scores(truth, predicted, self.n_classes, self.weights)
        groups = {
            (group.name, metric): value
            for group in self.groups
            for metric, value in self._group(group, truth, predicted).items()
        }
        return Judgement(samples=samples, groups=groups)

    def _group(self, group: Group, truth: Any, predicted: Predictions) -> dict[str, float]:
        if group.is_class:
            return _class_scores(int(group.code or 0), truth, predicted, self.n_classes)
        chosen = group.of(self.test)
        if chosen.sum() < FEWEST_ROWS:
            return {}
        part = Predictions(scores=predicted.scores[chosen], labels=predicted.labels[chosen])
        ones = np.ones((1, int(chosen.sum())), np.float32)
        found = _scores(truth[chosen], part, self.n_classes, ones)
        return {metric: float(values[0]) for metric, values in found.items()}


def _scores(
    truth: npt.NDArray[np.int64], predicted: Predictions, n_classes: int, weights: Weights
) -> dict[str, Floats]:
    accuracy, f1, _, _ = label_scores(truth, predicted.labels, n_classes, weights)
    last = {"f1_weighted": f1, "accuracy": accuracy}
    if n_classes == 2:
        roc, precision = ranked_scores(truth == 1, predicted.scores[:, 1], weights)
        hard = (predicted.labels == 1).astype(np.float64)
        roc_hard, precision_hard = ranked_scores(truth == 1, hard, weights)
        first = {"roc_auc": roc, "pr_auc": precision}
        return first | {"roc_hard": roc_hard, "pr_hard": precision_hard} | last
    present = [c for c in range(n_classes) if (truth == c).any() and (truth != c).any()]
    if not present:
        return {"roc_auc": np.full(1, np.nan), "pr_auc": np.full(1, np.nan)} | last
    each = [ranked_scores(truth == c, predicted.scores[:, c], weights) for c in present]
    roc, precision = (np.mean(side, axis=0) for side in zip(*each, strict=True))
    return {"roc_auc": roc, "pr_auc": precision} | last


def _class_scores(
    code: int, truth: npt.NDArray[np.int64], predicted: Predictions, n_classes: int
) -> dict[str, float]:
    """One class against the rest; of two classes each has the same ROC, which is left out."""
    if not (truth == code).any():
        return {}
    ones = np.ones((1, len(truth)), np.float32)
    roc, precision = ranked_scores(truth == code, predicted.scores[:, code], ones)
    _, _, recall, f1 = label_scores(truth, predicted.labels, n_classes, ones)
    found = {
        "roc_auc": roc[0],
        "pr_auc": precision[0],
        "f1_weighted": f1[0, code],
        "accuracy": recall[0, code],
    }
    if n_classes == 2:
        del found["roc_auc"]
    return {metric: float(value) for metric, value in found.items()}


# --- scores ---------------------------------------------------------------------------------


def _source_scores(
    source: str,
    judged: Mapping[str, Judgement],
    metrics: Sequence[str],
    groups: Sequence[Group],
    left_out: Sequence[str],
) -> Iterator[Score]:
    averaged = {name: judgement for name, judgement in judged.items() if name not in left_out}
    for metric in metrics:
        yield _mean_score(metric, source, averaged, left_out)
        for name, judgement in judged.items():
            samples = judgement.samples.get(metric)
            yield _score(metric, source, samples, model=name, why=judgement.why)
    for group in groups:
        for metric in metrics:
            score = _group_score(metric, source, group, averaged)
            if score is not None:
                yield score


def _mean_score(
    metric: str, source: str, judged: Mapping[str, Judgement], left_out: Sequence[str]
) -> Score:
    good = [j.samples[metric] for j in judged.values() if j.why is None]
    if not good:
        why = next((j.why for j in judged.values()), "every classifier failed on some rows")
        return Score(metric=metric, source=source, value=None, why=why)
    return _score(metric, source, np.mean(good, axis=0), why=mean_without(left_out))


def _score(
    metric: str,
    source: str,
    samples: Floats | None,
    *,
    model: str | None = None,
    why: str | None = None,
) -> Score:
    if samples is None or not np.isfinite(samples[0]):
        why = why or "it is not defined for these rows"
        return Score(metric=metric, source=source, value=None, model=model, why=why)
    low, high = interval(samples[1:])
    return Score(
        metric=metric,
        source=source,
        value=float(samples[0]),
        low=low,
        high=high,
        model=model,
        why=why,
    )


def _group_score(
    metric: str, source: str, group: Group, judged: Mapping[str, Judgement]
) -> Score | None:
    """The mean over classifiers; None where the metric makes no sense for a class."""
    if group.is_class and metric in ("roc_hard", "pr_hard"):
        return None
    key = (group.name, metric)
    if group.is_class and not any(key in j.groups for j in judged.values()):
        return None
    values = [j.groups.get(key, np.nan) for j in judged.values() if j.why is None]
    if values and np.isfinite(values).all():
        return Score(metric=metric, source=source, value=float(np.mean(values)), group=group.name)
    why = f"fewer than {FEWEST_ROWS} real test rows, or one class only"
    if not values:
        why = next((j.why for j in judged.values() if j.why), why)
    return Score(metric=metric, source=source, value=None, group=group.name, why=why)
