"""Public projections of the inputs: random ones, one for each map, and the smooth ones of images.

All are made of integers, so that projecting a row is exact and does not depend on its neighbours.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

STEPS = 8
"""A random projection's entries are multiples of 1/8, within -4 and 4."""

FINE = 2**14
"""A mixing matrix is rounded to multiples of 2^-14."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def random_projections(
    maps: int, inputs: int, features: int, *, rng: np.random.Generator
) -> Integers:
    """Standard normal entries in eighths, (maps, inputs, features).

    Privacy: public randomness; reads no row.
    """
    draws = rng.standard_normal((maps, inputs, features))
    return np.clip(np.rint(draws * STEPS), -4 * STEPS, 4 * STEPS).astype(np.int64)


def low_frequencies(channels: int, height: int, width: int, *, features: int) -> Floats:
    r"""The smoothest cosines on a grid of pixels, as orthonormal columns (inputs, features).

    .. math:: P_{(i,j),(u,v)} \propto \cos(\pi (i + 1/2) u / h)\,\cos(\pi (j + 1/2) v / w)

    Frequencies (u, v) are taken in the order of u^2/h^2 + v^2/w^2, for every channel alike. The
    constant, in which images differ most and classes least, is weighted by 0.3.

    Privacy: public; follows from the images' size alone.
    """
    down, across = _cosines(height), _cosines(width)
    u, v = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    order = np.argsort((u / height).ravel() ** 2 + (v / width).ravel() ** 2, kind="stable")
    chosen = order[: max(1, features // channels)]
    planes = np.einsum("iu,jv->ijuv", down, across).reshape(height * width, -1)[:, chosen]
    planes[:, 0] *= 0.3
    return np.kron(np.eye(channels), planes)


def whole(matrix: Floats) -> Integers:
    """A real matrix in steps of 2^-14. Privacy: public."""
    return np.rint(matrix * FINE).astype(np.int64)


def _cosines(n: int) -> Floats:
    """The orthonormal discrete cosine transform, one frequency a column."""
    places, frequencies = np.arange(n)[:, None], np.arange(n)[None, :]
    table: Floats = np.cos(math.pi * (places + 0.5) * frequencies / n) * math.sqrt(2 / n)
    table[:, 0] /= math.sqrt(2)
    return table
