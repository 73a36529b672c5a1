"""T-COPIES: a row in several copies stays within the bound of one, though copies may cancel."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgist.classify.model import LocallyLinearModel
from dpgist.errors import PrivacyError
from dpgist.privacy import sgd
from dpgist.privacy.inputs import Inputs
from dpgist.privacy.outer import BITS, Space
from dpgist.sources import open_source
from tests.trust.sgd_worlds import LEVELS, prepared_of, query_of
from tests.trust.worlds import schema_of, table_of

COPIES, INPUTS, OUTPUTS = 5, 4, 3
VIEWS = np.array([[0, 1, 2, 3], [1, 2, 3, -1], [-1, 0, 1, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)
MAD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, 1.0]


def space_of(copies=COPIES, **more):
    facts = {"outputs": OUTPUTS, "inputs": INPUTS, "levels": LEVELS, "constant": 0.1} | more
    return Space(copies=copies, **facts)


def squared_norm(space, grid, copies):
    """The squared norm of the summed outer products of one row's copies, in Python integers."""
    total = [[0] * (space.inputs + 1) for _ in range(space.outputs)]
    for coefficients, x in zip(grid.tolist(), copies, strict=True):
        for at, c in enumerate(coefficients):
            for place, value in enumerate([*map(int, x), space.whole_constant]):
                total[at][place] += int(c) * value
    return sum(v**2 for line in total for v in line)


def check_bound(space, found, copies, clip):
    """Clip one row and check the result in exact arithmetic; the exact norm over the bound."""
    rows, numbers = torch.tensor([copies]), torch.tensor([found], dtype=torch.float64)
    grid = space.clipped(numbers, space.gains(rows), clip=clip)
    bound = Fraction(space.grid_bound(clip)) * (1 + Fraction(1, 2**40))
    squared = squared_norm(space, grid[0], copies)
    assert bool((grid == grid.trunc()).all())
    assert squared <= bound**2
    assert float(grid.abs().max()) <= space.grid_bound(clip) / space.whole_constant
    return math.sqrt(squared / bound**2)


def lists(inner, n):
    return st.lists(inner, min_size=n, max_size=n)


@settings(max_examples=150, deadline=None)
@given(
    lists(lists(NUMBERS | st.sampled_from(MAD), OUTPUTS), COPIES),
    lists(lists(st.integers(-LEVELS, LEVELS), INPUTS), COPIES),
    st.sampled_from([1e-2, 0.1, 1.0, 30.0]),
)
def test_any_coefficients_of_any_copies_become_a_gradient_within_the_bound(found, copies, clip):
    check_bound(space_of(), found, copies, clip)


@settings(max_examples=150, deadline=None)
@given(
    lists(st.floats(-1e12, 1e12), OUTPUTS),
    lists(lists(st.floats(-1e-6, 1e-6), OUTPUTS), 2),
    lists(st.integers(-LEVELS, LEVELS), INPUTS),
    lists(st.integers(-1, 1), INPUTS),
    st.sampled_from([1.0, 1e3, 1e9, 1e15]),
)
def test_copies_that_cancel_stay_within_the_bound(found, errors, row, step, strength):
    """Two alike copies with opposite coefficients: all that is left is rounding."""
    near = np.clip(np.add(row, step), -LEVELS, LEVELS).tolist()
    pair = [strength * np.add(found, errors[0]), -strength * np.add(found, errors[1])]
    check_bound(space_of(2), [one.tolist() for one in pair], [row, near], 1.0)


def test_what_rounding_hides_when_copies_cancel_stays_within_the_bound():
    """What is left of huge coefficients is smaller than float64 can tell, and above the bound."""
    rng, space = np.random.default_rng(3), space_of(2)
    for left in 2.0 ** -np.arange(20.0, 32):
        found = 2.0**26 * rng.uniform(0.5, 1, OUTPUTS)
        pair = [found.tolist(), (-found * (1 + left)).tolist()]
        copies = [rng.integers(-LEVELS, LEVELS + 1, INPUTS).tolist()] * 2
        check_bound(space, pair, copies, 0.01)


