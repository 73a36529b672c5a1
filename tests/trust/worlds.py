"""Small tables, maps and plans on which the wall is attacked. Everything here is made up."""

from fractions import Fraction

import numpy as np
import pandas as pd
import torch
from torch import nn

from dpgist.encode import Encoder
from dpgist.methods.marginal import Marginal
from dpgist.methods.pearl import Pearl
from dpgist.privacy import curator
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Block, Budget, Plan, Query, Stage
from dpgist.privacy.private import Private
from dpgist.schema import CategoryColumn, NumberColumn, Schema
from dpgist.sources import open_source


def schema_of(n_numbers=2, *, labelled=True, rows_per_person=1, name="world", **more):
    """Numbers x0.. in [0, 1] and, if labelled, a class of two declared values."""
    numbers = tuple(NumberColumn(name=f"x{i}", min=0.0, max=1.0) for i in range(n_numbers))
    label = (CategoryColumn(name="y", values=("a", "b")),) if labelled else ()
    return Schema(
        name=name,
        columns=(*numbers, *label),
        label="y" if labelled else None,
        max_rows_per_person=rows_per_person,
        **more,
    )


def table_of(rows, labels=None):
    """A DataFrame of x0.. columns and labels; cells may be anything."""
    rows = list(rows)
    width = len(rows[0]) if rows else 2
    table = {f"x{i}": pd.array([row[i] for row in rows], dtype=object) for i in range(width)}
    if labels is not None:
        table["y"] = pd.array(list(labels), dtype=object)
    return pd.DataFrame(table)


class Signed(nn.Module):
    """Features 2x - 1 times a factor: reaches every sign and, with a large factor, every bound."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.register_buffer("factor", torch.tensor(float(factor), dtype=torch.float64))

    def forward(self, row):
        return ((2 * row - 1) * self.factor,)


class Plain(nn.Module):
    """The encoded row itself, as several blocks if asked."""

    def __init__(self, copies=1):
        super().__init__()
        self.copies = copies

    def forward(self, row):
        return (row,) * self.copies


def plan_for(schema, row_map, blocks, shares=(Fraction(1),), *, batched=False):
    """A plan that asks the same query in every stage."""
    query = Query(
        encoder=Encoder(schema),
        row_map=row_map,
        blocks=blocks,
        recipe={"method": "test"},
        batched=batched,
    )
    return Plan(stages=tuple(Stage(share=share, query=lambda _: query) for share in shares))


def signed_plan(schema, factor=1e6, **block):
    width = Encoder(schema).width
    labelled = schema.label is not None
    blocks = (Block(name="f", length=width, labelled=labelled, **block),)
    return plan_for(schema, Signed(factor), blocks)


TWO_STAGES = {
    "marginal": Marginal(most_leaves=200),
    "pearl by modes": Pearl(frequencies=60, scaling="modes", most_leaves=200),
    "pearl by distance": Pearl(frequencies=60, scaling="distance"),
}
"""Methods whose second stage depends on what the first one released."""


def stage_plans(schema, table, method):
    """The two stages of a release of a table, each as a plan by itself."""
    plan = method.plan(schema, budget=budget_of(), feature_seed=0)
    released = release(table, plan, budget_of(), schema).stages[:1]
    queries = plan.stages[0].query(()), plan.stages[1].query(released)
    return [
        Plan(stages=(Stage(share=Fraction(1), query=lambda _, query=query: query),))
        for query in queries
    ]


def stage_of(plan, budget, schema):
    return curator._PreparedStage(plan.stages[0].query(()), plan, 0, budget, schema)


def exact_sums(table, plan, budget, schema):
    """The sums before noise, as a list of Python-int arrays: what the adversary must not see."""
    stage = stage_of(plan, budget, schema)
    return stage, curator._look(open_source(table), stage)


def weighted_squared_distance(stage, sums, others):
    """Exact squared distance of two tables' statistics in the weighted norm."""
    return sum(
        Fraction(block.weight) ** 2
        * int(np.sum((one.astype(object) - other.astype(object)) ** 2))
        / Fraction(4) ** block.bits
        for block, one, other in zip(stage.blocks, sums, others, strict=True)
    )


def release(table, plan, budget, schema, ledger=None):
    """A whole release through the curator, with a ledger of its own unless given."""
    ledger = ledger or Ledger.in_memory(
        name=schema.name, budget=budget, max_rows_per_person=schema.max_rows_per_person
    )
    return curator.release_plan(Private(open_source(table)), plan, budget, ledger, schema=schema)[0]


def budget_of(epsilon=1.0, relation="add_remove"):
    return Budget(epsilon=epsilon, delta=1e-5, relation=relation)
