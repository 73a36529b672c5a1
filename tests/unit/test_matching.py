"""Targets divide noisy sums by noisy counts and survive any counts; the loss is a distance."""

import numpy as np
import pytest
import torch

from dpgist.privacy.plan import Block, Budget
from dpgist.privacy.released import Released, ReleasedBlock, ReleasedStage
from dpgist.training.matching import matching_loss, target_from


def released(sums, counts, *, labelled=True, n_rows=None, noise_std=2.0, second_std=None):
    def block(name, values, std, bits=20):
        return ReleasedBlock(
            block=Block(name=name, length=values.shape[1], bits=bits, labelled=labelled),
            values=np.rint(values * 2**bits).astype(np.int64),
            grid_noise_std=std * 2.0**bits,
        )

    sums, counts = np.asarray(sums, float), np.asarray(counts, float)[:, None]
    blocks = [block("fourier", sums, noise_std)]
    if second_std is not None:
        blocks.append(block("categories", sums, second_std))
    blocks += [block("counts", counts, 10.0, 0), block("health", np.ones((1, 3)), 1.0, 0)]
    return Released(
        stages=(ReleasedStage(blocks=tuple(blocks), mu_squared_units=1),),
        budget=Budget(epsilon=1.0, delta=1e-5),
        max_rows_per_person=1,
        sensitivity=1.0,
        mu_squared_units=1,
        n_rows=n_rows,
    )


def test_means_are_sums_over_noisy_counts_and_health_is_no_target():
    target = target_from(released([[30, 60], [10, 0]], [100, 300]), class_allowed=(True, True))
    assert len(target.means) == 1
    np.testing.assert_allclose(target.means[0], [[0.3, 0.6], [1 / 30, 0]], atol=1e-5)
    np.testing.assert_allclose(target.class_weights, [0.25, 0.75])


def test_a_class_that_may_not_be_emitted_or_drowns_in_noise_is_left_out():
    noisy = released(np.ones((4, 2)), [500, 4, -40, 300])
    target = target_from(noisy, class_allowed=(True, True, True, False))
    assert target.classes.tolist() == [0]
    assert target.class_weights.tolist() == [1.0]


@pytest.mark.parametrize("counts", [[0, 0], [-50, -3], [-(10**6), 5]])
def test_counts_at_or_below_zero_still_give_a_finite_target(counts):
    target = target_from(released([[9, -9], [3, 4]], counts), class_allowed=(True, True))
    assert target.classes.tolist() == [0, 1]
    np.testing.assert_allclose(target.class_weights, [0.5, 0.5])
    assert np.isfinite(target.means[0]).all()


def test_no_mean_leaves_the_unit_ball_unless_it_may():
    noisy = released([[90, 900]], [100])
    target = target_from(noisy, class_allowed=(True,))
    assert np.linalg.norm(target.means[0]) == pytest.approx(1.0)
    target = target_from(noisy, class_allowed=(True,), in_ball=False)
    np.testing.assert_allclose(target.means[0], [[0.9, 9.0]], atol=1e-4)


def test_the_loss_that_noise_leaves_has_no_cap_where_means_are_taken_as_they_are():
    noisy = released([[90, 900]], [100], noise_std=200.0)
    assert target_from(noisy, class_allowed=(True,)).noise == pytest.approx(1.0)
    free = target_from(noisy, class_allowed=(True,), in_ball=False)
    assert free.noise == pytest.approx(2 * (200 / 100) ** 2, rel=1e-6)


def test_a_public_row_count_normalises_an_unlabelled_table():
    target = target_from(
        released([[30, 60]], [150], labelled=False, n_rows=100), class_allowed=(True,)
    )
    np.testing.assert_allclose(target.means[0], [[0.3, 0.6]], atol=1e-5)


def test_blocks_count_by_their_precision():
    target = target_from(
        released([[1, 1]], [100], noise_std=1.0, second_std=2.0), class_allowed=(True,)
    )
    np.testing.assert_allclose(target.loss_weights, [0.8, 0.2])


def test_the_loss_is_zero_at_the_target_and_the_weighted_square_elsewhere():
    weights = torch.tensor([0.25, 0.75])
    mean = torch.tensor([[0.5, 0.5], [2.0, 2.0]])

    def loss(target):
        return float(matching_loss([mean], [target], class_weights=weights, loss_weights=(2.0,)))

    assert loss(mean) == pytest.approx(0.0)
    shift = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    assert loss(mean + shift) == pytest.approx(2 * (0.25 * 9 + 0.75 * 1))


def test_loss_factors_multiply_the_weights_and_nothing_else():
    noisy = released([[30, 60], [10, 0]], [100, 300], second_std=3.0)
    plain, twice = (
        target_from(noisy, class_allowed=(True, True), loss_factors=factors)
        for factors in ((), (1.0, 2.0))
    )
    ratio = plain.loss_weights[1] / plain.loss_weights[0]
    assert twice.loss_weights[1] / twice.loss_weights[0] == pytest.approx(2 * ratio)
    assert sum(twice.loss_weights) == pytest.approx(1.0)
    for own, other in zip(plain.means, twice.means, strict=True):
        assert (own == other).all()
