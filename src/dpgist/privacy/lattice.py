r"""Rows on a grid: bounded integers and their exact sums.

A row's features are *untrusted* numbers. :func:`to_grid` turns them into integers q with
:math:`\|q\|^2 \le B^2 4^F`, checked in integers, whatever the numbers were. Integers are held in
float32 below 2^24 or in float64 below 2^53, where they are exact, so sums have no order and no
rounding (``docs/lattice-and-sampler.md``, Lemmas 1 and 2).
"""

from __future__ import annotations

import functools
import math

import torch

from dpgist.features.looked import LookedUp
from dpgist.features.marked import Marked
from dpgist.privacy.plan import Block

_SHRINK = 1 + 2.0**-40  # a row scaled down to its bound ends just inside
_MOST_BITS = 26  # 2F <= 52: squared norms stay exact in float64
_CELLS_AT_ONCE = 2**17  # half a MB in float32: what one step leaves in the cache the next one finds
_EXACT_BELOW = {torch.float32: 2**24, torch.float64: 2**53}
_FEWEST_ROWS = 16  # below so many rows at once, sums are quicker in float64


def grid_bits(rows_about: int | None, length: int) -> int:
    """Grid bits of a block: 20, or 26 where many rows or coordinates make truncation visible.

    Privacy: a rule of declared numbers only.
    """
    return 26 if (rows_about or 0) > 10**6 or length > 10**5 else 20


