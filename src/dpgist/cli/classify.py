"""Verbs of the private classifier that explains itself: classify fit, predict, explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer

from dpgist.artefact import new_file, refuse_bad_output
from dpgist.classify import plots
from dpgist.classify.explain import explain
from dpgist.classify.folder import read_classifier
from dpgist.classify.inputs import check_inputs, read_inputs
from dpgist.classify.maps import Maps
from dpgist.classify.words import global_dict, global_text, local_dicts, local_text
from dpgist.cli.console import app, note
from dpgist.plots import write_png
from dpgist.schema import Schema

classify_app = typer.Typer(
    help="Fit a private classifier, use it, and see why it decides.\n\n"
    "Locally linear maps: each class has a few linear scores of the columns, and an input gets the"
    " class whose best map fits it best. `fit` is the only verb that reads private rows; what it"
    " writes may be shared. `explain` tells which columns drive each class, in their own units.",
    rich_markup_mode="markdown",
)
app.add_typer(classify_app, name="classify", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="What `dpgist classify fit` wrote.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing outputs.")]
OWN_ROWS = (
    "read rows to classify without any protection: what comes out is as confidential as these"
    " rows; the classifier itself stays inside its guarantee"
)


@classify_app.command("predict")
def predict_verb(
    folder: Folder,
    data: Annotated[
        Path, typer.Argument(help="Rows to classify, with or without the label, which is not read.")
    ],
    out: Annotated[Path, typer.Option(help="Where to: .csv or .parquet.")],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column for each class.")
    ] = False,
    force: Force = False,
) -> None:
    """Predict the label of new rows: one column, named like the label, in the order of the rows.

    Costs no privacy of the rows that the classifier was fitted to. What it says about the rows you
    hand over is as confidential as they are.

    Example: `dpgist classify predict patients-classifier new.csv --out predicted.csv`
    """
    maps, schema = read_classifier(folder)
    if out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"{out}: the output must end in .csv or .parquet")
    refuse_bad_output(out, force=force)
    check_inputs(data, schema)
    note(OWN_ROWS)
    shares = maps.probabilities(read_inputs(data, schema))
    _write_predictions(_predictions(maps, schema, shares, probabilities), out, force=force)
    typer.echo(str(out))


@classify_app.command("explain")
def explain_verb(
    folder: Folder,
    row: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA:I",
            help="Explain row I of a table, counted from 0, as in patients.csv:3; repeatable.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--input", help="Explain every row of this table.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many active maps to name.")] = 3,
    columns: Annotated[int, typer.Option(min=1, help="How many columns to print.")] = 8,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw it, too: a PNG in the folder's plots/, or --out.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where to draw: a .png file. Implies --plot.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable, all columns.")] = False,
    force: Force = False,
) -> None:
    """Tell which columns drive each class, or why given rows get theirs.

    Without a row this is the **global** explanation: the filters of every class in the columns'
    own units, inside the guarantee. With --row or --input it is **local**: the maps that are
    active for that row, and what each of its cells adds to the score; this is as confidential as
    the row.

    Example: `dpgist classify explain patients-classifier`

    Example: `dpgist classify explain patients-classifier --row new.csv:0 --plot`
    """
    if row and data is not None:
        raise ValueError("--row and --input exclude each other")
    maps, schema = read_classifier(folder)
    local = bool(row) or data is not None
    picture = _picture(folder, out, plot=plot, local=local)
    if picture is not None:
        refuse_bad_output(picture, force=force)
    if local:
        figure, text = _local(maps, schema, row or [], data, top, columns, as_json=as_json)
    else:
        found = global_dict(maps, schema) if as_json else None
        text = json.dumps(found, indent=2) if as_json else global_text(maps, schema, most=columns)
        figure = plots.bank_figure(maps, schema) if picture is not None else None
    typer.echo(text)
    if picture is not None and figure is not None:
        write_png(figure, picture, force=force)
        note(f"drawn: {picture}")


def _local(
    maps: Maps,
    schema: Schema,
    chosen: list[str],
    data: Path | None,
    top: int,
    columns: int,
    *,
    as_json: bool,
) -> tuple[Any, str]:
    places = [_place(text) for text in chosen]
    tables = {path for path, _ in places} | ({data} if data is not None else set())
    for path in tables:
        check_inputs(path, schema)
    note(OWN_ROWS)
    rows = {path: read_inputs(path, schema) for path in tables}
    if data is not None:
        places = [(data, at) for at in range(len(rows[data]))]
    for path, at in places:
        if at >= len(rows[path]):
            raise ValueError(f"--row {path}:{at}: the table has no such row; they count from 0")
    width = maps.inputs
    inputs = np.array([rows[path][at] for path, at in places]).reshape(-1, width)
    found = explain(maps, inputs, top=top)
    names = [f"{path}:{at}" for path, at in places]
    figure = plots.local_figure(maps, found, schema) if places else None
    if as_json:
        pairs = zip(names, local_dicts(maps, found, schema), strict=True)
        return figure, json.dumps([{"row": name, **one} for name, one in pairs], indent=2)
    return figure, local_text(maps, found, schema, names, most=columns)


def _place(text: str) -> tuple[Path, int]:
    path, colon, at = text.rpartition(":")
    if not (path and colon and at.isdecimal()):
        raise ValueError("--row takes a table and a row number counted from 0, as in new.csv:3")
    return Path(path), int(at)


def _picture(folder: Path, out: Path | None, *, plot: bool, local: bool) -> Path | None:
    if out is not None:
        if out.suffix != ".png":
            raise ValueError(f"{out}: the drawing must end in .png")
        return out
    if not plot:
        return None
    plots_folder = (folder if folder.is_dir() else folder.parent) / "plots"
    plots_folder.mkdir(exist_ok=True)
    return plots_folder / ("rows.png" if local else "explanation.png")


def _predictions(maps: Maps, schema: Schema, shares: Any, probabilities: bool) -> pa.Table:
    label = schema.label or "class"
    names = np.array(maps.classes)[shares.argmax(axis=1)]
    columns = {label: pa.array(names.tolist(), pa.string())}
    if probabilities:
        columns |= {f"{label}={name}": shares[:, at] for at, name in enumerate(maps.classes)}
    return pa.table(columns)


def _write_predictions(table: pa.Table, path: Path, *, force: bool) -> None:
    with new_file(path, force=force) as file:
        if path.suffix == ".parquet":
            pa.parquet.write_table(table, file)
        else:
            pa.csv.write_csv(table, file)
