"""One self-contained HTML file about synthetic rows, and its JSON twin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpgist.artefact import refuse_bad_output
from dpgist.errors import DataError
from dpgist.evaluate.steps import Progress
from dpgist.outputs import write_text
from dpgist.report.advice import advise, in_order
from dpgist.report.content import Content
from dpgist.report.folder import Folder, read_folder
from dpgist.report.inside import look_inside
from dpgist.report.outside import Outside, look_outside
from dpgist.report.outside_advice import advise_outside
from dpgist.report.page import render
from dpgist.workflow import check_table

__all__ = ["Against", "Content", "write_report"]


@dataclass(frozen=True, kw_only=True)
class Against:
    """The real rows a report compares with, and how.

    ``real`` are rows that were not released; ``train`` the released ones, for the reference
    "real". Each is a table or a path. ``groups`` are columns whose values are scored one by one.
    ``references`` makes the references "independent" and "noise", which takes two more trainings.

    Privacy: holds private rows or their paths; what is made of them is outside the guarantee.
    """

    real: Any
    train: Any = None
    groups: Sequence[str] = ()
    classifiers: str = "three"
    references: bool = True
    seed: int = 0
    progress: Progress | None = None

    def __repr__(self) -> str:
        return "<real rows to compare with>"


def write_report(
    folder: Path,
    *,
    against: Against | None = None,
    ledger: Path | None = None,
    force: bool = False,
) -> Content:
    """Write report.html and report.json into a folder that synthesize wrote.

    Args:
        folder: holds release.gist and whatever else synthesize left there.
        against: real rows to compare with; None makes a report from the gist, the model and the
            synthetic rows alone.
        ledger: where the look at real rows is noted; None takes the folder's own, if any.
        force: overwrite an existing report.

    Privacy: without ``against`` post-processing of a release, inside the guarantee. With it the
    report is outside the guarantee, says so, and the ledger notes the look before a row is read.
    """
    page, twin = folder / "report.html", folder / "report.json"
    found = read_folder(folder, ledger=ledger)
    for path in (page, twin):
        refuse_bad_output(path, force=force)
    content = _content(found, against)
    write_text(render(content, found.images), page, force=force)
    write_text(json.dumps(content.to_dict(), indent=2, allow_nan=False), twin, force=force)
    return content


def _content(found: Folder, against: Against | None) -> Content:
    inside = look_inside(found.gist, found.model, found.rows)
    card, advice = found.gist.card_dict(), list(advise(found.gist, inside))
    if against is None:
        return Content(card=card, inside=inside, outside=None, advice=in_order(advice))
    look, outside = _outside(found, against)
    advice += advise_outside(outside, found.gist)
    return Content(card=card, inside=inside, outside=outside, advice=in_order(advice), look=look)


def _outside(found: Folder, against: Against) -> tuple[str, Outside]:
    if found.rows is None:
        raise DataError(f"there are no synthetic rows in {found.path} to compare with real ones")
    for table in (against.real, against.train):
        if table is not None:
            check_table(table, found.gist.schema)  # reads headers only
    look = note_look(found)
    outside = look_outside(
        found,
        real=against.real,
        train=against.train,
        groups=against.groups,
        classifiers=against.classifiers,
        references=against.references,
        seed=against.seed,
        progress=against.progress,
    )
    return look, outside


def note_look(found: Folder) -> str:
    """Note in the ledger, before a real row is read, that a report looks at real rows.

    Privacy: writes a line; reads no row.
    """
    if found.ledger is None:
        return "There was no ledger in the folder, so that this look at real rows is noted nowhere."
    found.ledger.note_look("report: synthetic rows compared with real ones")
    line = found.ledger.entries()[-1].sequence
    return f"This look is noted in the ledger {found.ledger.name!r} as line {line}."
