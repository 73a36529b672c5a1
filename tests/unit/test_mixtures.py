"""Known mixtures: densities against scipy, modes on constructed samples."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dpgist.evaluate.mixtures import (
    FIVE_DIMENSIONAL,
    FIVE_DIMENSIONAL_LENGTH_SCALE,
    GRID,
    Mixture,
    count_modes,
    embedding_distance,
    mean_log_likelihood,
    simulate,
)

BOTH = pytest.mark.parametrize("mixture", [GRID, FIVE_DIMENSIONAL], ids=["grid", "5-D"])


def rng(seed=0):
    return np.random.default_rng(seed)


@BOTH
def test_the_log_likelihood_is_that_of_scipy(mixture):
    points, _ = simulate(mixture, 300, rng=rng())
    points[:100] += 3 * mixture.std
    d = mixture.centres.shape[1]
    density = sum(
        weight * multivariate_normal.pdf(points, centre, mixture.std**2 * np.eye(d))
        for weight, centre in zip(mixture.shares, mixture.centres, strict=True)
    )
    assert mean_log_likelihood(mixture, points) == pytest.approx(np.log(density).mean())


def test_points_far_from_every_mode_have_a_finite_likelihood():
    assert mean_log_likelihood(GRID, np.full((5, 2), 1e3)) < -1e6
    assert np.isfinite(mean_log_likelihood(GRID, np.full((5, 2), 1e3)))


@BOTH
def test_a_sample_of_the_mixture_covers_every_mode_in_its_share(mixture):
    points, modes = simulate(mixture, 50_000, rng=rng())
    found = count_modes(mixture, points)
    assert (found.covered, found.thin, found.dropped) == (mixture.n_modes, 0, 0)
    shares = np.bincount(modes, minlength=mixture.n_modes) / len(modes)
    assert shares == pytest.approx(mixture.shares, abs=0.01)
    gaps = points - mixture.centres[modes]
    assert gaps.std() == pytest.approx(mixture.std, rel=0.02)
    inside = np.linalg.norm(gaps, axis=1) <= mixture.radius
    assert inside.mean() == pytest.approx(1 - np.exp(-4.5), abs=0.002)


def test_covered_thin_and_dropped_modes_are_told_apart():
    counts = np.full(25, 100)
    counts[:3], counts[3:8] = 0, 10  # of a fair 84.4 for 2,110 points
    centres = np.repeat(GRID.centres, counts, axis=0)
    found = count_modes(GRID, centres)
    assert (found.covered, found.thin, found.dropped) == (17, 5, 3)


def test_the_fair_share_of_a_mode_is_its_weight():
    mixture = Mixture(
        centres=np.array([[0.0, 0.0], [10.0, 0.0]]), std=1.0, weights=np.array([0.9, 0.1])
    )
    points = np.repeat(mixture.centres, [95, 5], axis=0)
    assert count_modes(mixture, points).covered == 2
    assert count_modes(replace(mixture, weights=None), points).covered == 1
    assert count_modes(mixture, points[::-1] * -1 + [10, 0]).thin == 1  # the small mode has most


def test_points_between_modes_or_of_the_wrong_class_cover_nothing():
    between = GRID.centres + 0.5
    assert count_modes(GRID, between).dropped == 25
    assert count_modes(GRID, GRID.centres, GRID.classes).covered == 25
    assert count_modes(GRID, GRID.centres, np.zeros(25, int)).covered == 5


def test_no_points_are_refused_in_words():
    def distance(mixture, points):
        return embedding_distance(mixture, points, length_scale=1.0)

    for ask in (mean_log_likelihood, count_modes, distance):
        with pytest.raises(ValueError, match="there are no points to compare"):
            ask(GRID, np.zeros((0, 2)))


def test_the_five_dimensional_mixture_is_that_of_its_authors():
    """Their file of 100,000 rows has the mean kernel value 0.1672985 (gamma 2e-5)."""
    points, _ = simulate(FIVE_DIMENSIONAL, 4_000, rng=rng())
    squared = ((points[:2_000, None] - points[None, 2_000:]) ** 2).sum(axis=2)
    kernel = np.exp(-squared / (2 * FIVE_DIMENSIONAL_LENGTH_SCALE**2))
    assert kernel.mean() == pytest.approx(0.1673, abs=0.01)
    one = np.zeros((1, 5))
    near = embedding_distance(FIVE_DIMENSIONAL, one, length_scale=FIVE_DIMENSIONAL_LENGTH_SCALE)
    gaps = ((points - one) ** 2).sum(axis=1)
    cross = np.exp(-gaps / (2 * FIVE_DIMENSIONAL_LENGTH_SCALE**2)).mean()
    assert near**2 == pytest.approx(0.1673 - 2 * cross + 1, abs=0.01)


@BOTH
def test_the_embedding_distance_falls_with_the_sample_and_grows_with_a_shift(mixture):
    scale = 2 * mixture.std
    small, large, moved = (
        embedding_distance(mixture, points, length_scale=scale)
        for points in (
            simulate(mixture, 100, rng=rng(0))[0],
            simulate(mixture, 3_000, rng=rng(1))[0],
            simulate(mixture, 3_000, rng=rng(2))[0] + mixture.std,
        )
    )
    assert small == pytest.approx(0.1, rel=0.3)  # sqrt((1 - E k) / n)
    assert large == pytest.approx(0.018, rel=0.3)
    assert moved > 4 * large
