"""T-SCHEMA: no bound, category, scale, length or noise level is ever taken from the rows."""

import inspect
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgist as dg
from dpgist.privacy.ledger import Ledger

SCHEMA = dg.Schema(
    name="people",
    columns=(
        dg.IntegerColumn(name="age", min=0, max=100),
        dg.NumberColumn(name="dose", min=0.0, max=5.0, nullable=True),
        dg.CategoryColumn(name="town", values=("A", "B"), other="elsewhere"),
        dg.BooleanColumn(name="ill"),
    ),
    label="ill",
)
METHOD = dg.Merf(joint_frequencies=8, pair_frequencies=8)
ONE_STAGE = {"merf": METHOD, "hermite": dg.Hermite(sum_order=4, product_order=2)}
TWO_STAGES = {
    "marginal": dg.Marginal(most_leaves=32),
    "pearl by modes": dg.Pearl(frequencies=12, scaling="modes", most_leaves=32),
    "pearl by distance": dg.Pearl(frequencies=12, scaling="distance"),
}
CELL = st.one_of(
    st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=5), st.none(), st.booleans()
)
TABLE = st.lists(st.tuples(CELL, CELL, CELL, CELL), max_size=6)


def frame(rows):
    columns = {
        name: pd.array([row[i] for row in rows], dtype=object)
        for i, name in enumerate(["age", "dose", "town", "ill"])
    }
    return pd.DataFrame(columns)


def public_part(rows, relation, method=METHOD):
    """Everything about a release but the noisy numbers and the ledger's own identity."""
    budget = dg.Budget(epsilon=1.0, delta=1e-5, relation=relation)
    ledger = Ledger.in_memory(name="people", budget=budget, max_rows_per_person=1)
    gist = dg.release(frame(rows), SCHEMA, method, budget, ledger=ledger)
    header = gist.header()
    released = dict(header["released"])
    if relation == "replace_one":
        assert released.pop("n_rows") == len(rows)
    shapes = [part.values.shape for part in gist.released.last.blocks]
    kept = {key: header[key] for key in ("schema", "method", "settings", "feature_seed")}
    return json.dumps([kept, released, shapes, header["table_kind"]], sort_keys=True)


@pytest.mark.parametrize("method", ONE_STAGE.values(), ids=ONE_STAGE)
def test_an_empty_table_and_a_full_one_have_the_same_public_part(method):
    full = [(40, 2.5, "A", True)] * 50
    assert public_part([], "add_remove", method) == public_part(full, "add_remove", method)


@pytest.mark.parametrize("method", ONE_STAGE.values(), ids=ONE_STAGE)
@settings(max_examples=25, deadline=None)
@given(TABLE, TABLE, st.sampled_from(["add_remove", "replace_one"]))
def test_two_tables_with_nothing_in_common_have_the_same_public_part(method, one, other, relation):
    assert public_part(one, relation, method) == public_part(other, relation, method)


@pytest.mark.parametrize("method", ONE_STAGE.values(), ids=ONE_STAGE)
def test_the_features_and_blocks_are_fixed_before_any_row_is_seen(method):
    budget = dg.Budget(epsilon=1.0, delta=1e-5)
    queries = [method.plan(SCHEMA, budget=budget, feature_seed=3).stages[0].query(()) for _ in "ab"]
    first, second = (query.row_map.state_dict() for query in queries)
    assert all(np.array_equal(first[key], second[key]) for key in first)
    assert queries[0].blocks == queries[1].blocks


def staged_release(name, rows, relation="add_remove"):
    budget = dg.Budget(epsilon=1.0, delta=1e-5, relation=relation)
    ledger = Ledger.in_memory(name="people", budget=budget, max_rows_per_person=1)
    return dg.release(frame(rows), SCHEMA, TWO_STAGES[name], budget, ledger=ledger)


@pytest.mark.parametrize("name", TWO_STAGES)
@settings(max_examples=20, deadline=None)
@given(TABLE, TABLE, st.sampled_from(["add_remove", "replace_one"]))
def test_a_first_stage_is_the_same_for_any_two_tables(name, one, other, relation):
    stages = [staged_release(name, rows, relation).released.stages[0] for rows in (one, other)]
    shapes, blocks, noise = (
        [[f(part) for part in stage.blocks] for stage in stages]
        for f in (lambda p: p.values.shape, lambda p: p.block, lambda p: p.grid_noise_std)
    )
    assert (shapes[0], blocks[0], noise[0]) == (shapes[1], blocks[1], noise[1])


@pytest.mark.parametrize("name", TWO_STAGES)
@settings(max_examples=20, deadline=None)
@given(TABLE)
def test_a_second_stage_follows_from_what_the_first_one_released(name, rows):
    """Without any row, from the released numbers alone, the same blocks and map come out."""
    gist = staged_release(name, rows)
    budget = gist.released.budget
    plan = TWO_STAGES[name].plan(SCHEMA, budget=budget, feature_seed=gist.feature_seed)
    again = plan.stages[1].query(gist.released.stages[:1])
    own = {part.block.name: part.block for part in gist.released.last.blocks}
    assert again.blocks == tuple(own[block.name] for block in again.blocks)
    assert set(own) == {block.name for block in again.blocks} | {"counts", "health"}


@pytest.mark.parametrize("scaling", ["distance", "modes"])
@settings(max_examples=10, deadline=None)
@given(TABLE, TABLE)
def test_all_that_pearl_releases_has_the_same_shape_for_any_two_tables(scaling, one, other):
    headers = [staged_release(f"pearl by {scaling}", rows).header() for rows in (one, other)]
    assert headers[0]["released"] == headers[1]["released"]


@pytest.mark.parametrize("call", [dg.release, dg.synthesize, dg.check_table])
def test_every_call_that_takes_a_table_demands_a_schema(call):
    parameter = inspect.signature(call).parameters["schema"]
    assert parameter.default is inspect.Parameter.empty


def test_a_release_without_a_schema_is_refused_before_anything_happens():
    budget = dg.Budget(epsilon=1.0, delta=1e-5)
    ledger = Ledger.in_memory(name="people", budget=budget, max_rows_per_person=1)
    with pytest.raises((TypeError, AttributeError)):
        dg.release(frame([]), None, METHOD, budget, ledger=ledger)
    assert ledger.spent_units() == 0


def test_nothing_in_the_package_fits_itself_to_rows():
    """Sources and encoders have no fit, infer or describe; the schema no constructor from data."""
    from dpgist.encode import Encoder
    from dpgist.sources import open_source

    for thing in (dg.Schema, Encoder, type(open_source(frame([])))):
        names = {name for name in dir(thing) if not name.startswith("_")}
        assert not any(name.startswith(("fit", "infer", "describe", "from_data")) for name in names)
