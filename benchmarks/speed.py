"""Speed and memory of the private pass, the noise and training; ratios within one run.

    python benchmarks/speed.py [--rows 100000 1000000 10000000]

"Plain pass" is what anybody would write: encode, features, features^T onehot in float32, same
blocks, no bound, no grid, no privacy. The comparison with the DP-MERF authors' loop (`authors.py`)
is on simulated 28 x 28 images with 10,000 features. What is compared takes turns; times are CPU
seconds of one thread, which other work on the machine disturbs least.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import authors
import numpy as np
import opendp.prelude as dp
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from machine import write_result

import dpgist as dg
from dpgist.encode import Encoder
from dpgist.generators.build import build_generator, default_sizes
from dpgist.privacy.curator import RowSummation, _PreparedStage
from dpgist.privacy.noise import add_rounded_gaussian
from dpgist.sources import open_source
from dpgist.training.matching import target_from
from dpgist.training.objectives import TwoHalves

BUDGET = dg.Budget(epsilon=1.0, delta=1e-5)
METHOD = dg.Merf(joint_frequencies=500, pair_frequencies=500)
TOWNS = tuple("ABCDEFGH")
MEASURED = ("private_cpu_s", "plain_cpu_s", "ratio", "peak_mb")


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


def time_opendp(draws: int = 20_000) -> float:
    """Microseconds a draw of OpenDP's exact discrete Gaussian on integers."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    gaussian = dp.m.make_gaussian(*space, scale=2.0**20)
    started = time.process_time()
    gaussian([0] * draws)
    return (time.process_time() - started) / draws * 1e6


