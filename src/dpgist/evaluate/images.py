"""Scores of synthetic images: classifiers trained on them, and distances of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dpgist.evaluate.image_classifiers import ALL, THREE, Effort, Guesses, guess
from dpgist.evaluate.image_distances import inception_scores, lenet_scores
from dpgist.evaluate.image_sets import ImageTask, LabelledImages, image_task
from dpgist.evaluate.scores import Score, left_out_of_means, mean_without
from dpgist.evaluate.steps import Progress, Steps

METRIC = "accuracy"

Shares = npt.NDArray[np.float64]


def score_images(
    train_sets: Mapping[str, LabelledImages],
    test: LabelledImages,
    *,
    rng: np.random.Generator,
    models: Sequence[str] = THREE,
    slow_rows: int | None = 10_000,
    svm_iterations: int = 1_000,
    inception: Path | None = None,
    inception_rows: int | None = None,
    lenet: bool = False,
    cache: Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[Score, ...]:
    """Score each named set of images against the real test images.

    Args:
        train_sets: (x, y) by source, such as "synthetic" and "real"; x is uint8 of the shape
            (n, height, width) or (n, height, width, channels), y holds numbers or names.
        test: real images that were trained on nowhere.
        rng: randomness of classifiers and subsets; a model's score does not depend on which
            others are asked for.
        models: names of ``image_classifiers.ALL``.
        slow_rows: the most rows for SVM, Ada, Bag and GBM, whose names then say so; None for all.
        svm_iterations: the most iterations of the SVM (10,000 in the papers).
        inception: TorchScript file; adds FID and KID of each set against the test images.
        inception_rows: the most images per set that go through it; the scores then say so.
        lenet: adds FID and KID of LeNet-5 features, as PEARL defines them. The network is trained
            on the set "real", or on the test images if there is none.
        cache: folder for the Inception statistics of real images.
        device: "cpu" or "cuda"; of the networks, not of the twelve.
        progress: called with steps done, steps in all, and what comes next.

    Returns:
        For every set the accuracy of each model and their mean (``model`` None), over all test
        images and for each class (``group`` "class=..."), with 95 % intervals over the test
        images; and the distances. A set of one class, which is not scored as a table, has the
        score of always guessing it, and says so. The interval of LeNet FID is two standard
        deviations over bootstraps; that of KID holds 95 % of the random subsets, and is wider than
        the error of their mean.

    Privacy: reads real rows without noise; outside the guarantee.
    """
    unknown = sorted(set(models) - set(ALL))
    if unknown:
        raise ValueError(f"unknown classifiers: {', '.join(unknown)}; choose from {', '.join(ALL)}")
    if inception_rows is not None and inception_rows < 2:
        raise ValueError(f"inception_rows must be 2 or more, not {inception_rows}")
    task = image_task(train_sets, test)
    effort = Effort(slow_rows=slow_rows, svm_iterations=svm_iterations, device=device)
    passes = len(models) + lenet + (inception is not None)
    steps = Steps(passes * len(task.train_sets), progress)
    seeds = dict(zip(ALL, rng.integers(2**31, size=len(ALL)).tolist(), strict=True))
    lenet_rng, inception_rng = rng.spawn(2)
    scores: list[Score] = []
    chosen = {model: seeds[model] for model in models}
    guesses = {s: _guesses(task, s, chosen, effort=effort, steps=steps) for s in task.train_sets}
    failed = [[name for name, g in own.items() if g.codes is None] for own in guesses.values()]
    left_out = left_out_of_means(failed, len(models))
    for source, found in guesses.items():
        scores.extend(_accuracies(task, source, found, left_out))
    if lenet:
        scores.extend(lenet_scores(task, device=device, rng=lenet_rng, steps=steps))
    if inception is not None:
        scores.extend(
            inception_scores(
                task,
                inception,
                max_rows=inception_rows,
                cache=cache,
                device=device,
                rng=inception_rng,
                steps=steps,
            )
        )
    return tuple(scores)


def _guesses(
    task: ImageTask, source: str, seeds: Mapping[str, int], *, effort: Effort, steps: Steps
) -> dict[str, Guesses]:
    train, found = task.train_sets[source], {}
    for model, seed in seeds.items():
        steps.doing(f"{source}: {model}")
        found[model] = guess(
            model,
            (train.x, train.codes),
            task.test.x,
            n_classes=len(task.classes),
            seed=seed,
            effort=effort,
        )
        steps.finish(f"{source}: {model}")
    return found


def _accuracies(
    task: ImageTask, source: str, guesses: Mapping[str, Guesses], left_out: Sequence[str]
) -> Iterator[Score]:
    averaged: list[Shares] = []
    for name, found in guesses.items():
        if found.codes is None:
            yield Score(metric=METRIC, source=source, model=found.model, value=None, why=found.why)
            continue
        right = (found.codes == task.test.codes).astype(np.float64)
        yield from _by_class(task, source, found.model, right, why=found.why)
        if name not in left_out:
            averaged.append(right)
    if averaged:
        whys = {found.why for found in guesses.values()}
        shared = whys.pop() if len(whys) == 1 else None
        why = mean_without(left_out) or shared
        yield from _by_class(task, source, None, np.mean(averaged, axis=0), why=why)


def _by_class(
    task: ImageTask, source: str, model: str | None, right: Shares, *, why: str | None
) -> Iterator[Score]:
    """Accuracy over all test images and per class; ``right`` is one image's share of right answers.

    The interval is the large-sample form of the bootstrap over test images.
    """
    groups = {None: np.full(len(right), True)} | {
        f"class={task.classes[code]}": task.test.codes == code
        for code in np.unique(task.test.codes)
    }
    for group, rows in groups.items():
        value, half = float(right[rows].mean()), 1.96 * float(right[rows].std() / rows.sum() ** 0.5)
        yield Score(
            metric=METRIC,
            source=source,
            model=model,
            group=group,
            value=value,
            low=max(value - half, 0.0),
            high=min(value + half, 1.0),
            why=why,
        )
