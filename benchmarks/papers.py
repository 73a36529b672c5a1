"""The published numbers of DP-MERF, DP-HP and PEARL beside ours, under the same protocols.

    python benchmarks/papers.py [--method merf] [--only adult credit marginals grid ...]
                                [--columns 1 real ...] [--seeds 0 1 2 3 4] [--samples DIR]
                                [--jobs 1] [--quick]

Reads ``$DPGIST_DATA`` (default ``../shared/data``) and adds every finished run at once to
``benchmarks/results/papers/NAME.json``; what a file holds already is skipped (whatever commit it
was measured at: for new settings name another ``--results``). ``--quick`` runs everything tiny
into a folder of its own, to see that it works. ``results_page.py`` makes ``docs/results.md``.
Other methods than merf have result files of their own, in ``benchmarks/results/papers/METHOD``.

The eight tables, ``marginals`` (discretised Adult and Census), ``grid`` and ``mixture5`` (both
simulated) make their own synthetic rows, and tables leave them in ``--samples``. For images
(``mnist``, ``fashion_mnist``) trained models are read from there: see ``images.py``. Their
classifiers share ``--jobs`` processes, one run after the other.
``pearl-NAME`` (Adult, Credit and images) is PEARL with and without its critic, at epsilon 1; it
leaves rows and models in ``--samples`` too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import papers_images as images
import papers_marginals as marginals
import papers_mixtures as mixtures
import papers_pearl as pearl
import papers_tables as tables
from papers_release import NONPRIVATE, REAL, identity
from papers_results import FOLDER, append, on_file

import dpgist as dg

SECONDS = {
    "cervical": 20,
    "credit": 20,
    "covertype": 25,
    "adult": 35,
    "intrusion": 80,
    "census": 80,
    "epileptic": 150,
    "isolet": 200,
    "grid": 20,
    "mixture5": 40,
    "marginals-adult": 60,
    "marginals-census": 150,
    "mnist": 900,
    "fashion_mnist": 900,
    "pearl-adult": 40,
    "pearl-credit": 40,
    "pearl-mnist": 300,
    "pearl-fashion_mnist": 300,
}
"""About how long a run takes on one idle core, for the forecast."""
MARGINALS = ("adult", "census")
PEARL = tuple(f"pearl-{name}" for name in (*pearl.TABLES, *pearl.IMAGES))
PARTS = (*list(SECONDS)[:10], "marginals", *images.NAMES, *PEARL)
QUICK_TABLE = {"training": dg.Training(steps=5, components=20), "most_rows": 300}


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run: the result file's name, column and seed, and a variant where there are some."""

    file: str
    column: str
    seed: int
    quick: bool
    samples: Path | None
    method: str = "merf"
    jobs: int = 1
    more: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The run in words."""
        return ", ".join((self.file, *self.more.values(), self.column, f"seed {self.seed}"))

    @property
    def known(self) -> dict[str, Any]:
        """What the result file is searched for."""
        return identity(self.column, self.seed) | self.more

    def run(self) -> dict[str, Any]:
        """Do it."""
        started = time.perf_counter()

        def progress(what: str) -> None:
            print(f"  {self.title}: {what} ({time.perf_counter() - started:.0f} s)", flush=True)

        return self._run(progress)

    def _run(self, progress: Callable[[str], None]) -> dict[str, Any]:
        place = {"column": self.column, "seed": self.seed, "progress": progress}
        files = {"samples": self.samples, "quick": self.quick}
        if self.file in PEARL:
            return pearl.run_pearl(self.file.removeprefix("pearl-"), **place, **self.more, **files)
        place["method"] = self.method
        if self.file in images.NAMES:
            return images.run_images(self.file, **place, **files, jobs=self.jobs)
        if self.file in mixtures.MIXTURES:
            return mixtures.run_mixture(self.file, **place, quick=self.quick)
        if self.file.startswith("marginals"):
            name = self.file.removeprefix("marginals-")
            return marginals.run_marginals(name, **self.more, **place, quick=self.quick)
        more = QUICK_TABLE if self.quick else {}
        return tables.run_table(self.file, **place, samples=self.samples, **more)


def main() -> None:
    """Run what the files do not hold yet."""
    options = _options()
    folder = Path(gettempdir()) / "dpgist-papers-quick" if options.quick else options.results
    folder = folder if options.method == "merf" else folder / options.method
    tasks = [task for task in _tasks(options) if not on_file(task.file, task.known, folder)]
    seconds = sum(10 if task.quick else SECONDS[task.file] for task in tasks)
    hours = seconds / 3600 / options.jobs
    print(f"{len(tasks)} runs to do, about {hours:.1f} hours on {options.jobs} idle core(s)")
    for number, (task, run) in enumerate(_finished(tasks, options.jobs), start=1):
        append(task.file, run, folder)
        print(f"{number}/{len(tasks)} {task.title}: {run['seconds']}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--method", choices=("merf", "hermite", "marginal"), default="merf")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    what = "epsilons, nonprivate or real; those of the paper if left out"
    parser.add_argument("--columns", nargs="+", type=_column, help=what)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--results", type=Path, default=FOLDER)
    parser.add_argument("--samples", type=Path, help="a folder of synthetic rows and image models")
    return parser.parse_args()


def _column(text: str) -> str:
    if text not in (NONPRIVATE, REAL) and not float(text) > 0:
        raise ValueError(text)
    return text


def _tasks(options: argparse.Namespace) -> Iterator[Task]:
    """Column by column over all parts, so that a stop leaves whole columns."""
    every = dict.fromkeys((*tables.COLUMNS, *marginals.COLUMNS))
    for column in options.columns or every:
        for part in options.only:
            for seed in options.seeds[:1] if options.quick else options.seeds:
                yield from _tasks_of(part, column, seed, options)


def _tasks_of(part: str, column: str, seed: int, options: argparse.Namespace) -> Iterator[Task]:
    known = {"seed": seed, "quick": options.quick, "samples": options.samples}
    known |= {"method": options.method, "jobs": options.jobs}
    asked = options.columns is not None
    if part == "marginals":
        wanted = column in marginals.COLUMNS or (asked and column not in (NONPRIVATE, REAL))
        for name in MARGINALS if wanted else ():
            for variant in marginals.VARIANTS:
                more = {"variant": variant}
                yield Task(file=f"marginals-{name}", column=column, more=more, **known)
    elif part in PEARL:
        for critic in pearl.CRITICS if column == "1" or asked else ():
            yield Task(file=part, column=column, more={"critic": critic}, **known)
    elif part in images.NAMES:
        again = column == REAL and options.method != "merf"  # real images score the same
        found = images.available(part, column, seed, options.samples)
        if column in images.COLUMNS and found and not again:
            yield Task(file=part, column=column, **known)
    elif asked or column in tables.COLUMNS:
        yield Task(file=part, column=column, **known)


def _finished(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, dict[str, Any]]]:
    """In turn, or by processes; those of images have processes of their own, so they come last."""
    alone = [task for task in tasks if jobs == 1 or task.file in images.NAMES]
    together = [task for task in tasks if task not in alone]
    if together:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(task.run): task for task in together}
            for future in as_completed(futures):
                yield futures[future], future.result()
    yield from ((task, task.run()) for task in alone)


if __name__ == "__main__":
    main()
