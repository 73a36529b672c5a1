"""The two distances between clouds of features, against closed forms and plain loops."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from dpgist.evaluate.frechet import (
    Moments,
    bootstrapped_frechet,
    frechet_distance,
    kernel_distance,
    kernel_distances,
    moments,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def covariance(seed, d=6, rank=None):
    root = rng(seed).standard_normal((d, rank or 2 * d))
    return root @ root.T / d


def test_the_distance_of_two_axis_aligned_gaussians_is_that_of_means_and_of_spreads():
    a = Moments(mean=np.array([1.0, 2.0]), covariance=np.diag([4.0, 9.0]))
    b = Moments(mean=np.array([0.0, 4.0]), covariance=np.diag([1.0, 25.0]))
    assert frechet_distance(a, b) == pytest.approx((1 + 4) + (2 - 1) ** 2 + (3 - 5) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_the_distance_agrees_with_the_general_matrix_square_root(seed):
    a = Moments(mean=np.zeros(6), covariance=covariance(seed))
    b = Moments(mean=np.ones(6), covariance=covariance(seed + 10))
    cross = np.trace(sqrtm(a.covariance @ b.covariance)).real
    expected = 6 + np.trace(a.covariance + b.covariance) - 2 * cross
    assert frechet_distance(a, b) == pytest.approx(expected)
    assert frechet_distance(b, a) == pytest.approx(expected)


def test_singular_covariances_give_a_real_distance():
    a = Moments(mean=np.zeros(6), covariance=covariance(0, rank=2))
    flat = Moments(mean=np.zeros(6), covariance=np.zeros((6, 6)))
    assert frechet_distance(a, flat) == pytest.approx(np.trace(a.covariance))
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-6)


def test_a_cloud_is_at_no_distance_from_itself_and_a_shifted_copy_at_the_square_of_the_shift():
    cloud = rng().standard_normal((500, 8)) @ covariance(1, d=8)
    itself = moments(cloud)
    assert frechet_distance(itself, itself) == pytest.approx(0, abs=1e-6)
    for shift in (0.5, 2.0):
        moved = frechet_distance(itself, moments(cloud + shift))
        assert moved == pytest.approx(8 * shift**2, rel=1e-6)


def test_samples_come_close_to_the_closed_form():
    a, b = covariance(2), covariance(3)
    clouds = [rng(s).multivariate_normal(np.zeros(6), c, 40_000) for s, c in ((0, a), (1, b))]
    zeros = np.zeros(6)
    truth = frechet_distance(Moments(mean=zeros, covariance=a), Moments(mean=zeros, covariance=b))
    assert frechet_distance(*map(moments, clouds)) == pytest.approx(truth, rel=0.05)


def test_moments_are_numpys_also_over_several_chunks_of_float32():
    cloud = (rng().standard_normal((10_000, 5)) + 100).astype(np.float32)
    found = moments(cloud)
    assert found.mean == pytest.approx(cloud.astype(np.float64).mean(axis=0))
    assert found.covariance == pytest.approx(np.cov(cloud.astype(np.float64), rowvar=False))
    with pytest.raises(ValueError, match="two rows"):
        moments(cloud[:1])


def test_bootstraps_lie_around_the_distance_and_differ():
    real, other = rng(0).standard_normal((3_000, 4)), rng(1).standard_normal((3_000, 4)) + 1
    draws = bootstrapped_frechet(real, other, rng=rng(2), n_bootstraps=10)
    assert draws.mean() == pytest.approx(frechet_distance(moments(real), moments(other)), rel=0.1)
    assert draws.std() > 0


def test_the_kernel_distance_is_the_unbiased_sum_over_pairs():
    x, y = rng(0).standard_normal((7, 3)), rng(1).standard_normal((5, 3)) + 0.5

    def k(a, b):
        return (a @ b / 3 + 1) ** 3

    expected = (
        sum(k(a, b) for i, a in enumerate(x) for j, b in enumerate(x) if i != j) / (7 * 6)
        + sum(k(a, b) for i, a in enumerate(y) for j, b in enumerate(y) if i != j) / (5 * 4)
        - 2 * sum(k(a, b) for a in x for b in y) / 35
    )
    assert kernel_distance(x, y) == pytest.approx(expected)


def test_the_kernel_distance_of_two_halves_is_zero_on_average_and_of_shifted_ones_is_not():
    halves = rng().standard_normal((2_000, 2, 20, 8))
    draws = np.array([kernel_distance(x, y) for x, y in halves])
    assert abs(draws.mean()) < 4 * draws.std() / len(draws) ** 0.5
    assert (draws < 0).mean() > 0.2  # a biased estimate is never negative
    shifted = np.array([kernel_distance(x, y + 0.3) for x, y in halves])
    assert shifted.mean() > 20 * shifted.std() / len(shifted) ** 0.5


def test_subsets_are_no_larger_than_the_smaller_cloud_and_need_two_rows():
    x, y = rng(0).standard_normal((40, 3)), rng(1).standard_normal((500, 3))
    draws = kernel_distances(x, y, rng=rng(2), n_subsets=5)
    assert draws.shape == (5,)
    assert draws.std() > 0
    with pytest.raises(ValueError, match="two rows"):
        kernel_distances(x[:1], y, rng=rng())
