"""Gists of made-up tables, released through the real wall or rehearsed."""

import numpy as np
import pandas as pd

from dpgist.gist import Gist
from dpgist.methods import settings
from dpgist.privacy.curator import release_plan
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget
from dpgist.privacy.private import Private
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    ImageColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)
from dpgist.sources import open_source
from dpgist.testing import RepeatableNoise, rehearse

MIXED = Schema(
    name="mixed",
    columns=(
        IntegerColumn(name="age", min=0, max=100),
        NumberColumn(name="gain", min=0.0, max=1000.0),
        NumberColumn(name="dose", min=0.0, max=10.0, nullable=True),
        CategoryColumn(name="ward", values=("a", "b", "c"), nullable=True),
        CategoryColumn(name="stage", values=("i", "ii", "iii"), ordered=True, other="later"),
        DateColumn(name="seen", min="2020-01-01", max="2020-12-31"),
        BooleanColumn(name="ill"),
    ),
    label="ill",
)

GRID = Schema(
    name="grid",
    columns=(
        NumberColumn(name="x", min=-1.0, max=5.0),
        NumberColumn(name="y", min=-1.0, max=5.0),
        CategoryColumn(name="kind", values=tuple("01234")),
    ),
    label="kind",
)

STRIPES = Schema(
    name="stripes",
    columns=(
        ImageColumn(name="image", height=8, width=8),
        CategoryColumn(name="way", values=("across", "down")),
    ),
    label="way",
)


def mixed_table(n, seed=0):
    """Rows of MIXED: dose falls with age, gain is mostly 0, illness rises with age."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(50, 18, n), 0, 100).round()
    dose = np.clip(10 - age / 12 + rng.normal(0, 0.7, n), 0, 10)
    days = pd.to_timedelta(rng.integers(0, 366, n), unit="D")
    return pd.DataFrame(
        {
            "age": age.astype(int),
            "gain": np.where(rng.random(n) < 0.9, 0.0, rng.uniform(100, 900, n)),
            "dose": np.where(rng.random(n) < 0.25, np.nan, dose),
            "ward": rng.choice(["a", "b", None], n, p=[0.6, 0.3, 0.1]),
            "stage": rng.choice(["i", "ii", "iii", "iv"], n),
            "seen": (pd.Timestamp("2020-01-01") + days).strftime("%Y-%m-%d"),
            "ill": rng.random(n) < 1 / (1 + np.exp(-(age - 55) / 8)),
        }
    )


def grid_table(n, seed=0):
    """A 5 x 5 grid of Gaussians, std 0.2; the class of a cell shifts by two each row."""
    rng = np.random.default_rng(seed)
    column, row = rng.integers(0, 5, n), rng.integers(0, 5, n)
    x, y = column + rng.normal(0, 0.2, n), row + rng.normal(0, 0.2, n)
    return pd.DataFrame({"x": x, "y": y, "kind": ((column + 2 * row) % 5).astype(str)})


def stripe_images(n, seed=0):
    """Rows of STRIPES: one bright stripe, across or down, at one of two places, and some grey."""
    rng = np.random.default_rng(seed)
    ways, places = rng.integers(0, 2, n), rng.choice([1, 5], n)
    images = rng.integers(0, 40, (n, 8, 8))
    for image, way, place in zip(images, ways, places, strict=True):
        (image if way == 0 else image.T)[place : place + 2] = 230
    return {"x": images.astype(np.uint8), "y": np.array(["across", "down"])[ways]}


def gist_of(table, schema, method, *, epsilon=1.0, relation="add_remove", feature_seed=0):
    budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)
    ledger = Ledger.in_memory(
        name=schema.name, budget=budget, max_rows_per_person=schema.max_rows_per_person
    )
    plan = method.plan(schema, budget=budget, feature_seed=feature_seed)
    source = open_source(table)
    released, stamp = release_plan(Private(source), plan, budget, ledger, schema=schema)
    return Gist(
        released=released,
        schema=schema,
        method=method.name,
        settings=settings(method),
        feature_seed=feature_seed,
        table_kind=source.kind,
        ledger=stamp,
        version="0",
    )


def rehearsed(table, schema, method, *, epsilon=1.0, relation="add_remove"):
    """The same noise at every run, for tests of how well something is learnt under it."""
    budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)
    noise = RepeatableNoise(seed=0)
    return rehearse(table, schema, method, budget, public="simulated", noise=noise)
