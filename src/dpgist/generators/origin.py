"""Where a model came from: the gist's header in its file, checked as a gist's own would be.

A checksum shows that a file is whole, not who wrote it. So nothing that a card promises is taken
from the card: it is made again from the header, whose noise must support its claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpgist.errors import ArtefactError
from dpgist.gist import gist_without_numbers
from dpgist.privacy.ledger import LedgerStamp

_SAID_TWICE = ("rehearsal", "relation", "epsilon", "delta", "max_rows_per_person")


def checked_header(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a gist that a model carries along, its card made again from its claim.

    The card keeps three things that only the released numbers tell: the noisy class counts, the
    noisy health counts, and the expected error. Raises ``ArtefactError`` if card and header
    contradict each other, and ``PrivacyError`` if the noise does not support the claim.

    Privacy: keeps a card from promising more than its release does.
    """
    gist, old = gist_without_numbers(header), header["card"]
    card = gist.card_dict()
    differs = [name for name in _SAID_TWICE if old[name] != card[name]]
    if LedgerStamp(**old["ledger"]) != gist.ledger:
        differs.append("ledger")
    if differs:
        raise ArtefactError(f"its card and its header contradict each other in {differs[0]}")
    card["class_counts"] = _with_numbers(card["class_counts"], old["class_counts"], "count")
    card["health"] = _with_numbers(card["health"], old["health"], "broken_cells")
    card["noise_error"] = {name: float(old["noise_error"][name]) for name in card["noise_error"]}
    return {**header, "card": card}


def _with_numbers(
    lines: list[dict[str, Any]], old: list[dict[str, Any]], name: str
) -> list[dict[str, Any]]:
    pairs = zip(lines, old, strict=True)
    return [{**line, name: float(numbered[name])} for line, numbered in pairs]
