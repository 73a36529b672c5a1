"""One self-contained HTML file about synthetic rows or a classifier, and its JSON twin."""

from __future__ import annotations

import json
from pathlib import Path

from dpgist.artefact import refuse_bad_output
from dpgist.classify.folder import ClassifierFiles
from dpgist.outputs import Outputs, write_text
from dpgist.report.advice import advise, in_order
from dpgist.report.classifier import ClassifierContent, write_classifier_report
from dpgist.report.content import Content
from dpgist.report.folder import Folder, read_folder
from dpgist.report.inside import look_inside
from dpgist.report.outside import Against, look_outside
from dpgist.report.outside_advice import advise_outside
from dpgist.report.page import render

__all__ = [
    "Against",
    "ClassifierContent",
    "Content",
    "holds_classifier",
    "write_classifier_report",
    "write_report",
]


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


def holds_classifier(folder: Path) -> bool:
    """Whether a folder holds a classifier and no gist, so that its report is about that.

    Privacy: looks at file names only.
    """
    gist = Outputs(folder=folder).gist
    return ClassifierFiles(folder=folder).maps.is_file() and not gist.is_file()


def _content(found: Folder, against: Against | None) -> Content:
    inside = look_inside(found.gist, found.model, found.rows)
    card, advice = found.gist.card_dict(), list(advise(found.gist, inside))
    if against is None:
        return Content(card=card, inside=inside, outside=None, advice=in_order(advice))
    outside = look_outside(found, against)
    advice += advise_outside(outside, found.gist)
    return Content(card=card, inside=inside, outside=outside, advice=in_order(advice))
