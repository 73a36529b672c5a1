"""T-SENS: no row, however mad, moves the statistic by more than the claimed sensitivity."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgist.errors import PrivacyError
from dpgist.features.looked import LookedUp
from dpgist.features.marked import Marked
from dpgist.methods import Hermite
from dpgist.privacy import curator, lattice, rowmap
from dpgist.privacy.plan import Block, Relation
from dpgist.privacy.sensitivity import check_claim, l2_sensitivity
from tests.trust.worlds import (
    TWO_STAGES,
    Signed,
    budget_of,
    exact_sums,
    plan_for,
    release,
    schema_of,
    signed_plan,
    stage_plans,
    table_of,
    weighted_squared_distance,
)

ANY_FLOAT = st.one_of(
    st.floats(width=64),
    st.floats(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-310, math.inf, math.nan]),
)
ANY_CELL = st.one_of(
    ANY_FLOAT, st.sampled_from([None, "text", "0.5", "1e999", "", "\N{SNOWMAN}", 10**40])
)
ANY_LABEL = st.sampled_from(["a", "b", "c", None, 3, float("nan")])
BLOCKS = st.builds(
    Block,
    name=st.just("b"),
    length=st.integers(1, 6),
    bits=st.sampled_from([0, 4, 20, 26]),
    bound_squared=st.just(1),
    non_negative=st.booleans(),
)


def norms_squared(grid):
    return [sum(int(v) ** 2 for v in row) for row in grid.tolist()]


def numbers_of(grid):
    """Pairs, which come as complex numbers, as the numbers that are summed."""
    return torch.cat([grid.real, grid.imag], dim=1) if grid.is_complex() else grid


def check_rows_are_bounded_integers(features, block):
    if not isinstance(features, LookedUp):
        features = torch.from_numpy(features)
    grid = numbers_of(rowmap.to_grid(features, block))
    assert torch.equal(grid, grid.trunc()), "not integers"
    limit = block.bound_squared * 4**block.bits
    assert max(norms_squared(grid)) <= limit, "norm above its bound"
    assert not block.non_negative or bool((grid >= 0).all()), (
        "negative number in a block declared not to"
    )


@settings(max_examples=4_000, deadline=None)
@given(BLOCKS, st.data())
def test_any_numbers_become_bounded_integers(block, data):
    row = data.draw(st.lists(ANY_FLOAT, min_size=block.length, max_size=block.length))
    with np.errstate(over="ignore"):
        features = np.array([row], dtype=data.draw(st.sampled_from([np.float32, np.float64])))
    check_rows_are_bounded_integers(features, block)


@pytest.mark.parametrize("mad", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324])
@pytest.mark.parametrize("non_negative", [True, False])
def test_mad_numbers_among_good_ones_become_bounded_integers(mad, non_negative):
    features = np.array([[mad, 0.5, 0.5], [0.6, mad, -0.8], [mad, mad, mad], [0.6, 0.0, 0.8]])
    block = Block(name="b", length=3, non_negative=non_negative)
    check_rows_are_bounded_integers(features, block)
    grid = lattice.to_grid(torch.from_numpy(features), block)
    assert norms_squared(grid)[3] > 0.999 * 4**20, "a mad row took a good one with it"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bits", [20, 26])
def test_unit_rows_of_either_precision_stay_inside_in_integers(dtype, bits):
    """Half of all float32-normalised rows have a true norm above 1."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(20_000, 40))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(dtype)
    check_rows_are_bounded_integers(rows, Block(name="b", length=40, bits=bits))
    grid = lattice.to_grid(torch.from_numpy(rows), Block(name="b", length=40, bits=bits))
    assert min(norms_squared(grid)) > 0.999 * 4**bits, "rows were thrown away"


@settings(max_examples=500, deadline=None)
@given(BLOCKS, st.integers(1, 4), st.data())
def test_no_row_leaves_its_bound_wherever_it_points_in_whatever_table(block, n_places, data):
    numbers = st.lists(ANY_FLOAT, min_size=2, max_size=2)
    pairs = data.draw(st.lists(numbers, min_size=1, max_size=4))
    some = st.integers(0, len(pairs) - 1)
    places = data.draw(st.lists(some, min_size=n_places, max_size=n_places))
    with np.errstate(over="ignore"):
        table = np.array(pairs, dtype=data.draw(st.sampled_from([np.float32, np.float64])))
    features = LookedUp(
        places=torch.tensor([places], dtype=torch.int32), pairs=torch.from_numpy(table)
    )
    check_rows_are_bounded_integers(features, replace(block, length=2 * n_places))


