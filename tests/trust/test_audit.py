"""T-AUDIT: what an adversary can prove never exceeds the claim, and nearly meets it."""

import numpy as np
import pytest
import torch

from dpgist.features.marked import Marked
from dpgist.methods.hermite import Hermite
from dpgist.methods.marginal import Marginal
from dpgist.methods.pearl import Pearl
from dpgist.privacy.accounting import epsilon_of, mu_of
from dpgist.privacy.plan import Block
from dpgist.privacy.sensitivity import mu_under
from tests.trust.auditing import (
    bounds,
    mu_lower_clopper_pearson,
    mu_lower_gaussian,
    tiled_release,
    whole_releases,
)
from tests.trust.worlds import (
    Plain,
    budget_of,
    plan_for,
    release,
    schema_of,
    signed_plan,
    table_of,
)

SCHEMA = schema_of(2)
NAN = float("nan")
UP, DOWN = (1.0, 1.0), (0.0, 0.0)
BASE = [(0.3, 0.9), (0.6, 0.1)]

# name: (relation, rows and labels of one table, of its neighbour, whether the pair is a worst case)
PAIRS = {
    "opposite rows": ("replace_one", [UP, *BASE], "aab", [DOWN, *BASE], "aab", True),
    "another label": ("replace_one", [UP, *BASE], "aab", [UP, *BASE], "bab", False),
    "label and row": ("replace_one", [UP, *BASE], "aab", [DOWN, *BASE], "bab", True),
    "one row more": ("add_remove", [UP, *BASE], "aab", BASE, "ab", True),
    "a huge row": ("add_remove", [(1e308, 1e308), *BASE], "aab", BASE, "ab", True),
    "a row of NaN": ("add_remove", [(NAN, NAN), *BASE], "aab", BASE, "ab", False),
    "a mad row": ("add_remove", [("x", None), *BASE], [7, "a", "b"], BASE, "ab", False),
    "all the same": ("add_remove", [UP] * 40, "a" * 40, [UP] * 39, "a" * 39, True),
    "empty or one": ("add_remove", [UP], "a", [], "", True),
}


def audit(pair, *, epsilon, n, releases, schema=SCHEMA, plan=None):
    relation, rows, labels, others, other_labels, worst = PAIRS[pair]
    plan = plan or signed_plan(schema)
    budget = budget_of(epsilon, relation)
    found = bounds(
        releases(table_of(rows, labels), plan, budget, schema, n),
        releases(table_of(others, other_labels), plan, budget, schema, n),
    )
    claim = mu_of(epsilon, 1e-5)
    assert max(found) <= claim, (
        f"{pair}: mu of at least {max(found):.3f} shown, {claim:.3f} claimed"
    )
    return max(epsilon_of(mu, 1e-5) for mu in found) / epsilon, worst


@pytest.mark.parametrize("pair", PAIRS)
def test_the_noise_layer_keeps_its_promise_and_wastes_little(pair):
    shown, worst = audit(pair, epsilon=1.0, n=500_000, releases=tiled_release)
    assert not worst or shown >= 0.9


@pytest.mark.parametrize("pair", PAIRS)
def test_whole_releases_keep_their_promise(pair):
    """Noise too small by a fifth is seen in the worst pairs; the others have room to spare."""
    n = 2_000 if PAIRS[pair][-1] else 1_000
    audit(pair, epsilon=10.0, n=n, releases=whole_releases)


def test_whole_releases_waste_little():
    shown, _ = audit("empty or one", epsilon=10.0, n=14_000, releases=whole_releases)
    assert shown >= 0.9


def test_two_blocks_and_all_broken_cells_keep_the_promise_together():
    blocks = tuple(
        Block(name=name, length=2, labelled=True, weight=weight, non_negative=True)
        for name, weight in [("first", 1.0), ("second", 0.4)]
    )
    plan = plan_for(SCHEMA, Plain(copies=2), blocks)
    for pair in ("a mad row", "label and row", "one row more"):
        audit(pair, epsilon=1.0, n=200_000, releases=tiled_release, plan=plan)


