"""The measurements behind papers_explained.toml that no column of the papers' tables holds.

    python benchmarks/papers_explained.py [--only isolet-half] [--seeds 0 1 2 3 4]

``isolet-half`` trains the classifiers on half the real rows, to see what fewer rows cost.
``cervical-default-generator`` fits the generator at its default size, three times that of the
other runs, with noise and without. Both add to ``benchmarks/results/papers/NAME.json`` and skip
what they find there.
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
    """Isolet's real rows, every second one."""
    return run_table("isolet", column, seed, progress=_silent, most_rows=546)


def cervical_default_generator(column: str, seed: int) -> dict[str, Any]:
    """Cervical with 300 components and 800 steps."""
    return run_table("cervical", column, seed, progress=_silent, training=dg.Training())


def _silent(what: str) -> None:
    del what


RUNS: dict[str, tuple[tuple[str, ...], Run]] = {
    "isolet-half": ((REAL,), isolet_half),
    "cervical-default-generator": ((NONPRIVATE, "1"), cervical_default_generator),
}

if __name__ == "__main__":
    main()
