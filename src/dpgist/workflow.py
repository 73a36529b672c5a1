"""The public calls: plan, release, train, synthesize, evaluate."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpgist.arguments import whole_number
from dpgist.encode import Encoder
from dpgist.errors import DataError, PrivacyError
from dpgist.estimate import Estimate
from dpgist.evaluate.scores import Evaluation
from dpgist.evaluate.steps import Progress as EvaluationProgress
from dpgist.generators.model import Model
from dpgist.gist import Gist
from dpgist.methods import METHODS, Marginal, Method, Pearl, method_from, settings
from dpgist.methods.scattering import SMALLEST_SIDE
from dpgist.privacy.curator import forecast, release_plan
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget, Plan
from dpgist.privacy.private import Private
from dpgist.schema import Schema
from dpgist.scoring import Given, score
from dpgist.sources import open_source
from dpgist.training.loop import (
    Training,
    one_thread,
    refuse_critic,
    refuse_network,
    train_generator,
)
from dpgist.version import __version__

Progress = Callable[[int, int, float], None]


def auto_method(schema: Schema, budget: Budget) -> Method:
    """The method used when none is named; chosen from schema and budget alone.

    Privacy: public facts only.
    """
    chosen: Method = METHODS[_auto_name(schema)]()
    return chosen.settled(schema, budget)


def _auto_name(schema: Schema) -> str:
    if schema.image is None:
        return "marginal"
    large = min(schema.image.height, schema.image.width) >= SMALLEST_SIDE
    return "scattering" if large else "merf"


def plan(
    schema: Schema,
    budget: Budget,
    method: Method | None = None,
    *,
    rows_about: int | None = None,
    seed: int = 0,
) -> Estimate:
    """Foresee a release: coordinates, noise, expected error, time and memory.

    Args:
        schema: the table's public description.
        budget: what the release may reveal.
        method: None chooses one from schema and budget.
        rows_about: a public guess of the row count; None takes the schema's.
        seed: fixes the public features.

    Privacy: reads no row and charges nothing.
    """
    if rows_about is not None:
        schema = replace(schema, rows_about=rows_about)
    own = planned(schema, budget, method, seed=seed)
    return Estimate(
        method=own.method.name,
        schema=schema,
        budget=budget,
        forecast=forecast(own.plan, budget, schema),
        rows_about=schema.rows_about,
    )


def check_table(table: Any, schema: Schema) -> None:
    """Check a table's header against a schema; raise :class:`DataError` if they disagree.

    Privacy: reads the header (names and physical types) and no row.
    """
    open_source(table).check(schema)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A release that lacks only rows and a ledger.

    Privacy: public facts only.
    """

    schema: Schema
    budget: Budget
    method: Method
    seed: int
    plan: Plan


def planned(
    schema: Schema, budget: Budget, method: Method | None = None, *, seed: int = 0
) -> Planned:
    """Make the plan of a release, or refuse a method that can make none for such a table.

    Privacy: public facts only.
    """
    seed = whole_number(seed, "seed", at_least=0)
    method = method.settled(schema, budget) if method else auto_method(schema, budget)
    recipe = method.plan(schema, budget=budget, feature_seed=seed)
    return Planned(schema=schema, budget=budget, method=method, seed=seed, plan=recipe)


def release(
    table: Any,
    schema: Schema,
    method: Method | None,
    budget: Budget,
    *,
    ledger: str | os.PathLike[str] | Ledger,
    seed: int = 0,
) -> Gist:
    """Release the gist of a table: the only private step.

    Args:
        table: a pandas or polars DataFrame, a pyarrow Table, or a path to csv or parquet.
        schema: the table's public description.
        method: what to release, such as ``Marginal()``; None chooses from schema and budget.
        budget: what it may reveal.
        ledger: an existing ledger file, or an open :class:`Ledger`; it is charged first.
        seed: fixes the public features. The noise cannot be seeded.

    Privacy: (epsilon, delta)-DP under the budget's relation, charged before the first row is read.
    """
    return release_planned(table, planned(schema, budget, method, seed=seed), ledger=ledger)


def release_planned(
    table: Any, planned: Planned, *, ledger: str | os.PathLike[str] | Ledger
) -> Gist:
    """Release the gist of a table by a plan that was made before.

    Privacy: (epsilon, delta)-DP under the budget's relation, charged before the first row is read.
    """
    source = open_source(table)
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    schema, method = planned.schema, planned.method
    released, stamp = release_plan(
        Private(source), planned.plan, planned.budget, book, schema=schema
    )
    return Gist(
        released=released,
        schema=schema,
        method=method.name,
        settings=settings(method),
        feature_seed=planned.seed,
        table_kind=source.kind,
        ledger=stamp,
        version=__version__,
    )


