"""Distances between two clouds of feature vectors: Fréchet (FID) and kernel (KID)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Vector = npt.NDArray[np.float64]

_CHUNK_ROWS = 4096


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Mean and covariance (divisor n - 1) of feature vectors.

    Privacy: statistics without noise; outside the guarantee if the rows are private.
    """

    mean: Vector
    covariance: Vector


def moments(features: Array) -> Moments:
    """Mean and covariance of the rows of ``features``, in float64 and a chunk at a time.

    Privacy: statistics without noise; outside the guarantee if the rows are private.
    """
    if len(features) < 2:
        raise ValueError(f"a covariance needs two rows or more, not {len(features)}")
    mean: Vector = np.asarray(np.mean(features, axis=0, dtype=np.float64))
    total = np.zeros((len(mean), len(mean)))
    for start in range(0, len(features), _CHUNK_ROWS):
        gaps = features[start : start + _CHUNK_ROWS].astype(np.float64) - mean
        total += gaps.T @ gaps
    return Moments(mean=mean, covariance=total / (len(features) - 1))


def frechet_distance(a: Moments, b: Moments) -> float:
    r"""Squared Fréchet distance of two Gaussians; FID if the features are Inception's.

    .. math:: \|m_a - m_b\|^2 + \mathrm{tr}\,S_a + \mathrm{tr}\,S_b
        - 2\,\mathrm{tr}\,(S_a^{1/2} S_b S_a^{1/2})^{1/2}

    The last matrix is symmetric and has the eigenvalues of :math:`S_a S_b`, whose square root the
    usual definition takes; so two symmetric eigenvalue problems do, which unlike a general matrix
    square root stay real and accurate where a covariance is singular. Eigenvalues below zero are
    rounding and count as zero.

    Reference: Heusel et al. (2017), equation 6.

    Privacy: post-processing of the moments it is given.
    """
    values, vectors = np.linalg.eigh(a.covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    cross = np.linalg.eigvalsh(root @ b.covariance @ root)
    gap = a.mean - b.mean
    spread = np.trace(a.covariance) + np.trace(b.covariance)
    return float(max(gap @ gap + spread - 2 * np.sqrt(np.maximum(cross, 0)).sum(), 0.0))


def bootstrapped_frechet(
    real: Array, synthetic: Array, *, rng: np.random.Generator, n_bootstraps: int = 10
) -> Vector:
    """Fréchet distances of rows drawn with replacement, as many as there are, from both sides.

    Privacy: statistics without noise; outside the guarantee if the rows are private.
    """
    draws = np.empty(n_bootstraps)
    for i in range(n_bootstraps):
        sides = [cloud[rng.integers(len(cloud), size=len(cloud))] for cloud in (real, synthetic)]
        draws[i] = frechet_distance(moments(sides[0]), moments(sides[1]))
    return draws


def kernel_distances(
    real: Array,
    synthetic: Array,
    *,
    rng: np.random.Generator,
    n_subsets: int = 100,
    subset_rows: int = 1000,
) -> Vector:
    """Kernel distances of random subsets (without replacement) of both sides; KID is their mean.

    Reference: Bińkowski et al. (2018), section 4.

    Privacy: statistics without noise; outside the guarantee if the rows are private.
    """
    n_rows = min(subset_rows, len(real), len(synthetic))
    if n_rows < 2:
        raise ValueError(f"a kernel distance needs two rows or more on each side, not {n_rows}")
    draws = np.empty(n_subsets)
    for i in range(n_subsets):
        sides = [
            cloud[rng.choice(len(cloud), n_rows, replace=False)] for cloud in (real, synthetic)
        ]
        draws[i] = kernel_distance(sides[0], sides[1])
    return draws


def kernel_distance(x: Array, y: Array) -> float:
    r"""Unbiased squared MMD of two clouds under :math:`k(a, b) = (a^\top b / d + 1)^3`.

    .. math:: \frac{1}{n(n-1)}\sum_{i \ne j} k(x_i, x_j)
        + \frac{1}{m(m-1)}\sum_{i \ne j} k(y_i, y_j) - \frac{2}{nm}\sum_{i,j} k(x_i, y_j)

    It is zero on average, hence often negative, where both come from one distribution.

    Privacy: statistics without noise; outside the guarantee if the rows are private.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    return _mean_of_pairs(x) + _mean_of_pairs(y) - 2 * float(_kernel(x, y).mean())


def _mean_of_pairs(x: Vector) -> float:
    matrix = _kernel(x, x)
    return float((matrix.sum() - np.trace(matrix)) / (len(x) * (len(x) - 1)))


def _kernel(x: Vector, y: Vector) -> Vector:
    inner = x @ y.T / x.shape[1] + 1
    return np.asarray(inner * inner * inner)  # several times faster than a power
