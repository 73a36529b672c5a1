r"""What many Poisson-sampled Gaussian steps cost, and how the ledger pays for them.

**One run.** A run of T steps, each a Gaussian of noise multiplier sigma on a batch in which every
row is with probability q, has a privacy-loss distribution that ``dp_accounting`` computes from
above. Under add_remove, a person with k rows shifts the sum by at most j sensitivities with
probability Binomial(k, q)(j): a mixture of Gaussians, whose scalar version is the worst case
(Choquette-Choo et al. 2023, "Privacy Amplification for Matrix Mechanisms", section 4). Under
replace_one a person is removed and another added, so group privacy gives
:math:`\delta_{ro}(2\varepsilon) \le (1 + e^\varepsilon)\,\delta_{ar}(\varepsilon)`.

**The ledger** adds up mu^2, which presumes that every entry is mu-GDP. A sampled run is not, for
any useful mu: far out, its losses are those of a run without sampling. But it is so *up to a small
delta*. Write :math:`\delta_\mu(\varepsilon)` for the curve of the Gaussian mechanism and suppose

.. math:: \delta(\varepsilon) \le \delta' + (1 - \delta')\,\delta_\mu(\varepsilon)
          \quad\text{for all } \varepsilon \ge 0 \text{ and both directions.} \tag{1}

The right side is the curve of the pair that with probability :math:`\delta'` shows everything and
otherwise is N(0, 1) against N(mu, 1); for negative :math:`\varepsilon` (1) follows, because both
sides turn into each other's reversal. By Blackwell's theorem (Dong, Roth, Su 2022, Theorem 2.10)
the run is then a function of that pair. So a run that satisfies (1) is a mu-GDP entry but for an
event of probability :math:`\delta'`; such entries compose with any others, chosen adaptively or
not, to a Gaussian of the summed mu^2 but for an event of the summed :math:`\delta'`.

**The charge.** Let the ledger's terms be :math:`(\varepsilon_L, \delta_L)` and its cap
:math:`m(\delta_L)`, where :math:`m(\delta)` is the largest mu^2 with
:math:`\delta_\mu(\varepsilon_L) \le \delta`. A run that is charged u units must satisfy (1) with

.. math:: \mu^2 = \rho u, \quad \rho = m((1-\theta)\delta_L) / m(\delta_L), \quad
          \delta' = \theta \delta_L\, u / m(\delta_L), \quad \theta = 1/16.

*Claim*: then whatever else the ledger holds, all of it together is
:math:`(\varepsilon_L, \delta_L)`-DP. *Proof*: let sampled runs be charged a share s of the cap in
all. The true mu^2 is at most :math:`m(\delta_L)(1 - s(1-\rho))` and the events have probability at
most :math:`\theta s \delta_L`, so it is enough that the first is at most
:math:`m((1 - \theta s)\delta_L)`. Both are equal at s = 0 and s = 1, and the first is linear in s;
so it holds if m is concave, that is, if :math:`\delta_\mu(\varepsilon_L)` is convex in mu^2. Its
derivative by mu is :math:`\varphi(\mu/2 - \varepsilon_L/\mu)`, and one more differentiation shows
it convex in mu^2 wherever :math:`\mu^2 \le 2(\sqrt{1 + \varepsilon_L^2} - 1)`, which
:func:`terms_for` checks at the cap. (The price of all this is under 0.3 % more noise.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dp_accounting
import numpy as np
import numpy.typing as npt
from dp_accounting.pld import privacy_loss_distribution
from scipy.special import ndtr
from scipy.stats import binom

from dpgist.errors import PrivacyError
from dpgist.privacy.accounting import MU_SQUARED_UNITS, mu_of
from dpgist.privacy.plan import Relation

SLACK = 1 / 16
"""theta: the part of the ledger's delta that sampled runs may use up together."""