def train(
    gist: Gist,
    training: Training | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    rehearsal: bool = False,
) -> Model:
    """Train a generator from a gist: anywhere, any number of times.

    Args:
        gist: what was released.
        training: steps, batch and so on; None chooses by the gist.
        seed: same seed, same machine kind, CPU: same model bits.
        device: "auto", "cpu" or "cuda".
        progress: called with step, steps and loss.
        checkpoint: where Ctrl-C leaves the state from which the same call goes on.
        rehearsal: accept a gist that was made without real noise.

    Privacy: post-processing of the gist; costs nothing.
    """
    seed = whole_number(seed, "seed", at_least=0)
    if gist.rehearsal and not rehearsal:
        raise PrivacyError("this gist is a rehearsal, not private; pass rehearsal=True to use it")
    _refuse_bad_device(device)
    method = method_from(gist.method, gist.settings)
    # Images fill any number of threads; a table's matrices are so small that threads mostly wait.
    with one_thread() if gist.schema.image is None else nullcontext():
        return train_generator(
            gist,
            method,
            training or Training(),
            rng=np.random.Generator(np.random.PCG64(seed)),
            device=device,
            progress=progress,
            checkpoint=None if checkpoint is None else Path(checkpoint),
        )


def check_training(
    training: Training, schema: Schema, method: Method | None = None, *, device: str = "auto"
) -> None:
    """Refuse, before anything is spent, training that could never make rows of such a release.

    Privacy: public facts only.
    """
    _refuse_bad_device(device)
    resolved = training.resolved(Encoder(schema), torch.device("cpu"))
    name = method.name if method else _auto_name(schema)
    if name == Marginal.name:
        refuse_network(resolved)
    if name != Pearl.name:
        refuse_critic(resolved)


def _refuse_bad_device(device: str) -> None:
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device must be auto, cpu or cuda, got {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device here; use device auto or cpu")


def synthesize(
    table: Any,
    schema: Schema,
    budget: Budget,
    *,
    method: Method | None = None,
    ledger: str | os.PathLike[str] | Ledger | None = None,
    seed: int = 0,
    rows: int | None = None,
) -> Any:
    """Release, train and sample in one call; the same table kind comes out as went in.

    Without a ledger one is kept in memory whose cap is this release. ``rows`` defaults to the
    schema's ``rows_about``, else to the noisy count.

    Privacy: one release under the budget; the rest is post-processing.
    """
    seed = whole_number(seed, "seed", at_least=0)
    if rows is not None:
        rows = whole_number(rows, "rows", at_least=1)
    check_training(Training(), schema, method)
    if ledger is None:
        ledger = Ledger.in_memory(
            name=schema.name, budget=budget, max_rows_per_person=schema.max_rows_per_person
        )
    gist = release(table, schema, method, budget, ledger=ledger, seed=seed)
    model = train(gist, seed=seed)
    return model.sample(rows or default_rows(gist), seed=seed)


def default_rows(gist: Gist) -> int:
    """How many rows to sample when nobody says: declared, public or noisy, never the true count.

    Privacy: a function of released and public numbers.
    """
    return gist.schema.rows_about or max(1, round(gist.rows))


def evaluate(
    real_test: Any,
    rows: Any,
    schema: Schema,
    *,
    train: Any = None,
    gist: Gist | None = None,
    groups: Sequence[str] = (),
    classifiers: str = "three",
    ledger: str | os.PathLike[str] | Ledger | None = None,
    inception: str | os.PathLike[str] | None = None,
    progress: EvaluationProgress | None = None,
    seed: int = 0,
) -> Evaluation:
    """Score synthetic rows against real ones: how useful they are, and how alike.

    Args:
        real_test: real rows, best those that no release has seen; any table that can be released.
        rows: the synthetic rows.
        schema: the table's public description; both tables are read by its rules.
        train: the real rows that were released: the reference "real".
        gist: makes the references "independent" (columns on their own, at the same budget) and
            "noise" (the same method on no rows).
        groups: columns whose every value is scored on its own, as every class is.
        classifiers: "three" quick ones, or the "twelve" of the papers.
        ledger: a ledger file or an open :class:`Ledger`; the look is noted there first.
        inception: a file of Inception weights, for images; refused if there is none by that name.
        progress: called with steps done, steps in all, and what comes next.
        seed: fixes everything random here; not the noise of the references.

    Privacy: reads real rows without any protection. Its result is outside the guarantee, and the
    ledger says so before the first row is read.
    """
    if gist is not None and gist.schema != schema:
        raise DataError("the gist was released under another schema; give the one inside it")
    book = None if ledger is None else _book_for(schema, ledger)
    what = f"evaluate, {classifiers} classifiers, {'test' if train is None else 'all'} rows"
    return score(
        Given(test=real_test, synthetic=rows, train=train, gist=gist),
        schema,
        groups=groups,
        classifiers=classifiers,
        inception=None if inception is None else Path(inception),
        before_looking=lambda: None if book is None else book.note_look(what),
        progress=progress,
        rng=np.random.Generator(np.random.PCG64(seed)),
    )


def _book_for(schema: Schema, ledger: str | os.PathLike[str] | Ledger) -> Ledger:
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    if book.name != schema.name:
        raise PrivacyError(
            f"the ledger was made for {book.name!r}, the schema is {schema.name!r}; use its ledger"
        )
    return book
