"""How much a set of images is worth: accuracy against the number of images trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgist.evaluate.image_classifiers import Codes, Effort, guess
from dpgist.evaluate.image_sets import ImageSet, LabelledImages, image_task

SIZES = (60, 120, 300, 600, 1_200, 3_000, 6_000, 12_000, 30_000, 60_000)
"""0.1 to 100 % of 60,000, as in figure 3.3 of Harder's thesis."""

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SizeCurve:
    """Accuracy on real test images by number of training images: (sizes,) and (sizes, repeats).

    Privacy: computed from real rows without noise; outside the guarantee.
    """

    sizes: tuple[int, ...]
    accuracies: Vector

    @property
    def means(self) -> Vector:
        """Mean accuracy at each size. Privacy: as the curve."""
        return np.asarray(self.accuracies.mean(axis=1))

    @property
    def stds(self) -> Vector:
        """Standard deviation over repeats at each size. Privacy: as the curve."""
        return np.asarray(self.accuracies.std(axis=1))

    def effective_size(self, *, tolerance: float = 0.01) -> int:
        """The smallest size from which more images of this set no longer help.

        All that follows is at most ``tolerance`` better: the thesis's "point at which adding more
        synthetic samples no longer improved accuracy".

        Privacy: as the curve.
        """
        sizes, means = self._known()
        return int(sizes[np.argmax(means >= means.max() - tolerance)])

    def size_for(self, accuracy: float) -> float | None:
        """How many images of this set give that accuracy; None if all of them give less.

        Read off the curve, made non-decreasing, with log sizes interpolated; accuracies below the
        curve give its smallest size. Ask it of the real images' curve for the accuracy of the
        synthetic ones: so many real images are worth as much.

        Privacy: as the curve.
        """
        sizes, means = self._known()
        rising = np.maximum.accumulate(means)
        if accuracy > rising[-1]:
            return None
        after = int(np.searchsorted(rising, accuracy))
        if after == 0:
            return float(sizes[0])
        low, high = rising[after - 1], rising[after]
        part = (accuracy - low) / (high - low)
        ends = np.log(sizes[after - 1 : after + 1])
        return float(np.exp(ends[0] + part * (ends[1] - ends[0])))

    def _known(self) -> tuple[Vector, Vector]:
        """Sizes and means without those at which nothing could be trained."""
        known = ~np.isnan(self.means)
        if not known.any():
            raise ValueError("no size of this curve has an accuracy; ask another classifier")
        return np.asarray(self.sizes, np.float64)[known], self.means[known]


def size_curve(
    train: LabelledImages,
    test: LabelledImages,
    *,
    rng: np.random.Generator,
    sizes: Sequence[int] = SIZES,
    models: Sequence[str] = ("LR",),
    repeats: int = 3,
    effort: Effort | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SizeCurve:
    """Mean accuracy of ``models`` trained on growing parts of one set, real or synthetic.

    Parts hold as many images of each class while they last; each repeat draws its own, the smaller
    ones inside the larger. Sizes above the number of images are left out, and all images are the
    last size. ``progress`` is called with trainings done and trainings in all.

    Reference: figure 3.3 of Harder's thesis.

    Privacy: reads real rows without noise; outside the guarantee.
    """
    task = image_task({"train": train}, test)
    rows = task.train_sets["train"]
    if not len(rows.codes) or not len(task.test.codes):
        raise ValueError("a curve needs images to train on and images to test on")
    kept = (*(size for size in sorted(set(sizes)) if 0 < size < len(rows.codes)), len(rows.codes))
    accuracies = np.empty((len(kept), repeats))
    for repeat in range(repeats):
        order, seed = balanced_order(rows.codes, rng=rng), int(rng.integers(2**31))
        for at, size in enumerate(kept):
            part = ImageSet(x=rows.x[order[:size]], codes=rows.codes[order[:size]])
            accuracies[at, repeat] = _accuracy(
                part, task.test, models, len(task.classes), seed, effort or Effort()
            )
            if progress is not None:
                progress(repeat * len(kept) + at + 1, repeats * len(kept))
    return SizeCurve(sizes=kept, accuracies=accuracies)


def balanced_order(codes: Codes, *, rng: np.random.Generator) -> Codes:
    """A random order of rows whose every beginning has the classes in equal parts while they last.

    Privacy: looks at labels without noise; outside the guarantee.
    """
    order = rng.permutation(len(codes))
    turns = np.empty(len(codes), dtype=np.int64)
    for code in np.unique(codes):
        mine = codes[order] == code
        turns[mine] = np.arange(int(mine.sum()))
    return np.asarray(order[np.argsort(turns, kind="stable")])


def _accuracy(
    train: ImageSet,
    test: ImageSet,
    models: Sequence[str],
    n_classes: int,
    seed: int,
    effort: Effort,
) -> float:
    found = [
        guess(
            model, (train.x, train.codes), test.x, n_classes=n_classes, seed=seed, effort=effort
        ).codes
        for model in models
    ]
    right = [float(np.mean(codes == test.codes)) for codes in found if codes is not None]
    return float(np.mean(right)) if right else float("nan")
