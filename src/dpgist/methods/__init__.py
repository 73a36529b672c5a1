"""The methods: each holds its public settings and says what to release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol

from torch import nn

from dpgist.errors import DataError
from dpgist.methods.hermite import Hermite
from dpgist.methods.marginal import Marginal
from dpgist.methods.merf import Merf, suggest_features
from dpgist.methods.pearl import Pearl
from dpgist.methods.scattering import Scattering
from dpgist.methods.stages import settings
from dpgist.privacy.plan import Budget, Plan
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema

__all__ = [
    "METHODS",
    "Hermite",
    "Marginal",
    "Merf",
    "Method",
    "Pearl",
    "Scattering",
    "method_from",
    "settings",
    "suggest_features",
]


class Method(Protocol):
    """Public settings and the plan they make; whatever depends on data is no part of it.

    ``settled`` makes the choices that depend on the budget, so that what is stored in a gist says
    it all; ``row_map`` is the map of the last stage, for training.

    Privacy: public by definition.
    """

    name: ClassVar[str]

    def settled(self, schema: Schema, budget: Budget) -> Method: ...

    def plan(self, schema: Schema, *, budget: Budget, feature_seed: int) -> Plan: ...

    def row_map(
        self, schema: Schema, *, feature_seed: int, released: tuple[ReleasedStage, ...] = ()
    ) -> nn.Module: ...


METHODS: dict[str, type[Hermite | Marginal | Merf | Pearl | Scattering]] = {
    kind.name: kind for kind in (Hermite, Marginal, Merf, Pearl, Scattering)
}

_BEFORE: dict[str, dict[str, Any]] = {Merf.name: {"image_law": "real"}}
"""What artefacts meant that were written before a setting existed."""


def method_from(name: str, settings: Mapping[str, Any]) -> Method:
    """Rebuild a method from its name and settings, as read from an artefact.

    Privacy: public facts only.
    """
    if name not in METHODS:
        raise DataError(f"unknown method {name!r}; there are {', '.join(METHODS)}")
    kind = METHODS[name]
    unknown = set(settings) - {field.name for field in fields(kind)}
    if unknown:
        raise DataError(f"method {name}: unknown settings {sorted(unknown)}")
    try:
        return kind(**{**_BEFORE.get(name, {}), **settings})
    except (TypeError, ValueError) as error:
        raise DataError(f"method {name}: {error}") from error
