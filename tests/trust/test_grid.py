"""T-GRID: what leaves the wall are integers, all of them possible, none telling its summand."""

import numpy as np

from dpgist.privacy import curator
from dpgist.privacy.noise import add_rounded_gaussian


def noisy(value, n, std=50.0):
    return curator.add_rounded_gaussian(np.full(n, value, np.int64), noise_std=std)


def test_outputs_are_integers_and_hit_every_residue():
    out = noisy(0, 200_000)
    assert out.dtype == np.int64
    for modulus in (2, 3, 64, 101):
        assert len(np.unique(out % modulus)) == modulus


def test_every_output_is_possible_under_every_input():
    """The support attack on float noise: outputs that only one of two inputs could give."""
    at_zero, at_one = noisy(0, 400_000, std=4.0), noisy(1, 400_000, std=4.0)
    near = range(-12, 14)
    assert all(np.any(at_zero == k) and np.any(at_one == k) for k in near)


def test_float_noise_would_fail_the_support_attack():
    """The attack works on float64 noise: low bits betray whether the summand was 0 or 1."""
    rng = np.random.default_rng(3)

    def betrayed(value):
        out = value + rng.normal(size=100_000)
        out = out[np.abs(out) < 0.5]
        return np.mean(out * 2.0**54 != np.floor(out * 2.0**54))

    assert betrayed(0.0) > 0.3
    assert betrayed(1.0) == 0.0


def test_the_curator_uses_the_exact_sampler():
    assert curator.add_rounded_gaussian is add_rounded_gaussian
