"""Figures that compare with real rows: scores beside references, and maps of column pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpgist.plots import ACCENT, FAINT, SYNTHETIC
from dpgist.report.figures import PANEL, heading
from dpgist.report.svg import (
    FAINT_INK,
    box,
    dot,
    fit_ends,
    label,
    line,
    mix,
    picture,
    score_text,
    short,
    text_width,
)

MOST_HEAT_COLUMNS = 45
_LEAST_WRITTEN = 26
"""Pixels of a cell that has room for its number."""

Matrix = Sequence[Sequence[float | None]]


def heat_figure(
    title: str,
    names: Sequence[str],
    matrix: Matrix,
    *,
    reach: float,
    diverging: bool = False,
    size: float = 330.0,
) -> Markup:
    """A square of coloured cells: from 0 to ``reach``, or from minus to plus ``reach``.

    Privacy: draws what it is given.
    """
    cell = min(max(size / max(len(names), 1), 8.0), 36.0)
    font = min(10.5, cell / 1.35)
    side = min(96.0, max((text_width(name, font) for name in names), default=0.0)) + 10
    top, span = 46.0, cell * len(names)
    parts = [label(0, 13, title, size=12.5, bold=True)]
    parts += _scale_bar(side, reach, diverging=diverging)
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            parts += _cell(side + j * cell, top + i * cell, cell, value, names[i], names[j],
                           reach, diverging=diverging)  # fmt: skip
    for i, name in enumerate(names):
        shown, middle = fit_ends(name, font, side - 8), (i + 0.5) * cell + font * 0.36
        parts.append(label(side - 5, top + middle, shown, size=font, anchor="end", full=name))
        parts.append(
            label(
                side + middle, top + span + 6, shown, size=font, anchor="end", turn=-90, full=name
            )
        )
    width = max(side + span, text_width(title, 12.5, bold=True), side + 170) + 2
    words = f"{title}: {len(names)} by {len(names)} columns, scale to {short(reach)}"
    return picture(width, top + span + side + 4, parts, about=words)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One source's score in a score panel."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    colour: str


def score_panel(title: str, note: str, marks: Sequence[Mark]) -> Markup:
    """One metric: a dot for each source, with its interval.

    Privacy: draws what it is given.
    """
    left, right, top = 96.0, 52.0, 46.0
    known = [m for m in marks if m.value is not None]
    ends = [x for m in known for x in (m.value, m.low, m.high) if x is not None] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    margin = 0.06 * (high - low) or max(abs(high) * 0.1, 0.01)
    low, high = (0.0 if low >= 0 and low < margin * 6 else low - margin), high + margin
    across = (PANEL - left - right) / (high - low)
    parts = heading(title, note, PANEL)
    for index, mark in enumerate(marks):
        y = top + 12 + 22 * index
        parts.append(line(left, y, PANEL - right, y))
        parts.append(label(left - 8, y + 4, mark.name, anchor="end", fill=FAINT_INK))
        parts += _mark(mark, y, lambda value: left + (value - low) * across)
    bottom = top + 22 * len(marks) + 6
    parts.append(label(left, bottom + 10, short(low, 2), size=10, fill=FAINT_INK))
    parts.append(
        label(PANEL - right, bottom + 10, short(high, 2), size=10, anchor="end", fill=FAINT_INK)
    )
    told = ", ".join(f"{m.name} {score_text(m.value)}" for m in known if m.value is not None)
    return picture(PANEL, bottom + 16, parts, about=f"{title} ({note}): {told}")


def reference_colour(source: str) -> str:
    """The colour of a source of rows. Privacy: looks at its name."""
    known = {"real": "#5c6b78", "synthetic": SYNTHETIC, "independent": "#2a9d6f"}
    return known.get(source, "#b07fd0")


def _colour(value: float, reach: float, *, diverging: bool) -> str:
    share = value / max(reach, 1e-12)
    if not diverging:
        return mix("#f4f7fa", ACCENT, share)
    return mix("#f7f7f7", SYNTHETIC if value > 0 else ACCENT, abs(share))


def _cell(
    x: float,
    y: float,
    cell: float,
    value: float | None,
    row: str,
    column: str,
    reach: float,
    *,
    diverging: bool,
) -> Iterator[Markup]:
    known = value is not None and math.isfinite(value)
    words = f"{value:.3f}" if value is not None and known else "not defined"
    colour = _colour(value, reach, diverging=diverging) if value is not None and known else FAINT
    yield box(x, y, cell - 1, cell - 1, fill=colour, hint=f"{row} and {column}: {words}")
    if value is not None and known and cell >= _LEAST_WRITTEN:
        strong = abs(value) > 0.6 * reach
        text = f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.0f}"
        text = "0" if abs(value) < 0.005 else text
        yield label(x + (cell - 1) / 2, y + cell / 2 + 3, text, size=9, anchor="middle",
                    fill="#ffffff" if strong else "#22303c")  # fmt: skip


def _scale_bar(left: float, reach: float, *, diverging: bool) -> Iterator[Markup]:
    low = -reach if diverging else 0.0
    start, steps, width = left + 34, 24, 4.0
    for step in range(steps):
        value = low + (reach - low) * (step + 0.5) / steps
        yield box(start + step * width, 22, width + 0.3, 9,
                  fill=_colour(value, reach, diverging=diverging))  # fmt: skip
    yield label(start - 5, 31, short(low, 2), size=10, anchor="end", fill=FAINT_INK)
    yield label(start + steps * width + 5, 31, short(reach, 2), size=10, fill=FAINT_INK)


def _mark(mark: Mark, y: float, place: Any) -> Iterator[Markup]:
    if mark.value is None:
        yield label(PANEL - 2, y + 4, "–", anchor="end", fill=FAINT_INK)
        return
    if mark.low is not None and mark.high is not None:
        yield line(place(mark.low), y, place(mark.high), y, stroke=mark.colour, width=3.5)
    yield dot(place(mark.value), y, 5, fill=mark.colour, hint=f"{mark.name}: {mark.value:.4f}")
    yield label(
        PANEL - 2, y + 4, score_text(mark.value), anchor="end", bold=mark.name == "synthetic"
    )