_GRID_POINTS = 200
_ROUND_UP = 1 + 1e-9
_SMALLEST_SLACK = 1e-11
_SMALLEST, _LARGEST = 0.4, 10_000.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Run:
    """The public shape of a sampled run: how often it looks, at how many, and whose rows.

    Privacy: public.
    """

    rate: float
    steps: int
    relation: Relation
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1 or self.steps < 1 or self.rows_per_person < 1:
            raise ValueError("a run needs a rate in (0, 1], at least one step and one row a person")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a charged run must satisfy: equation (1) with this mu and this delta'.

    Privacy: public.
    """

    mu: float
    slack: float
    epsilon: float
    delta: float


def terms_for(
    units: int, *, epsilon: float, delta: float, ledger_epsilon: float, cap_units: int
) -> Terms:
    """What a run that is charged so many units must satisfy, and its own (epsilon, delta).

    Privacy: pure arithmetic on public numbers.
    """
    share = units / cap_units
    slack = SLACK * delta * share / _ROUND_UP
    if slack < _SMALLEST_SLACK:
        raise ValueError(
            f"sampled runs need a delta of at least {_SMALLEST_SLACK / (SLACK * share):.1g} here; "
            "their cost cannot be computed more finely"
        )
    cap = cap_units / MU_SQUARED_UNITS
    if cap > 2 * (math.sqrt(1 + ledger_epsilon**2) - 1):
        raise PrivacyError(
            f"at delta {delta:g} the cost of sampled runs cannot be added up; use a smaller delta"
        )
    left = mu_of(ledger_epsilon, delta * (1 - SLACK)) ** 2 / cap
    return Terms(
        mu=math.sqrt(left * units / MU_SQUARED_UNITS) / _ROUND_UP,
        slack=slack,
        epsilon=epsilon,
        delta=delta,
    )


@lru_cache(maxsize=64)
def calibrated(run: Run, terms: Terms) -> float:
    """The smallest noise multiplier that satisfies the terms, to one part in 1000, rounded up.

    Guarantee: a run with this multiplier is (epsilon, delta)-DP by itself and satisfies (1).

    Privacy: pure arithmetic on public numbers.
    """
    low, high = _bracket(run, terms)
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(run, middle, terms) else (middle, high)
    return high


def keeps(run: Run, multiplier: float, terms: Terms) -> bool:
    """Whether a run with this noise multiplier satisfies the terms, checked on a grid.

    Both sides of (1) are convex in t = exp(epsilon). So between two grid points the run's curve is
    at most its chord, and the allowed one at least its tangent in the middle; two straight lines
    are compared at their ends. Right of the last point the run's curve is below delta'.

    Privacy: pure arithmetic on public numbers.
    """
    curve = _curve(run, multiplier)
    if curve(np.array([terms.epsilon]))[0] > terms.delta:
        return False
    last = _beyond(curve, terms.slack, start=terms.epsilon)
    if not math.isfinite(last):
        return False
    grid = np.linspace(0.0, last, _GRID_POINTS)
    middle = (grid[1:] + grid[:-1]) / 2
    height = terms.slack + (1 - terms.slack) * gaussian_delta(terms.mu, middle)
    slope = -(1 - terms.slack) * ndtr(-terms.mu / 2 - middle / terms.mu)
    found = curve(grid) * _ROUND_UP
    left = found[:-1] <= height + slope * (np.exp(grid[:-1]) - np.exp(middle))
    right = found[1:] <= height + slope * (np.exp(grid[1:]) - np.exp(middle))
    return bool((left & right).all())


def epsilon_by_pld(run: Run, multiplier: float, delta: float) -> float:
    """Epsilon of a run at a delta by privacy-loss distributions, rounded up.

    Privacy: pure arithmetic on public numbers.
    """
    if run.relation == Relation.ADD_REMOVE:
        exactly = delta - _convolution_error(run.steps)
        return float(_composed(run, multiplier).get_epsilon_for_delta(exactly)) * _ROUND_UP
    return _first_below(_curve(run, multiplier), delta)


def epsilon_by_rdp(run: Run, multiplier: float, delta: float) -> float:
    """Epsilon of a run at a delta by Renyi DP: looser, by another route; a second opinion.

    Privacy: pure arithmetic on public numbers.
    """
    if run.relation != Relation.ADD_REMOVE or run.rows_per_person != 1:
        raise ValueError("the Renyi figure is for add_remove and one row per person")
    step = dp_accounting.PoissonSampledDpEvent(run.rate, dp_accounting.GaussianDpEvent(multiplier))
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(step, run.steps)
    return float(accountant.get_epsilon(delta)) * _ROUND_UP


def gaussian_delta(mu: float, epsilon: Floats) -> Floats:
    """The curve of the Gaussian mechanism (Balle and Wang 2018, Theorem 8), rounded down.

    Privacy: pure arithmetic on public numbers.
    """
    inside = ndtr(mu / 2 - epsilon / mu)
    curve: Floats = inside - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    return np.asarray(np.maximum(curve - inside * 1e-12, 0.0), np.float64)


_Curve = Callable[[Floats], Floats]


def _curve(run: Run, multiplier: float) -> _Curve:
    """An upper bound on delta for every epsilon from 0 on, under the run's relation."""
    composed, error = _composed(run, multiplier), _convolution_error(run.steps)

    def added_or_removed(epsilon: Floats) -> Floats:
        found = np.asarray(composed.get_delta_for_epsilon(epsilon.tolist()), np.float64)
        return np.maximum(found, 0.0) + error

    def replaced(epsilon: Floats) -> Floats:
        halves: Floats = (1 + np.exp(epsilon / 2)) * added_or_removed(epsilon / 2)
        return halves

    return replaced if run.relation == Relation.REPLACE_ONE else added_or_removed


