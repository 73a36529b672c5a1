"""The public calls refuse what could not work before they spend anything."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.made_gists import MIXED, STRIPES, gist_of, mixed_table, stripe_images

import dpgist as dg
from dpgist.methods import METHODS

SCHEMA = dg.Schema(
    name="people",
    columns=(dg.IntegerColumn(name="age", min=0, max=110), dg.BooleanColumn(name="smoker")),
    label="smoker",
)
BUDGET = dg.Budget(epsilon=1.0, delta=1e-6)
BAD_SEEDS = pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError), (None, TypeError)]
)


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    return pd.DataFrame({"age": rng.integers(18, 90, 300), "smoker": rng.random(300) < 0.3})


@pytest.fixture
def ledger():
    return dg.Ledger.in_memory(name="people", budget=BUDGET, max_rows_per_person=1)


def nothing_charged(ledger):
    return len(ledger.entries()) == 1


@BAD_SEEDS
@pytest.mark.parametrize("method", [dg.Marginal(), dg.Pearl(), dg.Merf()], ids=lambda m: m.name)
def test_a_bad_seed_is_refused_before_the_charge(table, ledger, method, seed, error):
    with pytest.raises(error, match="seed must be"):
        dg.release(table, SCHEMA, method, BUDGET, ledger=ledger, seed=seed)
    with pytest.raises(error, match="seed must be"):
        dg.synthesize(table, SCHEMA, BUDGET, method=method, ledger=ledger, seed=seed)
    assert nothing_charged(ledger)


@pytest.mark.parametrize("rows", [-5, 0, 10.5, "10"])
def test_a_bad_number_of_rows_is_refused_before_the_charge(table, ledger, rows):
    with pytest.raises((ValueError, TypeError), match="rows must be"):
        dg.synthesize(table, SCHEMA, BUDGET, ledger=ledger, rows=rows)
    assert nothing_charged(ledger)


def test_a_table_in_the_place_of_a_number_is_not_quoted(table, ledger):
    with pytest.raises(TypeError, match=r"got DataFrame$"):
        dg.synthesize(table, SCHEMA, BUDGET, ledger=ledger, rows=table)


@BAD_SEEDS
def test_a_bad_seed_is_refused_where_nothing_is_spent(table, ledger, seed, error):
    with pytest.raises(error, match="seed must be"):
        dg.plan(SCHEMA, BUDGET, seed=seed)
    gist = dg.release(table, SCHEMA, dg.Marginal(), BUDGET, ledger=ledger)
    with pytest.raises(error, match="seed must be"):
        dg.train(gist, seed=seed)
    model = dg.train(gist, dg.Training(steps=1))
    with pytest.raises(error, match="seed must be"):
        model.sample(3, seed=seed)
    with pytest.raises((ValueError, TypeError), match="rows must be"):
        model.sample(3.5, seed=0)


def test_whole_numbers_of_numpy_are_as_good_as_others(table, ledger, tmp_path):
    gist = dg.release(table, SCHEMA, None, BUDGET, ledger=ledger, seed=np.int64(4))
    gist.save(tmp_path / "people.gist")
    assert dg.read_gist(tmp_path / "people.gist").feature_seed == 4
    made = dg.synthesize(table, SCHEMA, BUDGET, seed=np.uint8(3), rows=np.int32(20))
    assert len(made) == 20


def foreseen_and_released(table, schema, method, relation):
    budget = dg.Budget(epsilon=10.0, delta=1e-5, relation=relation)
    gist = gist_of(table, schema, method.settled(schema, budget), epsilon=10.0, relation=relation)
    return dg.plan(schema, budget, method).to_dict(), gist.card_dict()


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("label", ["ill", None])
@pytest.mark.parametrize(
    "method",
    [
        *(METHODS[name]() for name in ("marginal", "hermite", "merf")),
        dg.Merf(length_scale="paid"),
        dg.Pearl(scaling="distance"),
        dg.Pearl(scaling="modes"),
    ],
    ids=["marginal", "hermite", "merf", "merf paid", "pearl distance", "pearl modes"],
)
def test_a_plan_never_promises_more_than_the_release_keeps(method, label, relation):
    table, schema = mixed_table(20_000), replace(MIXED, label=label)
    plan, card = foreseen_and_released(table, schema, method, relation)
    no_weaker(plan, card)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("method", [dg.Scattering(), dg.Merf(), dg.Pearl()], ids=lambda m: m.name)
def test_a_plan_for_images_never_promises_more_than_the_release_keeps(method, relation):
    no_weaker(*foreseen_and_released(stripe_images(50), STRIPES, method, relation))


def no_weaker(plan, card):
    """The plan's reading under the other relation is the card's, or at most 2 % above it."""
    assert plan["mu"] == card["mu"]
    found, kept = (facts["other_relation"]["mu"] for facts in (plan, card))
    if found is None:
        assert kept is None
    else:
        assert kept <= found <= 1.02 * kept
    assert [b["block"] for b in plan["noise"]] == [b["block"] for b in card["noise"]]
    assert [b["stage"] for b in plan["noise"]] == [b["stage"] for b in card["noise"]]


def test_a_plan_counts_the_numbers_of_all_its_stages():
    plan = dg.plan(SCHEMA, BUDGET, dg.Marginal()).to_dict()
    assert plan["noise"][0]["block"] == "leaves"
    assert plan["coordinates"] == sum(b["classes"] * b["length"] for b in plan["noise"])
