"""The demo's truths are true, and its checks can fail."""

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.stats import multivariate_normal

from dpgist import demo
from dpgist.demo import grid, patients
from dpgist.encode import Encoder
from dpgist.training.loop import Training


def rng(seed=0):
    return np.random.default_rng(seed)


def test_the_grid_has_25_modes_in_five_equal_classes():
    table = grid.simulate(50_000, rng=rng())
    assert grid.modes_covered(table) == 25
    shares = np.bincount([int(c) for c in table["class"].to_pylist()]) / 50_000
    assert shares == pytest.approx(np.full(5, 0.2), abs=0.01)
    neighbours = {tuple(cell): c for cell, c in zip(grid.CENTRES, grid.CLASS_OF_CELL, strict=True)}
    assert all(neighbours[x, y] != neighbours[x + 1, y] for x in range(4) for y in range(5))


def test_the_log_likelihood_has_the_two_dimensional_normaliser():
    points = rng().uniform(-1, 5, (200, 2))
    density = np.mean(
        [multivariate_normal.pdf(points, c, grid.STD**2 * np.eye(2)) for c in grid.CENTRES], axis=0
    )
    assert grid.mean_log_likelihood(points) == pytest.approx(np.log(density).mean())
    entropy = np.log(2 * np.pi * np.e * grid.STD**2) + np.log(25)  # but for the overlap
    fresh = grid.points_of(grid.simulate(50_000, rng=rng()))
    assert grid.mean_log_likelihood(fresh) == pytest.approx(-entropy, abs=0.1)


def test_a_missing_mode_and_a_wrong_class_are_noticed():
    table = grid.simulate(20_000, rng=rng())
    far = np.linalg.norm(grid.points_of(table) - grid.CENTRES[7], axis=1) > 0.6
    assert grid.modes_covered(table.filter(pa.array(far))) == 24
    wrong = table.set_column(2, "class", pa.array(["0"] * table.num_rows))
    assert grid.modes_covered(wrong) == 5


def test_the_patients_keep_their_schema():
    table = patients.simulate(2_000, rng=rng())
    encoder = Encoder(patients.SCHEMA)
    cells = {name: table[name].combine_chunks() for name in table.column_names}
    assert not encoder.encode(cells).broken.any()
    assert table.column_names == [column.name for column in patients.SCHEMA.columns]


def test_every_planted_dependency_is_clearly_there_and_an_independent_table_has_none():
    table = patients.simulate(60_000, rng=rng())
    other = patients.simulate(60_000, rng=rng(1))
    assert all(c.good for c in demo.compare_effects(table, other))
    generator = rng(2)
    loose = pa.table(
        {name: table[name].take(generator.permutation(60_000)) for name in table.column_names}
    )
    assert not any(c.good for c in demo.compare_effects(table, loose))


@contextmanager
def no_bar():
    yield lambda step, steps, loss: None


def test_a_tiny_demo_writes_everything_and_admits_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "N_ROWS", 200)
    monkeypatch.setattr(patients, "N_ROWS", 200)
    monkeypatch.setattr(demo, "POPULATION", 2_000)
    monkeypatch.setattr(demo, "Training", lambda **_: Training(steps=2))
    said, noted = [], []
    for force in (False, True):  # a forced second run starts over
        good = demo.run_demo(
            tmp_path / "d", seed=0, force=force, bar=no_bar, say=said.append, note=noted.append
        )
        assert not good
    assert "FAIL" in "".join(said)
    for name in ("grid", "patients"):
        folder = tmp_path / "d" / name
        for file in ("release.gist", "generator.model", "card.txt", "card.json", "ledger.sqlite"):
            assert (folder / file).is_file()
        assert (folder / "plots" / "real-beside-synthetic.png").is_file()
        assert pyarrow.parquet.read_table(folder / "synthetic.parquet").num_rows > 0
