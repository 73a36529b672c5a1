"""From the gist on nothing needs the data: it trains as well in a folder that never saw them."""

import shutil

import numpy as np
import pytest

import dpgist as dg
from dpgist.demo import grid
from dpgist.privacy.ledger import Ledger


def test_a_model_trained_from_the_gist_alone_samples_as_well(tmp_path, monkeypatch):
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    budget = dg.Budget(epsilon=1.0, delta=1e-6)
    table = grid.simulate(45_000, rng=np.random.default_rng(0))
    ledger = Ledger.in_memory(name=grid.SCHEMA.name, budget=budget, max_rows_per_person=1)
    gist = dg.release(table, grid.SCHEMA, None, budget, ledger=ledger)
    gist.save(home / "grid.gist")
    beside = dg.train(gist, dg.Training(steps=400)).sample(10_000, seed=1, kind="pyarrow")

    shutil.copy(home / "grid.gist", away)
    shutil.rmtree(home)
    del table, gist
    monkeypatch.chdir(away)
    dg.train(dg.read_gist("grid.gist"), dg.Training(steps=400)).save("grid.model")
    rows = dg.read_model("grid.model").sample(10_000, seed=1, kind="pyarrow")

    assert rows.equals(beside)
    assert grid.modes_covered(rows) == 25
    truth = grid.mean_log_likelihood(
        grid.points_of(grid.simulate(10_000, rng=np.random.default_rng(1)))
    )
    assert grid.mean_log_likelihood(grid.points_of(rows)) == pytest.approx(truth, abs=0.5)
