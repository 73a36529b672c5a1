r"""From (epsilon, delta) to mu and back, always rounded against ourselves.

A Gaussian release with noise_std = sensitivity / mu is mu-GDP, and mu^2 adds up exactly over
releases (Dong, Roth, Su 2022, Corollary 2). So mu^2 is what is charged; epsilon is only how it is
spoken of. Balle and Wang (2018, Theorem 8) give the exact relation:

.. math:: \delta_\mu(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu)
          - e^\varepsilon\, \Phi(-\mu/2 - \varepsilon/\mu)

`dp_accounting` solves it in doubles, whose last bits differ from processor to processor; a gist
must not be refused for that elsewhere. So its solution is only where Newton's method starts, in 60
digits, and the root is rounded to a double: the same one on every machine, on the safe side.

The accountant's REPLACE_ONE option is never used: its meaning differs between its own accountants
(google/differential-privacy issue 378). Sensitivities are computed by us, in `sensitivity.py`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import dp_accounting
import mpmath
import numpy as np

from dpgist.privacy.plan import Budget

MU_SQUARED_UNITS = 2**60
"""mu^2 is stored as an integer number of units of 2^-60."""

_EXACT = mpmath.MPContext()
_EXACT.dps = 60
_ENOUGH = _EXACT.mpf(10) ** -30
_MOST_STEPS = 60
_SMALLEST_MU = 2.0**-20  # of 2^20 units: to round these would cost a millionth of the budget
_ALONE = threading.Lock()  # mpmath changes the digits of its context while it computes

Exact = Any  # a number of 60 digits; mpmath has no types


@lru_cache
def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is (epsilon, delta)-DP, rounded down.

    A budget that buys less than can be counted is refused with ``ValueError``.

    Privacy: pure arithmetic on public numbers.
    """
    budget = Budget(epsilon=epsilon, delta=delta)  # validates: the library below does not
    with np.errstate(all="ignore"):  # its root finder tries what no double can hold
        sigma = float(dp_accounting.get_sigma_gaussian(budget.epsilon, budget.delta))
    spent = _EXACT.mpf(budget.epsilon)
    with _ALONE:
        if _delta(spent, _SMALLEST_MU) > budget.delta:
            raise ValueError(f"epsilon {epsilon:g} at delta {delta:g} is too small")
        root = _root(
            lambda mu: (_delta(spent, mu), _EXACT.npdf(mu / 2 - spent / mu)),
            level=budget.delta,
            start=1 / sigma,
        )
        mu = math.nextafter(float(root), 0)
        if _delta(spent, mu) > budget.delta:
            raise AssertionError("mu was rounded the wrong way")
    return mu


@lru_cache
def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon at which a mu-GDP release is (epsilon, delta)-DP, rounded up.

    Privacy: pure arithmetic on public numbers.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    if mu <= 0:
        return 0.0
    with np.errstate(all="ignore"):
        guess = float(dp_accounting.get_epsilon_gaussian(1 / mu, delta))
    with _ALONE:
        if _delta(0, mu) <= delta:
            return 0.0
        root = _root(
            lambda epsilon: (_delta(epsilon, mu), -_tail(epsilon, mu)),
            level=delta,
            start=guess,
        )
        epsilon = math.nextafter(float(root), math.inf)
        if _delta(epsilon, mu) > delta:
            raise AssertionError("epsilon was rounded the wrong way")
    return epsilon


def units_of(budget: Budget) -> int:
    """mu^2 that a budget buys, in units, rounded down."""
    mu = Fraction(mu_of(budget.epsilon, budget.delta))
    return math.floor(mu * mu * MU_SQUARED_UNITS)


def mu_from_units(units: int) -> float:
    """Mu of so many units of mu^2, rounded up."""
    return math.nextafter(math.sqrt(units / MU_SQUARED_UNITS), math.inf)


def membership_bound(mu: float) -> float:
    """The best chance to guess from the release whether one row was in, prior fifty-fifty.

    The optimal test between N(0, 1) and N(mu, 1) is right with probability Phi(mu/2).
    """
    return 0.5 * (1 + math.erf(mu / math.sqrt(8)))


def _delta(epsilon: Exact, mu: Exact) -> Exact:
    """The curve of the Gaussian mechanism, in 60 digits."""
    epsilon, mu = _EXACT.mpf(epsilon), _EXACT.mpf(mu)
    return _EXACT.ncdf(mu / 2 - epsilon / mu) - _tail(epsilon, mu)


def _tail(epsilon: Exact, mu: Exact) -> Exact:
    """Its second term, by which it falls as epsilon grows."""
    return _EXACT.exp(epsilon) * _EXACT.ncdf(-mu / 2 - epsilon / mu)


def _root(curve: Callable[[Exact], tuple[Exact, Exact]], *, level: float, start: float) -> Exact:
    """Where a curve, given with its slope, is at the level: Newton's method on its logarithm."""
    found = _EXACT.mpf(start)
    for _ in range(_MOST_STEPS):
        height, slope = curve(found)
        step = height * _EXACT.log(height / level) / slope
        found -= step
        if abs(step) <= abs(found) * _ENOUGH:
            return found
    raise ArithmeticError("the cost of this release cannot be computed")
