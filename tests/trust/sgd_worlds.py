"""Tiny worlds for DP-SGD: one number per row, a model that says what it is told, and no secrets."""

import numpy as np
import torch

from dpgist.encode import Encoder
from dpgist.privacy import sgd
from dpgist.privacy.inputs import Inputs
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.outer import BITS, Space
from dpgist.privacy.private import Private
from dpgist.privacy.sgd import GradientQuery
from dpgist.sources import open_source
from tests.trust.worlds import budget_of, schema_of, table_of

LEVELS = 255


class Told:
    """Huge coefficients whatever the parameters, a thousand times larger for positive inputs."""

    def __init__(self, strength=1e6):
        self.strength = strength

    def at(self, parameters, dtype):
        sizes = torch.tensor([self.strength, 1e3 * self.strength], dtype=dtype)
        return lambda rows, labels: sizes[(rows[:, :1] > 0).long()]


class Recorder:
    """A follower that goes nowhere and keeps every gradient."""

    def __init__(self, shape=(1, 2)):
        self.parameters = torch.zeros(shape, dtype=torch.float64)
        self.seen = []

    def step(self, gradient):
        self.seen.append(gradient.numpy().copy())


def query_of(schema=None, model=None, *, rate=0.5, steps=4, rows=10, clip=1.0, **more):
    """A query on worlds' tables: an x of 1 is the input 1, an x of 0 is the input -1."""
    schema = schema or schema_of(1)
    encoder = Encoder(schema)
    inputs = Inputs(
        width=encoder.width, levels=LEVELS, centre=np.full(encoder.width, 0.5), gain=2.0
    )
    space = Space(outputs=1, inputs=encoder.width, levels=LEVELS, constant=2.0**-10)
    facts = {"inputs": inputs, "space": space, "model": model or Told(), "classes": (0, 1)} | more
    return GradientQuery(
        encoder=encoder,
        clip=clip,
        rate=rate,
        steps=steps,
        rows=rows,
        recipe={"method": "test"},
        **facts,
    )


def ledger_of(budget, schema):
    return Ledger.in_memory(
        name=schema.name, budget=budget, max_rows_per_person=schema.max_rows_per_person
    )


def prepared_of(query, epsilon=1.0, relation="add_remove"):
    schema, budget = query.encoder.schema, budget_of(epsilon, relation)
    prepared = sgd.Prepared(query, budget, ledger_of(budget, schema), schema)
    prepared.check_slots(Recorder((query.space.outputs, query.space.features + 1)).parameters)
    return prepared


def held_of(xs, query):
    """Rows with these first cells, as the wall holds them."""
    table = table_of([(x,) for x in xs] or [(0.0,)], "a" * max(len(xs), 1))
    return sgd._read(open_source(table.iloc[: len(xs)]), query)


def run(xs, query, *, epsilon=1.0, relation="add_remove", ledger=None, follower=None):
    """A whole run through the public door; the follower with all gradients, the result."""
    schema, budget = query.encoder.schema, budget_of(epsilon, relation)
    follower = follower or Recorder((query.space.outputs, query.space.features + 1))
    table = table_of([(x,) for x in xs] or [(0.0,)], "a" * max(len(xs), 1)).iloc[: len(xs)]
    found = sgd.release_gradients(
        Private(open_source(table)),
        query,
        budget,
        ledger or ledger_of(budget, schema),
        schema=schema,
        follower=follower,
    )
    return follower, found[0]


def steps_of(xs, query, n_steps, *, epsilon):
    """Noisy first coordinates of many steps, in units of the clip bound: a white-box view."""
    prepared, held = prepared_of(query, epsilon), held_of(xs, query)
    sampler, follower = sgd.PoissonSampler(prepared.run.rate), Recorder()
    for _ in range(n_steps):
        sgd.take_step(prepared, held, sampler.draw(len(held)), query.rows, follower)
    scale = prepared.run.rate * query.rows / query.clip
    return np.array([gradient[0, 0] for gradient in follower.seen]) * scale, prepared


def sampled_steps(x, query, n_steps, *, epsilon):
    """The same for a table of one row, or of none (x is None), by the wall's own parts at once.

    One exact sum with the row in the batch and one without; then a coin and a noise for each step.
    """
    prepared, held = prepared_of(query, epsilon), held_of([] if x is None else [x], query)
    nowhere, parameters = np.zeros(0, np.int64), Recorder().parameters
    sums = np.full(n_steps, sgd.clipped_sum(prepared, held, nowhere, parameters)[0, 0])
    if x is not None:
        inside = sgd.PoissonSampler(prepared.run.rate).draw(n_steps)
        sums[inside] = sgd.clipped_sum(prepared, held, np.array([0]), parameters)[0, 0]
    noisy = sgd.add_rounded_gaussian(sums, noise_std=prepared.noise_std)
    return noisy / (grid_of(query) * query.clip), prepared


def grid_of(query):
    return 2.0**BITS * query.space.unit
