"""Figures: synthetic rows, alone or beside simulated or public real ones."""

from __future__ import annotations

import os
import textwrap
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from dpgist.artefact import new_file
from dpgist.schema import BooleanColumn, CategoryColumn, Column, DateColumn, Schema

REAL = "#9aa7b5"
SYNTHETIC = "#0a6fb0"
ACCENT = "#d1495b"
INK = "#22303c"
FAINT = "#e6eaee"
PALETTE = ("#0a6fb0", "#e08e0b", "#2a9d6f", "#d1495b", "#7b5ea7", "#4db6c9", "#8d6e4f", "#5c6b78")
STYLE: Any = {  # Any: matplotlib types these keys as literals of its newest version
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": "#c3ccd4",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": "#5c6b78",
    "ytick.color": "#5c6b78",
    "figure.facecolor": "white",
    "figure.dpi": 150,
    "savefig.bbox": "tight",
}
MOST_OPTIONS = 30
"""So many options of a column are drawn, the largest."""
_NO_LETTERS = r"Glyph \d+ .* missing from|Matplotlib currently does not support"
Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One named quantity: its true size, its synthetic size, and whether it passed."""

    name: str
    truth: float
    synthetic: float
    good: bool


def scatter_pair(
    real: tuple[Array, Array, Array], synthetic: tuple[Array, Array, Array], *, title: str
) -> Figure:
    """Two point clouds (x, y, class code) side by side on the same axes.

    Privacy: draws what it is given; give it simulated, public or synthetic rows only.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 4.8), layout="constrained")
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        for axis, cloud, name in zip(axes, (real, synthetic), ("real", "synthetic"), strict=True):
            _cloud(axis, cloud)
            axis.set_title(name, fontsize=12, fontweight="bold")
        heading(figure, title)
        return figure


