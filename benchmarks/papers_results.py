"""The result files of the papers' tables: one file per data set, one entry per finished run."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from machine import ROOT, describe

FOLDER = ROOT / "benchmarks" / "results" / "papers"
Run = dict[str, Any]


def runs_of(name: str, folder: Path = FOLDER) -> list[Run]:
    """All runs on file, none if there is no file."""
    path = folder / f"{name}.json"
    runs: list[Run] = json.loads(path.read_text())["runs"] if path.exists() else []
    return runs


def on_file(name: str, known: Mapping[str, Any], folder: Path = FOLDER) -> bool:
    """Whether a run with all these entries is done."""
    return any(agrees(run, known) for run in runs_of(name, folder))


def agrees(run: Run, known: Mapping[str, Any]) -> bool:
    """Whether a run has all these entries."""
    return all(run.get(key) == value for key, value in known.items())


def append(name: str, run: Run, folder: Path = FOLDER) -> None:
    """Add one run to its file at once; none is ever dropped, and a stop leaves the file whole."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        path = folder / f"{name}.json"
        runs = [*runs_of(name, folder), run | {"machine": machine()}]
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps({"runs": _rounded(runs)}, indent=1) + "\n")
        beside.replace(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time change the files of a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@cache
def machine() -> dict[str, Any]:
    """Machine, versions and commit as they were when this process first asked."""
    import xgboost  # here: whoever only reads results need not have it

    packages = {name: version(name) for name in ("scikit-learn", "pandas")}
    return describe() | packages | {"xgboost": xgboost.__version__}


def _rounded(thing: Any) -> Any:
    """The same with six significant digits, so that files stay small."""
    if isinstance(thing, float):
        return float(f"{thing:.6g}")
    if isinstance(thing, dict):
        return {key: _rounded(value) for key, value in thing.items()}
    return [_rounded(value) for value in thing] if isinstance(thing, list | tuple) else thing
