r"""The gradient of a row that is seen in several public copies: its norm, though copies may cancel.

Copies x_1..x_A of one row, the constant k among their coordinates, with coefficients c_1..c_A (the
model's own over A, since the row's gradient is their mean) have the gradient and the norm

.. math:: \nabla = \sum_a c_a x_a^\top, \qquad
          N^2 = \|\nabla\|^2 = \sum_{ab} (c_a^\top c_b)\,(x_a^\top x_b).

**Why the test is enough.** The products x_a'x_b are integers below 2^53 and exact. In float64, with
p outputs, c_a'c_b is off by at most p u |c_a||c_b| and the sum of A^2 terms by another A^2 u of
|c_a||c_b||x_a||x_b|, u = 2^-53, in any order, to first order. So the computed N^2 is off by at most

.. math:: (p + A^2)\,u\,S^2 \le 2^{-40.9} S^2, \qquad S = \sum_a |c_a||x_a|,

for p up to 4096 and A up to 9. S^2 is made of non-negative numbers and known to a relative 2^-40.
Hence integers c whose computed N^2 + 2^-40 S^2 is at most B^2 have a norm of at most B (1 + 2^-50);
2^-40.9 leaves room for what second order and the last roundings add. Rows that fail are zero, and
so are rows with a coefficient above B/k: without cancelling no row has one, and below it the
sums of a block are exact (:meth:`outer.Space.check`).

**Why few rows fail.** Coefficients are scaled to a norm of B less a margin, then cut off towards
zero, each by less than 1. That moves the gradient by less than sum_a sqrt(p) |x_a|, the margin.
"""

from __future__ import annotations

import math

import torch

MOST_COPIES = 9
"""Copies for which the error above was counted."""

_ERROR = 2.0**-40


def gram(rows: torch.Tensor, constant: int) -> torch.Tensor:
    """Inner products (n, copies, copies) of integer copies (n, copies, inputs), with the constant.

    Privacy: row-wise and exact; as private as the rows.
    """
    real = rows.to(torch.float64)
    return real @ real.mT + float(constant) ** 2


def margin(*, outputs: int, copies: int, inputs: int, levels: int, constant: int) -> float:
    """By how much cutting off integer coefficients can move any row's gradient. Privacy: public."""
    longest = math.sqrt(inputs * levels**2 + constant**2)
    return copies * math.sqrt(outputs) * longest * (1 + _ERROR)


def clipped(
    coefficients: torch.Tensor, products: torch.Tensor, *, bound: float, spare: float, most: float
) -> torch.Tensor:
    """Integer coefficients (n, copies, outputs) whose rows' gradients have norm at most ``bound``.

    ``coefficients`` are in the integers' own steps; ``products`` come from :func:`gram`; ``spare``
    is the margin; ``most`` is the largest coefficient that a sum may hold.

    Guarantee: for any coefficients, NaN and infinite ones too, and the true products, a returned
    row's gradient has a norm of at most ``bound * (1 + 2**-40)`` and no coefficient above ``most``.

    Privacy: row by row.
    """
    squared, _ = _sizes(coefficients, products)
    scale = ((bound - spare) / squared.clamp(min=0).sqrt()).clamp(max=1.0)
    grid = torch.trunc(coefficients * scale[:, None, None])
    squared, parts = _sizes(grid, products)
    inside = squared + _ERROR * parts.square() <= bound**2  # false for NaN
    inside &= grid.abs().amax(dim=(1, 2)) <= most
    return torch.where(inside[:, None, None], grid, 0.0)


def _sizes(coefficients: torch.Tensor, products: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """N^2 and S of every row."""
    between = coefficients @ coefficients.mT
    squared = (between * products).sum(dim=(1, 2))
    lengths = coefficients.square().sum(dim=2) * products.diagonal(dim1=1, dim2=2)
    return squared, lengths.sqrt().sum(dim=1)
