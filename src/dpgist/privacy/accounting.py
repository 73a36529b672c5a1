"""From (epsilon, delta) to mu and back, always rounded against ourselves.

A Gaussian release with noise_std = sensitivity / mu is mu-GDP, and mu^2 adds up exactly over
releases (Dong, Roth, Su 2022, Corollary 2). So mu^2 is what is charged; epsilon is only how it is
spoken of. Balle and Wang (2018, Theorem 8) give the exact relation, `dp_accounting` computes it.

The accountant's REPLACE_ONE option is never used: its meaning differs between its own accountants
(google/differential-privacy issue 378). Sensitivities are computed by us, in `sensitivity.py`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import dp_accounting
import numpy as np

from dpgist.privacy.plan import Budget

MU_SQUARED_UNITS = 2**60
"""mu^2 is stored as an integer number of units of 2^-60."""

_SAFETY = 1 + 1e-9  # the root finder underneath may end 1e-12 on the wrong side


@lru_cache
def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is (epsilon, delta)-DP, rounded down.

    Privacy: pure arithmetic on public numbers.
    """
    budget = Budget(epsilon=epsilon, delta=delta)  # validates: the library below does not
    with np.errstate(all="ignore"):  # its root finder tries what no double can hold
        sigma = float(dp_accounting.get_sigma_gaussian(budget.epsilon, budget.delta))
    return 1 / (sigma * _SAFETY)


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon at which a mu-GDP release is (epsilon, delta)-DP, rounded up.

    Privacy: pure arithmetic on public numbers.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    if mu <= 0:
        return 0.0
    with np.errstate(all="ignore"):
        epsilon = float(dp_accounting.get_epsilon_gaussian(1 / (mu * _SAFETY), delta))
    return epsilon * _SAFETY


def units_of(budget: Budget) -> int:
    """mu^2 that a budget buys, in units, rounded down."""
    mu = Fraction(math.nextafter(mu_of(budget.epsilon, budget.delta), 0))
    units = math.floor(mu * mu * MU_SQUARED_UNITS)
    if units < 2**20:  # rounding to units would cost more than a millionth of the budget
        raise ValueError(f"epsilon {budget.epsilon:g} at delta {budget.delta:g} is too small")
    return units


def mu_from_units(units: int) -> float:
    """Mu of so many units of mu^2, rounded up."""
    return math.nextafter(math.sqrt(units / MU_SQUARED_UNITS), math.inf)


def membership_bound(mu: float) -> float:
    """The best chance to guess from the release whether one row was in, prior fifty-fifty.

    The optimal test between N(0, 1) and N(mu, 1) is right with probability Phi(mu/2).
    """
    return 0.5 * (1 + math.erf(mu / math.sqrt(8)))
