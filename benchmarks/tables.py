"""Ours and peers on the same tables: same split, same public schema, same evaluator.

    python benchmarks/tables.py run --work FOLDER [--data adult ...] [--methods marginal ...]
    python benchmarks/tables.py show

``run`` measures what ``benchmarks/results/tables.json`` does not hold yet, one process after the
other, so that it can be stopped and goes on where it was. Every peer is installed into a virtual
environment of its own under FOLDER, which must lie outside the repository. Relation add_remove,
delta 1e-5; Adult at epsilon 0.2, 1 and 10, the others at 1; three seeds for ours, one for a peer,
which gets ten minutes of one processor. ROC and PR AUC are means of logistic regression, random
forest and histogram gradient boosting trained on as many synthetic rows as were released (at most
50,000) and tested on real rows that no release saw; tv1 and tv2 compare marginals with the
released rows. Time is of the whole process: reading, fitting, sampling, writing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from machine import ROOT, describe
from tables_data import NAMES, schema_of, split_of

import dpgist as dg
from dpgist.evaluate import table as tables
from dpgist.evaluate.tables import fidelity_scores

RESULTS = ROOT / "benchmarks" / "results" / "tables.json"
PEERS_FOLDER = ROOT / "benchmarks" / "peers"
DELTA = 1e-5
MINUTES = 10
MOST_ROWS = 50_000
OURS = ("marginal", "merf", "independent")
UTILITY = ("roc_auc", "pr_auc", "f1_weighted", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """What to install and which script of ``benchmarks/peers`` runs it."""

    script: str
    install: tuple[str, ...]


PEERS = {
    "dpmm-mst": Peer(script="dpmm_mst.py", install=("dpmm==0.1.9",)),
    "opendp-mst": Peer(
        script="opendp_mst.py", install=("opendp[mbi]==0.16.0", "mbi==1.1.0", "pandas")
    ),
    "privbayes": Peer(
        script="privbayes.py",
        install=(
            "synthetic-data-generation==0.1.14",
            "diffprivlib<0.6.6",
            "numpy<2",
            "pandas<2.3",
            "scikit-learn<1.7",
        ),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One cell of the comparison."""

    data: str
    method: str
    epsilon: float
    seed: int

    def key(self) -> str:
        """Its name in the result file."""
        return f"{self.data} {self.method} {self.epsilon:g} {self.seed}"


def main() -> None:
    """Measure or show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("run", "show"))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--methods", nargs="+", choices=(*OURS, *PEERS), default=[*OURS, *PEERS])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.2, 1.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rows", type=int, help="at most so many training rows: for a trial")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    known = json.loads(options.results.read_text()) if options.results.exists() else {}
    if options.verb == "run":
        if options.work is None or ROOT in options.work.resolve().parents:
            parser.error("--work must name a folder outside the repository")
        for run in runs(options):
            if run.key() not in known:
                known[run.key()] = measured(run, options.work.resolve(), options.rows)
                options.results.write_text(json.dumps(known, indent=1) + "\n")
                print(run.key(), known[run.key()]["status"], flush=True)
    print(summary(known))


def runs(options: argparse.Namespace) -> Iterator[Run]:
    """All cells: Adult at every epsilon, the others at 1; peers with the first seed only."""
    for data in options.data:
        for epsilon in options.epsilons if data == "adult" else [1.0]:
            for method in options.methods:
                for seed in options.seeds[: None if method in OURS else 1]:
                    yield Run(data=data, method=method, epsilon=epsilon, seed=seed)


def measured(run: Run, work: Path, most: int | None) -> dict[str, Any]:
    """Run one method in a process of its own and score its rows."""
    train, test = split_of(run.data)
    train = train if most is None else train.iloc[:most]
    folder = work / "job"
    shutil.rmtree(folder, ignore_errors=True)
    write_job(folder, run, train)
    outcome = timed(command(run, folder, work), folder / "log.txt")
    record = {**vars(run), **outcome, "rows": len(train), "machine": describe()}
    if outcome["status"] == "ok":
        record |= scores(synthetic_rows(folder, run), train, test, schema_of(run.data))
    return record


def write_job(folder: Path, run: Run, train: pd.DataFrame) -> None:
    """The released rows and the public facts, as files."""
    folder.mkdir(parents=True)
    schema = schema_of(run.data)
    (folder / "schema.json").write_text(json.dumps(schema.to_dict()))
    facts = {
        "epsilon": run.epsilon,
        "delta": DELTA,
        "seed": run.seed,
        "rows": min(len(train), MOST_ROWS),
        "columns": [public_facts(column) for column in schema.columns],
    }
    (folder / "job.json").write_text(json.dumps(facts))
    train = train[[column.name for column in schema.columns]]
    train.to_parquet(folder / "train.parquet", index=False)
    texts = {c.name: train[c.name].astype(str) for c in schema.columns if has_values(c)}
    train.assign(**texts).to_csv(folder / "train.csv", index=False)


def has_values(column: Any) -> bool:
    """Whether a column is a choice."""
    return isinstance(column, dg.CategoryColumn | dg.BooleanColumn)


def public_facts(column: Any) -> dict[str, Any]:
    """What a peer is told of a column."""
    if isinstance(column, dg.BooleanColumn):
        return {"name": column.name, "values": ["False", "True"]}
    if isinstance(column, dg.CategoryColumn):
        return {"name": column.name, "values": list(column.values)}
    whole = isinstance(column, dg.IntegerColumn)
    return {"name": column.name, "min": column.min, "max": column.max, "whole": whole}


def command(run: Run, folder: Path, work: Path) -> list[str]:
    """How to start a method; a peer's environment is made first if it is not there."""
    if run.method in OURS:
        return [sys.executable, str(PEERS_FOLDER / "ours.py"), str(folder), run.method]
    peer = PEERS[run.method]
    python = work / run.method / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(work / run.method)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *peer.install], check=True)
    return [str(python), str(PEERS_FOLDER / peer.script), str(folder)]


