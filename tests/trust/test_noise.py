"""T-NOISE: the sampler draws exactly the rounded Gaussian, on its fast and on its exact path."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpgist.privacy import noise

ALPHA = 1e-6
MANY = 4_000_000


def draws(n, std):
    return noise.add_rounded_gaussian(np.zeros(n, np.int64), noise_std=std)


def cell_probabilities(std, reach):
    edges = (np.arange(-reach, reach + 2) - 0.5) / std
    inner = np.diff(stats.norm.cdf(edges))
    return np.concatenate([[stats.norm.cdf(edges[0])], inner, [stats.norm.sf(edges[-1])]])


def chi_square_p(sample, std):
    reach = int(np.ceil(4.2 * std))
    observed = np.bincount(np.clip(sample + reach + 1, 0, 2 * reach + 2), minlength=2 * reach + 3)
    return stats.chisquare(observed, cell_probabilities(std, reach) * sample.size).pvalue


def variance_p(sample, std):
    """Two-sided p of the sample variance against that of a rounded Gaussian (Sheppard)."""
    expected = std**2 + 1 / 12
    ratio = np.mean(sample.astype(np.float64) ** 2) / expected
    return 2 * stats.norm.sf(abs(ratio - 1) * np.sqrt(sample.size / 2))


@pytest.mark.parametrize("std", [0.7, 4.0, 50.0])
def test_every_integer_comes_as_often_as_the_exact_probability_says(std):
    assert chi_square_p(draws(MANY, std), std) > ALPHA


def test_the_variance_on_two_million_coordinates_is_the_claimed_one():
    std = 2.0**20 * 3.73
    assert variance_p(draws(MANY // 2, std), std) > ALPHA


def test_a_scale_half_a_percent_too_small_would_be_noticed():
    std = 2.0**20 * 3.73
    assert variance_p(draws(MANY, 0.995 * std), std) < ALPHA
    assert chi_square_p(draws(MANY, 0.99 * 4.0), 4.0) < ALPHA


def test_fine_grid_draws_follow_the_normal_law():
    std = 2.0**20
    assert stats.kstest(draws(MANY // 4, std) / std, "norm").pvalue > ALPHA


class Recorded:
    """Bits from a list of words, then from the system: to replay one proposal twice."""

    def __init__(self, words):
        self.words_left = list(words)
        self.more = noise.SystemBits()

    def words(self, count):
        head, self.words_left = self.words_left[:count], self.words_left[count:]
        rest = self.more.words(count - len(head))
        return np.concatenate([np.array(head, np.uint64), rest])


def settle(pick, point, std, prefix_bits, coin_bits):
    """One proposal decided by the exact path alone, knowing only so many leading bits at first."""
    strip = int(np.searchsorted(noise._LAST_PICK, np.uint32(pick & (2**32 - 1)), side="left"))
    coin = (pick >> 32) & (2**31 - 1)
    tail_of_point = (point << (64 - (64 - prefix_bits))) & (2**64 - 1)
    lazy_point = noise._Lazy(point >> (64 - prefix_bits), prefix_bits, Recorded([tail_of_point]))
    coin_tail = (coin << (64 - (31 - coin_bits))) & (2**64 - 1) if coin_bits < 31 else 0
    recorded = Recorded([coin_tail] if coin_bits < 31 else [])
    lazy_coin = noise._Lazy(coin >> (31 - coin_bits), coin_bits, recorded)
    if not noise._settle_coin(strip, lazy_point, lazy_coin):
        return None
    magnitude = noise._settle_rounding(strip, lazy_point, std)
    return -magnitude if pick >> 63 else magnitude


@pytest.mark.parametrize("std", [4.0, 2.0**20, 2.0**43])
@pytest.mark.parametrize("bits", [(64, 31), (12, 12)])
def test_the_fast_path_and_the_exact_path_agree_on_the_same_bits(std, bits):
    words = noise.SystemBits().words(2 * 400)
    fast = noise._accepted(400, std, Recorded(words))
    exact = [
        settle(int(p), int(q), std, *bits) for p, q in zip(words[:400], words[400:], strict=True)
    ]
    exact = np.array([draw for draw in exact if draw is not None])
    # Bits beyond the recorded ones decide a draw about once in 2^20 at most.
    assert len(fast) == len(exact)
    assert np.mean(fast == exact) > 0.99 if std > 2**40 else np.array_equal(fast, exact)


def test_the_exact_path_alone_draws_the_rounded_gaussian():
    std = 4.0
    bits = noise.SystemBits()
    words = bits.words(2 * 30_000)
    kept = [settle(int(p), int(q), std, 12, 12) for p, q in words.reshape(-1, 2)]
    sample = np.array([draw for draw in kept if draw is not None])
    assert sample.size > 25_000
    assert chi_square_p(sample, std) > ALPHA


def test_the_tail_beyond_eight_follows_its_own_law():
    bits = noise.SystemBits()
    sample = np.array([noise._settle_tail(bits, 2.0**30) for _ in range(3_000)]) / 2.0**30
    assert sample.min() >= 8
    uniform = [
        float(mpmath.erfc(x / mpmath.sqrt(2)) / mpmath.erfc(8 / mpmath.sqrt(2))) for x in sample
    ]
    assert stats.kstest(uniform, "uniform").pvalue > ALPHA


def test_the_strips_cover_the_curve_and_the_tail_and_fill_two_to_the_32():
    assert sum(noise._HEIGHTS) == 2**32
    assert all(height > 0 for height in noise._HEIGHTS)
    with mpmath.workdps(50):
        for strip in range(128):
            curve = mpmath.exp(-((mpmath.mpf(strip) / 16) ** 2) / 2) * noise._UNITS
            assert 0 <= noise._HEIGHTS[strip] - curve < 1
        tail = 16 * mpmath.sqrt(mpmath.pi / 2) * mpmath.erfc(8 / mpmath.sqrt(2))
        enclosure = noise._tail_area()
        assert enclosure.a <= tail <= enclosure.b
        assert noise._HEIGHTS[128] >= tail * noise._UNITS


def test_the_error_bounds_that_the_proof_uses_hold():
    """Lemma 3: the polynomial is within 2^-46 of exp."""
    rng = np.random.default_rng(2)
    drop = rng.uniform(0, 0.52, 2_000)
    with mpmath.workdps(40):
        worst = max(
            abs(mpmath.exp(-mpmath.mpf(float(d))) - mpmath.mpf(float(e)))
            for d, e in zip(drop, noise._exp_minus(drop), strict=True)
        )
    assert worst < 2.0**-46


@pytest.mark.parametrize("std", [0, -1.0, float("nan"), float("inf"), 2.0**49])
def test_a_senseless_scale_is_refused(std):
    with pytest.raises(ValueError, match="noise_std"):
        noise.add_rounded_gaussian(np.zeros(3, np.int64), noise_std=std)


def test_shapes_and_the_values_themselves_survive():
    values = np.arange(12, dtype=np.int64).reshape(3, 4) * 10**15
    noisy = noise.add_rounded_gaussian(values, noise_std=1.0)
    assert noisy.shape == (3, 4)
    assert np.abs(noisy - values).max() < 20
    assert noise.add_rounded_gaussian(np.zeros((0, 2), np.int64), noise_std=1.0).shape == (0, 2)


def test_sums_at_the_end_of_the_integers_are_noised_like_any_others():
    """An error, or noise cut off there, would tell of a row that tips the sum over."""
    ends = np.repeat(np.array([2**63 - 1, -(2**63)]), 200_000)
    moved = noise.add_rounded_gaussian(ends, noise_std=2.0**20) - ends  # modulo 2^64
    assert variance_p(moved[:200_000], 2.0**20) > ALPHA
    assert variance_p(moved[200_000:], 2.0**20) > ALPHA
