"""The measurements behind papers_explained.toml that no column of the papers' tables holds.

    python benchmarks/papers_explained.py [--only isolet-half] [--seeds 0 1 2 3 4]

``isolet-half`` trains the classifiers on half the real rows, to see what fewer rows cost.
``cervical-default-generator`` and ``isolet-default-generator`` fit the generator at its default
size, three times that of the other runs. All add to ``benchmarks/results/papers/NAME.json`` and
skip what they find there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from papers_release import NONPRIVATE, REAL, identity
from papers_results import append, on_file
from papers_tables import run_table

import dpgist as dg

Run = Callable[..., dict[str, Any]]


def main() -> None:
    """Run what the files do not hold yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted(RUNS), default=sorted(RUNS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    for name in options.only:
        columns, run = RUNS[name]
        for column in columns:
            for seed in options.seeds:
                if not on_file(name, identity(column, seed)):
                    append(name, run(column, seed))
                    print(f"{name}, {column}, seed {seed}: done", flush=True)


def isolet_half(column: str, seed: int) -> dict[str, Any]:
    """Half of Isolet's real training rows, drawn by the seed."""
    return run_table("isolet", column, seed, progress=_silent, most_rows=546)


def default_generator(name: str) -> Run:
    """A data set with 300 components and 800 steps."""

    def run(column: str, seed: int) -> dict[str, Any]:
        return run_table(name, column, seed, progress=_silent, training=dg.Training())

    return run


def _silent(what: str) -> None:
    del what


RUNS: dict[str, tuple[tuple[str, ...], Run]] = {
    "isolet-half": ((REAL,), isolet_half),
    "cervical-default-generator": ((NONPRIVATE, "1"), default_generator("cervical")),
    "isolet-default-generator": ((NONPRIVATE,), default_generator("isolet")),
}

if __name__ == "__main__":
    main()
