"""Attributions of a network, and how well any attribution foretells what deleting pixels does.

Deletion score. Let f be the score of the class that the model itself gives to an image x, and a(x)
an attribution, one number for each pixel. A patch B is a square of 7 x 7 pixels, placed uniformly
among those that hold at least one pixel of ink. Deleting it sets its pixels to 0, the background:

    change(B) = f(x) - f(x with B deleted)        foretold(B) = sum of a(x) over the pixels of B

The score of x is Spearman's rank correlation of change and foretold over ``PATCHES`` patches, that
of an explanation the mean over images, with the standard error of that mean. 1 means that whoever
reads the explanation can rank deletions without running the model; 0 means that it says nothing.
The attribution of a pixel must be in units of the score, so gradients and filters are multiplied
by the pixel (what is 0 already cannot be deleted).

With a judge, another model's change is used, for the same class: then the score says how much of
the explanation is about digits, and not only about the model that was explained.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata
from torch import nn

SIDE, PATCH, PATCHES = 28, 7, 64
IG_STEPS, SG_SAMPLES, SG_NOISE = 32, 32, 0.2

Array = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Scores = Callable[[Array], Array]
"""Rows (n, inputs) to scores (n, classes)."""


def network_scores(network: nn.Module) -> Scores:
    """A network as a function of arrays."""

    def scores(x: Array) -> Array:
        with torch.no_grad():
            return network(torch.from_numpy(x).float()).double().numpy()

    return scores


def gradients(network: nn.Module, x: Array, classes: npt.NDArray[np.int64]) -> Array:
    """The gradient of each image's own class score."""
    rows = torch.from_numpy(x).float().requires_grad_()
    chosen = network(rows).gather(1, torch.from_numpy(classes)[:, None])
    (found,) = torch.autograd.grad(chosen.sum(), rows)
    return found.double().numpy()


def integrated_gradients(
    network: nn.Module, x: Array, classes: npt.NDArray[np.int64], *, start: Array | float = 0.0
) -> Array:
    """The mean gradient on the way from ``start`` (black) to x (Sundararajan et al. 2017).

    The midpoint rule with ``IG_STEPS`` steps; not multiplied by the image, as in the paper's
    figures. Times x - start, it adds up to the difference of the two scores.
    """
    shares = (np.arange(IG_STEPS) + 0.5) / IG_STEPS
    steps = (start + share * (x - start) for share in shares)
    return np.mean([gradients(network, step, classes) for step in steps], axis=0)


def smooth_gradients(
    network: nn.Module, x: Array, classes: npt.NDArray[np.int64], *, rng: np.random.Generator
) -> Array:
    """The mean gradient around the image, noise of a fifth of the range (Smilkov et al. 2017)."""
    noisy = (x + rng.normal(0, SG_NOISE, x.shape) for _ in range(SG_SAMPLES))
    return np.mean([gradients(network, one, classes) for one in noisy], axis=0)


def patches(x: Array, *, rng: np.random.Generator) -> Masks:
    """Masks (n, PATCHES, inputs) of squares with ink in them, for each image."""
    return np.stack([_patches(image, rng) for image in x])


def _patches(image: Array, rng: np.random.Generator) -> Masks:
    ink = image.reshape(SIDE, SIDE) > 0
    masks: list[Masks] = []
    while len(masks) < PATCHES:
        top, left = rng.integers(0, SIDE - PATCH + 1, 2)
        mask = np.zeros((SIDE, SIDE), bool)
        mask[top : top + PATCH, left : left + PATCH] = True
        if (mask & ink).any():
            masks.append(mask.reshape(-1))
    return np.stack(masks)


def changes(scores: Scores, x: Array, masks: Masks) -> Array:
    """What deleting each patch takes from each class's score, (n, PATCHES, classes)."""
    whole = scores(x)
    deleted = [scores(np.where(own, 0.0, image)) for image, own in zip(x, masks, strict=True)]
    return whole[:, None, :] - np.stack(deleted)


def deletion_score(
    changed: Array, masks: Masks, attributions: Array, classes: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """Mean rank correlation of foretold and true change, and its standard error.

    ``changed`` is that of the model that was explained, or of a judge.
    """
    found = [
        rank_correlation(change[:, place], own @ attribution)
        for change, own, attribution, place in zip(
            changed, masks, attributions, classes, strict=True
        )
    ]
    return float(np.mean(found)), float(np.std(found) / np.sqrt(len(found)))


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's; 0 if either never changes."""
    ranks = rankdata(a) - (len(a) + 1) / 2, rankdata(b) - (len(b) + 1) / 2
    size = np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum())
    return float(ranks[0] @ ranks[1] / size) if size > 0 else 0.0
