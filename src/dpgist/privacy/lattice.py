r"""Rows on a grid: bounded integers and their exact sums.

A row's features are *untrusted* numbers. :func:`to_grid` turns them into integers q with
:math:`\|q\|^2 \le B^2 4^F`, checked in integers, whatever the numbers were. Integers are held in
float64, where everything below 2^53 is exact, so sums have no order and no rounding
(``docs/lattice-and-sampler.md``, Lemmas 1 and 2).
"""

from __future__ import annotations

import math

import torch

from dpgist.privacy.plan import Block

_SHRINK = 1 + 2.0**-40  # a row scaled down to its bound ends just inside
_MOST_BITS = 26  # 2F <= 52: squared norms stay exact in float64
_CELLS_AT_ONCE = 2**17  # 1 MB in float64: what one step leaves in the cache the next one finds


def grid_bits(rows_about: int | None, length: int) -> int:
    """Grid bits of a block: 20, or 26 where many rows or coordinates make truncation visible.

    Privacy: a rule of declared numbers only.
    """
    return 26 if (rows_about or 0) > 10**6 or length > 10**5 else 20


def to_grid(features: torch.Tensor, block: Block) -> torch.Tensor:
    """Bound each row's features and truncate them to the block's grid.

    The row is clamped at 0 if the block is declared non-negative, scaled into its norm bound,
    truncated toward 0, and its norm is checked once more in integers; a row that fails, as every
    row with a non-finite number does, is set to zero.

    Guarantee: every returned row holds integers with squared norm at most
    ``bound_squared * 4**bits`` (and none below 0 if non-negative), for any input.

    Privacy: row by row; a row's integers depend on nothing but that row's features.
    """
    grid = features.to(torch.float64, copy=True)
    for rows in torch.split(grid, max(1, _CELLS_AT_ONCE // block.length)):
        _bound_rows(rows, block)
    return grid


def _bound_rows(rows: torch.Tensor, block: Block) -> None:
    """Bound and truncate some rows in place."""
    if block.non_negative:
        rows.clamp_(min=0.0)
    bound = math.sqrt(block.bound_squared)
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    shrunk = torch.where(norm <= bound, bound, norm * _SHRINK)
    rows.mul_(bound * 2.0**block.bits / shrunk)
    rows.copy_(rows.to(torch.int32))  # truncates toward 0, ten times as fast as trunc
    inside = rows.square().sum(dim=1, keepdim=True) <= block.bound_squared * 4**block.bits
    if not bool(inside.all()):
        rows.copy_(torch.where(inside, rows, 0.0))


def check_grid(block: Block, block_rows: int, rows_about: int | None) -> None:
    """Refuse a block whose sums could leave the exact range; public numbers only."""
    if not 0 <= block.bits <= _MOST_BITS:
        raise ValueError(f"block {block.name}: grid bits must lie in 0..{_MOST_BITS}")
    if block.length < 1 or block.bound_squared < 1 or not 0 < block.weight < math.inf:
        raise ValueError(f"block {block.name}: length, bound and weight must be positive")
    if block.bound_squared * 4**block.bits > 2**53:
        raise ValueError(f"block {block.name}: the bound is too large for its grid")
    largest = math.isqrt(block.bound_squared * 4**block.bits) + 1
    if block_rows * largest > 2**53 or (rows_about or 0) * largest > 2**60:
        raise ValueError(f"block {block.name}: too many rows for its grid; use fewer bits")


def class_sums(grid: torch.Tensor, membership: torch.Tensor) -> torch.Tensor:
    """Exact sums per class, as int64 of shape (classes, length).

    ``membership`` (B, classes) holds each row's one-hot class; a padding row is all zeros. Every
    partial sum is an integer below 2^53, so the matrix product is exact in any order.
    """
    return (membership.T @ grid).to(torch.int64)
