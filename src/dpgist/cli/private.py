"""Verbs around the private step: plan, schema, ledger, release, synthesize."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dpgist import workflow
from dpgist.artefact import ResultFolder, refuse_bad_output
from dpgist.card import at_least, round_up
from dpgist.cells import without_text
from dpgist.cli.console import (
    Critic,
    GeneratorKind,
    app,
    note,
    private_pass,
    training_bar,
    working,
)
from dpgist.draft import draft_schema
from dpgist.errors import DataError
from dpgist.methods import METHODS, Method
from dpgist.outputs import Outputs, save_release, synthesize_into, write_text
from dpgist.privacy.accounting import units_of
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget, Relation
from dpgist.schema import CategoryColumn, Column, Schema
from dpgist.training.loop import Training

schema_app = typer.Typer(help="Work with schema files: the public facts about a table.")
ledger_app = typer.Typer(help="Keep the durable record of what was spent on a table.")
app.add_typer(schema_app, name="schema", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger", no_args_is_help=True)

Data = Annotated[
    Path,
    typer.Argument(
        help="The private table: .csv, .csv.gz, .parquet (file or folder), .arrow; or images: .npz,"
        " images-idx3-ubyte, a folder with a sub-folder per class."
    ),
]
SchemaFile = Annotated[
    Path, typer.Option("--schema", help="Schema file (TOML), public facts only.")
]
Epsilon = Annotated[
    float, typer.Option(help="How much may be revealed: 1 is strong, 10 is weak. No default.")
]
Delta = Annotated[
    float,
    typer.Option(help="Probability with which epsilon may fail: below 1 / rows. No default."),
]
RelationName = Annotated[
    Relation,
    typer.Option(
        help="What one person may change: their rows come or go (row count private), or are"
        " replaced (row count public)."
    ),
]
MethodName = Annotated[
    str | None,
    typer.Option("--method", help=f"One of: {', '.join(METHODS)}. Default: chosen by the schema."),
]
Seed = Annotated[
    int, typer.Option(min=0, help="Fixes features, first weights and sampling; never the noise.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing outputs.")]


@app.command("plan")
def plan_verb(
    schema: SchemaFile,
    epsilon: Epsilon,
    delta: Delta,
    relation: RelationName = Relation.ADD_REMOVE,
    rows_about: Annotated[
        int | None, typer.Option(min=1, help="A public guess of the row count.")
    ] = None,
    method: MethodName = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Foresee a release: coordinates, noise, expected error, time, memory, both relations.

    Reads no row and charges nothing, so look here first.

    Example: `dpgist plan --schema patients.toml --epsilon 1 --delta 1e-6 --rows-about 50000`
    """
    facts, budget = Schema.load(schema), Budget(epsilon=epsilon, delta=delta, relation=relation)
    with working("plan"):
        foreseen = workflow.plan(facts, budget, _method(method), rows_about=rows_about, seed=seed)
    typer.echo(json.dumps(foreseen.to_dict(), indent=2) if as_json else foreseen.text())


@schema_app.command("check")
def schema_check(schema: Annotated[Path, typer.Argument(help="Schema file (TOML).")]) -> None:
    """Look for contradictions in a schema file; exit 1 if there are any.

    Example: `dpgist schema check patients.toml`
    """
    if not schema.is_file():
        raise FileNotFoundError(2, "no such schema file", str(schema))
    try:
        found = Schema.load(schema)
    except DataError as error:
        typer.echo(str(error))
        raise typer.Exit(1) from None
    label = f"label {found.label}" if found.label else "no label"
    typer.echo(f"ok: {found.name}, {len(found.columns)} columns, {label}")
    for column in found.columns:
        _note_spelling(column)


def _note_spelling(column: Column) -> None:
    """Say which values only text can match, because no release may tell of a column's cells."""
    values = column.values if isinstance(column, CategoryColumn) else ()
    pairs = ((value, without_text(value)) for value in values)
    other = [f"{read!r}, not {value!r}" for value, read in pairs if read != value]
    if other:
        note(
            f"column {column.name!r}: cells that hold numbers or truth values, not text, are read "
            f"as {'; '.join(other[:3])}. List them so, unless the table holds text"
        )


@schema_app.command("draft")
def schema_draft(
    public: Annotated[Path, typer.Argument(help="A PUBLIC table: .csv, .csv.gz or .parquet.")],
    out: Annotated[Path | None, typer.Option(help="The schema file. Default: print it.")] = None,
    force: Force = False,
) -> None:
    """Draft a commented schema from PUBLIC data, for a person to correct.

    **Never run this on private rows.** A schema is public, and a draft holds the smallest and
    largest numbers, the dates and the values of the rows it was made from: no guarantee covers
    that. Use a public sample, an older published table, or a few made-up rows.

    Example: `dpgist schema draft published-sample.csv --out patients.toml`
    """
    if out is not None:
        refuse_bad_output(out, force=force, inputs=[public])
    note(f"drafting from {public}, taken to be public; never do this with private rows")
    text = draft_schema(public)
    if out is None:
        typer.echo(text, nl=False)
        return
    write_text(text, out, force=force)
    typer.echo(str(out))


