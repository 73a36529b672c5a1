"""An epoch of DP-SGD with the paper's settings on digits: ours beside Opacus, same run and threads.

    OMP_NUM_THREADS=2 python benchmarks/classify_speed.py --opacus PYTHON-WITH-OPACUS [--steps 120]

120 steps of 500 expected rows are an epoch. Fewer steps are scaled to one, and so are fewer rows
(``--rows``; a batch has 500 expected rows all the same); steps of the two are
taken in turns, so that a busy machine is busy for both. Ours has a cost before the first step, the
norms of every row's projections, which is reported by itself and shared by the run's 20 epochs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from classify import ROWS, classifier, images
from machine import ROOT, write_result

import dpgist as dg
from dpgist.classify.descent import AdamPath
from dpgist.classify.setup import Setup
from dpgist.classify.tables import labelled_source
from dpgist.privacy import sgd

EPOCH, EPOCHS = ROWS // 500, 20


class Ours:
    """Our run, made ready, to be timed step by step."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        model = classifier("paper", "mnist", 0, rows=len(x), rate=500 / len(x))
        budget = dg.Budget(epsilon=2.0, delta=1e-5)
        schema = model._schema_for(x)
        setup = Setup(model, schema, budget)
        ledger = dg.Ledger.in_memory(name=schema.name, budget=budget, max_rows_per_person=1)
        self.prepared = sgd.Prepared(setup.query, budget, ledger, schema)
        self.path = AdamPath(setup.start, setup.descent, model.steps)
        self.prepared.check_slots(self.path.parameters)
        clock = time.perf_counter(), time.process_time()
        self.held = sgd._read(labelled_source(x, y, schema), setup.query)
        self.reading = seconds_since(clock)
        self.sampler = sgd.PoissonSampler(self.prepared.run.rate)

    def steps(self, n_steps: int) -> dict[str, float]:
        """Seconds of so many steps."""
        clock = time.perf_counter(), time.process_time()
        with torch.no_grad():
            for _ in range(n_steps):
                batch = self.sampler.draw(len(self.held))
                sgd.take_step(self.prepared, self.held, batch, len(self.held), self.path)
        return seconds_since(clock)


def seconds_since(clock: tuple[float, float]) -> dict[str, float]:
    """Wall and processor seconds since a clock was read."""
    return {"wall_s": time.perf_counter() - clock[0], "cpu_s": time.process_time() - clock[1]}


def opacus_steps(python: str, rows: Path, n_steps: int) -> dict[str, Any]:
    """Seconds of so many steps of Opacus, in a process of its own."""
    script = ROOT / "benchmarks" / "peers" / "opacus_maps.py"
    command = [python, str(script), str(rows), "--steps", str(n_steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Time both in turns and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--opacus", required=True, help="a Python that has opacus")
    parser.add_argument("--steps", type=int, default=EPOCH, help="of each, in all")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", type=int, default=ROWS, help="fewer are read and scaled up")
    options = parser.parse_args()
    x, y = (part[: options.rows] for part in images("mnist", "train"))
    ours, each = Ours(x, y), max(1, options.steps // options.turns)
    ours.steps(1)  # warms up
    total = {"ours": np.zeros(2), "opacus": np.zeros(2)}
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npz"
        np.savez(rows, x=x, y=y)
        for _ in range(options.turns):
            peer = opacus_steps(options.opacus, rows, each)
            for name, found in (("ours", ours.steps(each)), ("opacus", peer)):
                total[name] += [found["wall_s"], found["cpu_s"]]
    scale = EPOCH / (each * options.turns)
    epochs = {name: {"wall_s": t[0] * scale, "cpu_s": t[1] * scale} for name, t in total.items()}
    reading = {key: found * ROWS / options.rows for key, found in ours.reading.items()}
    shared = {key: found / EPOCHS for key, found in reading.items()}
    ratio = {key: epochs["opacus"][key] / (epochs["ours"][key] + shared[key]) for key in shared}
    for name, found in epochs.items():
        print(f"{name:7} epoch: {found['wall_s']:7.1f} s wall, {found['cpu_s']:7.1f} s processor")
    print(f"ours before the first step: {reading}, of which an epoch bears a twentieth")
    print(f"faster by {ratio['wall_s']:.1f} (wall), {ratio['cpu_s']:.1f} (processor)")
    result = {"epochs": epochs, "reading": reading, "ratio": ratio, "rows": options.rows}
    versions = {"opacus": peer["opacus"], "opacus_torch": peer["torch"]}
    write_result(
        "classify_speed",
        result | versions | {"steps": each * options.turns, "threads": torch.get_num_threads()},
    )


if __name__ == "__main__":
    main()
