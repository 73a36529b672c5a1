"""Figures of a classifier: filters as images, and signed bars in the columns' own units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpgist.classify.effects import Contribution, Effect, as_images, contributions, effects
from dpgist.classify.explain import Explanation, contrasts, local_contrasts
from dpgist.classify.maps import Maps
from dpgist.plots import (
    ACCENT,
    FAINT,
    INK,
    STYLE,
    SYNTHETIC,
    as_it_stands,
    heading,
    shortened,
)
from dpgist.schema import Schema

MOST_CLASSES, MOST_MAPS, MOST_BARS, MOST_ROWS = 12, 10, 12, 8
DIVERGING = "RdBu_r"
Floats = npt.NDArray[np.float64]
Bars = Sequence[tuple[str, float]]


def bank_figure(maps: Maps, schema: Schema, *, most_maps: int | None = None) -> Figure:
    """The filter bank: a line for each class, a panel for each map; a global explanation.

    Privacy: post-processing of a released classifier.
    """
    title = f"{schema.name}: filters of {schema.label or 'the classes'}, a line for each class"
    bank = contrasts(maps)[:MOST_CLASSES, : most_maps or MOST_MAPS]
    if schema.image is not None:
        return _image_bank(as_images(bank, schema), maps.classes, title)
    bars = [[effect_bars(effects(one, schema)) for one in own] for own in bank[:, :4]]
    names = [
        [f"{name}, map {m + 1} of {maps.weights.shape[1]}" for m in range(len(own))]
        for name, own in zip(maps.classes, bars, strict=False)
    ]
    return _bar_grid(bars, names, f"{title}; change of the score, in the columns' own units")


def local_figure(maps: Maps, explanation: Explanation, schema: Schema) -> Figure:
    """Why the first rows got their class: active filters of images, contributions of cells.

    Privacy: as confidential as the rows that are explained.
    """
    if schema.image is not None:
        return active_figure(explanation, schema)
    local = local_contrasts(maps, explanation)
    bars, names = [], []
    for row, place in enumerate(explanation.predicted[:MOST_ROWS].tolist()):
        parts = contributions(local[row, place], explanation.inputs[row], schema)
        bars.append([contribution_bars(parts)])
        share = explanation.probabilities[row, place]
        names.append([f"{explanation.classes[place]}, probability {share:.2f}"])
    return _bar_grid(bars, names, f"{schema.name}: what each cell adds to the score")


def active_figure(explanation: Explanation, schema: Schema) -> Figure:
    """Inputs beside the most active filters of their class, with attention, as the paper's fig. 3.

    Privacy: as confidential as the images that are explained.
    """
    shown = min(len(explanation.inputs), MOST_ROWS)
    top = explanation.active.shape[2]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.25 * (top + 1) + 0.2, 1.42 * shown + 0.5), layout="constrained")
        axes = figure.subplots(shown, top + 1, squeeze=False)
        for row, (line, place) in enumerate(
            zip(axes, explanation.predicted[:shown].tolist(), strict=True)
        ):
            show_image(line[0], as_images(explanation.inputs[row], schema))
            line[0].set_title(as_it_stands(explanation.classes[place]), fontsize=9)
            filters = as_images(explanation.filters[row, place], schema)
            weights = explanation.attention[row, place]
            for axis, one, weight in zip(line[1:], filters, weights, strict=True):
                show_filter(axis, one)
                axis.set_title(f"{weight:.2f}", fontsize=8)
        heading(figure, f"{schema.name}: input, then its {top} most active filters")
        return figure


def show_filter(axis: Axes, filter_: Floats) -> None:
    """A filter in colours that diverge from zero; colour images as the sum over channels.

    Privacy: draws what it is given.
    """
    plane = filter_ if filter_.ndim == 2 else filter_.sum(axis=2)
    reach = float(np.abs(plane).max()) or 1.0
    axis.imshow(plane, cmap=DIVERGING, vmin=-reach, vmax=reach)
    axis.axis("off")


def show_image(axis: Axes, image: Floats) -> None:
    """An input as an image, dark on white where it is grey. Privacy: draws what it is given."""
    look: dict[str, Any] = {"cmap": "gray_r"} if image.ndim == 2 else {}
    axis.imshow(image.clip(0, 1), vmin=0, vmax=1, **look)
    axis.axis("off")


def effect_bars(found: Sequence[Effect], most: int = MOST_BARS) -> Bars:
    """The largest signed sizes of all columns and options. Privacy: as the effects."""
    bars = [bar for effect in found for bar in effect.bars()]
    return sorted(bars, key=lambda bar: -abs(bar[1]))[:most]


def contribution_bars(found: Sequence[Contribution], most: int = MOST_BARS) -> Bars:
    """The largest contributions with the cells they come from. Privacy: as the row."""
    return [(f"{part.column} = {part.cell}", part.size) for part in found[:most]]


def _image_bank(bank: Floats, classes: Sequence[str], title: str) -> Figure:
    down, across = bank.shape[:2]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(0.85 * across + 0.8, 0.85 * down + 0.6), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False)
        for line, own, name in zip(axes, bank, classes, strict=False):
            for axis, one in zip(line, own, strict=True):
                show_filter(axis, one)
            line[0].set_title(as_it_stands(name), fontsize=8.5)
        heading(figure, title)
        return figure


def _bar_grid(grid: Sequence[Sequence[Bars]], names: Sequence[Sequence[str]], title: str) -> Figure:
    down, across = len(grid), max(len(line) for line in grid)
    deepest = max(len(bars) for line in grid for bars in line)
    reach = max((abs(size) for line in grid for bars in line for _, size in bars), default=1.0)
    with mpl.rc_context(STYLE):
        size = (5.6 * across + 0.3, (0.21 * deepest + 0.6) * down + 0.5)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(down, across, squeeze=False, sharex=True)
        for line, own, heads in zip(axes, grid, names, strict=True):
            for axis, bars, head in zip(line, own, heads, strict=True):
                _signed_bars(axis, bars, 1.05 * (reach or 1.0))
                axis.set_title(as_it_stands(head))
        heading(figure, title)
        return figure


def _signed_bars(axis: Axes, bars: Bars, reach: float) -> None:
    places = np.arange(len(bars))[::-1]
    sizes = np.array([size for _, size in bars])
    axis.barh(places, sizes, color=np.where(sizes < 0, SYNTHETIC, ACCENT), height=0.7, zorder=2)
    axis.axvline(0, color=INK, linewidth=0.8, zorder=3)
    labels = [shortened(name, 40) for name, _ in bars]
    axis.set_yticks(places, labels, fontsize=7.5, color=INK)
    axis.set_xlim(-reach, reach)
    axis.grid(axis="x", color=FAINT, zorder=0)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