class PlainPass:
    """The same blocks through encoder and map, summed in float32."""

    def __init__(self, summation: RowSummation, stage: _PreparedStage, row_map) -> None:
        self.recipe, self.columns = summation.recipe, summation.columns
        self.block_rows, self.schema = summation.block_rows, summation.schema
        self._encoder, self._map = stage.query.encoder, row_map
        self._map_rows = stage.map.block_rows

    def __call__(self, batches):
        total = 0
        for batch in batches:
            encoded = self._encoder.encode(batch)
            rows = torch.from_numpy(encoded.rows).float().split(self._map_rows)
            labels = torch.from_numpy(encoded.labels).split(self._map_rows)
            for some, classes in zip(rows, labels, strict=True):
                onehot = torch.nn.functional.one_hot(classes, self._encoder.n_classes).float()
                with torch.no_grad():
                    features = torch.cat(self._map(some), dim=1)
                total = total + features.T @ onehot
        return total


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def in_turn(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of several calls, each called in every round, after a first one to warm up."""
    found = [{name: timed(work) for name, work in works.items()} for _ in range(rounds + 1)]
    return {name: [times[name] for times in found[1:]] for name in works}


def measure(path: Path, *, repeats: int) -> dict[str, float]:
    """Private and plain passes in turn over the same rows, the best of each; peak memory.

    The peak is that of the first private pass, before any plain one over these rows.
    """
    facts = schema()
    plan = METHOD.plan(facts, budget=BUDGET, feature_seed=0)
    stage = _PreparedStage(plan.stages[0].query(()), plan, 0, BUDGET, facts)
    summation = RowSummation(stage.query, stage.blocks, stage.map)
    plain_pass = PlainPass(summation, stage, stage.query.row_map)
    warm_up = path.with_name("warm-up.parquet")
    write_rows(warm_up, 3 * summation.block_rows)
    for work in (summation, plain_pass):
        list(open_source(warm_up).partial_sums(work))
    warm_up.unlink()
    source = open_source(path)
    private = [timed(lambda: list(source.partial_sums(summation)))]
    peak = peak_megabytes()
    plain = [timed(lambda: list(source.partial_sums(plain_pass)))]
    for _ in range(repeats - 1):
        private.append(timed(lambda: list(source.partial_sums(summation))))
        plain.append(timed(lambda: list(source.partial_sums(plain_pass))))
    best = min(private), min(plain)
    return dict(zip(MEASURED, (*best, best[0] / best[1], peak), strict=True))


def images(n_images: int) -> tuple[dg.Schema, np.ndarray, np.ndarray]:
    """Simulated 28 x 28 images in ten classes."""
    facts = dg.Schema(
        name="speed",
        columns=(
            dg.ImageColumn(name="x", height=28, width=28),
            dg.CategoryColumn(name="y", values=tuple("0123456789")),
        ),
        label="y",
    )
    rng = np.random.Generator(np.random.Philox(1))
    x = rng.integers(0, 256, (n_images, 28, 28), dtype=np.uint8)
    return facts, x, rng.integers(0, 10, n_images)


def image_stage(facts: dg.Schema) -> _PreparedStage:
    """The default release of images: 10,000 Fourier features of the pixels."""
    plan = dg.Merf(image_frequencies=5000).plan(facts, budget=BUDGET, feature_seed=0)
    return _PreparedStage(plan.stages[0].query(()), plan, 0, BUDGET, facts)


def against_the_authors(n_images: int = 6000, rounds: int = 9) -> dict[str, object]:
    """The private pass over images, theirs and the plain one: medians over rounds in turn."""
    facts, x, y = images(n_images)
    stage = image_stage(facts)
    source = open_source({"x": x, "y": y})
    summation = RowSummation(stage.query, stage.blocks, stage.map)
    smooth = dg.Merf(image_frequencies=5000).row_map(facts, feature_seed=0)
    plain_pass = PlainPass(summation, stage, smooth)
    frequencies = smooth.maps[0].frequencies
    rows = torch.from_numpy(x.reshape(n_images, -1)).float() / 255
    one_hot = torch.nn.functional.one_hot(torch.from_numpy(y), 10).float()
    found = in_turn(
        {
            "ours": lambda: list(source.partial_sums(summation)),
            "theirs": lambda: authors.embedding(rows, one_hot, frequencies),
            "plain": lambda: list(source.partial_sums(plain_pass)),
        },
        rounds,
    )
    ours, theirs, plain = (statistics.median(seconds) for seconds in found.values())
    return {
        "ours_cpu_s": ours,
        "theirs_cpu_s": theirs,
        "ratio": theirs / ours,
        "ratios": sorted(t / o for t, o in zip(found["theirs"], found["ours"], strict=True)),
        "plain_cpu_s": plain,
        "ours_to_plain": ours / plain,
    }


def training_step(steps: int = 20, batch: int = 100) -> dict[str, float]:
    """CPU seconds of one thread for a training step of the same generator on the same batch."""
    facts, x, y = images(200)
    ledger = dg.Ledger.in_memory(name="speed", budget=BUDGET, max_rows_per_person=1)
    gist = dg.release({"x": x, "y": y}, facts, dg.Merf(), BUDGET, ledger=ledger)
    encoder = Encoder(facts)
    row_map = dg.Merf().row_map(facts, feature_seed=0)
    target = target_from(gist.released, class_allowed=encoder.class_allowed)
    sizes = default_sizes("upsampling", encoder)
    network = build_generator(
        "upsampling", encoder, sizes, generator=torch.Generator().manual_seed(0)
    )
    adam = torch.optim.Adam(network.parameters(), lr=1e-3)
    objective = TwoHalves(network, row_map, target, batch=batch)
    rng = torch.Generator().manual_seed(1)
    frequencies = row_map.maps[0].frequencies
    codes = torch.arange(batch) % 10
    one_hot = torch.nn.functional.one_hot(codes, encoder.n_classes).float()
    mean = torch.zeros(2 * len(frequencies), encoder.n_classes)
    noise = torch.randn(batch, network.n_noise, generator=rng)

    def our_step() -> None:
        loss = objective.loss(rng)
        adam.zero_grad()
        loss.backward()
        adam.step()

    found = in_turn(
        {
            "ours": our_step,
            "theirs": lambda: authors.step(network, adam, mean, frequencies, one_hot, noise),
        },
        steps,
    )
    ours, theirs = (statistics.median(seconds) for seconds in found.values())
    return {"ours_cpu_s": ours, "theirs_cpu_s": theirs, "ratio": theirs / ours}


def peak_megabytes() -> float:
    """Peak memory of this process; getrusage would report its parent's if that was larger."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024


def measured_alone(n_rows: int, folder: str) -> dict[str, float]:
    """In a process of its own, so that its peak memory is its own."""
    repeats = 3 if n_rows <= 10**6 else 1
    path = Path(folder) / f"{n_rows}.parquet"
    write_rows(path, n_rows)
    done = subprocess.run(
        [sys.executable, __file__, "--measure", str(path), "--repeats", str(repeats)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    path.unlink()
    return dict(zip(MEASURED, map(float, done.stdout.split()), strict=True))


def main() -> None:
    """Print the table and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**5, 10**6])
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure:
        print(*measure(options.measure, repeats=options.repeats).values())
        return
    noise = time_noise()
    print(f"noise: {noise:.3f} s of one core for 10^6 coordinates at sigma 1e5 rows")
    opendp = time_opendp()
    print(f"noise: {noise:.3f} us a draw, OpenDP's discrete Gaussian {opendp:.1f} us")
    results = {
        "noise_s_per_million": noise,
        "opendp_us_per_draw": opendp,
        "threads": torch.get_num_threads(),
        "passes": {},
    }
    for name, found in {
        "authors_loop": against_the_authors(),
        "training_step": training_step(),
    }.items():
        results[name] = found
        print(f"{name}: " + ", ".join(f"{k} {v}" for k, v in found.items()))
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in options.rows:
            found = measured_alone(n_rows, folder)
            results["passes"][str(n_rows)] = found
            print(f"{n_rows:>9} rows: " + ", ".join(f"{k} {v:.2f}" for k, v in found.items()))
    write_result("speed", results)


if __name__ == "__main__":
    main()
