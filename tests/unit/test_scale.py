"""A paid length scale: right where there is signal, harmless where there is none."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import dpgist as dg
from dpgist.encode import Encoder
from dpgist.features.spread import SpreadMap, public_squared_distance
from dpgist.methods.scale import paid_scale
from dpgist.privacy.ledger import Ledger

SMALL = {"joint_frequencies": 20, "pair_frequencies": 20}


def schema_of(n_columns, *, labelled=True):
    numbers = tuple(dg.NumberColumn(name=f"x{i}", min=0.0, max=1.0) for i in range(n_columns))
    label = (dg.BooleanColumn(name="y"),) if labelled else ()
    return dg.Schema(name="t", columns=(*numbers, *label), label="y" if labelled else None)


def table_of(n_rows, n_columns, spread, seed=0):
    rng = np.random.default_rng(seed)
    columns = {f"x{i}": 0.5 + spread * (rng.random(n_rows) - 0.5) for i in range(n_columns)}
    return pd.DataFrame(columns | {"y": rng.random(n_rows) < 0.1})


def release(table, schema, epsilon=1.0, **settings):
    budget = dg.Budget(epsilon=epsilon, delta=1e-5)
    ledger = Ledger.in_memory(name="t", budget=budget, max_rows_per_person=1)
    method = dg.Merf(length_scale="paid", **SMALL, **settings)
    return dg.release(table, schema, method, budget, ledger=ledger), ledger


def test_the_map_keeps_both_moments_inside_the_unit_ball():
    encoder = Encoder(schema_of(3))
    rows = np.array([[1.0, 1.0, 1.0], [0.0, 0.5, 1.0]])
    unit, energy = SpreadMap(encoder.slots)(torch.tensor(rows))
    assert float(unit.norm(dim=1).max()) <= 1 + 1e-6
    assert energy[:, 0].tolist() == pytest.approx([1.0, 1.25 / 3])


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_with_many_rows_the_paid_scale_is_the_true_one(spread):
    schema = schema_of(6)
    gist, _ = release(table_of(100_000, 6, spread), schema)
    found = paid_scale(gist.released.stages[0], Encoder(schema))
    assert found == pytest.approx(spread, rel=0.1)


def test_the_noise_energy_is_taken_out_again():
    """753 rows, 35 columns: the plain plug-in would be negative on average."""
    schema = schema_of(35)
    table = table_of(753, 35, 1.0)
    encoder = Encoder(schema)
    squared, plain = [], []
    for _ in range(60):
        gist, _ = release(table, schema, epsilon=0.6)
        stage = gist.released.stages[0]
        rows = 753.0
        mean = stage["mean"].sums()[0] * math.sqrt(35) / rows
        energy = stage["energy"].sums()[0, 0] * 35 / rows
        noise = stage["mean"].noise_std * math.sqrt(35) / rows
        plain.append(2 * (energy - mean @ mean))
        squared.append(plain[-1] + 2 * encoder.width * noise**2)
    error = np.std(squared) / math.sqrt(60)
    assert np.mean(squared) == pytest.approx(public_squared_distance(encoder.slots), abs=5 * error)
    assert np.mean(plain) < np.mean(squared) - 5 * error


@pytest.mark.parametrize("attempt", range(5))
def test_epsilon_one_fifth_and_753_rows_never_break_training(attempt):
    schema = schema_of(35)
    gist, _ = release(table_of(753, 35, 0.5, seed=attempt), schema, epsilon=0.2)
    assert 0.2 <= paid_scale(gist.released.stages[0], Encoder(schema)) <= 2.0
    rows = dg.train(gist, dg.Training(steps=5)).sample(100, seed=0)
    assert np.isfinite(rows.drop(columns="y").to_numpy()).all()


def test_an_empty_table_falls_back_on_the_public_constant():
    schema = schema_of(3, labelled=False)
    gist, _ = release(table_of(0, 3, 1.0).drop(columns="y"), schema, epsilon=0.2)
    assert 0.2 <= paid_scale(gist.released.stages[0], Encoder(schema)) <= 2.0


def test_both_stages_are_one_charge_within_one_budget(tmp_path):
    schema = schema_of(3)
    gist, ledger = release(table_of(500, 3, 1.0), schema, scale_share=0.25)
    kinds = [line.body["kind"] for line in ledger.entries()]
    assert kinds == ["terms", "charge", "released"]
    first, second = (stage.mu_squared_units for stage in gist.released.stages)
    assert first + second <= gist.released.mu_squared_units
    assert first / second == pytest.approx(1 / 3, rel=1e-9)
    gist.save(tmp_path / "g")
    again = dg.read_gist(tmp_path / "g")
    one, two = (dg.train(g, dg.Training(steps=3)).sample(50, seed=1) for g in (gist, again))
    assert one.equals(two)


def test_the_plan_of_a_paid_scale_is_foreseen_without_a_row():
    method = dg.Merf(length_scale="paid", **SMALL)
    budget = dg.Budget(epsilon=1.0, delta=1e-5)
    foreseen = dg.plan(schema_of(3), budget, method, rows_about=1000)
    first, last = foreseen.forecast.stages
    assert [block.name for block in first.blocks] == ["mean", "energy", "counts"]
    assert [block.name for block in last.blocks] == ["fourier", "pairs", "counts", "health"]
    public = dg.plan(schema_of(3), budget, dg.Merf(**SMALL), rows_about=1000)
    ratio = last.noise_stds[0] / public.forecast.stages[0].noise_stds[0]
    assert ratio == pytest.approx(math.sqrt(1 / 0.9), rel=1e-6)


def test_more_rows_and_a_larger_epsilon_suggest_more_features():
    few, many, strict = (
        dg.suggest_features(n, e, 1e-5) for n, e in [(1_000, 1.0), (100_000, 1.0), (1_000, 0.2)]
    )
    assert strict < few < many
    assert few % 2 == 0
    paper = dg.suggest_features(1_000, 1.0, 1e-5, relation="replace_one")
    assert paper < few


@pytest.mark.parametrize("settings", [{"length_scale": "free"}, {"scale_share": 0.0}])
def test_senseless_settings_are_refused(settings):
    with pytest.raises(ValueError, match="scale"):
        dg.Merf(**settings)
