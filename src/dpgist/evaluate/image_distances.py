"""FID and KID of sets of images against real ones, by Inception's features and by LeNet's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpgist.errors import DataError
from dpgist.evaluate.frechet import bootstrapped_frechet, frechet_distance, kernel_distances
from dpgist.evaluate.image_sets import Array, ImageTask
from dpgist.evaluate.inception import (
    Inception,
    Statistics,
    inception_statistics,
    load_inception,
    spaced_rows,
)
from dpgist.evaluate.lenet import lenet_features, train_lenet
from dpgist.evaluate.scores import Score
from dpgist.evaluate.steps import Steps

REAL = "real"
"""The source whose images are real: LeNet is trained on them, their statistics are cached."""
SUBSET_ROWS = 1000
TOO_FEW = "a spread needs two images or more on both sides"
NO_FEATURES = "the Inception network failed on these images"
_FAILURES = (RuntimeError, ValueError)  # torch's, and numpy's with its LinAlgError


def lenet_scores(
    task: ImageTask, *, device: str, rng: np.random.Generator, steps: Steps
) -> Iterator[Score]:
    """FID (mean of 10 bootstraps) and KID (100 subsets) of LeNet-5 features, as in PEARL.

    Privacy: reads real rows without noise; outside the guarantee.
    """
    metrics = ("lenet_fid", "lenet_kid")
    if len(task.test.x) < 2:
        yield from _missing(tuple(task.train_sets), metrics, TOO_FEW)
        return
    teacher = task.train_sets.get(REAL, task.test)
    if len(teacher.codes) == 0:
        teacher = task.test
    why = "LeNet was trained on the test images" if teacher is task.test else None
    steps.doing("training LeNet")
    network = train_lenet(
        teacher.x,
        teacher.codes,
        n_classes=len(task.classes),
        seed=int(rng.integers(2**31)),
        device=device,
    )
    real = lenet_features(network, task.test.x, device=device)
    for source, rows in task.train_sets.items():
        steps.doing(f"LeNet, {source}")
        if len(rows.x) < 2:
            yield from _missing((source,), metrics, TOO_FEW)
        else:
            features = lenet_features(network, rows.x, device=device)
            yield _lenet_fid(source, bootstrapped_frechet(real, features, rng=rng), why)
            yield _kid("lenet_kid", source, real, features, rng=rng, why=why)
        steps.finish(f"LeNet, {source}")


def inception_scores(
    task: ImageTask,
    path: Path,
    *,
    max_rows: int | None,
    cache: Path | None,
    device: str,
    rng: np.random.Generator,
    steps: Steps,
) -> Iterator[Score]:
    """FID and KID of each set against the test images; without the network, why there is none.

    Privacy: reads real rows without noise; outside the guarantee.
    """
    metrics, sources = ("fid", "kid"), tuple(task.train_sets)
    try:
        inception = load_inception(path, device=device)
    except DataError as error:
        yield from _missing(sources, metrics, str(error))
        return
    if len(task.test.x) < 2:
        yield from _missing(sources, metrics, TOO_FEW)
        return
    statistics = partial(_statistics, inception, max_rows=max_rows, steps=steps)
    try:
        real = statistics("test", task.test.x, cache=cache)
    except _FAILURES:
        yield from _missing(sources, metrics, NO_FEATURES)
        return
    for source, rows in task.train_sets.items():
        few = _few(len(rows.x), len(task.test.x), max_rows, len(real.moments.mean))
        if len(rows.x) < 2:
            yield from _missing((source,), metrics, TOO_FEW)
            continue
        try:
            found = statistics(source, rows.x, cache=cache if source == REAL else None)
            fid = frechet_distance(real.moments, found.moments)
            kid = _kid("kid", source, real.pool, found.pool, rng=rng)
        except _FAILURES:
            yield from _missing((source,), metrics, NO_FEATURES)
        else:
            yield Score(metric="fid", source=source, value=fid, why=few)
            yield kid
        steps.finish(f"Inception, {source}")


def _statistics(
    inception: Inception,
    name: str,
    images: Array,
    *,
    max_rows: int | None,
    cache: Path | None,
    steps: Steps,
) -> Statistics:
    def step(done: int, count: int) -> None:
        steps.doing(f"Inception, {name}: {done / count:.0%}")

    if max_rows is not None and len(images) > max_rows:
        images = images[spaced_rows(len(images), max_rows)]
    return inception_statistics(images, inception, cache=cache, progress=step)


def _few(n_rows: int, n_real: int, max_rows: int | None, n_features: int) -> str | None:
    """FID grows as images get fewer, which matters below some multiple of the features."""
    used = [count if max_rows is None else min(count, max_rows) for count in (n_rows, n_real)]
    if min(used) > 2 * n_features and used == [n_rows, n_real]:
        return None
    return f"{used[0]:,} images against {used[1]:,}: the fewer, the higher"


def _lenet_fid(source: str, draws: npt.NDArray[np.float64], why: str | None) -> Score:
    middle, spread = float(draws.mean()), 2 * float(draws.std())
    return Score(
        metric="lenet_fid",
        source=source,
        value=middle,
        low=max(middle - spread, 0.0),
        high=middle + spread,
        why=why,
    )


def _kid(
    metric: str,
    source: str,
    real: Array,
    other: Array,
    *,
    rng: np.random.Generator,
    why: str | None = None,
) -> Score:
    draws = kernel_distances(real, other, rng=rng, subset_rows=SUBSET_ROWS)
    low, high = (float(end) for end in np.quantile(draws, [0.025, 0.975]))
    score = Score(
        metric=metric, source=source, value=float(draws.mean()), low=low, high=high, why=why
    )
    # Subsets that are nearly the whole set hardly differ, which says nothing of the error.
    if min(len(real), len(other)) < 2 * SUBSET_ROWS:
        return replace(score, low=None, high=None)
    return score


def _missing(sources: Sequence[str], metrics: Sequence[str], why: str) -> Iterator[Score]:
    for source in sources:
        for metric in metrics:
            yield Score(metric=metric, source=source, value=None, why=why)
