"""T-POISSON: the sampler is the accountant's, and a canary is never seen better than claimed."""

import inspect

import numpy as np
import pytest
from scipy import stats

from dpgist.privacy import sgd
from dpgist.privacy.accounting import mu_of
from dpgist.privacy.poisson import PoissonSampler, exact_rate
from tests.trust.auditing import mu_lower_clopper_pearson, mu_lower_gaussian, upper_rate
from tests.trust.sgd_worlds import grid_of, query_of, run, sampled_steps, steps_of

ALPHA = 1e-6


def batches(n_rows, rate, n_batches):
    """A matrix of coins (batches, rows), drawn as the wall draws them."""
    sampler = sgd.PoissonSampler(rate)
    coins = np.zeros((n_batches, n_rows), bool)
    for batch in coins:
        batch[sampler.draw(n_rows)] = True
    return coins


def test_every_row_is_in_a_batch_by_an_independent_coin():
    """Counts per row, per batch and per pair of rows are binomial, in mean and in spread."""
    n_rows, n_batches, rate = 40, 5_000, 0.1
    coins = batches(n_rows, rate, n_batches)
    for counts, n in ((coins.sum(axis=0), n_batches), (coins.sum(axis=1), n_rows)):
        spread = ((counts - n * rate) ** 2 / (n * rate * (1 - rate))).sum()
        p = stats.chi2.sf(spread, len(counts))
        assert min(p, 1 - p) > ALPHA
    pairs = coins.T.astype(float) @ coins
    upper = pairs[np.triu_indices(n_rows, 1)]
    both = rate**2
    z = (upper - n_batches * both) / np.sqrt(n_batches * both * (1 - both))
    assert np.abs(z).max() < stats.norm.isf(ALPHA / len(z))


def test_neighbouring_batches_are_independent():
    coins = batches(200, 0.3, 1_000)
    again = (coins[1:] & coins[:-1]).sum()
    n, both = coins[1:].size, 0.09
    assert stats.binomtest(int(again), n, both).pvalue > ALPHA


def test_the_rate_is_the_one_the_accountant_is_told():
    for rate in (1 / 3, 1e-3, 0.0083, 1.0):
        assert exact_rate(rate) * 2**32 == int(exact_rate(rate) * 2**32)
        assert rate <= exact_rate(rate) <= rate + 2**-32
    assert len(PoissonSampler(1.0).draw(1_000)) == 1_000
    for rate in (0.0, -0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="rate"):
            exact_rate(rate)


def test_no_seed_reaches_the_sampler():
    assert set(inspect.signature(PoissonSampler.__init__).parameters) == {"self", "rate"}
    assert not np.array_equal(batches(100, 0.5, 1), batches(100, 0.5, 1))


def test_an_empty_batch_releases_noise_like_any_other():
    query = query_of(rate=0.5, steps=20)
    follower, _ = run([], query)
    assert len(follower.seen) == 20
    assert all((gradient != 0).all() for gradient in follower.seen)


def test_the_divisor_is_constant_and_public():
    """Released numbers are integers of one grid, whatever the batch was."""
    query = query_of(rate=0.5, steps=20, rows=10)
    follower, result = run([1.0] * 7, query)
    whole = np.stack(follower.seen) * grid_of(query) * result.rate * 10
    assert np.allclose(whole, np.rint(whole), atol=1e-3)
    assert np.abs(whole).max() > 1e3


WITHOUT, WITH = [0.0] * 3, [0.0] * 3 + [1.0]
"""Three rows that pull one way; the canary pulls the other, a thousand times as hard."""


def audited_at_rate_one(n=5_000):
    """Every step is one Gaussian: the lower bound on mu, and the claim."""
    query = query_of(rate=1.0, steps=1)
    (without, prepared), (seen, _) = (steps_of(xs, query, n, epsilon=4.0) for xs in (WITHOUT, WITH))
    if seen.std() == 0:
        return np.inf, 1 / prepared.multiplier
    found = max(mu_lower_gaussian(seen, without), mu_lower_clopper_pearson(seen, without))
    return found, 1 / prepared.multiplier


def audited_with_sampling(n=1_000_000, rate=0.5, steps=4, epsilon=2.0):
    """The lower bound on epsilon of runs by the likelihood ratio."""
    query = query_of(rate=rate, steps=steps)
    odds = []
    for x in (None, WITH[-1]):
        seen, prepared = sampled_steps(x, query, n * steps, epsilon=epsilon)
        tilt = np.clip((seen - 0.5) / prepared.multiplier**2, -500, 500)
        odds.append(np.log1p(rate * np.expm1(tilt)).reshape(n, steps).sum(axis=1))
    return epsilon_lower(*odds)


def epsilon_lower(without, seen, delta=1e-5):
    """The best threshold of the first halves; error rates bounded on the second."""
    half = len(seen) // 2
    thresholds = np.quantile(without[:half], 1 - np.geomspace(2e-5, 0.5, 30))
    shown = [_shown(without[:half], seen[:half], at, delta) for at in thresholds]
    return _shown(without[half:], seen[half:], thresholds[int(np.argmax(shown))], delta)


def _shown(without, seen, threshold, delta):
    alarms = upper_rate(np.sum(without > threshold), len(without))
    missed = upper_rate(np.sum(seen <= threshold), len(seen))
    return np.log(max(1 - missed - delta, 1e-12) / alarms)


def test_a_canary_in_every_batch_is_seen_as_claimed_and_hardly_less():
    found, claim = audited_at_rate_one()
    assert found <= claim, f"mu of at least {found:.3f} shown, {claim:.3f} used"
    assert claim <= mu_of(4.0, 1e-5)
    assert found >= 0.75 * claim


def test_a_canary_in_sampled_batches_is_seen_no_better_than_claimed():
    found = audited_with_sampling(epsilon=2.0)
    assert found <= 2.0, f"epsilon of at least {found:.3f} shown, 2 claimed"
    assert found >= 0.8  # one threshold sees no more of many small steps: 1.1 to 1.2 measured


def test_the_audit_of_sampled_batches_can_see():
    """A run that costs three times the claim is objected to."""
    assert audited_with_sampling(epsilon=6.0) > 2.0