def test_three_rows_per_person_are_paid_for():
    schema = schema_of(2, rows_per_person=3)
    plan, budget = signed_plan(schema), budget_of(1.0)
    noisy = [
        tiled_release(table_of(rows, "a" * len(rows)), plan, budget, schema, 300_000)
        for rows in ([UP] * 5, [UP] * 2)
    ]
    found = max(bounds(*noisy))
    assert 0.9 * mu_of(1.0, 1e-5) <= found <= mu_of(1.0, 1e-5)


def test_an_add_remove_release_reads_as_claimed_under_replace_one():
    plan, budget = signed_plan(SCHEMA), budget_of(1.0)
    one, other = table_of([UP, *BASE], "aab"), table_of([DOWN, *BASE], "aab")
    found = max(bounds(*(tiled_release(t, plan, budget, SCHEMA, 300_000) for t in (one, other))))
    claim = mu_under(release(one, plan, budget, SCHEMA), "replace_one")
    assert 0.9 * claim <= found <= claim


def test_the_audit_itself_tells_right_from_wrong():
    rng = np.random.default_rng(4)

    def gaussian(shift):
        return rng.normal(size=(20_000, 3)) + np.array([shift, 0, 0])

    low = bounds(gaussian(1.0), gaussian(0.0))
    assert 0.85 < low[0] < 1.0
    assert 0.6 < low[1] < 1.0
    assert bounds(np.ones((100, 1)), np.zeros((100, 1))) == (np.inf, np.inf)


def log_odds(released, row_map_of, row, code):
    """How much a whole two-stage release speaks for one row against none, bins included."""
    evidence = 0.0
    for index, stage in enumerate(released.stages):
        mapped = row_map_of(released.stages[:index])(row)
        dense = [part.dense() if isinstance(part, Marked) else part for part in mapped]
        marks = [part[0].double().numpy() for part in dense]
        marks.append(np.ones(1))  # the counts
        for part, mark in zip(stage.blocks, marks, strict=False):
            line = code if part.block.labelled else 0
            evidence += float(mark @ part.sums()[line]) / part.noise_std**2
    return evidence


TWO_STAGES = {
    "marginal": Marginal(most_leaves=16, most_bins=2),
    "pearl": Pearl(frequencies=3, scaling="modes", most_leaves=16),
    "pearl by distance": Pearl(frequencies=3, scaling="distance"),
}


@pytest.mark.parametrize("method", TWO_STAGES.values(), ids=list(TWO_STAGES))
def test_whole_releases_of_two_stages_keep_their_promise_and_waste_little(method):
    """The second stage's map depends on the first one's noise; the adversary knows it all."""
    schema, budget = schema_of(2), budget_of(10.0)
    plan = method.plan(schema, budget=budget, feature_seed=0)
    row = torch.tensor([[0.3, 0.8]], dtype=torch.float64)

    def map_of(stages):
        return plan.stages[len(stages)].query(stages).row_map

    odds = [
        np.array(
            [log_odds(release(table, plan, budget, schema), map_of, row, 0) for _ in range(1200)]
        )
        for table in (table_of([(0.3, 0.8)], "a"), table_of([], ""))
    ]
    claim = mu_of(10.0, 1e-5)
    found = max(mu_lower_gaussian(*odds), mu_lower_clopper_pearson(*odds))
    assert found <= claim, f"mu of at least {found:.3f} shown, {claim:.3f} claimed"
    assert found >= 0.7 * claim


HERMITE = Hermite(sum_order=3, product_order=2).plan(SCHEMA, budget=budget_of(), feature_seed=0)


@pytest.mark.parametrize("pair", PAIRS)
def test_hermite_releases_keep_their_promise(pair):
    audit(pair, epsilon=1.0, n=60_000, releases=tiled_release, plan=HERMITE)


def test_whole_hermite_releases_keep_their_promise():
    audit("empty or one", epsilon=10.0, n=400, releases=whole_releases, plan=HERMITE)
