"""The report's figures, as inline SVG; images as PNG inside the page."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib.image
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from dpgist.plots import ACCENT, SYNTHETIC
from dpgist.report.svg import (
    FAINT_INK,
    box,
    dot,
    fit,
    label,
    line,
    percent,
    picture,
    plain,
    polyline,
    short,
    text_width,
)

NOISY = "#c26a00"
MOST_OPTIONS = 16
PANEL = 300
"""Width of a small panel; three stand side by side on the page."""

Array = npt.NDArray[Any]
Matrix = Sequence[Sequence[float | None]]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Shares to draw: filled, as an outline, or as marks with whiskers of two ``std``."""

    name: str
    shares: Sequence[float]
    look: Literal["filled", "outline", "marks"]
    colour: str
    std: float = 0.0


def choice_panel(
    title: str,
    names: Sequence[str],
    series: Sequence[Series],
    *,
    note: str = "",
    wide: bool = False,
) -> Markup:
    """Bars of a column's options, one line each; rare ones beyond the room are added up.

    Privacy: draws what it is given.
    """
    names, series = _most_common(names, series)
    width, right = (560 if wide else PANEL), 50
    longest = max((text_width(name, 11) for name in names), default=0.0)
    left = min(longest, 220.0 if wide else 124.0) + 14
    top = 40.0 if note else 26.0 if title else 4.0
    reach = max([0.02, *(max(s.shares, default=0.0) + 2 * s.std for s in series)])
    scale = (width - left - right) / reach
    parts = heading(title, note, width)
    for index, name in enumerate(names):
        y = top + 18 * index
        shown = fit(name, 11, left - 13)
        parts.append(label(left - 8, y + 11, shown, anchor="end", fill=FAINT_INK, full=name))
        for one in series:
            parts += _bar(one, index, left, y, scale)
        main = next(s for s in reversed(series) if s.look != "marks" or len(series) == 1)
        parts.append(label(width - 2, y + 11, percent(main.shares[index]), size=10.5, anchor="end"))
    parts.append(line(left, top - 2, left, top + 18 * len(names), stroke="#c3ccd4"))
    about = f"{title}: shares of {len(names)} options; " + _told(names, series)
    return picture(width, top + 18 * len(names) + 4, parts, about=about)


def interval_panel(
    title: str,
    edges: Sequence[float],
    series: Sequence[Series],
    *,
    ends: tuple[str, str],
    note: str = "",
) -> Markup:
    """Histograms of a column's numbers or dates over its declared range.

    Privacy: draws what it is given.
    """
    width, top, floor = float(PANEL), 40.0 if note else 26.0, 152.0
    peak = max([1e-9, *(max(s.shares, default=0.0) for s in series)])
    low, high = edges[0], edges[-1]
    across = (width - 4) / max(high - low, 1e-300)
    parts = heading(title, note, width)
    for one in series:
        points = [(2.0, floor)]
        for share, a, b in zip(one.shares, edges[:-1], edges[1:], strict=True):
            y = floor - share / peak * (floor - top - 6)
            points += [(2 + (a - low) * across, y), (2 + (b - low) * across, y)]
        points.append((width - 2, floor))
        filled = one.look == "filled"
        fill, opacity = (one.colour, 0.55) if filled else ("none", 1.0)
        stroke = "none" if filled else one.colour
        parts.append(polyline(points, stroke=stroke, width=1.7, fill=fill, opacity=opacity))
    parts.append(line(2, floor, width - 2, floor, stroke="#c3ccd4"))
    parts.append(label(2, floor + 14, ends[0], size=10.5, fill=FAINT_INK))
    parts.append(label(width - 2, floor + 14, ends[1], size=10.5, anchor="end", fill=FAINT_INK))
    names = " and ".join(one.name for one in series)
    return picture(
        width, floor + 20, parts, about=f"{title}: histogram, {names}, {ends[0]} to {ends[1]}"
    )


