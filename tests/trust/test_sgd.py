"""DP-SGD: bounded whatever a model says, exact, charged once and first, and paid for in full."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpgist.errors import BudgetExceeded, PrivacyError
from dpgist.privacy import sgd, subsampled
from dpgist.privacy.accounting import MU_SQUARED_UNITS, epsilon_of, mu_of, units_of
from dpgist.privacy.outer import Space
from dpgist.privacy.plan import Budget, Relation
from dpgist.privacy.subsampled import Run, calibrated, epsilon_by_pld, epsilon_by_rdp, terms_for
from tests.trust.sgd_worlds import (
    Recorder,
    Told,
    held_of,
    ledger_of,
    prepared_of,
    query_of,
    run,
)
from tests.trust.worlds import budget_of, schema_of

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)
MAD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, 1.0]


def space_of(projected):
    rng = np.random.default_rng(0)
    projection = rng.integers(-32, 33, (3, 4, 2)) if projected else None
    return Space(
        outputs=6, inputs=4, levels=255, constant=0.1, projection=projection, projection_scale=8
    )


def squared_norm(space, grid_row, row):
    """The squared norm of one row's integer gradient, in Python integers."""
    a, x = [int(v) for v in grid_row], [int(v) for v in row]
    if space.projection is None:
        seen = [x] * space.groups
    else:
        seen = [
            [sum(x[i] * int(part[i, f]) for i in range(space.inputs)) for f in range(2)]
            for part in space.projection
        ]
    each = space.outputs // space.groups
    return sum(
        value**2 * (sum(v**2 for v in seen[at // each]) + space.whole_constant**2)
        for at, value in enumerate(a)
    )


@pytest.mark.parametrize("projected", [False, True])
@settings(max_examples=150, deadline=None)
@given(
    st.lists(NUMBERS | st.sampled_from(MAD), min_size=6, max_size=6),
    st.lists(st.integers(-255, 255), min_size=4, max_size=4),
    st.sampled_from([1e-4, 0.1, 1.0, 30.0]),
)
def test_any_coefficients_become_a_gradient_within_the_bound(projected, numbers, row, clip):
    space = space_of(projected)
    rows = torch.tensor([[row]])
    found = torch.tensor([[numbers]], dtype=torch.float64)
    grid = space.clipped(found, space.gains(rows), clip=clip)
    bound = Fraction(space.grid_bound(clip)) * (1 + Fraction(1, 2**40))
    assert bool((grid == grid.trunc()).all())
    assert squared_norm(space, grid[0, 0], row) <= bound**2


@pytest.mark.parametrize("projected", [False, True])
def test_sums_are_exact_in_any_order_and_equal_the_sum_of_rows(projected):
    space, rng = space_of(projected), np.random.default_rng(1)
    rows = torch.from_numpy(rng.integers(-255, 256, (500, 1, 4)))
    found = torch.from_numpy(rng.normal(size=(500, 1, 6)))
    grid = space.clipped(found, space.gains(rows), clip=0.7)
    whole = space.gradient(*space.summed(grid, rows))
    order = torch.from_numpy(rng.permutation(500))
    assert np.array_equal(whole, space.gradient(*space.summed(grid[order], rows[order])))
    one_by_one = sum(
        space.gradient(*space.summed(grid[i : i + 1], rows[i : i + 1])) for i in range(500)
    )
    assert np.array_equal(whole, one_by_one)


def test_one_row_more_moves_the_sum_by_at_most_the_bound_and_a_large_one_by_all_of_it():
    query = query_of()
    prepared = prepared_of(query)
    zeros = torch.zeros(1, 2, dtype=torch.float64)

    def total(xs):
        return sgd.clipped_sum(prepared, held_of(xs, query), np.arange(len(xs)), zeros)

    moved = total([0.0, 0.0, 1.0]) - total([0.0, 0.0])
    distance = math.sqrt(sum(int(v) ** 2 for v in moved.ravel()))
    bound = query.space.grid_bound(query.clip)
    assert 0.999 * bound <= distance <= bound * (1 + 2**-40)
    assert prepared.noise_std >= prepared.multiplier * bound * (1 + 2**-40)


@pytest.mark.parametrize("projected", [False, True])
def test_sums_too_long_for_the_integers_wrap_around_exactly(projected):
    space, rng = space_of(projected), np.random.default_rng(2)
    products = rng.integers(-(2**63), 2**63, (6, 4), dtype=np.int64)
    alone = rng.integers(-(2**63), 2**63, 6, dtype=np.int64)
    found = space.gradient(products, alone)
    for output in range(6):
        row = [int(v) for v in products[output]]
        if projected:
            part = space.projection[output // 2]
            row = [sum(v * int(part[i, f]) for i, v in enumerate(row)) for f in range(2)]
        expected = [*row, int(alone[output]) * space.whole_constant]
        assert [(int(v) - w) % 2**64 for v, w in zip(found[output], expected, strict=True)] == [
            0
        ] * len(expected)


def test_no_number_of_rows_ends_in_an_error():
    """Neighbours on both sides of the largest integer must not be told apart by a refusal."""
    space = Space(outputs=1, inputs=1, levels=255, constant=256.0)
    query = query_of(rate=1.0, steps=1, clip=2.0**11, space=space)
    prepared, held, follower = prepared_of(query), held_of([1.0], query), Recorder()
    one = int(np.abs(sgd.clipped_sum(prepared, held, np.zeros(1, int), follower.parameters)).max())
    for rows in (2**61 // one, 2**61 // one + 1, 2**63 // one + 1):
        sgd.take_step(prepared, held, np.zeros(rows, np.int64), 10, follower)
    assert np.isfinite(follower.seen).all()


def test_a_clip_bound_that_so_many_declared_rows_would_tip_over_is_refused_before_the_charge():
    query = query_of(rate=0.5, rows=10**9)
    with pytest.raises(ValueError, match="too large for sums of 500,000,000 rows"):
        prepared_of(query)


def test_bad_cells_and_unknown_labels_never_raise():
    query = query_of(steps=2)
    follower, _ = run(["x", None, 1e308, float("nan"), 1.0], query)
    assert np.isfinite(follower.seen).all()


class NotRowWise:
    """A model that looks at the other rows of the block."""

    def at(self, parameters, dtype):
        return lambda rows, labels: rows[:, :1] - rows[:, :1].cumsum(0)


class NotRowWiseLater:
    """The same, but only once its parameters have left zero, where training starts."""

    def at(self, parameters, dtype):
        moved = parameters.abs().max().to(dtype)
        return lambda rows, labels: rows[:, :1] - moved * rows[:, :1].cumsum(0)


class Counting(Told):
    """A model that counts how often it is asked."""

    calls = 0

    def at(self, parameters, dtype):
        Counting.calls += 1
        return super().at(parameters, dtype)


@pytest.mark.parametrize("model", [NotRowWise(), NotRowWiseLater()])
def test_a_model_that_is_not_row_wise_is_refused_before_the_charge(model):
    schema, budget = schema_of(1), budget_of(1.0)
    ledger = ledger_of(budget, schema)
    with pytest.raises(PrivacyError, match="row-wise"):
        run([1.0, 0.0], query_of(model=model), ledger=ledger)
    assert ledger.spent_units() == 0


class Broken(Told):
    """A model that fails on real rows only, and says which."""

    def at(self, parameters, dtype):
        def failing(rows, labels):
            if bool((rows[1:] == 0).all()):  # one row and padding: never so on made-up rows
                raise ValueError(f"the secret is {rows[0]}")
            return rows[:, :1]

        return failing


def test_a_failure_after_the_charge_stays_charged_and_tells_nothing():
    schema, budget = schema_of(1), budget_of(1.0)
    ledger = ledger_of(budget, schema)
    with pytest.raises(PrivacyError, match="did not finish") as caught:
        run([1.0], query_of(model=Broken(), rate=1.0), ledger=ledger)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert ledger.spent_units() == units_of(budget)
    assert ledger.unfinished() == [1]


# T-LEDGER


def test_a_run_is_one_entry_whatever_its_steps():
    schema, budget = schema_of(1), budget_of(1.0)
    ledger = ledger_of(budget, schema)
    run([1.0] * 3, query_of(steps=30), ledger=ledger)
    kinds = [line.body["kind"] for line in ledger.entries()]
    assert kinds == ["terms", "charge", "released"]
    assert ledger.spent_units() == units_of(budget) == ledger.cap_units


def test_a_refused_run_has_read_nothing(monkeypatch):
    schema, budget = schema_of(1), budget_of(1.0)
    ledger = ledger_of(budget, schema)
    ledger.charge(1, what={})
    monkeypatch.setattr(sgd, "_read", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(BudgetExceeded, match="No row was read"):
        run([1.0], query_of(), ledger=ledger)


def test_the_charge_comes_before_the_first_row(monkeypatch):
    schema, budget = schema_of(1), budget_of(1.0)
    ledger, read = ledger_of(budget, schema), sgd._read
    spent = []
    monkeypatch.setattr(sgd, "_read", lambda *a: spent.append(ledger.spent_units()) or read(*a))
    run([1.0], query_of(), ledger=ledger)
    assert spent == [units_of(budget)]


def curve(epsilons, rate, multiplier):
    """Delta of one sampled step by numerical integration: a second implementation."""
    z = np.linspace(-12, 12 + 1 / multiplier, 100_001)
    plain = stats.norm.pdf(z)
    mixed = (1 - rate) * plain + rate * stats.norm.pdf(z - 1 / multiplier)
    found = []
    for epsilon in epsilons:
        outside = [p - math.exp(epsilon) * q for p, q in ((mixed, plain), (plain, mixed))]
        found.append(max(integrate.trapezoid(np.maximum(part, 0), z) for part in outside))
    return np.array(found)


def terms_of(budget, ledger_epsilon=None):
    cap = Budget(epsilon=ledger_epsilon or budget.epsilon, delta=budget.delta)
    return terms_for(
        units_of(budget),
        epsilon=budget.epsilon,
        delta=budget.delta,
        ledger_epsilon=cap.epsilon,
        cap_units=units_of(cap),
    )


def test_one_sampled_step_is_below_the_charged_gaussian_everywhere():
    """Equation (1), checked by integration without the accountant."""
    budget = budget_of(1.0)
    run_, terms = Run(rate=0.2, steps=1, relation=budget.relation), terms_of(budget)
    multiplier = calibrated(run_, terms)
    epsilons = np.linspace(0, 2, 9)
    allowed = terms.slack + (1 - terms.slack) * subsampled.gaussian_delta(terms.mu, epsilons)
    assert (curve(epsilons, 0.2, multiplier) <= allowed * (1 + 1e-6)).all()
    assert not subsampled.keeps(run_, multiplier * 0.98, terms)


def test_no_rounding_of_the_convolutions_makes_a_run_look_cheaper():
    long = subsampled._curve(Run(rate=0.001, steps=200_000, relation=Relation.ADD_REMOVE), 8.0)
    assert (long(np.linspace(1.0, 3.0, 9)) > 0).all()
    whole = subsampled._curve(Run(rate=1.0, steps=10_000, relation=Relation.ADD_REMOVE), 300.0)
    epsilons = np.linspace(1.0, 3.0, 9)
    exactly = subsampled.gaussian_delta(math.sqrt(10_000) / 300.0, epsilons)
    assert (whole(epsilons) >= exactly).all()
    assert exactly[-1] < subsampled._SMALLEST_SLACK < exactly[0]
    million = Run(rate=1.0, steps=1_000_000, relation=Relation.ADD_REMOVE)
    epsilons = np.linspace(13.0, 17.0, 400)
    exactly = subsampled.gaussian_delta(2.0, epsilons)
    assert (subsampled._curve(million, 500.0)(epsilons) >= exactly).all()


def test_a_slack_finer_than_the_convolutions_is_refused():
    with pytest.raises(ValueError, match="a delta of at least"):
        terms_of(Budget(epsilon=1.0, delta=1e-10))


def test_the_thesis_run_costs_what_was_recomputed_for_it():
    """PRIVACY C4: B=500 of 60,000, 20 epochs, sigma 1.3, delta 1e-5."""
    run_ = Run(rate=500 / 60_000, steps=2400, relation=Relation.ADD_REMOVE)
    assert epsilon_by_pld(run_, 1.3, 1e-5) == pytest.approx(1.474, abs=2e-3)
    assert epsilon_by_rdp(run_, 1.3, 1e-5) == pytest.approx(1.620, abs=2e-3)


def test_the_ledger_keeps_its_promise_with_any_share_of_sampled_runs():
    """The claim in subsampled.py, on a grid of terms and shares."""
    for epsilon in (0.1, 0.5, 2.0, 8.0):
        for delta in (1e-3, 1e-5, 1e-9):
            cap = mu_of(epsilon, delta) ** 2
            left = mu_of(epsilon, delta * (1 - subsampled.SLACK)) ** 2 / cap
            for share in np.linspace(0, 1, 11):
                mu = math.sqrt(cap * (1 - share * (1 - left)))
                spent = epsilon_of(mu, delta * (1 - subsampled.SLACK * share))
                assert spent <= epsilon * (1 + 1e-6)


def test_a_part_of_a_ledger_buys_less_than_all_of_it():
    whole, part = terms_of(budget_of(1.0)), terms_of(budget_of(0.5), ledger_epsilon=1.0)
    assert part.mu < whole.mu
    share = units_of(budget_of(0.5)) / units_of(budget_of(1.0))
    assert part.slack == pytest.approx(whole.slack * share)


def test_a_delta_too_large_to_add_up_is_refused():
    with pytest.raises(PrivacyError, match="smaller delta"):
        terms_of(Budget(epsilon=0.05, delta=0.3))


@pytest.mark.parametrize(("relation", "per_person"), [("replace_one", 1), ("add_remove", 3)])
def test_other_relations_and_more_rows_a_person_cost_more(relation, per_person):
    plain = Run(rate=0.2, steps=10, relation=Relation.ADD_REMOVE)
    other = Run(rate=0.2, steps=10, relation=Relation(relation), rows_per_person=per_person)
    terms = terms_of(budget_of(1.0))
    multiplier = calibrated(other, terms)
    assert multiplier > 1.5 * calibrated(plain, terms)
    assert epsilon_by_pld(other, multiplier, 1e-5) <= 1.0
    assert epsilon_by_pld(other, 3.0, 1e-5) > epsilon_by_pld(plain, 3.0, 1e-5)


def test_an_unknown_row_count_is_paid_for_and_noisy():
    result, again = (
        run([1.0] * 400, query_of(rows=None, steps=1), epsilon=4.0)[1] for _ in range(2)
    )
    assert result.rows != again.rows or result.rows != 400
    declared = run([1.0] * 400, query_of(rows=400, steps=1), epsilon=4.0)[1]
    assert result.noise_multiplier > declared.noise_multiplier
    std = 1 / math.sqrt(math.ceil(units_of(budget_of(4.0)) * sgd.COUNT_SHARE) / MU_SQUARED_UNITS)
    assert abs(result.rows - 400) < 8 * std


def test_under_replace_one_the_row_count_is_public():
    result = run([1.0] * 40, query_of(rows=None, steps=1), relation="replace_one")[1]
    assert result.rows == 40