def columns_figure(
    schema: Schema, synthetic: pa.Table, *, real: pa.Table | None = None, title: str
) -> Figure:
    """One small panel per column: its synthetic distribution, beside the real one if given.

    Privacy: draws what it is given; ``real`` must be simulated or public rows.
    """
    count = len(schema.columns)
    across = min(count, min((4, 5, 3), key=lambda wide: -count % wide))  # few empty panels
    down = -(-count // across)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.0 * across + 0.4, 2.35 * down + 0.6), layout="constrained")
        axes = list(figure.subplots(down, across, squeeze=False).flat)
        for axis, column in zip(axes, schema.columns, strict=False):
            _column(axis, column, synthetic, real)
        for axis in axes[count:]:
            axis.set_visible(False)
        if real is not None:
            figure.legend(
                handles=_legend(), loc="upper right", ncols=2, frameon=False, fontsize=9.5
            )
        heading(figure, title)
        return figure


def images_figure(images: Array, labels: Array | None, *, title: str, across: int = 12) -> Figure:
    """A line of images for each label, the first ``across`` of each; at most 20 lines.

    Privacy: draws what it is given; callers give synthetic images.
    """
    kinds = [None] if labels is None else sorted(set(labels.tolist()), key=str)[:20]
    height, width = images.shape[1:3]
    with mpl.rc_context(STYLE):
        size = (0.6 * across * width / height + 0.8, 0.6 * max(len(kinds), 1) + 0.5)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(max(len(kinds), 1), across, squeeze=False)
        for axis in axes.flat:
            axis.axis("off")
        for line, kind in zip(axes, kinds, strict=False):
            chosen = images if labels is None or kind is None else images[labels == kind]
            for axis, image in zip(line, chosen, strict=False):
                axis.imshow(image, cmap="gray_r" if image.ndim == 2 else None, vmin=0, vmax=255)
            line[0].set_title("" if kind is None else as_it_stands(str(kind)), fontsize=8)
        heading(figure, title)
        return figure


def comparison_figure(comparisons: Sequence[Comparison], *, title: str) -> Figure:
    """How much of each true size the synthetic rows keep; 1 is all of it.

    Privacy: draws what it is given; truths must be simulated or public.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 0.42 * len(comparisons) + 1.5), layout="constrained")
        axis = figure.subplots()
        places = np.arange(len(comparisons))[::-1]
        kept = np.array([c.synthetic / c.truth for c in comparisons])
        colours = [SYNTHETIC if c.good else ACCENT for c in comparisons]
        axis.axvspan(0.5, 1.5, color="#eef4f9", zorder=0)
        axis.axvline(1, color=REAL, linewidth=1.5, zorder=1)
        axis.hlines(places, np.minimum(kept, 1), np.maximum(kept, 1), color=colours, alpha=0.45)
        axis.scatter(kept, places, color=colours, s=46, zorder=3, edgecolor="white")
        for c, place, share in zip(comparisons, places, kept, strict=True):
            note = f"{c.synthetic:.3g} of {c.truth:.3g}"
            axis.annotate(note, (max(share, 1) + 0.03, place), va="center", fontsize=8)
        names = [as_it_stands(c.name) for c in comparisons]
        axis.set_yticks(places, names, fontsize=8.5, color=INK)
        axis.set_xlim(min(0.0, float(kept.min()) - 0.1), max(1.6, float(kept.max()) + 0.35))
        axis.set_xlabel("synthetic size as a share of the true size")
        axis.spines["left"].set_visible(False)
        axis.tick_params(axis="y", length=0)
        heading(figure, title)
        return figure


def loss_figure(losses: Sequence[float], *, steps: int) -> Figure:
    """The training loss over its steps; an unbiased loss may dip below zero, so its size is drawn.

    Privacy: post-processing of a gist.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        axis = figure.subplots()
        values = np.abs(np.asarray(losses, dtype=np.float64))
        places = np.linspace(0, steps, len(values) + 1)[1:]
        axis.plot(places, np.maximum(values, 1e-12), color=SYNTHETIC, linewidth=1.2)
        axis.set_yscale("log")
        axis.set_xlabel("training step")
        axis.set_title("size of the matching loss")
        axis.grid(axis="y", color=FAINT)
        return figure


def size_curves_figure(
    curves: Mapping[str, tuple[Sequence[int], Array, Array]],
    *,
    title: str,
    worth: float | None = None,
) -> Figure:
    """Accuracy (mean, standard deviation) by number of training images, a line for each set.

    ``worth`` marks how many real images do as well as all synthetic ones.

    Privacy: draws what it is given; curves tested on real images are outside the guarantee.
    """
    colours = {"real": "#5c6b78", "synthetic": SYNTHETIC}
    spare = iter(PALETTE[1:] * len(curves))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axis = figure.subplots()
        for name, (sizes, means, stds) in curves.items():
            colour = colours[name] if name in colours else next(spare)
            axis.plot(
                sizes, means, marker="o", markersize=3.5, color=colour, label=as_it_stands(name)
            )
            axis.fill_between(sizes, means - stds, means + stds, color=colour, alpha=0.15)
        if worth is not None:
            axis.axvline(worth, color=ACCENT, linewidth=1, linestyle=":")
            note = f"worth {worth:,.0f} real images"
            place = axis.get_xaxis_transform()
            axis.text(worth, 0.02, f" {note}", color=ACCENT, fontsize=8, transform=place)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
        axis.set_xlabel("training images")
        axis.set_ylabel("accuracy on real test images")
        axis.grid(color=FAINT)
        axis.legend(frameon=False, loc="lower right")
        heading(figure, title)
        return figure


def write_png(figure: Figure, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write a figure as a PNG file, whole or not at all; letters the font lacks become boxes.

    Privacy: writes what was drawn.
    """
    with mpl.rc_context(STYLE), new_file(path, force=force) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", _NO_LETTERS, UserWarning)
        figure.savefig(file, format="png", dpi=150)


def heading(figure: Figure, title: str) -> None:
    """Put a title over a whole figure. Privacy: draws what it is given."""
    figure.suptitle(as_it_stands(title), x=0.01, ha="left", fontsize=11, color="#5c6b78")


def as_it_stands(text: str) -> str:
    """A user's text for a figure, where what stands between dollars would be read as a formula.

    Privacy: row-wise; as private as the text.
    """
    return text.replace("$", r"\$")


def shortened(text: str, width: int) -> str:
    """The same, cut to a width. Privacy: row-wise; as private as the text."""
    return as_it_stands(textwrap.shorten(text, width, placeholder="…"))


def _cloud(axis: Axes, cloud: tuple[Array, Array, Array]) -> None:
    x, y, codes = cloud
    colours = np.array(PALETTE)[np.asarray(codes) % len(PALETTE)]
    axis.scatter(x, y, c=colours, s=2.2, alpha=0.35, linewidths=0, rasterized=True)
    axis.set_aspect("equal")
    axis.grid(color=FAINT, linewidth=0.7)
    axis.set_axisbelow(True)


def _legend() -> list[Any]:
    return [
        Patch(facecolor=REAL, alpha=0.55, label="real"),
        Patch(facecolor="none", edgecolor=SYNTHETIC, linewidth=1.6, label="synthetic"),
    ]


def _column(axis: Axes, column: Column, synthetic: pa.Table, real: pa.Table | None) -> None:
    axis.set_title(as_it_stands(column.name))
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    if isinstance(column, CategoryColumn | BooleanColumn):
        _bars(axis, column, synthetic, real)
    else:
        _histogram(axis, column, synthetic, real)


def _bars(axis: Axes, column: Any, synthetic: pa.Table, real: pa.Table | None) -> None:
    options = column_options(column)
    made = column_shares(synthetic[column.name], options)
    true = None if real is None else column_shares(real[column.name], options)
    drawn = _largest(made if true is None else made + true)
    places = np.arange(len(drawn))
    if true is not None:
        axis.bar(places, true[drawn], color=REAL, alpha=0.55, width=0.8)
    axis.bar(places, made[drawn], width=0.8, **_front(alone=real is None))
    if len(drawn) < len(options):
        axis.set_xlabel(f"and {len(options) - len(drawn):,} more", fontsize=7.5)
    _name_bars(axis, [shortened(options[at], 14) for at in drawn])


def _largest(shares: Array) -> Array:
    """Places of the largest shares, in the schema's order."""
    return np.sort(np.argsort(-shares, kind="stable")[:MOST_OPTIONS])


def _name_bars(axis: Axes, labels: list[str]) -> None:
    slanted = len(labels) > 2
    axis.set_xticks(
        np.arange(len(labels)),
        labels,
        rotation=35 if slanted else 0,
        ha="right" if slanted else "center",
        rotation_mode="anchor",
        fontsize=7.5,
    )


def _front(*, alone: bool) -> dict[str, Any]:
    if alone:
        return {"color": SYNTHETIC, "alpha": 0.8}
    return {"facecolor": "none", "edgecolor": SYNTHETIC, "linewidth": 1.6}


def column_options(column: Any) -> list[str]:
    """What a category or boolean may be, ``other`` and null last. Privacy: public facts only."""
    if isinstance(column, BooleanColumn):
        names = ["false", "true"]
    else:
        names = [*column.values, *([column.other] if column.other is not None else [])]
    return [*names, *(["null"] if column.nullable else [])]


def column_shares(cells: Any, names: list[str]) -> Array:
    """The share of each option among all cells. Privacy: as private as the cells it is given."""
    found = Counter(pc.fill_null(pc.cast(cells, pa.string()), "null").to_pylist())
    return np.array([found[name] for name in names]) / max(found.total(), 1)


def _histogram(axis: Axes, column: Any, synthetic: pa.Table, real: pa.Table | None) -> None:
    edges = column_edges(column)
    if real is not None:
        shares = column_histogram(real[column.name], column, edges)
        axis.stairs(shares, edges, fill=True, color=REAL, alpha=0.55)
    shares = column_histogram(synthetic[column.name], column, edges)
    fill: dict[str, Any] = {"fill": True, "alpha": 0.8} if real is None else {"linewidth": 1.6}
    axis.stairs(shares, edges, color=SYNTHETIC, **fill)
    if isinstance(column, DateColumn):
        ticks = np.linspace(_number(column.min), _number(column.max), 3)
        days = [str(np.datetime64(int(t), "D")) for t in ticks]
        axis.set_xticks(ticks, days, fontsize=7.5)
    if column.nullable:
        axis.set_xlabel(_null_note(column, synthetic, real), fontsize=7.5)


def _null_note(column: Any, synthetic: pa.Table, real: pa.Table | None) -> str:
    note = f"null: {_null_share(synthetic[column.name]):.1%} synthetic"
    return note if real is None else f"{note}, {_null_share(real[column.name]):.1%} real"


def _null_share(cells: Any) -> float:
    return float(cells.null_count) / max(len(cells), 1)


def column_edges(column: Any) -> Array:
    """About 40 bins; of whole steps where values come in steps, or neighbours would alias.

    Privacy: public facts only.
    """
    low, high = _number(column.min), _number(column.max)
    decimals = getattr(column, "decimals", 0)
    if decimals is None:
        return np.linspace(low, high, 41)
    step = 10.0**-decimals
    width = step * max(1, round(((high - low) / step + 1) / 40))
    return np.arange(low - step / 2, high + width, width)


def _number(bound: Any) -> float:
    if isinstance(bound, int | float):
        return float(bound)
    return float(np.datetime64(bound, "D").astype(np.int64))


def column_histogram(cells: Any, column: Any, edges: Array) -> Array:
    """The share of each bin among present cells. Privacy: as private as the cells it is given."""
    present = pc.drop_null(cells)
    if isinstance(column, DateColumn):
        present = pc.cast(pc.cast(present, pa.date32()), pa.int32())
    values = np.asarray(present.to_numpy(), dtype=np.float64)
    return np.histogram(values, edges)[0] / max(len(values), 1)
