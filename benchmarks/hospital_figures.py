"""Figures of the hospital study, after figures 6 and 7 of the thesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpgist.plots import ACCENT, FAINT, STYLE, SYNTHETIC

GREY = "#5c6b78"
Lines = Sequence[Mapping[str, Any]]


def accuracy_figure(lines: Lines) -> Figure:
    """Accuracy against epsilon (left) and against the number of maps (right), two std as bars."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        private = [line for line in lines if line["model"] == "private"]
        plain = [line for line in lines if line["model"] == "plain"]
        network = [line["accuracy"] for line in lines if line["model"] == "network"]
        usual = [line for line in private if line["maps"] == 2]
        _curve(left, usual, "epsilon", ACCENT, "private, M = 2")
        without = np.mean([line["accuracy"] for line in plain if line["maps"] == 2])
        left.axhline(without, color=SYNTHETIC, label="not private, M = 2")
        _curve(right, [line for line in private if line["epsilon"] == 1.5], "maps", ACCENT,
               "private, ε = 1.5")  # fmt: skip
        _curve(right, plain, "maps", SYNTHETIC, "not private")
        for axis, name in ((left, "epsilon"), (right, "maps per class, M")):
            axis.axhline(np.mean(network), color=GREY, linestyle="--", label="plain network")
            axis.set_xscale("log")
            axis.set_xlabel(name)
            axis.grid(color=FAINT)
            axis.legend(frameon=False, loc="lower right", fontsize=8)
        places = sorted({line["epsilon"] for line in usual}), sorted({m["maps"] for m in plain})
        for axis, ticks in zip((left, right), places, strict=True):
            axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
        left.set_ylabel("accuracy on held-out records")
        return figure


def features_figure(
    names: Sequence[str], classes: Sequence[str], columns: Mapping[str, np.ndarray]
) -> Figure:
    """Features x explanations, a block for each class; each column scaled to -1 to 1."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 10.5), layout="constrained")
        axes = figure.subplots(1, len(classes), sharey=True)
        for place, (axis, title) in enumerate(zip(axes, classes, strict=True)):
            cells = np.stack([column[:, place] for column in columns.values()], axis=1)
            cells = cells / np.maximum(np.abs(cells).max(axis=0), 1e-12)
            image = axis.imshow(cells, cmap="coolwarm", vmin=-1, vmax=1, aspect="auto")
            axis.set_title(title.replace(" + ", " +\n"), fontsize=8.5)
            axis.set_xticks(range(len(columns)), list(columns), rotation=90, fontsize=7)
            axis.tick_params(length=0)
        axes[0].set_yticks(range(len(names)), names, fontsize=6.5)
        figure.colorbar(image, ax=axes, shrink=0.3, aspect=30, label="for the class, or against it")
        return figure


def _curve(axis: Axes, lines: Lines, key: str, colour: str, name: str) -> None:
    places = sorted({line[key] for line in lines})
    each = [[line["accuracy"] for line in lines if line[key] == place] for place in places]
    means, stds = [np.mean(found) for found in each], [2 * np.std(found) for found in each]
    axis.errorbar(places, means, yerr=stds, color=colour, marker="o", markersize=4, capsize=3,
                  label=name)  # fmt: skip
