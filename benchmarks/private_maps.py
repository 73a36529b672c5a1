"""Our classifier with the settings of the studies, as one call."""

from __future__ import annotations

from typing import Any

import dpgist as dg
from dpgist.classify.estimator import LocallyLinearMaps
from dpgist.classify.maps import Maps


def private_maps(
    table: Any, schema: dg.Schema, budget: dg.Budget, *, maps: int, seed: int, **settings: Any
) -> Maps:
    """Locally linear maps fitted privately; the library's own settings but for those given."""
    model = LocallyLinearMaps(schema=schema, maps=maps, random_state=seed, **settings)
    return model.fit(table, budget=budget).maps_
