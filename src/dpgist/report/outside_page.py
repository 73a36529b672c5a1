"""The part of the page that compares with real rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from dpgist.evaluate.groups import FEWEST_ROWS
from dpgist.evaluate.scores import METRICS, Evaluation, Score
from dpgist.evaluate.text import reasons
from dpgist.plots import REAL, SYNTHETIC
from dpgist.report import outside_figures
from dpgist.report.comparison_page import comparison_context
from dpgist.report.outside import Outside, main_metric
from dpgist.report.outside_figures import Mark
from dpgist.report.svg import score_text
from dpgist.schema import Schema

SHOWN_GROUPS = 10
_PANELS = (
    "roc_auc", "pr_auc", "f1_weighted", "accuracy", "tv1", "tv2", "tv3", "range_queries",
    "correlation", "cramers_v", "fid", "kid", "lenet_fid", "lenet_kid",
)  # fmt: skip
_TITLES = {
    "tv1": "Single columns: total variation",
    "tv2": "Pairs of columns: total variation",
    "tv3": "Triples of columns: total variation",
    "tv4": "Four columns: total variation",
    "tv2_l1": "Pairs of columns: L1 distance",
    "range_queries": "Range queries: mean error",
    "correlation": "Correlations: mean error",
    "cramers_v": "Cramér's V: mean error",
    "nearest_record": "Nearest real row",
    "f1_weighted": "F1, weighted",
    "accuracy": "Accuracy",
}
"""Where the page has room for more words than a terminal."""
_SPREAD = ("kid", "lenet_fid", "lenet_kid")
"""Scores whose brackets hold something else than an interval over the test rows."""
_REFERENCES = {
    "real": "real: the private training rows themselves, what no synthetic rows can be expected to "
    "beat",
    "independent": "independent: every column drawn on its own from noisy counts of the same "
    "budget, what any good method must beat",
    "noise": "noise: the same method on an empty table, what comes of noise alone",
}


def outside_context(outside: Outside | None, schema: Schema) -> dict[str, Any] | None:
    """What the template needs; None for a report without real rows.

    Privacy: as private as the real rows.
    """
    if outside is None:
        return None
    evaluation = outside.evaluation
    return {
        "stamp": f"{evaluation.stamp.removeprefix('outside the guarantee: ')}.",
        "look": outside.look,
        "summary": _summary(evaluation),
        "references": _references(evaluation),
        "score_panels": list(_score_panels(evaluation)),
        "sources": evaluation.sources,
        "interval_words": _interval_words(evaluation),
        "score_rows": list(_score_rows(evaluation)),
        "models": _models(evaluation),
        "groups": _groups(evaluation),
        "colours": {"real": REAL, "synthetic": SYNTHETIC},
        "notes": [*outside.notes, *evaluation.notes, *reasons(evaluation)],
        "fewest": FEWEST_ROWS,
        **comparison_context(outside, schema),
    }


def title_of(metric: str) -> str:
    """A metric's title. Privacy: looks at its name."""
    return _TITLES.get(metric, METRICS[metric].title)


def _summary(evaluation: Evaluation) -> str:
    name = main_metric(evaluation)
    if name is None:
        return "No score could be computed; the notes below say why."
    parts = []
    for source in evaluation.sources:
        found = evaluation.find(name, source=source)
        if found is not None and found.value is not None:
            parts.append(f"{source} {score_text(found.value)}{_interval(found)}")
    better = "higher" if METRICS[name].better == "high" else "lower"
    return f"{title_of(name)}, {better} is better: {', '.join(parts)}."


def _references(evaluation: Evaluation) -> str:
    used = [words for source, words in _REFERENCES.items() if source in evaluation.sources]
    if not used:
        return "Pass --train for the reference of real training rows."
    return f"Beside the synthetic rows stand references. {'; '.join(used)}."


def _score_panels(evaluation: Evaluation) -> Iterator[Markup]:
    for name in _PANELS:
        found = [(source, evaluation.find(name, source=source)) for source in evaluation.sources]
        marks = [_mark(source, score) for source, score in found]
        if any(mark.value is not None for mark in marks):
            better = "higher" if METRICS[name].better == "high" else "lower"
            yield outside_figures.score_panel(title_of(name), f"{better} is better", marks)


