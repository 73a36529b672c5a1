r"""Exact Gaussian noise on integers.

:func:`add_rounded_gaussian` returns ``value + round(noise_std * N)`` for independent standard
normal ``N``, drawn without any numerical error from operating-system-keyed AES-CTR bits. Because
the values are integers this equals ``round(value + noise_std * N)``: a function of the ideal
Gaussian mechanism. ``docs/lattice-and-sampler.md`` proves each step; the names used there are the
names used here. No library offers this: OpenDP's discrete Gaussian is exact too but costs over a
hundred times as much and carries no analytic (Balle-Wang) guarantee; numpy's are floats.

How it works: the half-normal curve exp(-x^2/2) is covered by strips of width 1/16, each as high as
an integer multiple of one unit; a strip is picked by 32 random bits, a point inside it by 64 more,
and the point is kept with the ratio of curve to strip. Every comparison carries a bound on its own
error. The few draws that fall inside that bound are settled with more random bits in exact
arithmetic (:func:`_settle_coin`, :func:`_settle_rounding`), so it never enters the distribution.
"""

from __future__ import annotations

import math
import os
from typing import Any, Protocol

import mpmath
import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

SAMPLER = "rounded Gaussian, exact, AES-256-CTR keyed by the operating system"
LARGEST_STD = 2.0**48

_STRIPS = 128  # strips [i/16, (i+1)/16), so the tail starts at x = 8
_WIDTH = 1 / 16
_TAIL, _SPARE = _STRIPS, _STRIPS + 1
_PICK_BITS, _COIN_BITS, _POINT_BITS = 32, 31, 64
_CHUNK = 1 << 15

_INTERVAL = mpmath.ctx_iv.MPIntervalContext()  # rigorous interval arithmetic at 512 bits
_INTERVAL.prec = 512

_Integers = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_Words = npt.NDArray[np.uint64]


class Bits(Protocol):
    """A stream of independent uniform 64-bit words."""

    def words(self, count: int) -> _Words: ...


class SystemBits:
    """AES-256 in counter mode under a key that the operating system draws and nobody keeps.

    Guarantee: computationally indistinguishable from uniform bits; a fresh key for every object.
    """

    def __init__(self) -> None:
        self._stream = Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> _Words:
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype=np.uint64)


def add_rounded_gaussian(values: _Integers, *, noise_std: float) -> _Integers:
    """Add independent Gaussian noise, rounded to integers, to every value.

    Args:
        values: Exact integer statistics (grid units).
        noise_std: Standard deviation of the ideal Gaussian, in the same units.

    Guarantee: the result is distributed exactly as ``round(values + noise_std * N)`` modulo 2^64,
    given uniform bits; so it is a post-processing of the Gaussian mechanism and mu-GDP with
    mu = sensitivity / noise_std (Dong, Roth, Su 2022, Theorem 2.7), under whichever neighbouring
    relation the sensitivity was computed for. Sums may have wrapped around on their way here, in
    the same ring: a refusal of large ones would tell of the rows, and would not be noisy.

    Privacy: this is the mechanism; the key lives inside this call and is dropped with it.
    """
    if not 0 < noise_std <= LARGEST_STD:
        raise ValueError(f"noise_std must lie in (0, 2^48], got {noise_std}")
    flat = np.ascontiguousarray(values, dtype=np.int64).ravel()
    bits = SystemBits()
    noisy = flat.copy()
    for start in range(0, flat.size, _CHUNK):
        _fill(noisy[start : start + _CHUNK], noise_std, bits)
    return noisy.reshape(np.shape(values))


