"""Write docs/hermite-results.md from the result files of ``papers.py --method hermite``.

    python benchmarks/hermite_page.py [--check]

Nothing on the page is typed by hand but the published numbers and the words around the tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from machine import ROOT
from papers_data import DATA
from papers_published import HERMITE_IMAGES, HERMITE_MARGINALS, HERMITE_TABLES
from papers_results import FOLDER, Run, runs_of
from papers_summary import Value, classifier_value, column_value, main_metric, over_runs

PAGE = ROOT / "docs" / "hermite-results.md"
RESULTS = FOLDER / "hermite"
TWELVE = ("LR", "RF", "GNB", "BNB", "SVM", "DT", "LDA", "Ada", "MLP", "Bag", "GBM", "XGB")
INTRO = """\
<!-- Made by benchmarks/hermite_page.py from benchmarks/results/papers/hermite; do not edit. -->
# DP-HP beside the paper

`Hermite()` as it is beside the numbers of Vinaroz, Charusaie, Harder, Adamczewski and Park (2022),
under the protocol of `docs/results.md`: relation replace_one, δ = 1e-5, ± is the sample standard
deviation over runs where there are several. The paper's numbers for tables are not comparable: they
take for each classifier the best of up to 14 settings on the real test labels, separately for ROC
and PRC; length scales come from private rows, and product features carry too little noise. Ours
has one setting of each classifier and no look at test labels.
"""


def main() -> None:
    """Write the page, or check that it is the one on disk."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    made = page()
    if parser.parse_args().check:
        sys.exit(0 if PAGE.read_text() == made else f"{PAGE} is not what the result files give")
    PAGE.write_text(made)
    print(f"written: {PAGE.relative_to(ROOT)}")


def page(folder: Path = RESULTS) -> str:
    """The whole page."""
    parts = [INTRO, *_grid(folder), *_marginals(folder), *_tables(folder), *_images(folder)]
    return "\n".join(parts).rstrip() + "\n"


def _grid(folder: Path) -> Iterator[str]:
    yield "## 2-D grid, ε = 1\n"
    yield "Mean log-likelihood of synthetic points. A sample of the truth has the third line: more"
    yield "than that means modes that are a little too narrow.\n"
    sources = {"DP-HP": ("1", folder), "DP-MERF": ("1", FOLDER), "truth": ("real", FOLDER)}
    rows = []
    for name, (column, place) in sources.items():
        runs = _at(runs_of("grid", place), column)
        value = over_runs([float(run["scores"]["mean_log_likelihood"]) for run in runs])
        covered = over_runs([float(run["scores"]["covered"]) for run in runs])
        if value and covered:
            rows.append([name, value.text(), f"{covered.mean:g} of 25", len(runs)])
    yield from _table(["", "mean log-likelihood", "modes covered", "runs"], rows)


def _marginals(folder: Path) -> Iterator[str]:
    yield "\n## Marginals of discretised Adult and Census\n"
    yield "Mean total variation over sets of α columns, lower is better. The authors' code takes"
    yield "sets of α + 1 columns where the table says α, on bins that are not published.\n"
    rows = []
    for name, alphas in HERMITE_MARGINALS.items():
        runs = [run for run in runs_of(f"marginals-{name}", folder) if run["variant"] == "D"]
        for alpha, printed in alphas.items():
            for epsilon, paper in printed.items():
                own = _at(runs, epsilon)
                values = [
                    over_runs([run["total_variation"][str(k)] for run in own])
                    for k in (alpha, alpha + 1)
                ]
                texts = [value.text() if value else "" for value in values]
                rows.append([name, epsilon, alpha, f"{paper:.3f}", *texts, len(own)])
    heads = ["data", "ε", "α", "paper", "ours, α columns", "ours, α + 1 columns", "runs"]
    yield from _table(heads, rows)


def _tables(folder: Path) -> Iterator[str]:
    yield "\n## Tables, ε = 1\n"
    yield "Mean of twelve classifiers, from hard labels as in the paper; the last columns are ROC"
    yield "and PRC from scores. Two misses: Cervical has 602 rows, 7 % of them positive; without"
    yield 'noise ("no noise", though the fit still ends at the loss that noise would leave) it'
    yield "comes near the paper's best of up to 14 settings. Isolet is missed without noise, too:"
    yield "of the pairs of 617 columns one in 160 is released, from 1,092 rows, a fifth of the"
    yield "paper's.\n"
    rows = []
    for name, printed in HERMITE_TABLES.items():
        runs, metric = _at(runs_of(name, folder), "1"), main_metric(name)
        ours = column_value(name, runs, metric)
        metrics = ("pr_hard", "roc_auc", "pr_auc")
        others = [column_value(name, runs, m) if ours else None for m in metrics]
        paper = printed[metric]
        texts = [value.text() if value else "" for value in others]
        prc = f"{printed['pr_hard']:.3f}" if "pr_hard" in printed else ""
        verdict = _verdict(ours, paper)
        words = f"{name}{'' if DATA[name].counted else ' (other rows)'}"
        own = ours.text() if ours else ""
        quiet = column_value(name, _at(runs_of(name, folder), "nonprivate"), metric)
        without = quiet.text() if quiet else ""
        rows.append([words, f"{paper:.3f}", own, verdict, without, prc, *texts, len(runs)])
    heads = ["data", "paper ROC or F1", "ours", "", "no noise", "paper PRC", "ours PRC"]
    yield from _table([*heads, "ROC, scores", "PRC, scores", "runs"], rows)


def _verdict(ours: Value | None, paper: float) -> str:
    if ours is None:
        return "to come"
    if ours.mean >= paper:
        return "past"
    return "within one std" if ours.mean >= paper - (ours.std or 0.0) else "miss"


def _images(folder: Path) -> Iterator[str]:
    yield "\n## Images, ε = 1\n"
    yield "Accuracy on the 10,000 real test images of classifiers trained on synthetic ones; the"
    yield "mean is over those classifiers that were run.\n"
    rows = []
    for name, printed in HERMITE_IMAGES.items():
        runs = _at(runs_of(name, folder), "1")
        cells = [f"{printed[model]:.3f}" for model in TWELVE]
        mean = sum(printed.values()) / len(printed)
        rows.append([f"{name}, paper", f"{mean:.3f}", *cells, ""])
        if not runs:
            continue
        values = {model: classifier_value(name, runs, model, "accuracy") for model in TWELVE}
        known = {model: value.mean for model, value in values.items() if value}
        same = sum(printed[model] for model in known) / len(known)
        own = [f"{known[model]:.3f}" if model in known else "" for model in TWELVE]
        mean = sum(known.values()) / len(known)
        label = f"{name}, ours"
        if len(known) < len(TWELVE):
            label += f" (paper on these {len(known)}: {same:.3f})"
        rows.append([label, f"{mean:.3f}", *own, len(runs)])
    yield from _table(["", "mean", *TWELVE, "runs"], rows)


def _at(runs: list[Run], column: str) -> list[Run]:
    return [run for run in runs if run["column"] == column]


def _table(heads: list[str], rows: list[list[object]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    yield from ("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


if __name__ == "__main__":
    main()
