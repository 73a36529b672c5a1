"""The verb that makes a report of a folder: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpgist.cli.console import app, note
from dpgist.report import write_report


@app.command("report")
def report_verb(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `dpgist synthesize` wrote.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing report.")] = False,
) -> None:
    content = write_report(folder, force=force)
    note(content.stamp)
    typer.echo(str(folder / "report.html"))