def test_rows_of_a_good_table_keep_their_norm():
    angles = torch.arange(1000, dtype=torch.float64)
    pairs = torch.stack([angles.cos(), angles.sin()], dim=1) / math.sqrt(50) * (1 - 1e-6)
    places = torch.arange(500, dtype=torch.int32).reshape(10, 50)
    for table in (pairs, pairs.float()):
        looked_up = LookedUp(places=places, pairs=table)
        grid = numbers_of(lattice.to_grid(looked_up, Block(name="b", length=100)))
        assert min(norms_squared(grid)) > 0.999 * 4**20
        assert torch.equal(grid[3, 4::50], (table[154].double() * 2**20).trunc().to(grid.dtype))


def check_marks_are_bounded_counts(places, block):
    """The sum of one row of marks, whatever its places, is that row's integers."""
    grid = rowmap.to_grid(Marked(places=torch.tensor([places]), length=block.length), block)
    total = torch.zeros(1, block.length, dtype=torch.int64)
    try:
        curator.count_marks(total, grid, torch.zeros(1, dtype=torch.int64), block)
    except (IndexError, RuntimeError):  # the curator would say only that the pass failed
        return
    assert norms_squared(total)[0] <= block.bound_squared * 4**block.bits, "norm above its bound"


@settings(max_examples=500, deadline=None)
@given(st.lists(st.integers(-3, 9), min_size=1, max_size=7), st.integers(1, 6))
def test_no_row_of_marks_leaves_its_bound_wherever_it_points(places, bound_squared):
    block = Block(name="b", length=6, bound_squared=bound_squared, non_negative=True)
    check_marks_are_bounded_counts(places, block)


@pytest.mark.parametrize("places", [[2, 2, 2], [0, 1, 2], [5, 5, 6]])
def test_a_place_twice_or_one_mark_too_many_leaves_no_bound(places):
    block = Block(name="b", length=6, bound_squared=2, non_negative=True)
    check_marks_are_bounded_counts(places, block)


def test_marks_are_counted_as_their_vectors_would_be_summed():
    rng = np.random.default_rng(11)
    places = np.stack([rng.permutation(10)[:4] for _ in range(300)])  # place 9 is nowhere
    codes = torch.from_numpy(rng.integers(0, 3, 300))
    marked = Marked(places=torch.from_numpy(places), length=9)
    block = Block(name="b", length=9, bits=4, bound_squared=4, non_negative=True)
    totals = torch.zeros(3, 9, dtype=torch.int64)
    lattice.count_marks(totals, lattice.to_grid(marked, block), codes, block)
    dense = lattice.to_grid(marked.dense(), block)
    assert torch.equal(totals, lattice.class_sums(dense, codes, 3))


def test_pairs_are_summed_as_all_firsts_and_then_all_seconds():
    rng = np.random.default_rng(10)
    pairs, codes = rng.integers(-900, 900, (40, 7, 2)), rng.integers(0, 3, 40)
    grid = torch.view_as_complex(torch.from_numpy(pairs).float())
    sums = lattice.class_sums(grid, torch.from_numpy(codes), 3)
    for code in range(3):
        firsts, seconds = pairs[codes == code].sum(axis=0).T
        assert sums[code].tolist() == [*firsts, *seconds]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("largest", [1, 2**10, 2**19, 2**24])
def test_class_sums_are_those_of_whole_numbers(dtype, largest):
    rng = np.random.default_rng(9)
    whole = rng.integers(-largest, largest + 1, (700, 3))
    whole[:, 0], codes = largest - 1, rng.integers(0, 4, 700)
    grid = torch.from_numpy(whole).to(dtype)
    sums = lattice.class_sums(grid, torch.from_numpy(codes), 5)
    for code in range(5):
        assert sums[code].tolist() == whole[codes == code].sum(axis=0).tolist()


def check_pair(rows, labels, others, other_labels, relation, schema, plan):
    budget = budget_of(relation=relation)
    stage, sums = exact_sums(table_of(rows, labels), plan, budget, schema)
    _, again = exact_sums(table_of(others, other_labels), plan, budget, schema)
    distance = weighted_squared_distance(stage, sums, again)
    claimed = Fraction(stage.sensitivity) ** 2
    assert distance <= claimed, f"moved by {math.sqrt(distance)}, claimed {stage.sensitivity}"
    return math.sqrt(distance) / stage.sensitivity


