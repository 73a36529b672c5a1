"""The verb that compares synthetic rows with real ones: evaluate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dpgist import workflow
from dpgist.artefact import refuse_bad_output
from dpgist.cli.console import app, note, notes
from dpgist.gist import read_gist
from dpgist.outputs import write_text
from dpgist.schema import Schema


@app.command("evaluate")
def evaluate_verb(
    real: Annotated[
        Path, typer.Option(help="Real TEST rows, best those that no release has seen.")
    ],
    synthetic: Annotated[Path, typer.Option(help="The synthetic rows.")],
    schema: Annotated[Path, typer.Option(help="Schema file (TOML), public facts only.")],
    train: Annotated[
        Path | None, typer.Option(help="The real rows that were released: a reference.")
    ] = None,
    gist: Annotated[
        Path | None,
        typer.Option(help="The gist behind the rows: adds the references noise and independent."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="A column whose every value is scored on its own.")
    ] = None,
    classifiers: Annotated[
        str, typer.Option(help="three quick ones, or the twelve of the papers.")
    ] = "three",
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger that notes this unprotected look.")
    ] = None,
    inception: Annotated[
        Path | None, typer.Option(help="For images: a file of Inception weights.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the JSON here, too.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Same seed, same classifiers and questions.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing outputs.")] = False,
) -> None:
    """Score synthetic rows against real ones: how useful they are, and how alike.

    **The result is outside the guarantee**: it is computed from real rows without noise.
    Classifiers are trained on the synthetic rows and tested on the real ones; marginals, range
    queries and dependence are compared. References tell what a score is worth.

    Example: `dpgist evaluate --real test.csv --synthetic synthetic.parquet --schema patients.toml
    --train patients.csv --gist patients.gist --ledger patients.ledger --group sex`
    """
    if out is not None:
        read = [real, synthetic, schema, train, gist, ledger, inception]
        refuse_bad_output(out, force=force, inputs=read)
    facts = Schema.load(schema)
    released = None if gist is None else read_gist(gist)
    if ledger is None:
        note("no --ledger given: this unprotected look at real rows is noted nowhere")
    with evaluation_bar() as progress:
        found = workflow.evaluate(
            real,
            synthetic,
            facts,
            train=train,
            gist=released,
            groups=tuple(group or ()),
            classifiers=classifiers,
            ledger=ledger,
            inception=inception,
            progress=progress,
            seed=seed,
        )
    text = json.dumps(found.to_dict(), indent=2)
    if out is not None:
        write_text(text + "\n", out, force=force)
    typer.echo(text if as_json else found.table())
    note(f"took {found.seconds:.0f} s")


@contextmanager
def evaluation_bar() -> Iterator[Callable[[int, int, str], None]]:
    """A bar with what is being done, fed by (done, total, what)."""
    columns = (
        TextColumn("evaluating"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}"),
    )
    with Progress(*columns, console=notes) as progress:
        task = progress.add_task("evaluating", what="", total=None)

        def update(done: int, total: int, what: str) -> None:
            progress.update(task, completed=done, total=total, what=what)

        yield update
