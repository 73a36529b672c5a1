"""What a release is made of: relation, budget, blocks, queries, stages, plans.

Everything in this file is public by definition; no field may depend on a private row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from torch import nn

from dpgist.encode import Encoder


class Relation(StrEnum):
    """Which two tables count as neighbours.

    Privacy: public; the unit that a guarantee protects.
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"


_LARGEST_EPSILON, _SMALLEST_DELTA = 1e6, 1e-300


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much one release may reveal: (epsilon, delta) under a neighbouring relation.

    Privacy: public; states a promise, reads nothing.
    """

    epsilon: float
    delta: float
    relation: Relation = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", Relation(self.relation))
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon must be a finite number above 0, got {self.epsilon}")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {self.delta}")
        if self.epsilon > _LARGEST_EPSILON or self.delta < _SMALLEST_DELTA:
            raise ValueError(
                f"epsilon must be at most {_LARGEST_EPSILON:g} and delta at least "
                f"{_SMALLEST_DELTA:g}: beyond, they cannot be computed with"
            )


@dataclass(frozen=True, kw_only=True)
class Block:
    """One part of the released vector and the bound that the curator makes true.

    A row fills ``length`` numbers on the grid 2^-bits whose squared norm is at most
    ``bound_squared``. A ``labelled`` block has one such vector per class, and a row enters only
    its own class's. ``weight`` shares the noise between blocks (larger is more precise) and
    nothing else. A ``constant`` block holds the same numbers for every row: the counts, no other.
    """

    name: str
    length: int
    weight: float = 1.0
    bits: int = 20
    bound_squared: int = 1
    non_negative: bool = False
    labelled: bool = False
    constant: bool = False


COUNTS = "counts"
HEALTH = "health"


@dataclass(frozen=True, kw_only=True)
class Query:
    """What one stage asks of the rows.

    ``row_map`` maps encoded rows (B, encoder.width) to a tuple of (B, length) tensors, one for
    each of ``blocks``. The curator itself appends the counts block and, in the last stage, the
    health block. ``recipe`` is the public JSON from which any process rebuilds this query.
    ``batched`` is for maps that pass T-ROWWISE on whole blocks; any other ``row_map`` is written
    for a single row (width,) and run under vmap.
    """

    encoder: Encoder
    row_map: nn.Module
    blocks: tuple[Block, ...]
    recipe: Mapping[str, Any]
    batched: bool = False


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A share of the plan's mu^2 and the query it pays for.

    ``query`` is called with what the earlier stages released (nothing for the first), so a later
    stage can depend on the private rows only through paid releases.
    """

    share: Fraction
    query: Callable[[tuple[Any, ...]], Query]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One or more stages charged as ONE ledger entry."""

    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages or sum(stage.share for stage in self.stages) != 1:
            raise ValueError("the shares of a plan's stages must add up to exactly 1")
        if any(stage.share <= 0 for stage in self.stages):
            raise ValueError("every stage needs a share above 0")