def to_grid(features: torch.Tensor | LookedUp | Marked, block: Block) -> torch.Tensor:
    """Bound each row's features and truncate them to the block's grid.

    Features are clamped at 0 if the block is declared non-negative and truncated toward 0. A row
    whose integers then leave its norm bound is scaled into the bound first, and its norm is checked
    once more in integers; a row that fails, as one with a non-finite number does, is set to zero.
    The integers come in float32 if the features do and no row in its bound can leave its exact
    range, otherwise in float64. Of features in a table the table is bounded instead, and its pairs
    come as complex numbers (one look at the table each): real parts first, then imaginary ones.
    Indicators come as the places of their ones, int64.

    Guarantee: every returned row holds integers with squared norm at most
    ``bound_squared * 4**bits`` (and none below 0 if non-negative), for any input.

    Privacy: row by row; a row's integers depend on nothing but that row's features.
    """
    if isinstance(features, LookedUp):
        return _looked_up(features, block)
    if isinstance(features, Marked):
        return _marked(features, block)
    features = features.to(_held_in(features.dtype, block))
    grid = torch.empty_like(features)
    at_once = max(1, _CELLS_AT_ONCE // block.length)
    for rows, whole in zip(torch.split(features, at_once), torch.split(grid, at_once), strict=True):
        if block.non_negative:
            rows = rows.clamp(min=0.0)
        whole.copy_(_truncated(rows * 2.0**block.bits))
        if not _surely_inside(whole, block):
            whole.copy_(_bounded(rows.to(torch.float64), whole.to(torch.float64), block))
    return grid


def _looked_up(features: LookedUp, block: Block) -> torch.Tensor:
    """Truncate the table's pairs, set those to zero of which m could leave the bound; look up.

    With m pairs a row, each of squared norm at most a whole number below or at limit / m, no row
    can leave its bound, wherever in the table it points.
    """
    pairs = features.pairs.to(torch.float64) * 2.0**block.bits
    whole = _truncated(pairs.clamp(min=0.0) if block.non_negative else pairs).to(torch.float64)
    most = _limit(block) // features.places.shape[1]
    whole = torch.where(whole.square().sum(dim=1, keepdim=True) <= most, whole, 0.0)
    table = torch.view_as_complex(whole.to(_held_in(features.pairs.dtype, block)))
    return table.index_select(0, features.places.reshape(-1)).view(features.places.shape)


def _marked(features: Marked, block: Block) -> torch.Tensor:
    """Places in order; a row with one twice, out of range, or with too many ones is nowhere.

    So a row has at most ``bound_squared`` coordinates at 1 and none above: the bound, exactly.
    """
    places = features.places.to(torch.int64).sort(dim=1).values
    there = places < block.length
    twice = ((places[:, 1:] == places[:, :-1]) & there[:, 1:]).any(dim=1)
    ranged = (places[:, 0] >= 0) & (places[:, -1] <= block.length)
    good = ranged & ~twice & (there.sum(dim=1) <= block.bound_squared)
    return torch.where(good[:, None], places, block.length)


def _held_in(dtype: torch.dtype, block: Block) -> torch.dtype:
    """float32 for features in it, where no integer of a bounded row leaves its exact range."""
    narrow = dtype == torch.float32 and _largest(block) <= _EXACT_BELOW[torch.float32]
    return torch.float32 if narrow else torch.float64


def _truncated(numbers: torch.Tensor) -> torch.Tensor:
    """Toward 0, through integers: many times as fast as trunc."""
    return numbers.to(torch.int32)


def _surely_inside(whole: torch.Tensor, block: Block) -> bool:
    """Whether all rows are inside by a margin wider than any rounding; no may mean maybe."""
    squared = whole.square().sum(dim=1, dtype=torch.float64)
    return bool((squared <= _limit(block) * (1 - 2.0**-22)).all())


def _inside(whole: torch.Tensor, block: Block) -> torch.Tensor:
    """Which rows of integers in float64 are inside their bound, exactly."""
    return whole.square().sum(dim=1, keepdim=True) <= _limit(block)


def _bounded(rows: torch.Tensor, whole: torch.Tensor, block: Block) -> torch.Tensor:
    """Rows that are inside as they are; others scaled into their bound, or else zero."""
    inside = _inside(whole, block)
    if bool(inside.all()):
        return whole
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    unit = math.sqrt(block.bound_squared) * 2.0**block.bits
    shrunk = _truncated(rows * (unit / (norm * _SHRINK))).to(torch.float64)
    return torch.where(inside, whole, torch.where(_inside(shrunk, block), shrunk, 0.0))


def _limit(block: Block) -> int:
    return int(block.bound_squared * 4**block.bits)


def _largest(block: Block) -> int:
    """No integer of a bounded row is larger."""
    return math.isqrt(_limit(block)) + 1


def check_grid(block: Block, block_rows: int, rows_about: int | None) -> None:
    """Refuse a block whose sums could leave the exact range; public numbers only."""
    check_block(block)
    largest = _largest(block)
    if block_rows * largest > 2**53 or (rows_about or 0) * largest > 2**60:
        raise ValueError(f"block {block.name}: too many rows for its grid; use fewer bits")


def check_block(block: Block) -> None:
    """Refuse a block that no release has; public numbers only."""
    if not 0 <= block.bits <= _MOST_BITS:
        raise ValueError(f"block {block.name}: grid bits must lie in 0..{_MOST_BITS}")
    if block.length < 1 or block.bound_squared < 1 or not 0 < block.weight < math.inf:
        raise ValueError(f"block {block.name}: length, bound and weight must be positive")
    if _limit(block) >= 2**53:
        raise ValueError(f"block {block.name}: the bound is too large for its grid")


def count_marks(
    totals: torch.Tensor, grid: torch.Tensor, codes: torch.Tensor, block: Block
) -> None:
    """Count the marks of each class: add 2^bits, which is 1, at every place of int64 totals.

    Privacy: exact, like :func:`class_sums`.
    """
    there = grid < block.length
    flat = (codes[:, None] * block.length + grid)[there]
    totals.view(-1).index_add_(0, flat, torch.full_like(flat, 2**block.bits))


def class_sums(grid: torch.Tensor, codes: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Exact sums of the rows of each class, as int64 of shape (classes, length).

    ``codes`` (B,) holds each row's class. Rows are added in float, so many at once that every
    partial sum is an integer in the exact range, and the parts in int64.

    Privacy: exact, so that neither the order of rows nor how they were cut can show.
    """
    if grid.is_complex():
        pairs = class_sums(torch.view_as_real(grid).flatten(1), codes, n_classes)
        return torch.cat([pairs[:, 0::2], pairs[:, 1::2]], dim=1)
    at_once = _rows_at_once(grid)
    if at_once < min(_FEWEST_ROWS, len(grid)):
        grid = grid.to(torch.float64)
        at_once = _rows_at_once(grid)
    parts = zip(torch.split(grid, at_once), torch.split(codes, at_once), strict=True)
    empty = torch.zeros(n_classes, grid.shape[1], dtype=grid.dtype)
    sums = (empty.index_add(0, own, rows).to(torch.int64) for rows, own in parts)
    return functools.reduce(torch.Tensor.add_, sums)


def _rows_at_once(grid: torch.Tensor) -> int:
    """How many rows surely add up within the exact range of their type."""
    if grid.numel() == 0:
        return 1
    least, most = torch.aminmax(grid)
    return max(1, int(_EXACT_BELOW[grid.dtype] // max(-float(least), float(most), 1.0)))
