"""T-ROWWISE: a row gives the same integers in any slot, company, block and thread count."""

import numpy as np
import pytest
import torch
from torch import nn

from dpgist.encode import Encoder
from dpgist.errors import PrivacyError
from dpgist.methods.hermite import Hermite
from dpgist.methods.merf import Merf
from dpgist.methods.pearl import Pearl
from dpgist.privacy.plan import Block
from dpgist.privacy.rowmap import PreparedMap
from dpgist.schema import CategoryColumn, ImageColumn, Schema
from tests.trust.worlds import (
    TWO_STAGES,
    budget_of,
    exact_sums,
    plan_for,
    schema_of,
    stage_plans,
    table_of,
)

SCHEMA = schema_of(5)
WIDTH = Encoder(SCHEMA).width


def merf_plan():
    return Merf().plan(SCHEMA, budget=budget_of(), feature_seed=0)


def hermite_plan(**settings):
    return Hermite(**settings).plan(SCHEMA, budget=budget_of(), feature_seed=0)


def plan_of(name):
    """The plan of "merf", "hermite", or of one of a method's two stages: "NAME, stage N"."""
    if name == "merf":
        return merf_plan()
    if name == "hermite":
        return hermite_plan(product_order=4)
    method, _, number = name.partition(", stage ")
    rows = np.random.default_rng(5).random((3_000, 5)).tolist()
    return stage_plans(SCHEMA, table_of(rows, "ab" * 1_500), TWO_STAGES[method])[int(number) - 1]


STAGES = [f"{name}, stage {number}" for name in TWO_STAGES for number in (1, 2)]


def prepared(plan=None):
    query = (plan or merf_plan()).stages[0].query(())
    return PreparedMap(query)


def same(some, others):
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