CELLS = st.lists(st.tuples(ANY_CELL, ANY_CELL, ANY_LABEL), min_size=1, max_size=4)
LABELLED = schema_of(2)


@settings(max_examples=60, deadline=None)
@given(
    CELLS,
    st.tuples(ANY_CELL, ANY_CELL, ANY_LABEL),
    st.sampled_from(["add_remove", "replace_one"]),
    st.sampled_from([{}, {"non_negative": True}, {"bits": 26}, {"weight": 0.3}]),
)
def test_one_row_of_anything_moves_the_statistic_by_at_most_its_sensitivity(
    cells, changed, relation, block
):
    plan = signed_plan(LABELLED, **block)
    others = cells[1:] if relation == "add_remove" else [changed, *cells[1:]]
    rows, labels = [c[:2] for c in cells], [c[2] for c in cells]
    check_pair(
        rows, labels, [c[:2] for c in others], [c[2] for c in others], relation, LABELLED, plan
    )


def one_row(rows, labels=("a",), relation="add_remove", **block):
    """How much of the claimed sensitivity a first row uses up against a second one or none."""
    schema = schema_of(2)
    others = rows[1:] if relation == "replace_one" else []
    other_labels = list(labels[1:]) if relation == "replace_one" else []
    plan = signed_plan(schema, **block)
    return check_pair(rows[:1], list(labels[:1]), others, other_labels, relation, schema, plan)


def test_worst_pairs_use_the_whole_sensitivity():
    """Tightness: a sensitivity claimed too large would waste noise, one too small fails above."""
    health = 0.99  # these rows break no cell, so the health block's share is not used
    assert one_row([(1.0, 1.0)]) > health
    assert one_row([(1.0, 1.0), (0.0, 0.0)], "aa", "replace_one") > health
    assert one_row([(1.0, 1.0), (0.0, 0.0)], "ab", "replace_one") > health


def test_a_row_that_breaks_every_cell_uses_the_health_share_too():
    assert one_row([(1e308, 1e308)], ["junk"]) > 0.9999


def test_two_blocks_add_their_squares():
    schema = schema_of(2)
    blocks = (
        Block(name="first", length=2, labelled=True, weight=1.0),
        Block(name="second", length=2, labelled=True, weight=0.5, non_negative=True),
    )

    class Both(Signed):
        def forward(self, row):
            return row * 1e6, row * 1e6

    plan = plan_for(schema, Both(), blocks)
    assert check_pair([(1.0, 1.0)], ["a"], [], [], "add_remove", schema, plan) > 0.99
    pair = ([(1.0, 0.0)], ["a"], [(0.0, 1.0)], ["b"], "replace_one", schema, plan)
    assert check_pair(*pair) > 0.8


@pytest.mark.parametrize("relation", list(Relation))
def test_k_rows_of_one_person_move_the_sum_k_times_as_far(relation):
    blocks = (Block(name="f", length=3, labelled=True),)
    single = l2_sensitivity(blocks, relation, 1)
    assert l2_sensitivity(blocks, relation, 5) == pytest.approx(5 * single)
    schema = schema_of(2, rows_per_person=3)
    rows = [(1.0, 1.0)] * 3
    others = [] if relation == Relation.ADD_REMOVE else [(0.0, 0.0)] * 3
    plan = signed_plan(schema)
    ratio = check_pair(rows, "aaa", others, "aaa"[: len(others)], relation, schema, plan)
    assert ratio > 0.99


def test_a_block_may_not_call_itself_constant():
    """It would be free under replace_one, and nothing makes it true."""
    plan, table = signed_plan(LABELLED, constant=True), table_of([(0.5, 0.5)], ["a"])
    with pytest.raises(PrivacyError, match="only the counts"):
        release(table, plan, budget_of(relation="replace_one"), LABELLED)


def test_nor_may_a_block_of_a_released_gist():
    table = table_of([(0.5, 0.5)], ["a"])
    released = release(table, signed_plan(LABELLED), budget_of(), LABELLED)
    check_claim(released)
    (stage,) = released.stages
    first = replace(stage.blocks[0], block=replace(stage.blocks[0].block, constant=True))
    forged = replace(stage, blocks=(first, *stage.blocks[1:]))
    with pytest.raises(PrivacyError, match="only the counts"):
        check_claim(replace(released, stages=(forged,)))


