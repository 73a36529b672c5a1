"""T-CAL: the noise is what the promise needs, by a second and a third implementation."""

import dp_accounting as dpa
import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from dp_accounting import pld

from dpgist.privacy.accounting import epsilon_of, membership_bound, mu_of, units_of
from dpgist.privacy.plan import Budget


def exact_delta(epsilon, mu):
    """Balle and Wang 2018, Theorem 8, to 60 digits."""
    with mpmath.workdps(60):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        tail = mpmath.ncdf(-mu / 2 - epsilon / mu)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * tail


def targets():
    rng = np.random.default_rng(1)
    epsilons = np.exp(rng.uniform(np.log(0.01), np.log(20), 500))
    deltas = np.exp(rng.uniform(np.log(1e-12), np.log(0.1), 500))
    return list(zip(epsilons, deltas, strict=True))


CORNERS = [(4e-5, 1e-300), (1e-5, 1e-12), (5.1e-5, 7.8e-170), (1e-9, 0.5), (1e6, 1e-300)]
"""Where the library's root finder may end on the wrong side by more than rounding."""


def test_mu_is_never_above_the_exact_value_and_within_two_ulps_of_it():
    for epsilon, delta in targets() + CORNERS:
        mu = mu_of(epsilon, delta)
        assert exact_delta(epsilon, mu) <= delta
        assert exact_delta(epsilon, mu * (1 + 2**-51)) >= delta


def test_epsilon_is_never_below_the_exact_value_and_within_a_trillionth_of_it():
    for epsilon, delta in targets() + CORNERS:
        mu = mu_of(epsilon, delta)
        claimed = epsilon_of(mu, delta)
        assert exact_delta(claimed, mu) <= delta
        assert claimed <= epsilon * (1 + 1e-12)


def test_a_solution_in_doubles_by_another_library_agrees():
    for epsilon, delta in targets():
        mu = 1 / dpa.get_sigma_gaussian(epsilon, delta)
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=2e-9)
        assert epsilon_of(mu, delta) == pytest.approx(
            dpa.get_epsilon_gaussian(1 / mu, delta), rel=2e-9, abs=1e-9
        )


@pytest.mark.parametrize("wrong_by", [1e-13, 1e-9, 0.05, -0.05])
def test_the_last_bits_of_another_processor_change_no_unit(monkeypatch, wrong_by):
    """Whoever reads a gist computes its budget's units again, perhaps with other arithmetic."""
    mine = [(units_of(Budget(epsilon=e, delta=d)), epsilon_of(e, d)) for e, d in targets()[:50]]
    for name in ("get_sigma_gaussian", "get_epsilon_gaussian"):
        monkeypatch.setattr(dpa, name, _off(getattr(dpa, name), wrong_by))
    mu_of.cache_clear()
    epsilon_of.cache_clear()
    theirs = [(units_of(Budget(epsilon=e, delta=d)), epsilon_of(e, d)) for e, d in targets()[:50]]
    mu_of.cache_clear()
    epsilon_of.cache_clear()
    assert theirs == mine


@pytest.mark.parametrize("delta", [1e-200, 1e-9, 1e-300])
def test_a_budget_too_small_to_be_counted_is_refused_in_words(delta):
    with pytest.raises(ValueError, match="is too small"):
        mu_of(1e-12, delta)


def _off(function, wrong_by):
    return lambda *arguments: function(*arguments) * (1 + wrong_by)


@pytest.mark.parametrize(
    ("epsilon", "noise"), [(0.2, 16.30413), (1, 3.73063), (2, 1.99381), (10, 0.49989)]
)
def test_the_noise_multiplier_equals_the_published_figures(epsilon, noise):
    assert 1 / mu_of(epsilon, 1e-5) == pytest.approx(noise, abs=6e-6)


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1, 2])
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_privacy_loss_distributions_agree(epsilon, delta):
    event = dpa.GaussianDpEvent(1 / mu_of(epsilon, delta))
    assert pld.PLDAccountant().compose(event).get_epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
def test_opendp_by_concentrated_dp_needs_more_noise_never_less(epsilon):
    dp.enable_features("contrib")
    space = dp.atom_domain(T="f64", nan=False), dp.absolute_distance(T="f64")

    def mechanism(scale):
        return dp.c.make_fix_delta(
            dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)), 1e-5
        )

    scale = dp.binary_search_param(mechanism, d_in=1.0, d_out=(epsilon, 1e-5))
    assert 1 <= scale * mu_of(epsilon, 1e-5) < 1.15


def test_a_budget_in_units_is_rounded_down_by_less_than_a_billionth():
    mu = mu_of(1.0, 1e-5)
    units = units_of(Budget(epsilon=1.0, delta=1e-5))
    assert 0 <= mu**2 * 2**60 - units <= mu**2 * 2**60 * 1e-9


@pytest.mark.parametrize("epsilon", [0, -1, float("inf"), float("nan"), 1e300])
def test_a_senseless_epsilon_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        mu_of(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0, 1, -1e-5, float("nan")])
def test_a_senseless_delta_is_refused(delta):
    with pytest.raises(ValueError, match="delta"):
        mu_of(1.0, delta)
    with pytest.raises(ValueError, match="delta"):
        mu_of(1.0, 1e-320)
    with pytest.raises(ValueError, match="delta"):
        epsilon_of(1.0, delta)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 1e4, 1e6])
def test_extreme_budgets_are_computed_without_a_warning(epsilon):
    assert epsilon_of(mu_of(epsilon, 1e-6), 1e-6) <= epsilon * (1 + 1e-6) + 1e-8


def test_the_membership_bound_of_no_release_is_a_coin_toss():
    assert membership_bound(0.0) == 0.5
    assert membership_bound(2.0) == pytest.approx(0.841344746)
