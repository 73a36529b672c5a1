"""What to do if a score is poor, read off a comparison with real rows."""

from __future__ import annotations

from collections.abc import Iterator

from dpgist.evaluate.scores import METRICS, Evaluation, Score
from dpgist.gist import Gist
from dpgist.report.advice import Advice
from dpgist.report.outside import Outside, main_metric
from dpgist.report.svg import short

CLOSE, CLOSE_DISTANCE = 0.02, 0.2
"""Scores that differ by less, or whose intervals overlap, count as equal; distances have no common
scale, so that theirs is a share of the larger one."""
HARD_TASK = 0.6
FAR_COLUMN = 0.1
GROUP_GAP = 0.1


def advise_outside(outside: Outside, gist: Gist) -> Iterator[Advice]:
    """Findings from the scores and the comparison of columns.

    Privacy: as private as the real rows.
    """
    name = main_metric(outside.evaluation)
    if name is not None:
        fewer = "columns and values" if gist.schema.image is None else "classes"
        yield from _against_references(outside.evaluation, name, fewer)
        yield from _worst_group(outside.evaluation, name)
    yield from _far_columns(outside, gist)


def _against_references(evaluation: Evaluation, name: str, fewer: str) -> Iterator[Advice]:
    if _ahead(evaluation, name, "synthetic", "noise") == 0:
        yield Advice(
            level="act",
            title="The synthetic rows are no better than noise",
            why=_beside(evaluation, name, "noise"),
            do="Nothing of use got through at this budget. Release with more epsilon, more rows or "
            f"fewer {fewer}; dpgist plan foresees the noise without reading a row.",
        )
    elif _ahead(evaluation, name, "synthetic", "independent") == 0:
        yield Advice(
            level="act",
            title="How columns hang together was lost",
            why=f"{_beside(evaluation, name, 'independent')} Single columns are kept, what links "
            "them is not.",
            do="If the training loss is above its dashed line, train longer. Else give the links a "
            "larger share of the release (the method's pair_weight and joint_weight), drop columns "
            "nobody needs, or raise epsilon.",
        )
    lost = _ahead(evaluation, name, "real", "synthetic")
    if lost is not None:
        yield from _against_real(evaluation, name, lost)


def _against_real(evaluation: Evaluation, name: str, lost: float) -> Iterator[Advice]:
    title, real = METRICS[name].title, evaluation.mean(name, "real")
    if name == "roc_auc" and real < HARD_TASK:
        yield Advice(
            level="look",
            title="The task is hard with real rows too",
            why=f"{title} of classifiers trained on the real rows is only {short(real)}.",
            do="Do not blame the synthetic rows: judge them by a label that can be predicted, or "
            "by the distances.",
        )
    if lost == 0:
        yield Advice(
            level="fine",
            title="Nearly as good as the real rows",
            why=_beside(evaluation, name, "real"),
            do="Nothing needs to be done for this score.",
        )
    else:
        yield Advice(
            level="look",
            title=f"{title} lost against real rows: {short(lost)}",
            why=_beside(evaluation, name, "real"),
            do="See above what limits: a loss far over its dashed line asks for more training, "
            "one at the line for less noise.",
        )


def _ahead(evaluation: Evaluation, name: str, source: str, other: str) -> float | None:
    """By how much some rows are better than others: 0 if as good or worse, None if unknown."""
    first, second = (evaluation.find(name, source=which) for which in (source, other))
    if first is None or first.value is None or second is None or second.value is None:
        return None
    high = METRICS[name].better == "high"
    ahead = (first.value - second.value) * (1 if high else -1)
    close = CLOSE if high else CLOSE_DISTANCE * max(first.value, second.value)
    return 0.0 if ahead <= close or _overlap(first, second) else ahead


def _overlap(first: Score, second: Score) -> bool:
    """Whether the intervals of two scores overlap; not if one has none."""
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return False
    return first.low <= second.high and second.low <= first.high


def _beside(evaluation: Evaluation, name: str, source: str) -> str:
    own, other = evaluation.find(name), evaluation.find(name, source=source)
    if own is None or own.value is None or other is None or other.value is None:
        return ""
    words = f"{METRICS[name].title}: synthetic {short(own.value)}, {source} {short(other.value)}."
    return f"{words} Their 95 % intervals overlap." if _overlap(own, other) else words


def _worst_group(evaluation: Evaluation, name: str) -> Iterator[Advice]:
    worst, own = evaluation.worst_group(name), evaluation.find(name)
    if worst is None or worst.value is None or own is None or own.value is None:
        return
    real = evaluation.find(name, source="real", group=worst.group)
    if real is None or real.value is None:
        return
    lost = (real.value - worst.value) * (1 if METRICS[name].better == "high" else -1)
    if lost > GROUP_GAP:
        yield Advice(
            level="act",
            title=f"The group {worst.group} fares much worse than the rest",
            why=f"{METRICS[name].title}: synthetic {short(worst.value)}, real {short(real.value)} "
            f"in this group; {short(own.value)} for everyone.",
            do="Do not use the synthetic rows for conclusions about this group. Noise is the same "
            "for every group, so that a small one needs more epsilon, or its column as the label, "
            "which gives each of its values features of its own.",
        )


def _far_columns(outside: Outside, gist: Gist) -> Iterator[Advice]:
    for name, distance in outside.column_distances():
        if distance > FAR_COLUMN:
            yield Advice(
                level="look",
                title=f"{name!r} is far from the real column",
                why=f"Total variation {distance:.2f} between its real and synthetic shares, where "
                "0 is equal and 1 has nothing in common.",
                do=_column_help(gist, name),
            )


def _column_help(gist: Gist, name: str) -> str:
    broken = next(h for h in gist.card_dict()["health"] if h["column"] == name)
    if broken["broken_cells"] > 3 * broken["std"]:
        return "Many of its cells broke the schema: correct the schema first."
    return (
        "Are its declared bounds much wider than its values, or are there many rare values? "
        "Tighter bounds and fewer values, if public, make the same noise count less."
    )
