"""Scores of predictions, for one sample of test rows or many weighted ones at once.

Every function takes ``weights`` (samples, rows): one row of ones is the plain score, and rows of
Poisson counts are bootstrap samples. Ranks are sorted once for all of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Weights = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MOST_CELLS = 2**22


def resamples(
    n_rows: int, *, rng: np.random.Generator, most: int = 200, classes: int = 1
) -> Weights:
    """Weights of bootstrap samples after a first sample of ones; fewer for long tables.

    Poisson counts stand for drawing with replacement.

    Privacy: draws random numbers; reads no row.
    """
    fair = int(np.clip(4e6 / max(n_rows * classes, 1), 40, most))
    weights = np.ones((fair + 1, n_rows), np.float32)
    weights[1:] = rng.poisson(1.0, (fair, n_rows))
    return weights


def ranked_scores(truth: Mask, scores: Floats, weights: Weights) -> tuple[Floats, Floats]:
    r"""ROC AUC and average precision of each weighted sample; NaN where a class is absent.

    .. math:: \text{ROC} = P(s_+ > s_-) + \tfrac12 P(s_+ = s_-), \qquad
        \text{AP} = \sum_t \frac{TP_t - TP_{t-1}}{P} \cdot \frac{TP_t}{TP_t + FP_t}

    Symbols: :math:`t` runs over the distinct scores from high to low.

    Privacy: a function of real labels; outside the guarantee.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(ranked) else order
    step = max(_MOST_CELLS // max(len(scores), 1), 1)
    parts = [
        _ranked_part(truth[order], starts, weights[at : at + step, order])
        for at in range(0, len(weights), step)
    ]
    roc, precision = (np.concatenate(side) for side in zip(*parts, strict=True))
    return roc, precision


def _ranked_part(truth: Mask, starts: Codes, weights: Weights) -> tuple[Floats, Floats]:
    if not len(truth):
        return np.full(len(weights), np.nan), np.full(len(weights), np.nan)
    positive = np.add.reduceat(weights * truth, starts, axis=1, dtype=np.float64)
    negative = np.add.reduceat(weights * ~truth, starts, axis=1, dtype=np.float64)
    true, false = positive.cumsum(axis=1), negative.cumsum(axis=1)
    n_positive, n_negative = true[:, -1], false[:, -1]
    with np.errstate(invalid="ignore", divide="ignore"):
        above = (positive * (n_negative[:, None] - false + negative / 2)).sum(axis=1)
        share = np.where(true > 0, true / np.maximum(true + false, 1e-300), 0.0)
        precision = (positive * share).sum(axis=1) / n_positive
        return above / (n_positive * n_negative), precision


def label_scores(
    truth: Codes, predicted: Codes, n_classes: int, weights: Weights
) -> tuple[Floats, Floats, Floats, Floats]:
    """Accuracy, weighted F1, and recall and F1 of each class (samples, classes).

    A class without a row has recall NaN; a class neither present nor predicted has F1 0, as in
    scikit-learn.

    Privacy: a function of real labels; outside the guarantee.
    """
    found = np.where(truth == predicted, truth, n_classes)
    hits, support, named = (
        _class_sums(codes, n_classes, weights) for codes in (found, truth, predicted)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        total = support.sum(axis=1)
        f1 = np.where(support + named > 0, 2 * hits / np.maximum(support + named, 1e-300), 0.0)
        weighted = (f1 * support).sum(axis=1) / total
        return hits.sum(axis=1) / total, weighted, hits / support, f1


def _class_sums(codes: Codes, n_classes: int, weights: Weights) -> Floats:
    member = (codes[:, None] == np.arange(n_classes)).astype(np.float32)
    sums: Floats = (weights @ member).astype(np.float64)
    return sums


def interval(samples: Floats) -> tuple[float | None, float | None]:
    """The middle 95 % of bootstrap scores; (None, None) if they say too little.

    Privacy: a function of scores; outside the guarantee.
    """
    finite = samples[np.isfinite(samples)]
    if len(finite) < 20:
        return None, None
    low, high = np.quantile(finite, (0.025, 0.975))
    return float(low), float(high)
