"""What a report says by comparing with real rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpgist.evaluate.scores import Evaluation


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Scores and comparisons with real rows."""

    evaluation: Evaluation
    comparison: Any

    def to_dict(self) -> dict[str, Any]:
        return {}
