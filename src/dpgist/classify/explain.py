"""Why a classifier decides as it does: the maps that are active at an input, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgist.classify.maps import Maps

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

TOP = 3
"""How many active maps figure 3 of the paper shows."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation:
    r"""What makes the scores of n inputs, class by class.

    .. math:: f_k(x) = \bar w_k(x)^\top x + \bar b_k(x), \qquad
        \bar w_k(x) = \sum_m s_{mk}(x) w_{mk}, \quad \bar b_k(x) = \sum_m s_{mk}(x) b_{mk}

    Symbols: ``active`` (n, classes, top) are the most attended maps, largest first, with
    ``attention`` s and ``filters`` w (n, classes, top, inputs) in the space of the inputs;
    ``weighted`` is the mean filter, over all maps and not the top ones alone, (n, classes, inputs);
    ``contributions`` is ``weighted`` times the input, coordinate by coordinate; ``offsets`` is the
    mean bias. Contributions and offset add up to ``scores`` exactly. Where scores are means over
    copies T_a x of the input, so is all this: the weighted filter is the mean of T_a' w(T_a x),
    attention is the mean over the copies, and so is a filter T_a' w_mk, weighted by attention.

    Privacy: the maps are inside the guarantee of their training rows; an explanation is as
    confidential as the input that it explains, and its ``repr`` shows nothing of that.
    """

    inputs: Floats
    classes: tuple[str, ...]
    scores: Floats
    probabilities: Floats
    active: Codes
    attention: Floats
    filters: Floats
    weighted: Floats
    offsets: Floats

    @property
    def contributions(self) -> Floats:
        """What each coordinate adds to each score. Privacy: as the explanation."""
        return self.weighted * self.inputs[:, None, :]

    @property
    def predicted(self) -> Codes:
        """The place of the likeliest class of each input. Privacy: as the explanation."""
        found: Codes = self.scores.argmax(axis=1)
        return found

    def __repr__(self) -> str:
        return f"<explanation over {len(self.classes)} classes>"


def explain(maps: Maps, x: npt.ArrayLike, *, top: int = TOP) -> Explanation:
    """Explain inputs (n, inputs) by the maps that are active there: a local explanation.

    Privacy: row-wise; post-processing of a released classifier.
    """
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2 or rows.shape[1] != maps.inputs:
        raise ValueError(f"inputs must be of shape (n, {maps.inputs}), one line for each")
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    each = np.stack([maps.attention(copy) for copy in maps.copies(rows)])
    attention, filters = each.mean(axis=0), maps.filters()
    active = np.argsort(-attention, axis=2, kind="stable")[:, :, :top]
    places = np.arange(len(maps.classes))[None, :, None]
    shown = np.zeros((*active.shape, maps.inputs))
    weighted = np.zeros((len(rows), len(maps.classes), maps.inputs))
    for copy, own in enumerate(each):
        share = np.full_like(own, 1 / len(each))  # stays where no copy attends to the map
        np.divide(own, attention * len(each), out=share, where=attention > 0)
        part = np.take_along_axis(share, active, axis=2)[..., None] * filters[places, active]
        shown += maps.moved_back(part, copy)
        mean = np.einsum("nkm,kmi->nki", own, filters, optimize=True)
        weighted += maps.moved_back(mean, copy) / len(each)
    return Explanation(
        inputs=rows,
        classes=maps.classes,
        scores=maps.scores(rows),
        probabilities=maps.probabilities(rows),
        active=active,
        attention=np.take_along_axis(attention, active, axis=2),
        filters=shown,
        weighted=weighted,
        offsets=(attention * maps.biases).sum(axis=2),
    )


def contrasts(maps: Maps) -> Floats:
    """The filter bank less the mean of all its filters, (classes, maps, inputs): a global view.

    A vector added to every filter of every class moves all responses of an input alike, so
    attention within a class and probabilities stay as they are. What all filters share therefore
    says nothing about any class, and is left out.

    Privacy: post-processing of a released classifier.
    """
    filters = maps.filters()
    found: Floats = filters - filters.mean(axis=(0, 1))
    return found


def local_contrasts(maps: Maps, explanation: Explanation) -> Floats:
    """The weighted filters of an explanation without what all filters of the bank share.

    Privacy: as the explanation.
    """
    shared = maps.filters().mean(axis=(0, 1))
    moved = [maps.moved_back(shared, copy) for copy in range(maps.n_copies)]
    found: Floats = explanation.weighted - np.mean(moved, axis=0)
    return found
