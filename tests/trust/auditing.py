"""Lower bounds on privacy loss from samples: an adversary who knows both tables and the map."""

import numpy as np
from scipy import stats

from dpgist.privacy.sensitivity import mu_under
from tests.trust.worlds import exact_sums, release

CONFIDENCE = 1e-6


def scores(noisy, direction):
    """Project each replicate (n, coordinates) on the direction."""
    return noisy @ direction


def mu_lower_gaussian(out, without):
    """Lower confidence bound on the distance of two normal samples in standard deviations."""
    n = len(out)
    spread = np.sqrt((out.var(ddof=1) + without.var(ddof=1)) / 2)
    mu = abs(out.mean() - without.mean()) / spread
    error = np.sqrt(2 / n + mu**2 / (4 * n))
    return mu - stats.norm.isf(CONFIDENCE / 2) * error


def mu_lower_clopper_pearson(out, without):
    """Threshold from the first halves, error rates bounded on the second: assumes no shape."""
    half = len(out) // 2
    if out[:half].mean() < without[:half].mean():
        out, without = -out, -without
    threshold = (out[:half].mean() + without[:half].mean()) / 2
    missed = upper_rate(np.sum(out[half:] <= threshold), len(out) - half)
    alarms = upper_rate(np.sum(without[half:] > threshold), len(without) - half)
    return stats.norm.isf(alarms) + stats.norm.isf(missed)


def upper_rate(hits, n):
    return stats.beta.isf(CONFIDENCE / 4, hits + 1, n - hits) if hits < n else 1.0


def bounds(noisy_one, noisy_other):
    """(Gaussian, Clopper-Pearson) lower bounds on mu from replicates of two releases.

    The direction is learnt from a first tenth, as an adversary would: the difference of means over
    the variance, coordinate by coordinate. A coordinate without noise that differs is a breach.
    """
    tenth = len(noisy_one) // 10
    first, second = noisy_one[:tenth], noisy_other[:tenth]
    variance = (first.var(axis=0) + second.var(axis=0)) / 2
    difference = first.mean(axis=0) - second.mean(axis=0)
    if np.any((variance == 0) & (difference != 0)):
        return np.inf, np.inf
    direction = np.divide(difference, variance, out=np.zeros_like(variance), where=variance > 0)
    out, without = scores(noisy_one[tenth:], direction), scores(noisy_other[tenth:], direction)
    return mu_lower_gaussian(out, without), mu_lower_clopper_pearson(out, without)


def tiled_release(table, plan, budget, schema, n):
    """n independent noisings of one table's exact sums: the noise layer without n passes."""
    stage, sums = exact_sums(table, plan, budget, schema)
    stacked = [np.tile(part.reshape(1, -1), (n, 1)) for part in sums]
    noisy = stage.with_noise(stacked)
    return np.concatenate([part.values * 2.0**-part.block.bits for part in noisy.blocks], axis=1)


def whole_releases(table, plan, budget, schema, n):
    """n releases from start to end, each with its own charge, pass and key."""
    return np.stack([flat(release(table, plan, budget, schema)) for _ in range(n)])


def flat(released):
    return np.concatenate([part.sums().ravel() for part in released.last.blocks])


def claimed_mu(plan, budget, schema, table):
    return mu_under(release(table, plan, budget, schema), budget.relation)
