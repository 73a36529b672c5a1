"""The part of the page that compares with real rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from dpgist.evaluate.scores import METRICS, Evaluation, Score
from dpgist.plots import REAL, SYNTHETIC
from dpgist.report import figures
from dpgist.report.figures import Mark
from dpgist.report.outside import Outside
from dpgist.report.svg import short

SHOWN_GROUPS = 10
_PANELS = (
    "roc_auc", "pr_auc", "f1_weighted", "accuracy", "tv1", "tv2", "tv3", "range_queries",
    "correlation", "cramers_v", "fid", "kid", "lenet_fid", "lenet_kid",
)  # fmt: skip
_REFERENCES = {
    "real": "real: the private training rows themselves, what no synthetic rows can be expected to "
    "beat",
    "independent": "independent: every column drawn on its own from noisy counts of the same "
    "budget, what any good method must beat",
    "noise": "noise: the same method on an empty table, what comes of noise alone",
}


def outside_context(outside: Outside | None, *, look: str | None) -> dict[str, Any] | None:
    """What the template needs; None for a report without real rows.

    Privacy: as private as the real rows.
    """
    if outside is None:
        return None
    evaluation = outside.evaluation
    return {
        "stamp": f"{evaluation.stamp[0].upper()}{evaluation.stamp[1:]}.",
        "look": look or "",
        "summary": _summary(evaluation),
        "references": _references(evaluation),
        "score_panels": list(_score_panels(evaluation)),
        "sources": evaluation.sources,
        "score_rows": list(_score_rows(evaluation)),
        "models": _models(evaluation),
        "groups": _groups(evaluation),
        "colours": {"real": REAL, "synthetic": SYNTHETIC},
        "notes": [*evaluation.notes, *_missing(evaluation)],
        **_comparison(outside),
    }


def main_metric(evaluation: Evaluation) -> str | None:
    """The score a reader looks at first: the best measure of use, else of likeness.

    Privacy: looks at which scores there are.
    """
    order = ("roc_auc", "f1_weighted", "accuracy", "tv2", "tv1", "lenet_fid", "fid")
    for name in order:
        found = evaluation.find(name)
        if found is not None and found.value is not None:
            return name
    return None


def _summary(evaluation: Evaluation) -> str:
    name = main_metric(evaluation)
    if name is None:
        return "No score could be computed; the notes below say why."
    metric = METRICS[name]
    parts = []
    for source in evaluation.sources:
        found = evaluation.find(name, source=source)
        if found is not None and found.value is not None:
            parts.append(f"{source} {short(found.value)}{_interval(found)}")
    better = "higher" if metric.better == "high" else "lower"
    return f"{metric.title} ({metric.means}), {better} is better: {'; '.join(parts)}."


def _references(evaluation: Evaluation) -> str:
    used = [words for source, words in _REFERENCES.items() if source in evaluation.sources]
    if not used:
        return "Pass --train for the reference of real training rows."
    return f"References. {'; '.join(used)}."


def _score_panels(evaluation: Evaluation) -> Iterator[Markup]:
    for name in _PANELS:
        found = [(source, evaluation.find(name, source=source)) for source in evaluation.sources]
        marks = [_mark(source, score) for source, score in found]
        if any(mark.value is not None for mark in marks):
            better = "higher" if METRICS[name].better == "high" else "lower"
            yield figures.score_panel(METRICS[name].title, f"{better} is better", marks)


def _mark(source: str, score: Score | None) -> Mark:
    colour = figures.reference_colour(source)
    if score is None:
        return Mark(name=source, value=None, low=None, high=None, colour=colour)
    return Mark(name=source, value=score.value, low=score.low, high=score.high, colour=colour)


def _score_rows(evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    for name in evaluation.metrics:
        scores = [evaluation.find(name, source=source) for source in evaluation.sources]
        if any(score is not None and score.value is not None for score in scores):
            yield {
                "title": METRICS[name].title,
                "arrow": "↑" if METRICS[name].better == "high" else "↓",
                "means": METRICS[name].means,
                "cells": [_cell(score) for score in scores],
            }


def _cell(score: Score | None) -> dict[str, str]:
    if score is None or score.value is None:
        return {"value": "–", "interval": ""}
    return {"value": short(score.value), "interval": _interval(score).strip()}


def _interval(score: Score) -> str:
    if score.low is None or score.high is None:
        return ""
    return f" [{short(score.low)}, {short(score.high)}]"


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


def _groups(evaluation: Evaluation) -> dict[str, Any] | None:
    """The groups with the worst scores, by the first metric that groups have."""
    order = [*_PANELS, *evaluation.metrics]
    name = next((n for n in order if evaluation.worst_group(n) is not None), None)
    if name is None:
        return None
    sign = 1.0 if METRICS[name].better == "high" else -1.0
    known = [(g, evaluation.find(name, group=g)) for g in evaluation.groups]
    scored = [(sign * s.value, g) for g, s in known if s is not None and s.value is not None]
    sources = [s for s in evaluation.sources]
    worst = [group for _, group in sorted(scored)][:SHOWN_GROUPS]
    return {
        "metric": METRICS[name].title,
        "shown": len(worst),
        "total": len(evaluation.groups),
        "sources": sources,
        "rows": [_group_row(evaluation, name, group, sources, sign) for group in worst],
    }


def _group_row(
    evaluation: Evaluation, metric: str, group: str, sources: Sequence[str], sign: float
) -> dict[str, Any]:
    values = {
        source: found.value
        for source in sources
        if (found := evaluation.find(metric, source=source, group=group)) is not None
    }
    cells = ["–" if (v := values.get(source)) is None else short(v) for source in sources]
    own, real = values.get("synthetic"), values.get("real")
    lost = "–" if own is None or real is None else f"{sign * (real - own):+.3f}"
    return {"name": group, "cells": cells, "lost": lost}


def _missing(evaluation: Evaluation) -> list[str]:
    """What could not be computed and why, each reason once."""
    reasons: dict[str, list[str]] = {}
    for score in evaluation.scores:
        if score.value is None and score.why and score.group is None:
            title = METRICS[score.metric].title if score.metric in METRICS else score.metric
            names = reasons.setdefault(score.why, [])
            if title not in names:
                names.append(title)
    return [f"{', '.join(names)}: not computed, {why}" for why, names in reasons.items()]


def _comparison(outside: Outside) -> dict[str, Any]:
    raise NotImplementedError
