"""Speed and memory of the private pass and of the noise; ratios within one run.

    python benchmarks/speed.py [--rows 100000 1000000]

"Plain pass" is what anybody would write: encode, features, features^T onehot in float32, same
blocks, same threads, no bound, no grid, no privacy.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from machine import write_result

import dpgist as dg
from dpgist.privacy.curator import RowSummation, _PreparedStage
from dpgist.privacy.noise import add_rounded_gaussian
from dpgist.sources import open_source

BUDGET = dg.Budget(epsilon=1.0, delta=1e-5)
METHOD = dg.Merf(joint_frequencies=500, pair_frequencies=500)
TOWNS = tuple("ABCDEFGH")


def schema() -> dg.Schema:
    """30 columns: 19 numbers, 10 categories, a label."""
    numbers = [dg.NumberColumn(name=f"n{i}", min=0.0, max=1.0) for i in range(19)]
    choices = [dg.CategoryColumn(name=f"c{i}", values=TOWNS) for i in range(10)]
    label = dg.BooleanColumn(name="y")
    return dg.Schema(name="speed", columns=(*numbers, *choices, label), label="y")


def write_rows(path: Path, n_rows: int) -> None:
    """A simulated table, written in pieces."""
    rng = np.random.Generator(np.random.Philox(0))
    writer = None
    for start in range(0, n_rows, 50_000):
        n = min(50_000, n_rows - start)
        columns = {f"n{i}": rng.random(n) for i in range(19)}
        columns |= {f"c{i}": np.array(TOWNS)[rng.integers(0, 8, n)] for i in range(10)}
        table = pa.table(columns | {"y": rng.random(n) < 0.3})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def time_noise() -> float:
    """Seconds for a million coordinates at sigma = 1e5 rows on the finest usual grid."""
    zeros = np.zeros(10**6, np.int64)
    add_rounded_gaussian(zeros[:1000], noise_std=1e11)
    started = time.process_time()
    add_rounded_gaussian(zeros, noise_std=1e5 * 2**20)
    return time.process_time() - started


class PlainPass:
    """The same blocks through encoder and map, summed in float32."""

    def __init__(self, summation: RowSummation, stage: _PreparedStage) -> None:
        self.recipe, self.columns = summation.recipe, summation.columns
        self.block_rows = summation.block_rows
        self._encoder, self._map = stage.query.encoder, stage.query.row_map
        self._map_rows = stage.map.block_rows

    def __call__(self, batches):
        total = 0
        for batch in batches:
            encoded = self._encoder.encode(batch)
            rows = torch.from_numpy(encoded.rows).float().split(self._map_rows)
            labels = torch.from_numpy(encoded.labels).split(self._map_rows)
            for some, classes in zip(rows, labels, strict=True):
                onehot = torch.nn.functional.one_hot(classes, 3).float()
                with torch.no_grad():
                    features = torch.cat(self._map(some), dim=1)
                total = total + features.T @ onehot
        return total


def timed(source, summation) -> float:
    """Seconds for one pass."""
    started = time.perf_counter()
    for _ in source.partial_sums(summation):
        pass
    return time.perf_counter() - started


def measure(path: Path) -> dict[str, float]:
    """One private pass, one plain pass over the same rows, and the peak memory of the first."""
    facts = schema()
    plan = METHOD.plan(facts, budget=BUDGET, feature_seed=0)
    stage = _PreparedStage(plan.stages[0].query(()), plan, 0, BUDGET, facts)
    summation = RowSummation(stage.query, stage.blocks, stage.map)
    source = open_source(path)
    private = timed(source, summation)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    plain = timed(source, PlainPass(summation, stage))
    return {"private_s": private, "plain_s": plain, "ratio": private / plain, "peak_mb": peak}


def measured_alone(n_rows: int, folder: str) -> dict[str, float]:
    """In a process of its own, so that its peak memory is its own."""
    path = Path(folder) / f"{n_rows}.parquet"
    write_rows(path, n_rows)
    done = subprocess.run(
        [sys.executable, __file__, "--measure", str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    path.unlink()
    names = ("private_s", "plain_s", "ratio", "peak_mb")
    return dict(zip(names, map(float, done.stdout.split()), strict=True))


def main() -> None:
    """Print the table and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**5, 10**6])
    parser.add_argument("--measure", type=Path)
    options = parser.parse_args()
    if options.measure:
        print(*measure(options.measure).values())
        return
    noise = time_noise()
    print(f"noise: {noise:.3f} s of one core for 10^6 coordinates at sigma 1e5 rows")
    results = {"noise_s_per_million": noise, "threads": torch.get_num_threads(), "passes": {}}
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in options.rows:
            found = measured_alone(n_rows, folder)
            results["passes"][str(n_rows)] = found
            print(f"{n_rows:>9} rows: " + ", ".join(f"{k} {v:.2f}" for k, v in found.items()))
    write_result("speed", results)


if __name__ == "__main__":
    main()