@ledger_app.command("create")
def ledger_create(
    path: Annotated[Path, typer.Argument(help="The new ledger file.")],
    name: Annotated[str, typer.Option(help="The table it is for: the schema's name.")],
    epsilon: Annotated[float, typer.Option(help="The cap: all releases together stay below.")],
    delta: Delta,
    relation: RelationName = Relation.ADD_REMOVE,
    max_rows_per_person: Annotated[
        int, typer.Option(min=1, help="Must equal the schema's declaration.")
    ] = 1,
) -> None:
    """Start a ledger: fixes name, relation, delta, rows per person and the cap for ever.

    Example: `dpgist ledger create patients.ledger --name patients --epsilon 2 --delta 1e-6`
    """
    if not name.strip():
        raise ValueError("--name must be the name of a table, as its schema has it; it is empty")
    book = Ledger.create(
        path,
        name=name,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        max_rows_per_person=max_rows_per_person,
    )
    typer.echo(_terms(book))


@ledger_app.command("show")
def ledger_show(
    path: Annotated[Path, typer.Argument(help="A ledger file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Verify a ledger's chain and list what was spent.

    Example: `dpgist ledger show patients.ledger`
    """
    book = Ledger.open(path)
    lines = book.entries()
    if as_json:
        facts = [{"sequence": li.sequence, "head": li.head, **li.body} for li in lines]
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(_terms(book))
    unfinished = set(book.unfinished())
    for line in lines[1:]:
        lost = "  (never came to a release; stays spent)" if line.sequence in unfinished else ""
        typer.echo(f"{line.sequence:4}  {_line(line.body)}{lost}")


@app.command("release")
def release_verb(
    data: Data,
    schema: SchemaFile,
    epsilon: Epsilon,
    delta: Delta,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger to charge (see `dpgist ledger create`).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The gist to write.")] = None,
    method: MethodName = None,
    relation: RelationName = Relation.ADD_REMOVE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check schema against header; read no row.")
    ] = False,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Release the gist of a table: read the private rows once, under the guarantee.

    The ledger is charged before the first row is read. A refused release has read nothing; a
    crash after the charge stays charged.

    Example: `dpgist release patients.csv --schema patients.toml --epsilon 1 --delta 1e-6
    --ledger patients.ledger --out patients.gist`
    """
    facts, budget = Schema.load(schema), Budget(epsilon=epsilon, delta=delta, relation=relation)
    planned = _planned(facts, budget, _method(method), seed)
    workflow.check_table(data, facts)
    if dry_run:
        typer.echo(f"ok: the header of {data} agrees with the schema; no row was read")
        return
    if ledger is None or out is None:
        raise ValueError("a release needs --ledger and --out (or --dry-run)")
    refuse_bad_output(out, force=force, inputs=[data, schema, ledger])
    book = Ledger.open(ledger)
    _announce(budget, book, facts)
    with private_pass():
        gist = workflow.release_planned(data, planned, ledger=book)
    gist.save(out, force=force)
    typer.echo(str(out))


@app.command("synthesize")
def synthesize_verb(
    data: Data,
    schema: SchemaFile,
    epsilon: Epsilon,
    delta: Delta,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    method: MethodName = None,
    relation: RelationName = Relation.ADD_REMOVE,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="How many. Default: the schema's rows_about, else a noisy count."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="The ledger to charge. Default: a new one in the folder, for this only."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps.")] = None,
    generator: GeneratorKind = "auto",
    critic: Critic = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Release, train and sample in one go, into a folder.

    Writes release.gist, generator.model, synthetic.parquet (synthetic.npz for images), card.txt,
    card.json, plots/ and, without --ledger, ledger.sqlite whose cap is this release.

    Example: `dpgist synthesize patients.csv --schema patients.toml --epsilon 1 --delta 1e-6
    --out patients-synthetic`
    """
    facts, budget = Schema.load(schema), Budget(epsilon=epsilon, delta=delta, relation=relation)
    chosen = _method(method)
    training = Training(steps=steps, generator=generator, critic=critic)
    planned = _planned(facts, budget, chosen, seed)
    workflow.check_training(training, facts, chosen, device=device)
    workflow.check_table(data, facts)
    outputs = Outputs(folder=out, force=force, images=facts.image is not None)
    outputs.prepare(inputs=[data, schema, ledger])
    with charging(ledger, outputs, facts, budget) as book:
        gist = workflow.release_planned(data, planned, ledger=book)
    del planned  # its features may be large, and training makes its own
    save_release(gist, outputs)
    wanted = rows or workflow.default_rows(gist)
    with _saying_how_to_go_on(_commands(outputs, training, wanted, device, seed), outputs):
        synthesize_into(
            outputs,
            gist,
            training=training,
            bar=training_bar,
            rows=wanted,
            device=device,
            seed=seed,
        )
    typer.echo(str(out))


@contextmanager
def charging(
    ledger: Path | None, outputs: ResultFolder, schema: Schema, budget: Budget
) -> Iterator[Ledger]:
    """The ledger for a private pass: the one named, else the output folder's own.

    A pass that is refused leaves neither an empty folder nor a ledger made for it: that one's cap
    would stand in the way of the same command with another budget.
    """
    with ExitStack() as undo:
        undo.callback(outputs.discard_if_empty)
        # A second run into the same folder must see what the first one spent.
        if ledger is not None or outputs.ledger.exists():
            book = Ledger.open(ledger or outputs.ledger)
        else:
            book = _new_book(outputs.ledger, schema, budget)
            undo.callback(_discard_unless_charged, book, outputs.ledger)
        _announce(budget, book, schema)
        with private_pass():
            yield book
        undo.pop_all()


@contextmanager
def _saying_how_to_go_on(commands: dict[Path, list[Any]], outputs: Outputs) -> Iterator[None]:
    """Whoever is stopped after the release shall know that it need not be paid for again."""
    try:
        yield
    except BaseException:
        note(f"the release is paid for and saved in {outputs.gist}; do not pay for it again")
        missing = _missing(commands, force=outputs.force)
        note("\n  ".join(["go on with:", *missing]) if missing else "only figures are missing")
        raise


def _commands(
    outputs: Outputs, training: Training, rows: int, device: str, seed: int
) -> dict[Path, list[Any]]:
    """The commands that make each output as synthesize does."""
    critic = {None: [], True: ["--critic"], False: ["--no-critic"]}[training.critic]
    chosen = _given(steps=training.steps, generator=training.generator, device=device, seed=seed)
    return {
        outputs.model: ["train", outputs.gist, *chosen, *critic],
        outputs.rows: ["sample", outputs.model, "--rows", rows, *_given(seed=seed)],
    }


def _given(**options: Any) -> list[Any]:
    """The options that are not left at their default."""
    given = {name: value for name, value in options.items() if value not in (None, "auto", 0)}
    return [part for name, value in given.items() for part in (f"--{name}", value)]


def _missing(commands: dict[Path, list[Any]], *, force: bool) -> list[str]:
    more = ["--force"] if force else []
    return [
        shlex.join(map(str, ["dpgist", *command, "--out", out, *more]))
        for out, command in commands.items()
        if force or not out.exists()  # by force, it may be an earlier run's
    ]


def _announce(budget: Budget, book: Ledger, schema: Schema) -> None:
    """Print the budget before it is spent, unless this ledger will refuse to."""
    book.check_terms(budget, name=schema.name, max_rows_per_person=schema.max_rows_per_person)
    book.check_room(units_of(budget))
    note(
        f"spending epsilon {at_least(budget.epsilon)}, delta {at_least(budget.delta)}"
        f" ({budget.relation}) from ledger {book.name!r}: {_spent(book)} spent so far"
    )


def _spent(book: Ledger) -> str:
    """What is spent of the cap, rounded up, but not beyond a cap that holds."""
    spent = round_up(book.spent_epsilon())
    if book.spent_units() <= book.cap_units:
        spent = min(spent, book.epsilon)
    return f"{spent:g} of {book.epsilon:g}"


def _planned(schema: Schema, budget: Budget, method: Method | None, seed: int) -> workflow.Planned:
    with working("plan"):
        return workflow.planned(schema, budget, method, seed=seed)


def _new_book(path: Path, schema: Schema, budget: Budget) -> Ledger:
    """A ledger whose cap is one release."""
    return Ledger.create(
        path,
        name=schema.name,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        max_rows_per_person=schema.max_rows_per_person,
    )


def _discard_unless_charged(book: Ledger, path: Path) -> None:
    if len(book.entries()) == 1:  # nothing but its terms
        path.unlink(missing_ok=True)


def _method(name: str | None) -> Method | None:
    if name is None:
        return None
    if name not in METHODS:
        raise ValueError(f"method {name!r} is unknown; choose one of {', '.join(METHODS)}")
    chosen: Method = METHODS[name]()
    return chosen


def _terms(book: Ledger) -> str:
    return (
        f"ledger {book.name!r}, id {book.ledger_id}\n"
        f"relation {book.relation}, delta {book.delta:g}, rows per person"
        f" {book.max_rows_per_person}\n"
        f"epsilon {_spent(book)} spent; room for one release of {book.remaining_epsilon():.4g}"
    )


def _line(body: dict[str, Any]) -> str:
    kind = body["kind"]
    if kind == "charge":
        return f"{body['time']}  charge: epsilon {body['epsilon']:g}, method {body['method']}"
    if kind == "released":
        return f"released under charge {body['charge']}, digest {body['digest'][:16]}"
    return f"{body.get('time', '')}  {kind}: {body.get('what', '')}"
