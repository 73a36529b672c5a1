"""The published numbers of DP-MERF beside ours, under the same protocol.

    python benchmarks/papers.py [--only adult credit ...] [--columns 1 nonprivate 0.2 real]
                                [--seeds 0 1 2 3 4] [--jobs 1] [--quick]

Reads ``$DPGIST_DATA`` (default ``../shared/data``) and adds every finished run at once to
``benchmarks/results/papers/NAME.json``; what a file holds already is skipped (whatever commit it
was measured at: for new settings name another ``--results``). ``--quick`` runs everything tiny
into a folder of its own, to see that it works. ``results_page.py`` makes ``docs/results.md``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from papers_data import DATA
from papers_results import FOLDER, append, on_file
from papers_tables import COLUMNS, identity, run_table

import dpgist as dg

SECONDS = {
    "cervical": (20, 5),
    "credit": (20, 5),
    "covertype": (25, 15),
    "adult": (35, 20),
    "intrusion": (80, 40),
    "census": (80, 40),
    "epileptic": (150, 80),
    "isolet": (200, 60),
}
"""About how long a synthetic and a real run take on one core, for the forecast."""
QUICK = {"training": dg.Training(steps=5, components=20), "most_rows": 300}


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run."""

    name: str
    column: str
    seed: int
    quick: bool
    samples: Path | None

    @property
    def title(self) -> str:
        """The run in words."""
        return f"{self.name}, {self.column}, seed {self.seed}"

    @property
    def seconds(self) -> int:
        """About how long it takes."""
        return 10 if self.quick else SECONDS[self.name][self.column == "real"]

    def known(self) -> dict[str, Any]:
        """What the result file is searched for."""
        return identity(self.column, self.seed)


def main() -> None:
    """Run what the files do not hold yet."""
    options = _options()
    folder = Path(gettempdir()) / "dpgist-papers-quick" if options.quick else options.results
    tasks = [task for task in _tasks(options) if not on_file(task.name, task.known(), folder)]
    hours = sum(task.seconds for task in tasks) / 3600 / options.jobs
    print(f"{len(tasks)} runs to do, about {hours:.1f} hours on {options.jobs} idle core(s)")
    for number, (task, run) in enumerate(_finished(tasks, options.jobs), start=1):
        append(task.name, run, folder)
        print(f"{number}/{len(tasks)} {task.title}: {run['seconds']}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(DATA), default=list(SECONDS))
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--samples", type=Path, help="an existing folder for synthetic rows")
    return parser.parse_args()


def _tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Column by column over all tables, so that a stop leaves whole columns."""
    for column in options.columns:
        for name in options.only:
            for seed in options.seeds[:1] if options.quick else options.seeds:
                yield Task(
                    name=name,
                    column=column,
                    seed=seed,
                    quick=options.quick,
                    samples=options.samples,
                )


def _finished(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, dict[str, Any]]]:
    if jobs == 1:
        yield from ((task, _run(task)) for task in tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(_run, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _run(task: Task) -> dict[str, Any]:
    started = time.perf_counter()

    def progress(what: str) -> None:
        print(f"  {task.title}: {what} ({time.perf_counter() - started:.0f} s)", flush=True)

    more = QUICK if task.quick else {}
    return run_table(
        task.name, task.column, task.seed, progress=progress, samples=task.samples, **more
    )


if __name__ == "__main__":
    main()