def _mark(source: str, score: Score | None) -> Mark:
    colour = outside_figures.reference_colour(source)
    if score is None:
        return Mark(name=source, value=None, low=None, high=None, colour=colour)
    return Mark(name=source, value=score.value, low=score.low, high=score.high, colour=colour)


def _score_rows(evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    for name in evaluation.metrics:
        scores = [evaluation.find(name, source=source) for source in evaluation.sources]
        if any(score is not None and score.value is not None for score in scores):
            yield {
                "title": title_of(name),
                "arrow": _arrow(name),
                "means": METRICS[name].means,
                "cells": [_cell(score) for score in scores],
            }


def _arrow(name: str) -> str:
    if METRICS[name].family == "illustration":
        return ""
    return "↑" if METRICS[name].better == "high" else "↓"


def _cell(score: Score | None) -> dict[str, str]:
    if score is None or score.value is None:
        return {"value": "–", "interval": ""}
    return {"value": score_text(score.value), "interval": _interval(score).strip()}


def _interval(score: Score) -> str:
    if score.low is None or score.high is None:
        return ""
    return f" [{score_text(score.low)}, {score_text(score.high)}]"


def _interval_words(evaluation: Evaluation) -> str:
    words = "All scores; in brackets a 95 % interval over the real test rows"
    spread = [name for name in _SPREAD if name in evaluation.metrics]
    if not spread:
        return words
    titles = ", ".join(title_of(name) for name in spread)
    return f"{words}, but of {titles} the spread that their lines name"


def _models(evaluation: Evaluation) -> dict[str, Any] | None:
    names = [n for n in evaluation.metrics if METRICS[n].family == "utility"]
    if not evaluation.models or not names:
        return None
    return {
        "metrics": [METRICS[name].title for name in names],
        "rows": [
            {"name": model, "cells": [_both(evaluation, name, model) for name in names]}
            for model in evaluation.models
        ],
    }


def _both(evaluation: Evaluation, metric: str, model: str) -> str:
    texts = []
    for source in ("synthetic", "real"):
        found = evaluation.find(metric, source=source, model=model)
        texts.append("–" if found is None or found.value is None else f"{found.value:.3f}")
    return texts[0] if texts[1] == "–" else f"{texts[0]} ({texts[1]})"


def _groups(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The groups with the worst scores, and the classes by the score they have."""
    chosen = [g for g in evaluation.groups if not g.startswith("class=")]
    classes = [g for g in evaluation.groups if g.startswith("class=")]
    tables = [
        _group_table(evaluation, chosen, "within a group"),
        _group_table(evaluation, classes, "of a class"),
    ]
    return [table for table in tables if table is not None]


def _group_table(
    evaluation: Evaluation, groups: Sequence[str], words: str
) -> dict[str, Any] | None:
    """The worst of these groups, by the first metric that they have."""
    for name in (*_PANELS, *evaluation.metrics):
        sign = 1.0 if METRICS[name].better == "high" else -1.0
        known = [(g, evaluation.find(name, group=g)) for g in groups]
        scored = [(sign * s.value, g) for g, s in known if s is not None and s.value is not None]
        if scored:
            worst = [group for _, group in sorted(scored)][:SHOWN_GROUPS]
            return {
                "metric": title_of(name),
                "words": words,
                "shown": len(worst),
                "total": len(scored),
                "rows": [_group_row(evaluation, name, group, sign) for group in worst],
            }
    return None


def _group_row(evaluation: Evaluation, metric: str, group: str, sign: float) -> dict[str, Any]:
    sources = evaluation.sources
    values = {
        source: found.value
        for source in sources
        if (found := evaluation.find(metric, source=source, group=group)) is not None
    }
    cells = ["–" if (v := values.get(source)) is None else score_text(v) for source in sources]
    own, real = values.get("synthetic"), values.get("real")
    lost = "–" if own is None or real is None else f"{sign * (real - own):+.3f}"
    return {"name": group, "cells": cells, "lost": lost}
