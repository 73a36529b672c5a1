"""The verb that makes a report: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpgist.cli.console import app, note
from dpgist.cli.scores import evaluation_bar
from dpgist.report import Against, holds_classifier, write_classifier_report, write_report


@app.command("report")
def report_verb(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="What `dpgist synthesize` or `dpgist classify fit` wrote."
        ),
    ],
    real: Annotated[
        Path | None,
        typer.Option(
            help="Real rows to compare with, best ones that were not released. The report is then"
            " OUTSIDE the guarantee."
        ),
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="The released rows, as a reference beside the scores.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Score the values of this column one by one.")
    ] = None,
    classifiers: Annotated[
        str, typer.Option(help="three, or the twelve of the papers, which take longer.")
    ] = "three",
    ledger: Annotated[
        Path | None,
        typer.Option(help="Where to note the look at real rows. Default: the folder's own ledger."),
    ] = None,
    inception: Annotated[
        Path | None, typer.Option(help="For images: a file of Inception weights.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of classifiers and references.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing report.")] = False,
) -> None:
    """Write report.html and report.json: the privacy card, the noise, the training, the rows.

    Without --real nothing private is read: the report is **inside the guarantee** and may be
    shared. With --real it holds scores against real rows, without noise: it says that these are
    **outside the guarantee**, and the ledger notes the look.

    For a folder of `dpgist classify fit` it shows the card and what drives each class.

    Example: `dpgist report patients-synthetic --real patients-test.csv --group sex`
    """
    if holds_classifier(folder):
        if real is not None or train is not None or group:
            raise ValueError("a classifier has no synthetic rows to compare; drop --real and such")
        note(write_classifier_report(folder, force=force).stamp)
        typer.echo(str(folder / "report.html"))
        return
    if real is None:
        if train is not None or group:
            raise ValueError("--train and --group compare with real rows; pass --real too")
        content = write_report(folder, ledger=ledger, force=force)
    else:
        with evaluation_bar() as progress:
            against = Against(
                real=real,
                train=train,
                groups=tuple(group or ()),
                classifiers=classifiers,
                inception=inception,
                seed=seed,
                progress=progress,
            )
            content = write_report(folder, against=against, ledger=ledger, force=force)
    note(content.stamp)
    typer.echo(str(folder / "report.html"))
