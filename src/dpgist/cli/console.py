"""What all verbs share: the app, words on stderr, progress, and writing tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dpgist.version import __version__

app = typer.Typer(
    help="Release the gist of your data once, privately. Synthesise for ever.\n\n"
    "A typical day: write a schema, look at `dpgist plan`, make a ledger, then `dpgist release`"
    " (reads the private rows, once, and pays for it), `dpgist train` and `dpgist sample` (free)."
    " `dpgist synthesize` does all three. `dpgist classify fit` reads private rows and pays, too;"
    " `dpgist evaluate` and `dpgist report --real` look at real rows outside any guarantee.\n\n"
    "Try it without any data: `dpgist demo`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dpgist {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version  # has been printed


GeneratorKind = Annotated[
    str,
    typer.Option(
        help="auto; mixture or network for tables (mixture is the default); conv or upsampling for"
        " images."
    ),
]
Critic = Annotated[
    bool | None,
    typer.Option(
        "--critic/--no-critic",
        help="Re-weigh the frequencies of method pearl while training. Default: yes, with pearl.",
    ),
]
notes = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    """Say on stderr what went wrong."""
    notes.print(f"dpgist: {message}", style="red", markup=False)


def note(message: str) -> None:
    """Say something on stderr that is not a result."""
    notes.print(message, markup=False)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something runs of which nobody knows how long it takes."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=notes, transient=True) as progress:
        progress.add_task(what)
        yield


@contextmanager
def private_pass() -> Iterator[None]:
    """Show that the private pass runs: elapsed time and no count, which would tell the rows."""
    try:
        with working("private pass"):
            yield
    except KeyboardInterrupt:
        note("stopped; a charge that was already made stays spent (see dpgist ledger show)")
        raise


@contextmanager
def training_bar() -> Iterator[Callable[[int, int, float], None]]:
    """A bar with the loss and the time left, fed by (step, steps, loss)."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("loss {task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=notes) as progress:
        task = progress.add_task("training", loss="-", total=None)

        def update(step: int, steps: int, loss: float) -> None:
            progress.update(task, completed=step, total=steps, loss=f"{loss:.3g}")

        yield update
