"""One self-contained HTML file about synthetic rows, and its JSON twin."""

from __future__ import annotations

import json
from pathlib import Path

from dpgist.artefact import refuse_bad_output
from dpgist.outputs import write_text
from dpgist.report.advice import advise
from dpgist.report.content import Content
from dpgist.report.folder import read_folder
from dpgist.report.inside import look_inside
from dpgist.report.page import render

__all__ = ["Content", "write_report"]


def write_report(folder: Path, *, force: bool = False) -> Content:
    page, twin = folder / "report.html", folder / "report.json"
    found = read_folder(folder)
    for path in (page, twin):
        refuse_bad_output(path, force=force)
    inside = look_inside(found.gist, found.model, found.rows)
    content = Content(card=found.gist.card_dict(), inside=inside, outside=None, advice=advise(found.gist, inside))
    write_text(render(content, found.images), page, force=force)
    write_text(json.dumps(content.to_dict(), indent=2, allow_nan=False), twin, force=force)
    return content
