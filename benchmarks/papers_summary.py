"""Means over classifiers and seeds of the runs on file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import papers_published as published
from papers_data import DATA
from papers_results import Run

ONE_CLASS = "one class only"


@dataclass(frozen=True, kw_only=True)
class Value:
    """Mean and sample standard deviation over runs; ``std`` is None for one run."""

    mean: float
    std: float | None
    n_runs: int

    def text(self) -> str:
        """Three decimals."""
        return f"{self.mean:.3f}" + ("" if self.std is None else f" ± {self.std:.3f}")


def over_runs(values: list[float]) -> Value | None:
    """Their mean and spread; None if there are none."""
    if not values:
        return None
    mean, std = math.fsum(values) / len(values), None
    if len(values) > 1:
        std = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return Value(mean=mean, std=std, n_runs=len(values))


def main_metric(name: str) -> str:
    """What the paper scores the data set by."""
    if name in published.IMAGES:
        return published.ACCURACY
    return published.F1 if DATA[name].positive is None else published.ROC


def column_value(name: str, runs: list[Run], metric: str) -> Value | None:
    """The mean over classifiers of each run, over the runs.

    Some runs of images have only those classifiers that all runs have; the mean then adds up what
    each classifier reached over the runs that have it, and the spread is that of the common ones.
    """
    models = {model: None for run in runs for model in run["scores"]}
    common = [model for model in models if all(model in run["scores"] for run in runs)]
    means = (_mean(score_of(name, run, model, metric) for model in common) for run in runs)
    value = over_runs([mean for mean in means if mean is not None])
    if value is None or len(common) == len(models):
        return value
    own = (classifier_value(name, runs, model, metric) for model in models)
    return replace(value, mean=_mean(one.mean if one else None for one in own) or value.mean)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def classifier_value(name: str, runs: list[Run], model: str, metric: str) -> Value | None:
    """One classifier over the runs that have it."""
    values = [score_of(name, run, model, metric) for run in runs if model in run["scores"]]
    return over_runs([value for value in values if value is not None])


def score_of(name: str, run: Run, model: str, metric: str) -> float | None:
    """One score; a classifier that was shown one class only can do no better than chance."""
    score: Mapping[str, Any] = run["scores"][model]
    value: float | None = score.get(metric)
    if value is None and ONE_CLASS in (score.get("why") or ""):
        return _chance(name, run, metric)
    return value


def _chance(name: str, run: Run, metric: str) -> float | None:
    """What a classifier scores that says the same of every row; None where it has no score."""
    positive = DATA[name].positive
    if positive is None:
        return None
    if metric in ("roc_hard", "roc_auc"):
        return 0.5
    return float(run["class_shares"]["test"][positive]) if metric in ("pr_hard", "pr_auc") else None


def one_class_runs(runs: list[Run]) -> int:
    """In how many runs the synthetic rows held one class only."""
    return sum(
        any(ONE_CLASS in (score.get("why") or "") for score in run["scores"].values())
        for run in runs
    )


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of a table."""
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    yield from ("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)
