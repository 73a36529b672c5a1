"""What the methods share: settings and recipes as data, and plans of two stages."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from dpgist.privacy.plan import Plan, Query, Stage
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema


class Named(Protocol):
    """Settings with a method's name. Privacy: public by definition."""

    @property
    def name(self) -> str: ...


def settings(method: Named) -> dict[str, Any]:
    """A method's settings as JSON-able data.

    Privacy: public facts only.
    """
    return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(method).items()}


def recipe_of(method: Named, schema: Schema, feature_seed: int) -> dict[str, Any]:
    """What any process needs to rebuild a method's queries.

    Privacy: public facts only.
    """
    return {
        "method": method.name,
        "settings": settings(method),
        "schema": schema.to_dict(),
        "feature_seed": feature_seed,
    }


def two_stages(
    first: Query, then: Callable[[tuple[ReleasedStage, ...]], Query], *, share: float
) -> Plan:
    """A plan that spends ``share`` of its budget on a first query, on which the second depends.

    Privacy: the second query sees the rows only through what the first one has paid for.
    """
    paid = Fraction(share).limit_denominator(1000)
    return Plan(
        stages=(
            Stage(share=paid, query=lambda released: first),
            Stage(share=1 - paid, query=then),
        )
    )


def refuse_bad_share(field: str, share: float) -> None:
    """Refuse a share that would leave a stage with next to nothing. Privacy: public facts only."""
    if not 0.001 <= share <= 0.999:
        raise ValueError(f"{field} must lie between 0.001 and 0.999, got {share}")
