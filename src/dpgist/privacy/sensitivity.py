r"""How far one person can move the released vector: the only place that knows.

For a block b with row bound B_b, weight w_b and grid noise s_b, let d_b^2 be the largest squared
distance between what two neighbouring tables put into b, per row:

====================  ==========  ===========================================
relation              labels      d_b^2
====================  ==========  ===========================================
add_remove            any         B_b^2 (one row more or less)
replace_one           equal       4 B_b^2; 2 B_b^2 if non-negative; 0 if constant
replace_one           different   2 B_b^2 for labelled blocks (two orthogonal
                                  rows); as above for the others
====================  ==========  ===========================================

Then the weighted sensitivity is k sqrt(max over cases of sum_b w_b^2 d_b^2) for k rows per person
(triangle inequality), and the release is mu-GDP with mu^2 = k^2 max over cases of
sum_b d_b^2 4^F_b / s_b^2. All sums are exact rationals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dpgist.errors import PrivacyError
from dpgist.privacy.accounting import MU_SQUARED_UNITS, mu_from_units, units_of
from dpgist.privacy.plan import COUNTS, Block, Relation
from dpgist.privacy.released import Released, ReleasedBlock

_ROUND_UP = 1 + 2.0**-40


def l2_sensitivity(blocks: Sequence[Block], relation: Relation, rows_per_person: int) -> float:
    """Weighted L2 sensitivity of the sums, rounded up.

    Guarantee: for every pair of neighbouring tables under ``relation`` in which one person has at
    most ``rows_per_person`` rows, the weighted sums differ by at most this.

    Privacy: reads block declarations only; the curator makes them true row by row.
    """
    weights = [Fraction(block.weight) ** 2 for block in blocks]
    return rows_per_person * math.sqrt(_worst_case(blocks, weights, relation)) * _ROUND_UP


def grid_noise_stds(
    blocks: Sequence[Block], relation: Relation, rows_per_person: int, *, mu_squared_units: int
) -> list[float]:
    """Noise std per block in grid units, so that the release costs at most the given mu^2.

    std_b = sensitivity / (mu w_b), in steps of 2^-F_b; rounded up, then checked exactly.
    """
    mu = math.sqrt(mu_squared_units / MU_SQUARED_UNITS)
    scale = l2_sensitivity(blocks, relation, rows_per_person) / mu * _ROUND_UP
    stds = [scale / block.weight * 2.0**block.bits for block in blocks]
    if mu_squared(blocks, stds, relation, rows_per_person) * MU_SQUARED_UNITS > mu_squared_units:
        raise AssertionError("calibration rounded the wrong way")
    return stds


def mu_squared(
    blocks: Sequence[Block], grid_stds: Sequence[float], relation: Relation, rows_per_person: int
) -> Fraction:
    """mu^2 of one joint Gaussian release, exactly.

    Guarantee: the release is sqrt(mu^2)-GDP under ``relation`` (Dong, Roth, Su 2022, Theorem 2.7;
    rows per person by the triangle inequality).
    """
    weights = [
        Fraction(4) ** block.bits / Fraction(std) ** 2
        for block, std in zip(blocks, grid_stds, strict=True)
    ]
    return rows_per_person**2 * _worst_case(blocks, weights, relation)


def mu_under(released: Released, relation: Relation) -> float | None:
    """The mu of a release under a relation, rounded up; None where it has no such guarantee.

    A replace_one release publishes the row count, so add/remove has no reading of it.
    """
    if relation == released.budget.relation:
        return mu_from_units(released.mu_squared_units)
    if relation == Relation.ADD_REMOVE:
        return None
    total = sum(
        mu_squared(*_blocks_and_stds(stage.blocks), relation, released.max_rows_per_person)
        for stage in released.stages
    )
    return mu_from_units(math.ceil(total * MU_SQUARED_UNITS))


def check_claim(released: Released) -> None:
    """Refuse a release whose noise does not support what it claims to have cost.

    Whoever reads a gist can check its guarantee against its own numbers; this does.
    """
    per_person = released.max_rows_per_person
    total = Fraction(0)
    for stage in released.stages:
        blocks, stds = _blocks_and_stds(stage.blocks)
        if any(block.constant and block.name != COUNTS for block in blocks):
            raise PrivacyError("only the counts are known to be the same for every row")
        total += mu_squared(blocks, stds, released.budget.relation, per_person)
    if total * MU_SQUARED_UNITS > released.mu_squared_units:
        raise PrivacyError("the noise is smaller than the stated mu needs")
    if released.mu_squared_units > units_of(released.budget):
        raise PrivacyError("the stated mu is larger than the stated epsilon and delta allow")


def _blocks_and_stds(released: Sequence[ReleasedBlock]) -> tuple[list[Block], list[float]]:
    return [part.block for part in released], [part.grid_noise_std for part in released]


def _worst_case(
    blocks: Sequence[Block], weights: Sequence[Fraction], relation: Relation
) -> Fraction:
    """Largest weighted squared distance over the ways in which two rows can differ."""
    return max(
        sum(
            (
                weight * _squared_distance(block, relation, same_label=same_label)
                for block, weight in zip(blocks, weights, strict=True)
            ),
            start=Fraction(0),
        )
        for same_label in (True, False)
    )


def _squared_distance(block: Block, relation: Relation, *, same_label: bool) -> int:
    """d_b^2 of the table above."""
    if relation == Relation.ADD_REMOVE:
        return block.bound_squared
    if block.labelled and not same_label:
        return 2 * block.bound_squared
    if block.constant:
        return 0
    return (2 if block.non_negative else 4) * block.bound_squared