def _convolution_error(steps: int) -> float:
    """What is added to every delta for the rounding of its Fourier transforms.

    A power of T magnifies the rounding of its base T times. Seen were a quarter of this.
    """
    return max(1e-12, steps * 2.0**-51)


@lru_cache(maxsize=4)
def _composed(run: Run, multiplier: float) -> Any:
    """The run's privacy-loss distribution, on a grid fine enough for its many steps."""
    options = {"pessimistic_estimate": True, "value_discretization_interval": 1e-3}
    k, q = run.rows_per_person, run.rate
    if k == 1:
        step = privacy_loss_distribution.from_gaussian_mechanism(
            multiplier, sampling_prob=q, **options
        )
    else:
        step = privacy_loss_distribution.from_mixture_gaussian_mechanism(
            multiplier, list(range(k + 1)), _binomial(k, q), **options
        )
    return step.self_compose(run.steps)


def _binomial(k: int, rate: float) -> Sequence[float]:
    weights = binom.pmf(np.arange(k + 1), k, rate)
    return [float(weight) for weight in weights / weights.sum()]


def _beyond(curve: _Curve, level: float, *, start: float) -> float:
    """Some epsilon at which the curve is at most the level; infinite if none is found."""
    for epsilon in start * np.geomspace(1, 1000, 60):
        if curve(np.array([epsilon]))[0] <= level:
            return float(epsilon)
    return math.inf


def _first_below(curve: _Curve, level: float) -> float:
    """The smallest such epsilon, to one part in 1000, from above."""
    low, high = 0.0, _beyond(curve, level, start=0.01)
    while math.isfinite(high) and high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if curve(np.array([middle]))[0] <= level else (middle, high)
    return high


def _bracket(run: Run, terms: Terms) -> tuple[float, float]:
    """Two multipliers, the first too small and the second not, within a few per cent."""
    guess = _central_limit(run, terms.mu)
    low, high = guess * 0.9, guess * 1.05
    while keeps(run, low, terms):
        low, high = low * 0.8, low
    while not keeps(run, high, terms):
        low, high = high, high * 1.25
        if high > _LARGEST:
            raise PrivacyError(
                "no amount of noise keeps this promise over so many steps; take fewer steps or a "
                "lower sampling rate, or raise epsilon"
            )
    return low, high


def _central_limit(run: Run, mu: float) -> float:
    """Where to start: mu = q sqrt(T (exp(1/sigma^2) - 1)) (Bu, Dong, Long, Su 2020), solved."""
    apart = 2 if run.relation == Relation.REPLACE_ONE else 1
    single = (mu / (apart * run.rows_per_person * run.rate)) ** 2 / run.steps
    return max(1 / math.sqrt(math.log1p(single)), _SMALLEST)
