"""Files of format 1 stay readable for ever."""

from pathlib import Path

import pytest

import dpgist as dg

HERE = Path(__file__).parent


def test_the_first_gist_still_loads_and_claims_the_same():
    gist = dg.read_gist(HERE / "format-1.gist")
    assert (gist.schema.name, gist.method, gist.feature_seed) == ("golden", "merf", 1)
    assert gist.released.budget == dg.Budget(epsilon=1.0, delta=1e-6)
    assert gist.released.mu == pytest.approx(0.23676, abs=1e-4)
    names = [block.block.name for block in gist.released.last.blocks]
    assert names == ["fourier", "pairs", "categories", "counts", "health"]
    assert "declared 1, not checked" in gist.card()


def test_the_first_model_still_loads_and_samples():
    rows = dg.read_model(HERE / "format-1.model").sample(20, seed=0, kind="pyarrow")
    assert rows.column_names == ["age", "weight", "seen", "sex"]
    assert rows.num_rows == 20
    assert set(rows["sex"].to_pylist()) <= {"f", "m", "x"}
