"""Public copies of an image: itself, and moved by a pixel in every direction.

An image that is moved by a pixel is the same digit, so a classifier should say the same of it. It
can be told so without a private row: every row is seen in all its copies.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MOVES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
"""Rows and columns that are looked further down and across; the first n of them are n copies."""

COPIES = (1, 5, 9)
"""How many copies there may be: none but the image, its sides, its sides and corners."""

Integers = npt.NDArray[np.int64]


def shifts(channels: int, height: int, width: int, *, copies: int) -> Integers:
    """Where each pixel of each copy is taken from, -1 beyond the edge: (copies, inputs).

    Privacy: public; follows from the images' size alone.
    """
    if copies not in COPIES:
        raise ValueError(f"copies must be one of {COPIES}, got {copies}")
    places = np.arange(channels * height * width).reshape(channels, height, width)
    padded = np.pad(places, ((0, 0), (1, 1), (1, 1)), constant_values=-1)
    moved = [
        padded[:, 1 + down : 1 + down + height, 1 + across : 1 + across + width].ravel()
        for down, across in MOVES[:copies]
    ]
    return np.stack(moved)