def timed(words: list[str], log: Path) -> dict[str, Any]:
    """Wall and CPU seconds and peak memory of one process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    status = "ok"
    with log.open("w") as file:
        guarded = ["/usr/bin/env", "python3", "-c", WATCH, str(60 * MINUTES), *words]
        done = subprocess.run(guarded, stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        status = f"time-out after {MINUTES} min" if done.returncode == OUT_OF_TIME else "failed"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = log.with_name("peak.txt")
    return {
        "status": status,
        "wall_s": round(time.perf_counter() - start, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_mb": int(peak.read_text()) // 1024 if peak.exists() else None,
        "log": log.read_text()[-400:] if status != "ok" else "",
    }


# Processor time is limited, not wall time: a busy machine must not stop a peer.
OUT_OF_TIME = 124
WATCH = f"""
import pathlib, resource, signal, subprocess, sys
seconds = int(sys.argv.pop(1))
limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
done = subprocess.run(sys.argv[1:], preexec_fn=limit)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
folder = next(pathlib.Path(word) for word in sys.argv if pathlib.Path(word, "job.json").is_file())
(folder / "peak.txt").write_text(str(peak))
sys.exit({OUT_OF_TIME} if -done.returncode in (signal.SIGXCPU, signal.SIGKILL) else done.returncode)
"""


def synthetic_rows(folder: Path, run: Run) -> pd.DataFrame:
    """What a method wrote; peers write text."""
    if run.method in OURS:
        return pd.read_parquet(folder / "synthetic.parquet")
    schema = schema_of(run.data)
    texts = {c.name: "str" for c in schema.columns if isinstance(c, dg.CategoryColumn)}
    rows = pd.read_csv(folder / "synthetic.csv", dtype=texts, keep_default_na=False, na_values=[""])
    booleans = [c.name for c in schema.columns if isinstance(c, dg.BooleanColumn)]
    return rows.assign(**{name: rows[name].astype(str) == "True" for name in booleans})


def scores(
    synthetic: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, schema: dg.Schema
) -> dict[str, Any]:
    """Utility on unseen rows and likeness to the released ones."""
    found = dg.evaluate(test, synthetic, schema)
    present = {score.metric for score in found.scores}
    rng = np.random.Generator(np.random.PCG64(0))
    real, own = (tables.read_rows(rows, schema) for rows in (train, synthetic))
    likeness = fidelity_scores("synthetic", own, real, groups=(), rng=rng)
    return {
        **{name: found.mean(name) for name in UTILITY if name in present},
        **{s.metric: s.value for s in likeness if s.metric in ("tv1", "tv2", "correlation")},
        "cramers_v": next((s.value for s in likeness if s.metric == "cramers_v"), None),
    }


def summary(known: dict[str, Any]) -> str:
    """One line per data set, epsilon and method: means over seeds."""
    if not known:
        return "nothing measured yet"
    rows = pd.DataFrame(known.values())
    wanted = [*UTILITY, "tv1", "tv2", "correlation", "wall_s", "cpu_s", "peak_mb"]
    columns = [name for name in wanted if name in rows]
    grouped = rows.groupby(["data", "epsilon", "method"], sort=False)
    means = grouped[columns].mean(numeric_only=True)
    means.insert(0, "seeds", grouped.size())
    means["status"] = grouped["status"].agg(lambda s: ", ".join(sorted(set(s))))
    return means.round(3).to_string()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
