"""Poisson sampling: every row enters a batch by its own coin, from cryptographic bits.

The accountant's theorem is about exactly this sampler. Shuffled batches of one size, which most
training loops use, are another mechanism with a larger privacy loss. A batch may be empty, and its
size is as private as the rows.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpgist.privacy.noise import SystemBits

_COIN_BITS = 32


def exact_rate(rate: float) -> float:
    """The rate that the coins really have: rounded up to a multiple of 2^-32.

    Privacy: public arithmetic; the accountant is given this very number.
    """
    if not 0 < rate <= 1:
        raise ValueError(f"the sampling rate must lie in (0, 1], got {rate}")
    return float(math.ceil(rate * 2**_COIN_BITS) * 2.0**-_COIN_BITS)


class PoissonSampler:
    """Draws batches; each row is in each batch with probability ``rate``, independently.

    Guarantee: given uniform bits, the coins are independent over rows and batches and have exactly
    the probability ``rate``. No seed: the key is drawn by the operating system and kept nowhere.

    Privacy: the batches are secret; they must not leave the wall, nor must their sizes.
    """

    def __init__(self, rate: float) -> None:
        self.rate = exact_rate(rate)
        self._threshold = round(self.rate * 2**_COIN_BITS)
        self._bits = SystemBits()

    def draw(self, n_rows: int) -> npt.NDArray[np.int64]:
        """Places of the rows in the next batch. Privacy: secret."""
        coins = self._bits.words((n_rows + 1) // 2).view(np.uint32)[:n_rows]
        return np.flatnonzero(coins < self._threshold)
