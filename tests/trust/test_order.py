"""T-ORDER: the statistic is the same to the bit for any order, cut, container and precision."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from dpgist.methods.merf import Merf
from tests.trust.worlds import budget_of, exact_sums, schema_of

SCHEMA = schema_of(3)


@pytest.fixture(scope="module")
def plan():
    return Merf().plan(SCHEMA, budget=budget_of(), feature_seed=0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(8)
    n = 3_001
    columns = {f"x{i}": rng.random(n).astype(np.float32).astype(np.float64) for i in range(3)}
    return pd.DataFrame(columns | {"y": rng.choice(["a", "b", "zzz"], n)})


@pytest.fixture(scope="module")
def expected(table, plan):
    return exact_sums(table, plan, budget_of(), SCHEMA)[1]


def equal(sums, others):
    return all(np.array_equal(one, other) for one, other in zip(sums, others, strict=True))


def sums_of(table, plan):
    return exact_sums(table, plan, budget_of(), SCHEMA)[1]


def test_twenty_permutations_give_the_same_bits(table, plan, expected):
    for seed in range(20):
        assert equal(expected, sums_of(table.sample(frac=1, random_state=seed), plan))


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_matter(table, plan, expected, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert equal(expected, sums_of(table, plan))
    finally:
        torch.set_num_threads(before)


def test_float32_input_of_equal_values_gives_the_same_bits(table, plan, expected):
    single = table.astype({f"x{i}": np.float32 for i in range(3)})
    assert equal(expected, sums_of(single, plan))


def test_every_container_gives_the_same_bits(table, plan, expected, tmp_path):
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write((tmp_path / "t.csv").read_bytes())
    pq.write_table(arrow, tmp_path / "t.parquet", row_group_size=777)
    (tmp_path / "parts").mkdir()
    for part in range(3):
        pq.write_table(arrow.slice(part * 1_001, 1_001), tmp_path / "parts" / f"{part}.parquet")
    for data in (arrow, *(tmp_path / name for name in ("t.csv", "t.csv.gz", "t.parquet", "parts"))):
        assert equal(expected, sums_of(data, plan)), data
