"""Verbs of the private classifier that explains itself: classify fit, predict, explain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer

from dpgist.artefact import new_file, refuse_bad_output
from dpgist.classify import plots
from dpgist.classify.estimator import LocallyLinearMaps
from dpgist.classify.explain import explain
from dpgist.classify.folder import ClassifierFiles, classifier_file, read_classifier
from dpgist.classify.maps import Maps
from dpgist.classify.setup import Setup
from dpgist.classify.statement import statement, statement_text
from dpgist.classify.tables import encoded_rows
from dpgist.classify.words import global_dict, global_text, local_dicts, local_text
from dpgist.cli.console import app, note
from dpgist.cli.private import (
    Data,
    Delta,
    Epsilon,
    RelationName,
    SchemaFile,
    Seed,
    charging,
)
from dpgist.errors import DataError
from dpgist.outputs import write_text
from dpgist.plots import write_png
from dpgist.privacy.plan import Budget, Relation
from dpgist.schema import Schema
from dpgist.workflow import check_table

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
TABLE_MAPS, IMAGE_MAPS = 2, 10
OWN_ROWS = (
    "read rows to classify without any protection: what comes out is as confidential as these"
    " rows; the classifier itself stays inside its guarantee"
)


@classify_app.command("fit")
def fit_verb(
    data: Data,
    schema: SchemaFile,
    epsilon: Epsilon,
    delta: Delta,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    ledger: Annotated[
        Path | None,
        typer.Option(help="The ledger to charge. Default: a new one in the folder, for this only."),
    ] = None,
    relation: RelationName = Relation.ADD_REMOVE,
    maps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Linear maps per class: 1 is logistic regression, few are easy to read."
            f" Default: {TABLE_MAPS} for tables, {IMAGE_MAPS} for images.",
        ),
    ] = None,
    projection: Annotated[
        str,
        typer.Option(
            help="auto; none: the columns or pixels themselves; or a number of features of a random"
            " projection, which helps wide inputs and blurs explanations."
        ),
    ] = "auto",
    copies: Annotated[
        int | None,
        typer.Option(
            help="Images: 5 or 9 train on each in so many copies, moved by a pixel, at no cost in"
            " privacy, and average predictions over them. Helps where place does not matter."
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0, help="Inverse temperature: how much a class's best map prevails."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The PUBLIC row count, about. Default: the schema's rows_about, else a part of the"
            " budget pays for a noisy count.",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Noisy gradient steps.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Probability with which a row is in a step.")
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Bound on the gradient of one row.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check schema, header and settings; read no row.")
    ] = False,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Fit a private classifier of the schema's label: the only verb here that reads private rows.

    Writes classifier.maps, card.txt, card.json, plots/filters.png and, without --ledger,
    ledger.sqlite whose cap is this fit. The ledger is charged before the first row is read.
    Every setting must be chosen without looking at the private rows: trying several and keeping
    the best costs the budget of each.

    Example: `dpgist classify fit patients.csv --schema patients.toml --epsilon 1 --delta 1e-6
    --out patients-classifier`
    """
    facts, budget = Schema.load(schema), Budget(epsilon=epsilon, delta=delta, relation=relation)
    if facts.label is None:
        raise DataError("the schema names no label, so there is nothing to classify; add it")
    usual = TABLE_MAPS if facts.image is None else IMAGE_MAPS
    asked = {
        "copies": copies,
        "temperature": temperature,
        "steps": steps,
        "rate": rate,
        "clip": clip,
    }
    model = LocallyLinearMaps(
        schema=facts,
        maps=usual if maps is None else maps,
        projection=_projection(projection),
        rows=rows,
        random_state=seed,
    ).set_params(**{name: value for name, value in asked.items() if value is not None})
    Setup(model, facts, budget)  # refuses bad settings before anything is spent
    check_table(data, facts)
    if dry_run:
        typer.echo(f"ok: the header of {data} agrees with the schema; no row was read")
        return
    files = ClassifierFiles(folder=out, force=force)
    files.prepare(inputs=[data, schema, ledger])
    with charging(ledger, files, facts, budget) as book:
        model.fit(data, budget=budget, ledger=book)
    _save(model.maps_, facts, files)
    typer.echo(str(out))


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
    refuse_bad_output(out, force=force, inputs=[classifier_file(folder), data])
    note(OWN_ROWS)
    shares = maps.probabilities(_read(data, schema))
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
        read = [classifier_file(folder), data, *(_place(text)[0] for text in row or [])]
        refuse_bad_output(picture, force=force, inputs=read)
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


def _save(maps: Maps, schema: Schema, files: ClassifierFiles) -> None:
    """The maps first of all, because they are what was paid for."""
    maps.save(files.maps, force=files.force)
    files.discard_reports()
    card = statement(maps, schema)
    write_text(statement_text(card), files.card_text, force=files.force)
    write_text(json.dumps(card, indent=2), files.card_json, force=files.force)
    write_png(plots.bank_figure(maps, schema), files.plot("filters"), force=files.force)


def _projection(text: str) -> str | int | None:
    if text in ("auto", "none"):
        return None if text == "none" else text
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("--projection must be auto, none or a number of features")
    return int(text)


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
    note(OWN_ROWS)
    rows = {path: _read(path, schema) for path in tables}
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


def _read(data: Path, schema: Schema) -> npt.NDArray[np.float64]:
    """Encoded rows; a cell that breaks the schema is read by its rules and never complained of."""
    with np.errstate(all="ignore"):
        return encoded_rows(data, schema)


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