def curve_figure(steps: Sequence[int], losses: Sequence[float], floor: float) -> Markup:
    """The size of the training loss, and what the noise alone would leave of it.

    Privacy: post-processing of a gist.
    """
    width, height, left, top, bottom = 640.0, 270.0, 58.0, 34.0, 40.0
    values = np.maximum(np.asarray(losses, dtype=np.float64), 1e-12)
    decades = _decades(values, floor)
    span = decades[-1] - decades[0]

    def place(value: float) -> float:
        share = (math.log10(max(value, 10.0 ** decades[0])) - decades[0]) / span
        return height - bottom - share * (height - top - bottom)

    parts = [
        part
        for power in decades[:: max(1, len(decades) // 6)]
        for part in (
            line(left, place(10.0**power), width - 4, place(10.0**power)),
            label(left - 6, place(10.0**power) + 4, plain(10.0**power), anchor="end", size=10.5,
                  fill=FAINT_INK),
        )
    ]  # fmt: skip
    last = max(steps[-1], 2)
    points = [
        (left + (step - 1) / (last - 1) * (width - 4 - left), place(float(value)))
        for step, value in zip(steps, values, strict=True)
    ]
    parts.append(line(left, place(floor), width - 4, place(floor), stroke=ACCENT, width=1.6,
                      dash="6 4"))  # fmt: skip
    parts.append(polyline(points, stroke=SYNTHETIC, width=1.8))
    parts += _curve_words(left, width, height, last, floor)
    return picture(
        width,
        height,
        parts,
        about=f"Training loss from {short(losses[0])} to {short(losses[-1])} over {last} steps; "
        f"the noise alone would leave {short(floor)}",
    )


def image_strip(images: Array, *, across: int = 12, gap: int = 2) -> str:
    """The first images side by side, as the address of a PNG that stands in the page itself.

    Privacy: draws what it is given.
    """
    shown = np.asarray(images[:across], dtype=np.uint8)
    if shown.ndim == 3:  # one channel: dark on white, as ink on paper
        shown = np.repeat(255 - shown[..., None], 3, axis=3)
    padded = np.pad(shown, [(0, 0), (0, 0), (0, gap), (0, 0)], constant_values=255)
    buffer = io.BytesIO()
    matplotlib.image.imsave(buffer, np.concatenate(list(padded), axis=1)[:, :-gap], format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def heading(title: str, note: str, width: float) -> list[Markup]:
    """A panel's title and the line under it. Privacy: draws what it is given."""
    parts = []
    if title:
        shown = fit(title, 12.5, width - 4, bold=True)
        parts.append(label(0, 13, shown, size=12.5, bold=True, full=title))
    if note:
        parts.append(label(0, 29, fit(note, 10.5, width - 4), size=10.5, fill=FAINT_INK, full=note))
    return parts


def _bar(one: Series, index: int, left: float, y: float, scale: float) -> Iterator[Markup]:
    share = one.shares[index]
    length = max(share, 0.0) * scale
    hint = f"{one.name}: {percent(share, 2)}"
    if one.look == "filled":
        yield box(left, y + 1, length, 13, fill=one.colour, opacity=0.6, hint=hint)
    elif one.look == "outline":
        yield box(left, y + 3, length, 9, stroke=one.colour, stroke_width=1.7, hint=hint)
    else:
        low, high = (max(share + k * one.std, 0.0) * scale for k in (-2, 2))
        yield line(left + low, y + 7.5, left + high, y + 7.5, stroke=one.colour, width=2)
        yield dot(left + length, y + 7.5, 4, fill=one.colour, hint=hint)


def _most_common(names: Sequence[str], series: Sequence[Series]) -> tuple[list[str], list[Series]]:
    """The commonest options in their own order, and the sum of the rest."""
    if len(names) <= MOST_OPTIONS:
        return list(names), list(series)
    sizes = np.sum([np.maximum(one.shares, 0) for one in series], axis=0)
    kept = sorted(np.argsort(-sizes, kind="stable")[: MOST_OPTIONS - 1].tolist())
    rest = sorted(set(range(len(names))) - set(kept))

    def cut(one: Series) -> Series:
        shares = [one.shares[i] for i in kept] + [sum(one.shares[i] for i in rest)]
        return Series(name=one.name, shares=shares, look=one.look, colour=one.colour, std=one.std)

    return [*(names[i] for i in kept), f"{len(rest)} others"], [cut(one) for one in series]


def _told(names: Sequence[str], series: Sequence[Series]) -> str:
    """The figure in words, for whoever cannot see it."""
    lines = []
    for one in series:
        pairs = zip(names, one.shares, strict=True)
        shares = ", ".join(f"{name} {percent(share)}" for name, share in pairs)
        lines.append(f"{one.name}: {shares}")
    return "; ".join(lines)


def _decades(values: Array, floor: float) -> list[int]:
    low = math.floor(math.log10(max(min(float(values.min()), floor) * 0.8, 1e-12)))
    high = math.ceil(math.log10(max(float(values.max()), floor, 1e-11)))
    return list(range(low, max(high, low + 1) + 1))


def _curve_words(
    left: float, width: float, height: float, steps: int, floor: float
) -> list[Markup]:
    y = height - 24
    return [
        line(left, 14, left + 26, 14, stroke=SYNTHETIC, width=2),
        label(left + 32, 18, "size of the training loss"),
        line(left + 210, 14, left + 236, 14, stroke=ACCENT, width=1.6, dash="6 4"),
        label(left + 242, 18, f"expected from the noise alone: {short(floor)}"),
        label(left, y, "1", size=10.5, fill=FAINT_INK),
        label((left + width) / 2, y + 16, "training step", anchor="middle", fill=FAINT_INK),
        label(width - 4, y, f"{steps:,}", size=10.5, anchor="end", fill=FAINT_INK),
    ]