def test_large_copies_that_agree_use_the_whole_bound():
    rng = np.random.default_rng(0)
    for size in (1.0, 1e3, 1e9):
        found = size * rng.normal(size=(COPIES, OUTPUTS))
        copies = rng.integers(-LEVELS, LEVELS + 1, (COPIES, INPUTS)).tolist()
        assert check_bound(space_of(), found.tolist(), copies, 0.1) > 0.999
    same = [found[0].tolist()] * COPIES
    assert check_bound(space_of(), same, [copies[0]] * COPIES, 0.1) > 0.999


def test_nine_copies_of_very_many_outputs_stay_within_the_bound():
    """The largest space that the error was counted for."""
    space, rng = space_of(9, outputs=4096), np.random.default_rng(1)
    copies = [rng.integers(-LEVELS, LEVELS + 1, INPUTS).tolist()] * 9
    found = np.tile(rng.normal(size=4096), (9, 1)) * (-1.0) ** np.arange(9)[:, None]
    assert check_bound(space, (1e3 * found).tolist(), copies, 1.0) > 0.999


def test_copies_that_are_alike_give_the_gradient_of_one():
    rng = np.random.default_rng(2)
    rows = torch.from_numpy(rng.integers(-LEVELS, LEVELS + 1, (40, 1, INPUTS)))
    found = torch.from_numpy(rng.normal(size=(40, 1, OUTPUTS)))
    sums = []
    for copies in (1, COPIES):
        space, many = space_of(copies), rows.expand(-1, copies, -1)
        grid = space.clipped(found.expand(-1, copies, -1), space.gains(many), clip=0.8)
        sums.append(space.gradient(*space.summed(grid, many)) / space.grid_bound(0.8))
    assert np.abs(sums[0]).max() > 1
    np.testing.assert_allclose(sums[1], sums[0], atol=40 * 1e-5)


# The wall with copies, on rows of four numbers


class Rough:
    """Coefficients that are large, of either sign, and other ones for other copies."""

    def at(self, parameters, dtype):
        turn = torch.tensor([[1.0, -2.0, 0.5], [-1.0, 1.0, 3.0], [2.0, 1.0, 1.0], [0.3, -1.0, 1.0]])
        return lambda rows, labels: 1e3 * (rows @ turn.to(dtype)) + labels[:, None].to(dtype)


def copied_query(model=None, **more):
    schema = schema_of(INPUTS)
    inputs = Inputs(width=INPUTS, levels=LEVELS, centre=np.full(INPUTS, 0.5), gain=2.0, views=VIEWS)
    facts = {"space": space_of(), "inputs": inputs, "clip": 0.5} | more
    return query_of(schema, model or Rough(), **facts)


def rows_of(n, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, INPUTS)).tolist()


