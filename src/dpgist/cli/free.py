"""Verbs that need no private row: show, train, sample, demo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpgist import workflow
from dpgist.artefact import artefact_kind, refuse_bad_output
from dpgist.card import card_text
from dpgist.classify.folder import ClassifierFiles, read_classifier
from dpgist.classify.maps import KIND
from dpgist.classify.statement import statement, statement_text
from dpgist.cli.console import Critic, GeneratorKind, app, note, training_bar
from dpgist.demo import run_demo
from dpgist.errors import ArtefactError
from dpgist.generators.model import read_model
from dpgist.gist import read_gist
from dpgist.outputs import Outputs, model_card, refuse_unknown_table, write_tables
from dpgist.training.loop import Training

Force = Annotated[bool, typer.Option("--force", help="Overwrite existing outputs.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


@app.command("show")
def show_verb(
    file: Annotated[Path, typer.Argument(help="A .gist, .model or .maps file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Print the card of a gist, a model or a classifier: the guarantee, and what it assumed.

    Example: `dpgist show patients.gist`
    """
    _refuse_folder(file)
    kind, write = artefact_kind(file), card_text
    if kind == "gist":
        card = read_gist(file).card_dict()
    elif kind == KIND:
        card, write = statement(*read_classifier(file)), statement_text
    else:
        card = model_card(read_model(file))
    try:
        text = write(card)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtefactError(f"{file}: the card in it is damaged") from error
    typer.echo(json.dumps(card, indent=2) if as_json else text)


def _refuse_folder(path: Path) -> None:
    """A folder is no artefact, but may hold some: say which."""
    if not path.is_dir():
        return
    outputs, fitted = Outputs(folder=path), ClassifierFiles(folder=path)
    held = [file for file in (outputs.gist, outputs.model, fitted.maps) if file.is_file()]
    if not held:
        raise ValueError(f"{path} is a folder; name a .gist, .model or .maps file")
    raise ValueError(f"{path} is a folder; name a file in it: {' or '.join(map(str, held))}")


@app.command("train")
def train_verb(
    gist: Annotated[Path, typer.Argument(help="The gist to train from.")],
    out: Annotated[Path, typer.Option(help="The model to write.")],
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    generator: GeneratorKind = "auto",
    device: Device = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same CPU kind: same model.")] = 0,
    critic: Critic = None,
    rehearsal: Annotated[
        bool, typer.Option("--rehearsal", help="Accept a gist made without real noise.")
    ] = False,
    force: Force = False,
) -> None:
    """Train a generator from a gist. Costs no privacy; do it anywhere, as often as you like.

    Ctrl-C leaves a checkpoint beside the output; the same command goes on from there.

    Example: `dpgist train patients.gist --out patients.model`
    """
    refuse_bad_output(out, force=force, inputs=[gist])
    released = read_gist(gist)
    checkpoint = out.with_name(out.name + ".checkpoint")
    try:
        with training_bar() as progress:
            model = workflow.train(
                released,
                Training(steps=steps, generator=generator, critic=critic),
                seed=seed,
                device=device,
                progress=progress,
                checkpoint=checkpoint,
                rehearsal=rehearsal,
            )
    except KeyboardInterrupt:
        note(f"stopped; the same command goes on from {checkpoint}")
        raise typer.Exit(130) from None
    model.save(out, force=force)
    typer.echo(str(out))


@app.command("sample")
def sample_verb(
    model: Annotated[Path, typer.Argument(help="The trained model.")],
    rows: Annotated[int, typer.Option(min=1, help="How many rows.")],
    out: Annotated[Path, typer.Option(help="Where to: .parquet or .csv; for images .npz.")],
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Only such rows: column=value, or column=a..b for numbers and dates (YYYY-MM-DD);"
            " column= asks for null; repeatable."
        ),
    ] = None,
    balanced: Annotated[bool, typer.Option(help="Equally many rows of each class.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same rows.")] = 0,
    force: Force = False,
) -> None:
    """Draw synthetic rows from a model. Costs no privacy.

    Example: `dpgist sample patients.model --rows 10000 --where age=70..90 --out rows.parquet`
    """
    trained = read_model(model)
    refuse_unknown_table(out, trained.schema)
    refuse_bad_output(out, force=force, inputs=[model])
    conditions = _conditions(where or [])
    tables = trained.chunks(rows, seed=seed, where=conditions, balanced=balanced)
    write_tables(tables, out, trained.schema, force=force)
    typer.echo(str(out))


@app.command("demo")
def demo_verb(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("demo-output"),
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the simulated tables and of training.")
    ] = 0,
    force: Force = False,
) -> None:
    """Run the whole pipeline on two simulated tables and compare with the truth, about 3 minutes.

    Exit 1 if a check fails. Nothing private is involved: the tables are made up on the spot.
    """
    good = run_demo(out, seed=seed, force=force, bar=training_bar, say=typer.echo, note=note)
    if not good:
        raise typer.Exit(1)


def _conditions(where: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in where]
    if any(not (name and equals) for name, equals, _ in pairs):
        raise ValueError("--where takes column=value or column=a..b")
    if len({name for name, _, _ in pairs}) != len(pairs):
        raise ValueError("--where names a column twice")
    return {name: value for name, _, value in pairs}
