"""An evaluation as aligned text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpgist.evaluate.scores import METRICS, Evaluation, Score

_TITLES = {
    "utility": "CLASSIFIERS trained on these rows, tested on real ones",
    "fidelity": "LIKENESS to the real rows (0 is best)",
    "illustration": "ILLUSTRATION, no privacy measure",
}
_WHOSE = {
    "synthetic": "synthetic",
    "real": "real training rows",
    "independent": "independent columns",
    "noise": "pure noise",
}


def evaluation_text(evaluation: Evaluation) -> str:
    """One row per source with metrics as columns, then the classifiers, then the worst groups.

    Privacy: shows scores; outside the guarantee, as its first line says.
    """
    head, colon, rest = evaluation.stamp.partition(":")
    parts = [[f"{head.upper()}{colon}{rest}"]]
    for family, title in _TITLES.items():
        metrics = [m for m in evaluation.metrics if METRICS[m].family == family]
        if metrics:
            parts.append([title, *_source_lines(evaluation, metrics)])
    if evaluation.models:
        parts.append(["EACH CLASSIFIER", *_model_lines(evaluation)])
    if evaluation.groups:
        parts.append(["WORST GROUPS of the synthetic rows", *_group_lines(evaluation)])
    if notes := [*reasons(evaluation), *evaluation.notes]:
        parts.append(["NOTES", *(f"  {note}" for note in notes)])
    return "\n\n".join("\n".join(part) for part in parts)


def _source_lines(evaluation: Evaluation, metrics: Sequence[str]) -> list[str]:
    header = ["", *(_arrow(metric) for metric in metrics)]
    lines = [header]
    for source in evaluation.sources:
        found = [evaluation.find(metric, source=source) for metric in metrics]
        lines.append([_WHOSE.get(source, source), *map(_number, found)])
        if source == "synthetic" and any(s is not None and s.low is not None for s in found):
            lines.append(["  95 % from", *(_end(s, "low") for s in found)])
            lines.append(["       to", *(_end(s, "high") for s in found)])
    return _aligned(lines)


def _model_lines(evaluation: Evaluation) -> list[str]:
    """The first metric of each classifier for every source."""
    metrics = [m for m in evaluation.metrics if METRICS[m].family == "utility"]
    first = [m for m in ("roc_auc", "roc_hard", "f1_weighted", "accuracy") if m in metrics][:2]
    columns = [(metric, source) for metric in first for source in evaluation.sources]
    lines = [
        ["", *(METRICS[metric].title for metric, _ in columns)],
        ["", *(source for _, source in columns)],
    ]
    for model in evaluation.models:
        found = [evaluation.find(m, source=s, model=model) for m, s in columns]
        lines.append([model, *map(_number, found)])
    return _aligned(lines)


def _group_lines(evaluation: Evaluation) -> list[str]:
    lines = [["", "group", "everyone", "group's", "real rows'"]]
    for metric in evaluation.metrics:
        worst = evaluation.worst_group(metric)
        if worst is None or METRICS[metric].family == "illustration":
            continue
        real = evaluation.find(metric, source="real", group=worst.group)
        everyone = evaluation.find(metric)
        lines.append(
            [_arrow(metric), str(worst.group), _number(everyone), _number(worst), _number(real)]
        )
    return _aligned(lines) if len(lines) > 1 else ["  no group could be scored"]


def reasons(evaluation: Evaluation) -> Iterator[str]:
    """Why numbers are missing or to be taken with care, each reason once: whose and of which rows.

    Privacy: names scores, classifiers and sources; outside the guarantee, as the scores are.
    """
    found: dict[str, list[str]] = {}
    for score in evaluation.scores:
        if score.why is not None and score.group is None:
            title = score.model or METRICS[score.metric].title
            found.setdefault(f"{score.source} rows: {score.why}", []).append(title)
    for reason, titles in found.items():
        shown = list(dict.fromkeys(titles))
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        yield f"{', '.join(shown[:3])}{more}: {reason}"


def _arrow(metric: str) -> str:
    if METRICS[metric].family == "illustration":
        return METRICS[metric].title  # neither way is better
    return METRICS[metric].title + (" ↑" if METRICS[metric].better == "high" else " ↓")


def _number(score: Score | None) -> str:
    if score is not None and score.is_lacking:
        return "no rows"
    if score is None or score.value is None:
        return "-"
    return _digits(score.value)


def _end(score: Score | None, end: str) -> str:
    value = None if score is None else getattr(score, end)
    return "" if value is None else _digits(value)


def _digits(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= 0.0095 or value == 0 else f"{value:.1e}"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return [
        "  "
        + line[0].ljust(widths[0])
        + "".join(
            "  " + cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)
        )
        for line in lines
    ]
