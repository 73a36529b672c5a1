"""The page's part on PEARL: published numbers, ours, and what the critic does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import papers_published as published
from papers_pearl import CRITICS, IMAGES, TABLES
from papers_results import Run, runs_of
from papers_summary import Value, column_value, markdown_table, over_runs

CRITIC_SEEDS = 5
TITLES = {"adult": "Adult", "credit": "Credit", "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
INTRO = """
## PEARL

Our PEARL beside the numbers of Liew, Takahashi and Ueno (2022) at ε = 1, δ = 1e-5, replace_one:
ten classifiers, hard labels, 11,000 synthetic rows; range queries, the L1 distance of pairs and the
squared MMD to the released rows, where "floor" is what held-out real rows score. `Pearl()` as it
is, with a generator of 100 components trained for 400 steps. See `benchmarks/papers_pearl.py`, and
[pearl.md](pearl.md) for the method. The paper's binning and kernel are not published, so its
range, marginal and MMD columns compare in size only.
"""


def pearl_section(folder: Path) -> Iterator[str]:
    """Everything about PEARL, or that there is nothing yet."""
    yield INTRO
    rows = [row for name in TABLES for row in _table_rows(name, _runs(name, folder))]
    yield from markdown_table(["data", "source", *_METRICS.values(), "runs"], rows)
    yield from _critic_effect(folder)
    yield "\nImages: LeNet-5 features, FID and KID × 1000 against the 10,000 test images, lower is"
    yield "better. The paper's LeNet is not published, so its numbers compare in order only; real"
    yield "training images show what ours gives to perfect ones.\n"
    rows = [row for name in IMAGES for row in _image_rows(name, _runs(name, folder))]
    yield from markdown_table(["data", "source", "FID", "KID × 1000", "runs"], rows)


_METRICS = {
    "roc_hard": "ROC",
    "pr_hard": "PRC",
    "range": "range",
    "marginal_l1": "marginal",
    "mmd": "MMD²",
}


def _runs(name: str, folder: Path) -> list[Run]:
    return [run for run in runs_of(f"pearl-{name}", folder) if run["column"] == "1"]


def _with(runs: list[Run], critic: str) -> list[Run]:
    return [run for run in runs if run["critic"] == critic]


def _table_rows(name: str, runs: list[Run]) -> Iterator[list[object]]:
    for source, printed in published.PEARL_TABLES[name].items():
        yield [TITLES[name], f"paper, {source}", *(printed[metric] for metric in _METRICS), ""]
    for critic in CRITICS:
        own = _with(runs, critic)
        if own:
            texts = [_text(_score(name, own, metric)) for metric in _METRICS]
            yield [TITLES[name], f"ours, critic {critic}", *texts, len(own)]
    if runs:
        floors = [_text(_fidelity(runs, "floor", metric)) for metric in list(_METRICS)[2:]]
        yield [TITLES[name], "floor", "", "", *floors, ""]


def _score(name: str, runs: list[Run], metric: str) -> Value | None:
    if metric in ("roc_hard", "pr_hard"):
        return column_value(name, runs, metric)
    return _fidelity(runs, "synthetic", metric)


def _fidelity(runs: list[Run], source: str, metric: str) -> Value | None:
    """Over the runs; the floor of a seed is the same with and without a critic."""
    seeds = {run["seed"]: run["fidelity"][source][metric] for run in runs}
    found = [run["fidelity"][source][metric] for run in runs] if source == "synthetic" else None
    return over_runs([float(value) for value in (found or seeds.values()) if value is not None])


def _critic_effect(folder: Path) -> Iterator[str]:
    """Score with the critic minus score without, seed by seed."""
    yield "\nThe critic's effect, on minus off for the same seed (mean ± standard error):\n"
    rows = []
    for name in TABLES:
        runs = _runs(name, folder)
        pairs = [_paired(name, runs, metric) for metric in ("roc_hard", "pr_hard")]
        rows.append([TITLES[name], *(_effect(values) for values in pairs), len(pairs[0])])
    yield from markdown_table(["data", "ROC", "PRC", "seeds"], rows)


def _paired(name: str, runs: list[Run], metric: str) -> list[float]:
    seeds = sorted({run["seed"] for run in runs})
    found = []
    for seed in seeds:
        own = [[run for run in _with(runs, critic) if run["seed"] == seed] for critic in CRITICS]
        if all(own):
            on, off = (column_value(name, one, metric) for one in own)
            found += [on.mean - off.mean] if on and off else []
    return found


def _effect(values: list[float]) -> str:
    value = over_runs(values)
    if value is None:
        return ""
    error = "" if value.std is None else f" ± {value.std / math.sqrt(value.n_runs):.3f}"
    return f"{value.mean:+.3f}{error}"


def _image_rows(name: str, runs: list[Run]) -> Iterator[list[object]]:
    for source, (fid, kid) in published.PEARL_IMAGES[name].items():
        yield [TITLES[name], f"paper, {source}", fid, kid, ""]
    for critic in CRITICS:
        own = _with(runs, critic)
        if own:
            yield [TITLES[name], f"ours, critic {critic}", *_distances(own, "synthetic"), len(own)]
    if runs:
        yield [TITLES[name], "ours, real images", *_distances(runs, "real"), ""]


def _distances(runs: list[Run], source: str) -> list[str]:
    scores = [run["scores"][source] for run in runs]
    fid, kid = (over_runs([score[key] for score in scores]) for key in ("fid", "kid"))
    return [_text(fid), "" if kid is None else f"{1000 * kid.mean:.1f}"]


def missing_pearl(folder: Path) -> Iterator[str]:
    """Which runs of PEARL are not on file."""
    for name in (*TABLES, *IMAGES):
        need = CRITIC_SEEDS if name in TABLES else 1
        for critic in CRITICS:
            have = len(_with(_runs(name, folder), critic))
            if have < need:
                yield f"- PEARL, {TITLES[name]}, critic {critic}: {have} of {need} runs"


def pearl_runs(folder: Path) -> dict[str, list[Run]]:
    """All runs, for the list of machines."""
    return {name: runs_of(f"pearl-{name}", folder) for name in (*TABLES, *IMAGES)}


def _text(value: Value | None) -> str:
    if value is None:
        return ""
    return value.text() if abs(value.mean) >= 0.01 else f"{value.mean:.1e}"
