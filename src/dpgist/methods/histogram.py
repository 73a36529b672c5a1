"""A first stage that counts every column's finest public cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpgist.encode import Encoder
from dpgist.features.binning import Binning, Resolution, binning
from dpgist.features.leaves import Leaves
from dpgist.features.marginal import LeafMap
from dpgist.privacy.plan import COUNTS, Block, Query
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema

LEAVES = "leaves"
BITS = 20
"""A row at its bound may be truncated by one step of the grid, which must be next to nothing."""
_LEAST_BIN = 0.2  # of the mass that bins have on average
_LEAST = 2.0  # noise stds that a bin or a group has to stand out by
_LEAST_CELL = 4.0  # the same for a cell, whose share within its bin comes from stage one alone
_NO_ROWS = 10_000  # assumed where neither the release nor the schema knows any better


def leaf_query(encoder: Encoder, leaves: Sequence[Leaves], recipe: Mapping[str, Any]) -> Query:
    """What the first stage asks: the leaves of every column and the tree above them.

    Privacy: built from the schema alone.
    """
    row_map = LeafMap(leaves)
    block = Block(
        name=LEAVES,
        length=row_map.length,
        bits=BITS,
        bound_squared=row_map.bound_squared,
        non_negative=True,
    )
    recipe = {**recipe, "stage": LEAVES}
    return Query(encoder=encoder, row_map=row_map, blocks=(block,), batched=True, recipe=recipe)


def released_total(stage: ReleasedStage, schema: Schema) -> float:
    """How many rows a stage counted, or were declared if its count drowned in the noise.

    Privacy: post-processing of a release.
    """
    total = float(stage[COUNTS].sums().sum())
    return total if total >= 1 else float(schema.rows_about or _NO_ROWS)


def cut_columns(
    leaves: Sequence[Leaves],
    stage: ReleasedStage,
    *,
    total: float,
    cells: int,
    bins: int,
    groups: int,
) -> list[Binning]:
    """Cut every column by what the first stage counted.

    ``cells`` and ``bins`` are at most so many of a numeric column, ``groups`` of a choice;
    ``total`` is how many rows there are.

    Privacy: post-processing of a release.
    """
    noise = stage[LEAVES].noise_std
    resolution = Resolution(
        cells=max(cells, bins),
        bins=bins,
        groups=groups,
        least_cell=_LEAST_CELL * noise,
        least=_LEAST * noise,
        least_bin=max(_LEAST * noise, _LEAST_BIN * total / bins),
    )
    counts = LeafMap(leaves).by_column(stage[LEAVES].sums()[0])
    return [
        binning(own, levels, total, resolution) for own, levels in zip(leaves, counts, strict=True)
    ]
