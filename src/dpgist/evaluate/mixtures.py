"""Gaussian mixtures whose density is known, and how well samples follow them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp
from scipy.stats import chi2

COVERED_SHARE = 0.25
"""A mode is covered if it holds at least this much of its fair share of the points."""
DROPPED_SHARE = 0.01
"""A mode is dropped if it holds less than this much of it."""

Points = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
_CHUNK_PAIRS = 2**22


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Round Gaussians of one width: centres (modes, dimensions), their weights and classes.

    Without ``weights`` all modes weigh the same.

    Privacy: public facts; nobody's data.
    """

    centres: Points
    std: float
    weights: Points | None = None
    classes: Codes | None = None

    @property
    def n_modes(self) -> int:
        """How many Gaussians. Privacy: public."""
        return int(self.centres.shape[0])

    @property
    def shares(self) -> Points:
        """The weight of every mode. Privacy: public."""
        return np.full(self.n_modes, 1 / self.n_modes) if self.weights is None else self.weights

    @property
    def radius(self) -> float:
        """How far from its centre a point may be: 3 std in two dimensions, 98.9 % of the points.

        Privacy: public.
        """
        return float(self.std * np.sqrt(chi2.isf(chi2.sf(9.0, df=2), df=self.centres.shape[1])))


@dataclass(frozen=True, kw_only=True)
class Modes:
    """How many modes hold enough points, hardly any (dropped), or something between (thin).

    Privacy: as the points that were counted.
    """

    covered: int
    thin: int
    dropped: int


def _grid() -> Mixture:
    side, n_classes = 5, 5
    cells = np.stack(np.divmod(np.arange(side**2), side)[::-1], axis=1)
    return Mixture(
        centres=cells.astype(np.float64),
        std=0.2,
        classes=(cells[:, 0] + 2 * cells[:, 1]) % n_classes,
    )


def _five_dimensional() -> Mixture:
    ranks = 1 / np.arange(1, 11)
    # numpy's frozen old generator: with it and this seed the authors drew their centres.
    centres = np.random.RandomState(0).normal(100.0, 200.0, size=(10, 5))
    return Mixture(centres=centres, std=30.0, weights=ranks / ranks.sum())


GRID = _grid()
"""The 5x5 grid of the DP-MERF paper: 25 modes in five classes."""
FIVE_DIMENSIONAL = _five_dimensional()
"""Ten modes in 5-D, weights 1, 1/2, ... 1/10: the data of Balog, Tolstikhin and Schölkopf (2018),
which appendix M.1 of the DP-MERF paper takes."""
FIVE_DIMENSIONAL_LENGTH_SCALE = float(np.sqrt(1 / (2 * 2e-5)))
"""Of the kernel with which both papers measure distances there: gamma = 0.00002."""


def simulate(mixture: Mixture, n_rows: int, *, rng: np.random.Generator) -> tuple[Points, Codes]:
    """Points of the mixture, and the mode of each.

    Privacy: simulated; nobody's data.
    """
    if mixture.weights is None:
        modes = rng.integers(mixture.n_modes, size=n_rows)
    else:
        modes = rng.choice(mixture.n_modes, size=n_rows, p=mixture.weights)
    noise = rng.standard_normal((n_rows, mixture.centres.shape[1]))
    return mixture.centres[modes] + mixture.std * noise, modes


def mean_log_likelihood(mixture: Mixture, points: Points) -> float:
    r"""Mean of :math:`\log \sum_c w_c (2\pi s^2)^{-d/2} e^{-\|x-c\|^2/2s^2}`, in nats.

    The normaliser is that of d dimensions; the authors' script for the grid has the
    one-dimensional one.

    Privacy: for simulated or synthetic rows.
    """
    _refuse_none(points)
    log_shares, variance = np.log(mixture.shares), mixture.std**2
    normaliser = points.shape[1] / 2 * np.log(2 * np.pi * variance)
    total = 0.0
    for part in _chunks(points, mixture.n_modes):
        exponents = -_squared_distances(part, mixture.centres) / (2 * variance) + log_shares
        total += float(np.sum(logsumexp(exponents, axis=1)))
    return float(total / len(points) - normaliser)


def count_modes(mixture: Mixture, points: Points, classes: Codes | None = None) -> Modes:
    """How many modes the points cover and drop.

    A point counts for its nearest mode if it lies within ``mixture.radius`` and, where ``classes``
    are given, has that mode's class.

    Privacy: for simulated or synthetic rows.
    """
    _refuse_none(points)
    squared = [
        _squared_distances(part, mixture.centres) for part in _chunks(points, mixture.n_modes)
    ]
    nearest = np.concatenate([part.argmin(axis=1) for part in squared])
    inside = np.concatenate([part.min(axis=1) for part in squared]) <= mixture.radius**2
    if classes is not None and mixture.classes is not None:
        inside &= classes == mixture.classes[nearest]
    found = np.bincount(nearest[inside], minlength=mixture.n_modes) / len(points)
    fair = found / mixture.shares
    covered = int(np.sum(fair >= COVERED_SHARE))
    dropped = int(np.sum(fair < DROPPED_SHARE))
    return Modes(covered=covered, thin=mixture.n_modes - covered - dropped, dropped=dropped)


def embedding_distance(mixture: Mixture, points: Points, *, length_scale: float) -> float:
    r"""Distance of the mean embeddings of the mixture and of the points, Gaussian kernel.

    .. math:: \|\mu_P - \mu_Q\|^2 = \sum_{c,c'} w_c w_{c'} g_2(c, c')
        - \tfrac2n \sum_{c,i} w_c\, g_1(c, y_i) + \tfrac1{n^2} \sum_{i,j} g_0(y_i, y_j), \qquad
        g_k(a, b) = \Big(\tfrac{l^2}{l^2 + k s^2}\Big)^{d/2} e^{-\|a-b\|^2 / 2(l^2 + k s^2)}

    Exact for the mixture itself, where the papers have 100,000 points drawn from it. Takes n^2
    kernel values.

    Reference: appendix M.1 of Harder, Adamczewski and Park (2021).

    Privacy: for simulated or synthetic rows.
    """
    _refuse_none(points)

    def mean_kernel(a: Points, b: Points, smoothed: int) -> Points:
        wide = length_scale**2 + smoothed * mixture.std**2
        scale = (length_scale**2 / wide) ** (a.shape[1] / 2)
        return np.asarray(scale * np.exp(-_squared_distances(a, b) / (2 * wide)))

    shares, centres = mixture.shares, mixture.centres
    own = float(shares @ mean_kernel(centres, centres, 2) @ shares)
    cross = sum(
        float(np.sum(mean_kernel(part, centres, 1) @ shares))
        for part in _chunks(points, mixture.n_modes)
    )
    other = sum(
        float(np.sum(mean_kernel(part, points, 0))) for part in _chunks(points, len(points))
    )
    squared = own - 2 * cross / len(points) + other / len(points) ** 2
    return float(np.sqrt(max(squared, 0.0)))


def _refuse_none(points: Points) -> None:
    if not len(points):
        raise ValueError("there are no points to compare with the mixture; draw some")


def _chunks(points: Points, n_against: int) -> Iterator[Points]:
    n_rows = max(1, _CHUNK_PAIRS // max(n_against, 1))
    for start in range(0, len(points), n_rows):
        yield points[start : start + n_rows]


def _squared_distances(a: Points, b: Points) -> Points:
    squared = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.maximum(squared, 0.0))
