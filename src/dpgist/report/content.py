"""Everything a report says, as data: the page shows it, and the JSON twin holds it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from dpgist.card import REHEARSAL
from dpgist.report.advice import Advice
from dpgist.report.inside import Inside
from dpgist.report.outside import Outside
from dpgist.version import __version__

FORMAT = 1
INSIDE_STAMP = (
    "Inside the guarantee. Everything in this report was made from {sources}. No real row was read,"
    " so sharing this report costs no privacy beyond what the card states."
)
OUTSIDE_STAMP = (
    "Part of this report is outside the guarantee: it compares with real rows, without noise."
    " Keep the whole file as confidential as those rows. For one that may be shared, run"
    " dpgist report without --real."
)


@dataclass(frozen=True, kw_only=True)
class Content:
    """One report.

    ``outside`` is None for a report that was made without a real row.

    Privacy: inside the guarantee if ``outside`` is None; else as private as the real rows.
    """

    card: dict[str, Any]
    inside: Inside
    outside: Outside | None
    advice: tuple[Advice, ...]

    @property
    def title(self) -> str:
        return str(self.card["table"])

    @property
    def stamp(self) -> str:
        """What may be done with this report, in words."""
        inside = INSIDE_STAMP.format(sources=_sources(self.inside))
        words = inside if self.outside is None else OUTSIDE_STAMP
        return f"{REHEARSAL} {words}" if self.card["rehearsal"] else words

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; what is not a finite number becomes null.

        Privacy: as private as the content itself.
        """
        found: dict[str, Any] = _finite(
            {
                "format": FORMAT,
                "version": __version__,
                "inside_the_guarantee": self.outside is None and not self.card["rehearsal"],
                "stamp": self.stamp,
                "card": self.card,
                "inside": asdict(self.inside),
                "outside": None if self.outside is None else self.outside.to_dict(),
                "advice": [asdict(piece) for piece in self.advice],
            }
        )
        return found


def _sources(inside: Inside) -> str:
    if inside.n_synthetic is not None:
        return (
            "the released gist, the model trained from it and the synthetic rows drawn from that"
            " model"
        )
    if inside.curve is not None:
        return "the released gist and the model trained from it"
    return "the released gist"


def _finite(value: Any) -> Any:
    """The same with None for NaN and infinities, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
