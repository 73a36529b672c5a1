"""Where a model came from: the gist's header in its file, checked as a gist's own would be.

A checksum shows that a file is whole, not who wrote it. So nothing that a card promises is taken
from the card: it is made again from the header, whose noise must support its claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpgist.encode import Encoder
from dpgist.errors import ArtefactError
from dpgist.gist import Gist
from dpgist.privacy.ledger import LedgerStamp
from dpgist.privacy.plan import COUNTS, HEALTH, Block, Budget
from dpgist.privacy.released import Released, ReleasedBlock, ReleasedStage
from dpgist.privacy.sensitivity import check_claim
from dpgist.schema import Schema

_MOST_BITS = 62
_SAID_TWICE = ("rehearsal", "relation", "epsilon", "delta", "max_rows_per_person")


def checked_header(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a gist that a model carries along, its card made again from its claim.

    The card keeps three things that only the released numbers tell: the noisy class counts, the
    noisy health counts, and the expected error. Raises ``ArtefactError`` if card and header
    contradict each other, and ``PrivacyError`` if the noise does not support the claim.

    Privacy: keeps a card from promising more than its release does.
    """
    gist, old = _gist_without_numbers(header), header["card"]
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


def _gist_without_numbers(header: Mapping[str, Any]) -> Gist:
    """The gist behind a header, with zeros for the numbers that were released."""
    schema = Schema.from_dict(header["schema"])
    return Gist(
        released=_released(header["released"], Encoder(schema)),
        schema=schema,
        method=str(header["method"]),
        settings=dict(header["settings"]),
        feature_seed=int(header["feature_seed"]),
        table_kind=str(header["table_kind"]),
        ledger=LedgerStamp(**header["ledger"]),
        version=str(header["version"]),
        rehearsal=bool(header["rehearsal"]),
    )


def _released(header: Mapping[str, Any], encoder: Encoder) -> Released:
    n_rows = header["n_rows"]
    released = Released(
        stages=tuple(_stage(stage, encoder) for stage in header["stages"]),
        budget=Budget(**header["budget"]),
        max_rows_per_person=int(header["max_rows_per_person"]),
        sensitivity=float(header["sensitivity"]),
        mu_squared_units=int(header["mu_squared_units"]),
        n_rows=None if n_rows is None else int(n_rows),
    )
    check_claim(released)
    return released


def _stage(header: Mapping[str, Any], encoder: Encoder) -> ReleasedStage:
    blocks = tuple(_block(entry, encoder) for entry in header["blocks"])
    return ReleasedStage(blocks=blocks, mu_squared_units=int(header["mu_squared_units"]))


def _block(entry: Mapping[str, Any], encoder: Encoder) -> ReleasedBlock:
    block = Block(**entry["block"])
    # A forged size must not ask for more memory or arithmetic than there is.
    lengths = {COUNTS: 1, HEALTH: len(encoder.columns)}
    if block.length != lengths.get(block.name, block.length) or not 0 <= block.bits <= _MOST_BITS:
        raise ValueError("a block has a size that no release has")
    shape = (encoder.n_classes if block.labelled else 1, block.length)
    return ReleasedBlock(
        block=block,
        values=np.broadcast_to(np.int64(0), shape),
        grid_noise_std=float(entry["grid_noise_std"]),
    )
