"""Rows to measure against: independent columns at the same budget, and a method on no rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpgist.gist import Gist
from dpgist.methods import method_from
from dpgist.methods.independent import Independent
from dpgist.privacy.curator import release_plan
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget
from dpgist.privacy.private import Private
from dpgist.schema import Schema
from dpgist.sources import open_source
from dpgist.training.loop import Training, one_thread, train_generator

NOISE_STEPS, NOISE_STEPS_IMAGES = 60, 20
"""Training steps for a gist of pure noise: there is nothing in it to learn."""


def independent_rows(
    table: Any, schema: Schema, budget: Budget, n_rows: int, *, rng: np.random.Generator
) -> pa.Table:
    """Rows drawn column by column from noisy histograms of a table, released under a budget.

    The release goes through the curator with a ledger of its own in memory, and its rows are used
    for an evaluation only.

    Privacy: (epsilon, delta)-DP by itself, but not charged to the table's own ledger; it belongs to
    an evaluation, which is outside the guarantee.
    """
    method = Independent(schema=schema)
    released, _ = release_plan(
        Private(open_source(table)),
        method.plan(),
        budget,
        _own_ledger(schema, budget),
        schema=method.unlabelled,
    )
    return method.sample(released, n_rows, rng=rng)


def noise_rows(gist: Gist, n_rows: int, *, rng: np.random.Generator) -> pa.Table:
    """Rows of a generator that was trained, briefly, on what the method releases of no rows.

    Privacy: reads no row of anybody.
    """
    empty = noise_gist(gist)
    method = method_from(gist.method, gist.settings)
    training = Training(steps=NOISE_STEPS if gist.schema.image is None else NOISE_STEPS_IMAGES)
    with one_thread():
        model = train_generator(empty, method, training, rng=rng)
    return model.sample(n_rows, seed=int(rng.integers(2**31)), kind="pyarrow")


def noise_gist(gist: Gist) -> Gist:
    """The gist that the same method releases of no rows at all: pure noise.

    Privacy: reads no row of anybody.
    """
    schema, budget = gist.schema, gist.released.budget
    empty = pa.table({column.name: pa.nulls(0) for column in schema.columns})
    plan = method_from(gist.method, gist.settings).plan(
        schema, budget=budget, feature_seed=gist.feature_seed
    )
    released, stamp = release_plan(
        Private(open_source(empty)), plan, budget, _own_ledger(schema, budget), schema=schema
    )
    return replace(gist, released=released, ledger=stamp, rehearsal=False)


def _own_ledger(schema: Schema, budget: Budget) -> Ledger:
    return Ledger.in_memory(
        name=schema.name, budget=budget, max_rows_per_person=schema.max_rows_per_person
    )