def _fill(noisy: _Integers, noise_std: float, bits: Bits) -> None:
    """Add one draw to each entry in place, proposing until all are served."""
    done = 0
    while done < noisy.size:
        draws = _accepted(noisy.size - done + 64 + (noisy.size - done) // 12, noise_std, bits)
        take = min(draws.size, noisy.size - done)
        noisy[done : done + take] += draws[:take]
        done += take


def _accepted(proposals: int, noise_std: float, bits: Bits) -> _Integers:
    """Propose so many points and return the rounded, signed ones that were kept."""
    words = bits.words(2 * proposals)
    pick, point = words[:proposals], words[proposals:]
    strip = np.searchsorted(_LAST_PICK, (pick & _MASK32).astype(np.uint32), side="left")
    coin = np.ldexp(((pick >> np.uint64(_PICK_BITS)) & _MASK31).astype(np.float64), -_COIN_BITS)
    inside = np.ldexp((point >> np.uint64(1)).astype(np.float64), 1 - _POINT_BITS)

    keep_probability = _EDGE_RATIO[strip] * _exp_minus(_drop(strip, inside))
    kept = coin < keep_probability
    magnitude = (strip + inside) * (noise_std * _WIDTH)
    rounded = np.floor(magnitude + 0.5)

    coin_in_doubt = np.abs(coin - keep_probability) <= _COIN_ERROR
    coin_in_doubt |= strip >= _TAIL
    slack = 0.5 - (noise_std * 2.0**-48 + magnitude * 2.0**-50)
    rounding_in_doubt = kept & (np.abs(magnitude - rounded) >= slack)

    draws = rounded.astype(np.int64)
    for index in np.flatnonzero(coin_in_doubt | rounding_in_doubt):
        exact_point = _Lazy(int(point[index]), _POINT_BITS, bits)
        if coin_in_doubt[index]:
            exact_coin = _Lazy(int(coin[index] * 2**_COIN_BITS), _COIN_BITS, bits)
            kept[index] = _settle_coin(int(strip[index]), exact_point, exact_coin)
        if kept[index]:
            draws[index] = _settle_rounding(int(strip[index]), exact_point, noise_std)
    np.negative(draws, out=draws, where=(pick >> np.uint64(63)).astype(bool))
    return np.asarray(draws[kept])


def _drop(strip: _Integers, inside: _Floats) -> _Floats:
    """x^2/2 minus its value at the strip's left edge, for x = (strip + inside)/16: in [0, 0.51]."""
    return inside * _WIDTH * (strip * _WIDTH + inside * (_WIDTH / 2))


def _exp_minus(drop: _Floats) -> _Floats:
    """exp(-drop) on [0, 0.52] by its Taylor polynomial: error below 2^-46 (docs, Lemma 3)."""
    total = np.full_like(drop, _TAYLOR[-1])
    for coefficient in _TAYLOR[-2::-1]:
        total *= drop
        total += coefficient
    return total


class _Lazy:
    """A uniform number in [0, 1) whose bits are drawn only as far as somebody asks."""

    def __init__(self, prefix: int, n_bits: int, bits: Bits) -> None:
        self.prefix, self.n_bits, self.bits = prefix, n_bits, bits

    def extend(self) -> None:
        self.prefix = (self.prefix << 64) | int(self.bits.words(1)[0])
        self.n_bits += 64

    def interval(self) -> Any:
        """All numbers that start with the bits known so far."""
        scale = _INTERVAL.mpf(2) ** -self.n_bits
        return _INTERVAL.mpf([self.prefix, self.prefix + 1]) * scale


def _settle_coin(strip: int, point: _Lazy, coin: _Lazy) -> bool:
    """Whether coin < curve/strip at the point, by interval arithmetic on ever more bits."""
    if strip == _SPARE:
        return False
    while True:
        gap = _curve_over_strip(strip, point) - coin.interval()
        if gap.a > 0 or gap.b <= 0:
            return bool(gap.a > 0)
        coin.extend()
        point.extend()


def _curve_over_strip(strip: int, point: _Lazy) -> Any:
    """Interval that holds the ratio at every point that starts with the known bits."""
    if strip == _TAIL:
        return _UNITS * _tail_area() / _HEIGHTS[_TAIL]
    x = (strip + point.interval()) / 16
    return _UNITS * _INTERVAL.exp(-x * x / 2) / _HEIGHTS[strip]


def _settle_rounding(strip: int, point: _Lazy, noise_std: float) -> int:
    """floor(noise_std * x + 1/2) for x = (strip + point)/16, in integers."""
    if strip == _TAIL:
        return _settle_tail(point.bits, noise_std)
    top, bottom = float(noise_std).as_integer_ratio()
    while True:
        half = (16 * bottom) << point.n_bits
        first = 2 * top * ((strip << point.n_bits) + point.prefix) + half
        low, high = first // (2 * half), (first + 2 * top) // (2 * half)
        if low == high:
            return low
        point.extend()


def _settle_tail(bits: Bits, noise_std: float) -> int:
    """The tail beyond 8: x = 8 - log(u)/8, kept with probability exp(-(x - 8)^2/2).

    Marsaglia 1964; all in interval arithmetic. Reached about once in 10^15 draws.
    """
    while True:
        u, v = _Lazy(0, 0, bits), _Lazy(0, 0, bits)
        while True:
            u.extend()
            v.extend()
            if u.prefix == 0:
                continue  # log would be unbounded; more bits settle it
            excess = -_INTERVAL.log(u.interval()) / 8
            gap = _INTERVAL.exp(-excess * excess / 2) - v.interval()
            if gap.b <= 0:
                break
            scaled = (8 + excess) * noise_std + _INTERVAL.mpf(0.5)
            low, high = int(mpmath.floor(scaled.a)), int(mpmath.floor(scaled.b))
            if gap.a > 0 and low == high:
                return low


def _tail_area() -> Any:
    """Interval around 16 * integral of exp(-x^2/2) beyond 8: the tail's area in strip widths.

    Laplace's continued fraction for Mills' ratio at 8, whose consecutive convergents lie on
    either side of the value (Abramowitz and Stegun 26.2.14); these two differ by 2^-140.
    """
    below, above = (_convergent(depth) for depth in (61, 60))
    return 16 * _INTERVAL.exp(-32) * _INTERVAL.mpf([below.a, above.b])


def _convergent(depth: int) -> Any:
    fraction = _INTERVAL.mpf(8)
    for k in range(depth, 0, -1):
        fraction = 8 + k / fraction
    return 1 / fraction


def _edge_curve() -> list[Any]:
    """The curve at each strip's left edge, then the tail's area: what the strips must cover."""
    edges = (_INTERVAL.mpf(strip) / 16 for strip in range(_STRIPS))
    return [*(_INTERVAL.exp(-x * x / 2) for x in edges), _tail_area()]


_UNITS = 208_900_000  # as many as fit: the heights add up to just under 2^32
_EDGE_CURVE = _edge_curve()
_HEIGHTS = [int(mpmath.ceil((_UNITS * curve).b)) for curve in _EDGE_CURVE]
_HEIGHTS.append(2**_PICK_BITS - sum(_HEIGHTS))  # the spare strip, always rejected
_LAST_PICK = (np.cumsum(_HEIGHTS) - 1).astype(np.uint32)
_EDGE_RATIO = np.array(
    [float((_UNITS * c / h).b) for c, h in zip(_EDGE_CURVE, _HEIGHTS, strict=False)] + [0.0]
)
_MASK32, _MASK31 = np.uint64(2**32 - 1), np.uint64(2**31 - 1)
_COIN_ERROR = 2.0**-_COIN_BITS + 2.0**-40
_TAYLOR = [(-1) ** k / math.factorial(k) for k in range(14)]