CLOSED_FORMS = [
    # (S ; c m): PRIVACY table of sensitivities, with phi of norm 1
    ("add_remove", False, 0.5, math.sqrt(1 + 0.25)),
    ("replace_one", False, 0.5, 2.0),
    ("replace_one", False, 1.0, 2.0),
    ("replace_one", False, 1.5, math.sqrt(2 + 2 * 2.25)),
    ("replace_one", True, 0.5, math.sqrt(2 + 2 * 0.25)),
]


@pytest.mark.parametrize(("relation", "non_negative", "c", "expected"), CLOSED_FORMS)
def test_the_one_function_gives_the_closed_forms(relation, non_negative, c, expected):
    blocks = (
        Block(name="f", length=5, labelled=True, non_negative=non_negative),
        Block(
            name="m", length=1, labelled=True, non_negative=True, constant=True, weight=c, bits=0
        ),
    )
    assert l2_sensitivity(blocks, Relation(relation), 1) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("c", [0.5, 1.0])
def test_two_moments_give_the_closed_forms(c):
    def of(non_negative, relation):
        blocks = (
            Block(name="first", length=5, non_negative=non_negative),
            Block(name="second", length=5, non_negative=True, weight=c),
        )
        return l2_sensitivity(blocks, relation, 1)

    assert of(False, Relation.REPLACE_ONE) == pytest.approx(math.sqrt(4 + 2 * c**2))
    assert of(True, Relation.REPLACE_ONE) == pytest.approx(math.sqrt(2 + 2 * c**2))
    assert of(False, Relation.ADD_REMOVE) == pytest.approx(math.sqrt(1 + c**2))


SKEWED = table_of(np.random.default_rng(8).beta(0.3, 3.0, (4_000, 2)).tolist(), "ab" * 2_000)
STAGES = {
    f"{name}, stage {number}": plan
    for name, method in TWO_STAGES.items()
    for number, plan in enumerate(stage_plans(LABELLED, SKEWED, method), start=1)
}


@pytest.mark.parametrize("stage", STAGES)
@settings(max_examples=40, deadline=None)
@given(
    CELLS,
    st.tuples(ANY_CELL, ANY_CELL, ANY_LABEL),
    st.sampled_from(["add_remove", "replace_one"]),
)
def test_no_row_moves_a_stage_by_more_than_claimed(stage, rows, other, relation):
    *numbers, labels = zip(*rows, strict=True)
    table, labels = list(zip(*numbers, strict=True)), list(labels)
    if relation == "add_remove":
        neighbour, others = [*table, other[:2]], [*labels, other[2]]
    else:
        neighbour, others = [other[:2], *table[1:]], [other[2], *labels[1:]]
    check_pair(table, labels, neighbour, others, relation, LABELLED, STAGES[stage])


@pytest.mark.parametrize("stage", [name for name in STAGES if name != "pearl by distance, stage 1"])
def test_a_stage_uses_the_sensitivity_it_pays_for(stage):
    """One clean row more moves every block to its bound, but for the health of its cells."""
    used = check_pair([(0.2, 0.7)], "a", [], "", "add_remove", LABELLED, STAGES[stage])
    assert used > 0.99


def test_a_row_in_the_far_corner_uses_what_a_paid_distance_pays_for():
    plan = STAGES["pearl by distance, stage 1"]
    used = check_pair([(1.0, 1.0)], "a", [], "", "add_remove", LABELLED, plan)
    assert used > 0.99


HERMITE = Hermite(sum_order=7, product_order=4).plan(LABELLED, budget=budget_of(), feature_seed=0)


@settings(max_examples=40, deadline=None)
@given(
    CELLS,
    st.tuples(ANY_CELL, ANY_CELL, ANY_LABEL),
    st.sampled_from(["add_remove", "replace_one"]),
)
def test_no_row_moves_hermite_sums_by_more_than_claimed(rows, other, relation):
    *numbers, labels = zip(*rows, strict=True)
    table, labels = list(zip(*numbers, strict=True)), list(labels)
    if relation == "add_remove":
        neighbour, others = [*table, other[:2]], [*labels, other[2]]
    else:
        neighbour, others = [other[:2], *table[1:]], [other[2], *labels[1:]]
    check_pair(table, labels, neighbour, others, relation, LABELLED, HERMITE)


def test_hermite_features_use_most_of_the_sensitivity_they_pay_for():
    """Orders that are cut off leave a little of the norm unused, and never the other way round."""
    plan = Hermite().plan(LABELLED, budget=budget_of(), feature_seed=0)
    used = check_pair([(0.2, 0.7)], "a", [], "", "add_remove", LABELLED, plan)
    assert used > 0.93