def check_every_slot(row_map, width=WIDTH):
    rng = np.random.default_rng(6)
    rows = torch.from_numpy(rng.random((row_map.block_rows, width)))
    expected = row_map(rows)
    for shift in (1, 2, 3, 7, 8, 16, 33, row_map.block_rows // 2 - 1):
        moved = row_map(torch.roll(rows, shift, dims=0))
        assert same([torch.roll(part, shift, dims=0) for part in expected], moved)
    strangers = rows.clone()
    strangers[1:] = torch.from_numpy(rng.random((len(rows) - 1, width)) * 1e30)
    assert same([p[:1] for p in expected], [p[:1] for p in row_map(strangers)])
    padded = rows.clone()
    padded[3:] = 0
    assert same([p[:3] for p in expected], [p[:3] for p in row_map(padded)])


def test_the_built_in_map_gives_a_row_the_same_integers_in_every_slot():
    check_every_slot(prepared())


@pytest.mark.parametrize("settings", [{}, {"expansion": "plain", "subset_size": 3}])
def test_hermite_maps_give_a_row_the_same_integers_in_every_slot(settings):
    check_every_slot(prepared(hermite_plan(product_order=4, **settings)))


@pytest.mark.parametrize("stage", STAGES)
def test_the_maps_of_both_stages_give_a_row_the_same_integers_in_every_slot(stage):
    check_every_slot(prepared(plan_of(stage)))


IMAGE_METHODS = {
    "merf, whole": Merf(image_frequencies=500, image_law="whole"),
    "merf, real": Merf(image_frequencies=500, image_law="real"),
    "hermite": Hermite(directions=40),
    "pearl": Pearl(image_frequencies=500),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("method", IMAGE_METHODS.values(), ids=IMAGE_METHODS)
def test_the_map_of_images_gives_an_image_the_same_integers_in_every_slot(method, channels):
    image = ImageColumn(name="image", height=28, width=28, channels=channels)
    label = CategoryColumn(name="y", values=("a", "b"))
    schema = Schema(name="images", columns=(image, label), label="y")
    plans = [method.plan(schema, budget=budget_of(), feature_seed=0)]
    if method.name == "pearl":
        side = {"x": np.zeros((2, 28, 28, channels)[: 3 + (channels > 1)], np.uint8)}
        plans = stage_plans(schema, {**side, "y": np.array(["a", "b"])}, method)
    for plan in plans:
        check_every_slot(prepared(plan), width=image.n_values)


@pytest.mark.parametrize("threads", [1, 2])
def test_slots_agree_with_one_thread_and_with_two(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        check_every_slot(prepared())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("which", ["merf", "hermite", *STAGES])
def test_a_table_sums_to_the_sum_of_its_rows_alone_and_of_its_halves(which):
    """The ragged tail, neighbours and blocks at once: exactly additive or not row-wise."""
    plan = plan_of(which)

    def sums_of(rows, labels):
        return exact_sums(table_of(rows, labels), plan, budget_of(), SCHEMA)[1]

    rng = np.random.default_rng(7)
    n = prepared(plan).block_rows + 37
    rows = [tuple(row) for row in rng.random((n, 5)).tolist()]
    labels = ["ab"[i % 2] for i in range(n)]
    whole = sums_of(rows, labels)
    cut = n // 3
    parts = [sums_of(rows[:cut], labels[:cut]), sums_of(rows[cut:], labels[cut:])]
    assert all(np.array_equal(w, a + b) for w, a, b in zip(whole, *parts, strict=True))
    tail = [sums_of([row], [label]) for row, label in zip(rows[-25:], labels[-25:], strict=True)]
    together = sums_of(rows[-25:], labels[-25:])
    assert all(np.array_equal(t, sum(p)) for t, *p in zip(together, *tail, strict=True))


class BatchStatistics(nn.Module):
    """Centres by the mean over whatever dimension comes first."""

    def forward(self, rows):
        return (rows - rows.mean(dim=0),)


class Counting(nn.Module):
    """Keeps state across blocks in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, rows):
        self.seen += 1
        return (rows + self.seen,)


class Dicing(nn.Module):
    """Draws random numbers."""

    def forward(self, rows):
        return (rows + torch.rand_like(rows),)


class AwakeAtTheEdge(nn.Module):
    """Looks at the block only if some row of it reaches the end of a range."""

    def forward(self, rows):
        return (torch.where((rows >= 1).any(), torch.ones_like(rows), torch.zeros_like(rows)),)


class TooLong(nn.Module):
    """Fills more than was declared."""

    def forward(self, rows):
        return (torch.cat([rows, rows], dim=-1),)


def foreign(row_map, *, batched):
    blocks = (Block(name="f", length=WIDTH, labelled=True),)
    return plan_for(SCHEMA, row_map, blocks, batched=batched)


@pytest.mark.parametrize("map_class", [BatchStatistics, Counting, Dicing, TooLong])
@pytest.mark.parametrize("batched", [True, False])
def test_a_map_that_is_not_row_wise_is_refused_or_made_row_wise(map_class, batched):
    plan = foreign(map_class(), batched=batched)
    if map_class is BatchStatistics and not batched:
        check_every_slot(prepared(plan))  # under vmap the mean is over the row itself
        return
    with pytest.raises(PrivacyError):
        prepared(plan)


def test_a_map_that_is_not_row_wise_at_the_ends_of_ranges_is_refused():
    with pytest.raises(PrivacyError, match="not row-wise"):
        prepared(foreign(AwakeAtTheEdge(), batched=True))


def test_a_map_that_changes_its_buffers_later_is_refused_before_release():
    class Sleeper(Counting):
        def forward(self, rows):
            if bool((rows == 0.123).any()):
                self.seen += 1
            return (rows + self.seen,)

    plan = foreign(Sleeper(), batched=True)
    table = table_of([(0.123,) * 5], ["a"])
    with pytest.raises(PrivacyError, match="buffers"):
        exact_sums(table, plan, budget_of(), SCHEMA)


def test_float64_is_tried_where_float32_is_not_row_wise():
    class Wobbly(nn.Module):
        """Row-wise in float64 only: in float32 the slot number leaks into the last bits."""

        def __init__(self):
            super().__init__()
            self.register_buffer("one", torch.ones(1))

        def forward(self, rows):
            out = rows.to(self.one.dtype) * 0.3
            if out.dtype == torch.float32:
                out = out + torch.arange(len(rows))[:, None] * 1e-4
            return (out,)

    row_map = prepared(foreign(Wobbly(), batched=True))
    check_every_slot(row_map)
