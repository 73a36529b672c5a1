"""A first stage that counts every column's finest public cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpgist.encode import Encoder
from dpgist.features.leaves import Leaves
from dpgist.features.marginal import LeafMap
from dpgist.privacy.plan import COUNTS, Block, Query
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema

LEAVES = "leaves"
BITS = 20
"""A row at its bound may be truncated by one step of the grid, which must be next to nothing."""
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
