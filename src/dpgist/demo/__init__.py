"""The demo: two simulated tables through the whole pipeline, compared with the known truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpgist import plots, workflow
from dpgist.demo import grid, patients
from dpgist.gist import read_gist
from dpgist.outputs import Outputs, TrainingBar, save_release, synthesize_into
from dpgist.plots import Comparison
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget
from dpgist.report import Against, write_report
from dpgist.schema import Schema
from dpgist.training.loop import Training

BUDGET = Budget(epsilon=1.0, delta=1e-6)
MAX_GAP_NATS = 0.5
MIN_SIZE_KEPT = 0.5
POPULATION = 400_000
"""Simulated patients from which the true sizes of the dependencies are taken."""
TEST_ROWS = 10_000
"""So many of them are the real rows of the report; the generator has seen none."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class _Pipeline:
    """Where the demo writes and how it speaks."""

    folder: Path
    seed: int
    force: bool
    bar: TrainingBar
    note: Say

    def run(
        self, name: str, table: pa.Table, schema: Schema, training: Training
    ) -> tuple[pa.Table, Outputs]:
        """Release, save, read back, train from the file alone, sample."""
        outputs = Outputs(folder=self.folder / name, force=self.force)
        outputs.prepare()
        ledger = self._fresh_ledger(outputs.folder / "ledger.sqlite", schema)
        self.note(f"{name}: releasing at epsilon {BUDGET.epsilon:g}, delta {BUDGET.delta:g}")
        gist = workflow.release(table, schema, None, BUDGET, ledger=ledger, seed=self.seed)
        save_release(gist, outputs)
        synthetic = synthesize_into(
            outputs,
            read_gist(outputs.gist),
            training=training,
            bar=self.bar,
            rows=None,
            device="auto",
            seed=self.seed,
        )
        return synthetic, outputs

    def report(self, outputs: Outputs, against: Against | None) -> None:
        """Write the report of one table."""
        self.note(f"{outputs.folder.name}: writing the report")
        write_report(outputs.folder, against=against, force=self.force)

    def rng(self, stream: int) -> np.random.Generator:
        """Randomness of the simulated tables."""
        return np.random.Generator(np.random.PCG64([self.seed, stream]))

    def _fresh_ledger(self, path: Path, schema: Schema) -> Ledger:
        # A ledger is never overwritten, except that a forced demo drops its own: made-up rows.
        if self.force and path.exists() and Ledger.open(path).name == schema.name:
            path.unlink()
        return Ledger.create(
            path,
            name=schema.name,
            epsilon=BUDGET.epsilon,
            delta=BUDGET.delta,
            relation=BUDGET.relation,
        )


def run_demo(
    folder: Path, *, seed: int, force: bool, bar: TrainingBar, say: Say, note: Say
) -> bool:
    """Run both tables, print truth against synthetic, and say whether every check passed.

    Privacy: the tables are simulated; the releases are as private as real ones.
    """
    pipeline = _Pipeline(folder=folder, seed=seed, force=force, bar=bar, note=note)
    good = True
    for part in (_grid, _patients):
        title, comparisons = part(pipeline)
        say(_table(title, comparisons))
        good = good and all(c.good for c in comparisons)
    say(f"reports: {folder / 'grid' / 'report.html'} (from the gist alone),")
    say(f"         {folder / 'patients' / 'report.html'} (beside fresh simulated patients)")
    say(f"everything is in {folder}: " + ("all checks passed" if good else "a check FAILED"))
    return good


def _grid(pipeline: _Pipeline) -> tuple[str, list[Comparison]]:
    real = grid.simulate(grid.N_ROWS, rng=pipeline.rng(0))
    synthetic, outputs = pipeline.run("grid", real, grid.SCHEMA, Training(steps=1_500))
    figure = plots.scatter_pair(
        _cloud(real), _cloud(synthetic), title=f"5 x 5 Gaussians, epsilon {BUDGET.epsilon:g}"
    )
    plots.write_png(figure, outputs.plot("real-beside-synthetic"), force=pipeline.force)
    fresh = grid.simulate(grid.N_ROWS, rng=pipeline.rng(1))
    pipeline.report(outputs, None)
    truth = grid.mean_log_likelihood(grid.points_of(fresh))
    reached = grid.mean_log_likelihood(grid.points_of(synthetic))
    modes = grid.modes_covered(synthetic)
    return "5 x 5 grid of Gaussians", [
        Comparison(name="modes covered", truth=25, synthetic=modes, good=modes == 25),
        Comparison(
            name=f"mean log-likelihood in nats (gap at most {MAX_GAP_NATS:g})",
            truth=truth,
            synthetic=reached,
            good=abs(truth - reached) <= MAX_GAP_NATS,
        ),
    ]


def _cloud(table: pa.Table, rows: int = 20_000) -> tuple[Any, Any, Any]:
    points = grid.points_of(table)[:rows]
    codes = np.array([int(label) for label in table["class"].to_pylist()[:rows]])
    return points[:, 0], points[:, 1], codes


def _patients(pipeline: _Pipeline) -> tuple[str, list[Comparison]]:
    real = patients.simulate(patients.N_ROWS, rng=pipeline.rng(2))
    synthetic, outputs = pipeline.run("patients", real, patients.SCHEMA, Training())
    population = patients.simulate(POPULATION, rng=pipeline.rng(3))
    comparisons = compare_effects(population, synthetic)
    words = f"50,000 simulated patients, epsilon {BUDGET.epsilon:g}"
    beside = plots.columns_figure(patients.SCHEMA, synthetic, real=real, title=words)
    plots.write_png(beside, outputs.plot("real-beside-synthetic"), force=pipeline.force)
    kept = plots.comparison_figure(comparisons, title=f"{words}: planted dependencies")
    plots.write_png(kept, outputs.plot("dependencies"), force=pipeline.force)
    fresh = population.slice(0, TEST_ROWS)
    pipeline.report(outputs, Against(real=fresh, train=real, groups=("sex", "diagnosis")))
    return "patients: planted dependencies", comparisons


def compare_effects(population: pa.Table, synthetic: pa.Table) -> list[Comparison]:
    """Each planted dependency: its size in the population and in the synthetic rows.

    Privacy: for simulated and synthetic rows.
    """
    truth, other = patients.columns_of(population), patients.columns_of(synthetic)
    sizes = [(e.name, e.size(truth), e.size(other)) for e in patients.EFFECTS]
    return [
        Comparison(name=name, truth=a, synthetic=b, good=b / a >= MIN_SIZE_KEPT)
        for name, a, b in sizes
    ]


def _table(title: str, comparisons: Sequence[Comparison]) -> str:
    width = max(len(c.name) for c in comparisons)
    lines = [
        f"{c.name:<{width}}  {c.truth:>9.3f}  {c.synthetic:>9.3f}  {'ok' if c.good else 'FAIL'}"
        for c in comparisons
    ]
    head = f"{title:<{width}}  {'truth':>9}  {'synthetic':>9}"
    return "\n".join([head, "-" * len(lines[0]), *lines, ""])