def held_of(rows, query):
    table = table_of(rows, "ab" * (len(rows) // 2) + "a" * (len(rows) % 2))
    return sgd._read(open_source(table), query)


def total(rows, query):
    prepared = prepared_of(query)
    parameters = torch.zeros(OUTPUTS, INPUTS + 1, dtype=torch.float64)
    return sgd.clipped_sum(prepared, held_of(rows, query), np.arange(len(rows)), parameters)


def test_one_row_more_moves_the_sum_by_at_most_the_bound():
    """More rows than a block holds, so that blocks and padding are part of it."""
    query, rows = copied_query(), rows_of(221)
    for n in (101, 102, 205, 220):
        moved = total(rows[: n + 1], query) - total(rows[:n], query)
        distance = math.sqrt(sum(int(v) ** 2 for v in moved.ravel()))
        bound = query.space.grid_bound(query.clip)
        assert 0.999 * bound <= distance <= bound * (1 + 2**-40)


def test_copies_of_a_row_are_its_own_wherever_it_stands():
    query, rows = copied_query(), rows_of(6)
    forwards, backwards = (held_of(part, query).rows for part in (rows, rows[::-1]))
    assert forwards.shape == (6, COPIES, INPUTS)
    assert torch.equal(forwards, backwards.flip(0))
    alone = held_of(rows[2:3], query).rows
    assert torch.equal(forwards[2:3], alone)


def test_views_name_where_coordinates_come_from_and_are_zero_elsewhere():
    query = copied_query()
    (copies,) = query.inputs(np.array([[0.0, 0.25, 0.5, 1.0]]))
    whole = np.rint((np.array([0.0, 0.25, 0.5, 1.0]) - 0.5) * 255) * 2
    whole = np.clip(whole, -LEVELS, LEVELS)
    assert copies[0].tolist() == whole.tolist()
    assert copies[1].tolist() == [*whole[1:], whole[0]]  # a cell outside is 0, as the first is
    assert copies[4].tolist() == whole[::-1].tolist()


class LooksAside:
    """A model that looks at the row beside."""

    def at(self, parameters, dtype):
        def found(rows, labels):
            moved = rows.roll(COPIES, 0)
            return torch.where(moved[:, :1] > 0, 1.0, -1.0).to(dtype).expand(-1, OUTPUTS)

        return found


def test_a_model_that_looks_at_other_rows_copies_is_refused():
    with pytest.raises(PrivacyError, match="row-wise"):
        prepared_of(copied_query(LooksAside()))


def mean_gradient(parameters, row, label, model):
    """Autograd's gradient of the mean loss over the copies of one encoded row."""
    parameters = parameters.clone().requires_grad_(True)
    losses = []
    for view in VIEWS:
        x = torch.tensor([row[at] if at >= 0 else 0.0 for at in view], dtype=torch.float64)
        g = parameters[:, :-1] @ x + model.constant * parameters[:, -1]
        g = g.reshape(model.maps, model.n_classes)
        f = (torch.softmax(model.temperature * g, dim=0) * g).sum(dim=0)
        losses.append(torch.nn.functional.cross_entropy(f[None], torch.tensor([label])))
    (found,) = torch.autograd.grad(torch.stack(losses).mean(), parameters)
    return found


def test_without_clipping_the_sum_is_autograds_over_the_mean_of_copies():
    model = LocallyLinearModel(n_classes=2, maps=3, temperature=0.7, constant=51 / 255)
    inputs = Inputs(width=INPUTS, levels=LEVELS, centre=np.zeros(INPUTS), views=VIEWS)
    space = space_of(outputs=6, constant=0.2)
    query = copied_query(model, space=space, inputs=inputs, clip=100.0)
    rng = np.random.default_rng(5)
    rows = (rng.integers(0, 256, (7, INPUTS)) / 255).tolist()
    parameters = torch.from_numpy(rng.normal(size=(6, INPUTS + 1)))
    prepared, held = prepared_of(query), held_of(rows, query)
    prepared.dtype = torch.float64
    with torch.no_grad():
        found = sgd.clipped_sum(prepared, held, np.arange(7), parameters)
    exact = sum(
        mean_gradient(parameters, row, int(label), model)
        for row, label in zip(rows, held.labels, strict=True)
    )
    real = found / (2.0**BITS * query.space.unit)
    assert np.abs(exact.numpy()).max() > 0.1
    np.testing.assert_allclose(real, exact.numpy(), atol=1e-6)


def test_what_the_error_was_not_counted_for_is_refused():
    with pytest.raises(ValueError, match="1 to 9 copies"):
        space_of(10)
    with pytest.raises(ValueError, match="projection"):
        space_of(2, projection=np.ones((3, INPUTS, 2), np.int64))
    with pytest.raises(ValueError, match="too long"):
        space_of(2, projection_scale=2.0**30)
    with pytest.raises(ValueError, match="too small"):
        space_of(9, outputs=4096).check(1e-5)
    with pytest.raises(ValueError, match="number of copies"):
        prepared_of(copied_query(space=space_of(1)))
    for wrong in (VIEWS[0], VIEWS[:, :3], VIEWS + 1, VIEWS - 1, VIEWS.astype(float)):
        with pytest.raises(ValueError, match="views"):
            Inputs(width=INPUTS, levels=LEVELS, centre=np.zeros(INPUTS), views=wrong)
