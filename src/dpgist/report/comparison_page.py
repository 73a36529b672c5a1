"""The part of the page that lays real and synthetic rows over each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from dpgist.evaluate.compare import ColumnShares, Comparison
from dpgist.evaluate.scores import Evaluation
from dpgist.plots import REAL, SYNTHETIC
from dpgist.report import figures, outside_figures
from dpgist.report.figures import Series
from dpgist.report.outside import Outside
from dpgist.report.svg import percent, plain, score_text, short
from dpgist.schema import Column, DateColumn, NumberColumn, Schema

SHOWN_PAIRS = 10
MOST_STRIPS = 20
MAP = 208.0
"""So wide are the cells of a map that three of them stand side by side."""


def comparison_context(outside: Outside, schema: Schema) -> dict[str, Any]:
    """What the template needs of columns, pairs, correlations and mean images.

    Privacy: as private as the real rows.
    """
    found = outside.comparison
    if found is None:
        return {"columns": [], "pairs": None, "correlations": [], "means": _means(outside)}
    names, matrix = _worst_pairs(found)
    reach = max([0.05, *(max(row) for row in matrix)])
    return {
        "columns": [_column(column, schema) for column in found.columns],
        "pairs": outside_figures.heat_figure(
            "Total variation of pairs of columns", names, matrix, reach=reach, size=480
        ),
        "pairs_words": _pairs_words(found, outside.evaluation),
        "worst_pairs": list(_pair_rows(found)),
        "correlations": list(_correlations(found)),
        "means": [],
    }


def _column(column: ColumnShares, schema: Schema) -> Markup:
    series = [
        Series(name="real", shares=column.real, look="filled", colour=REAL),
        Series(name="synthetic", shares=column.synthetic, look="outline", colour=SYNTHETIC),
    ]
    if column.edges:
        return figures.interval_panel(
            column.name, column.edges, series, ends=_ends(column, schema), note=_null_note(column)
        )
    names = list(column.names)
    if column.real_null or column.synthetic_null:
        names.append("null")
        nulls = (column.real_null, column.synthetic_null)
        series = [
            replace(one, shares=(*one.shares, null))
            for one, null in zip(series, nulls, strict=True)
        ]
    apart = 0.5 * sum(abs(a - b) for a, b in zip(series[0].shares, series[1].shares, strict=True))
    return figures.choice_panel(
        column.name, names, series, note=f"total variation {short(apart, 2)}"
    )


def _ends(shares: ColumnShares, schema: Schema) -> tuple[str, str]:
    """The lowest and the highest value that occur, as a cell would hold them."""
    low, high = (_cell(value, schema.column(shares.name)) for value in shares.ends)
    return low, high


def _cell(value: float, column: Column) -> str:
    if isinstance(column, DateColumn):
        return str(np.datetime64(round(value), "D"))
    decimals = column.decimals if isinstance(column, NumberColumn) else 0
    return plain(value) if decimals is None else f"{value:.{decimals}f}"


def _null_note(column: ColumnShares) -> str:
    if not (column.real_null or column.synthetic_null):
        return column.kind
    return f"null: {percent(column.real_null)} real, {percent(column.synthetic_null)} synthetic"


def _worst_pairs(found: Comparison) -> tuple[list[str], list[list[float]]]:
    """All columns, or the worst of very many, in their own order."""
    matrix = np.asarray(found.two_way)
    kept = _kept(matrix.sum(axis=0))
    return [found.names[i] for i in kept], matrix[np.ix_(kept, kept)].tolist()


def _kept(badness: npt.NDArray[np.float64]) -> list[int]:
    worst = np.argsort(-badness, kind="stable")[: outside_figures.MOST_HEAT_COLUMNS]
    return sorted(worst.tolist())


def _pair_rows(found: Comparison) -> Iterator[dict[str, str]]:
    matrix = np.triu(np.asarray(found.two_way), k=1)
    for place in np.argsort(-matrix, axis=None, kind="stable")[:SHOWN_PAIRS].tolist():
        i, j = divmod(place, len(found.names))
        if i < j:
            names = f"{found.names[i]} and {found.names[j]}"
            yield {"names": names, "value": score_text(matrix[i, j])}


def _pairs_words(found: Comparison, evaluation: Evaluation) -> str:
    words = (
        "0: the pair is spread alike over real and synthetic rows; 1: nothing in common. On the "
        "diagonal single columns; numbers in quantile bins."
    )
    real = evaluation.find("tv2", source="real")
    if real is not None and real.value is not None:
        words += (
            f" By chance alone real training rows differ by {score_text(real.value)} on average."
        )
    if len(found.names) > outside_figures.MOST_HEAT_COLUMNS:
        most = outside_figures.MOST_HEAT_COLUMNS
        words += f" The worst {most} of {len(found.names)} columns are shown."
    return words


def _correlations(found: Comparison) -> Iterator[Markup]:
    if len(found.correlated) < 2:
        return
    real = np.asarray(found.real_correlations)
    drawn = np.asarray(found.synthetic_correlations)
    apart = drawn - real
    kept = _kept(np.nansum(np.abs(apart), axis=0))
    names = [found.correlated[i] for i in kept]
    reach = max(0.1, float(np.nanmax(np.abs(apart), initial=0.0)))
    for title, matrix, scale in (
        ("Real", real, 1.0),
        ("Synthetic", drawn, 1.0),
        ("Synthetic minus real", apart, reach),
    ):
        shown = matrix[np.ix_(kept, kept)].tolist()
        yield outside_figures.heat_figure(
            title, names, shown, reach=scale, diverging=True, size=MAP
        )


def _means(outside: Outside) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "source": figures.image_strip(np.stack(pair)),
            "about": f"mean image of {name}: real, then synthetic",
        }
        for name, pair in list(outside.means.items())[:MOST_STRIPS]
    ]
