"""Two tables side by side, column by column and pair by pair: what a report draws."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgist.errors import DataError
from dpgist.evaluate.dependence import correlated_columns, correlations
from dpgist.evaluate.marginals import Bins, quantile_bins, total_variation
from dpgist.evaluate.table import NULL, UNDECLARED, Rows, bounds, option_names, read_rows
from dpgist.schema import Column, NumberColumn, Schema, type_name

Floats = npt.NDArray[np.float64]

_MOST_BARS = 40


@dataclass(frozen=True, kw_only=True)
class ColumnShares:
    """How one column is spread over real and synthetic rows.

    ``kind`` is the schema's word for the column. A category or boolean has ``names``, one share
    each. A number or date has ``edges`` (dates in days since 1970), one more than shares, and the
    last edge belongs to the last bar; ``ends`` are the lowest and the highest value that occur on
    either side. Nulls are apart; shares and nulls add up to 1.

    Privacy: computed from real rows without noise; outside the guarantee.
    """

    name: str
    kind: str
    names: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    ends: tuple[float, float] = (0.0, 1.0)
    real: tuple[float, ...]
    synthetic: tuple[float, ...]
    real_null: float = 0.0
    synthetic_null: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two tables side by side.

    ``two_way`` holds the total variation of each pair of ``names`` (of single columns on the
    diagonal), numbers in quantile bins of the real rows. The correlations are those of
    ``correlated``: numbers, and a label of two classes.

    Privacy: computed from real rows without noise; outside the guarantee.
    """

    columns: tuple[ColumnShares, ...]
    names: tuple[str, ...]
    two_way: tuple[tuple[float, ...], ...]
    correlated: tuple[str, ...]
    real_correlations: tuple[tuple[float, ...], ...]
    synthetic_correlations: tuple[tuple[float, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON-able data."""
        return asdict(self)


def compare_tables(real: Any, synthetic: Any, schema: Schema) -> Comparison:
    """Compare two tables of any kind that can be released, cells read by the schema.

    Privacy: reads rows without any protection; outside the guarantee. Note the look in the
    ledger before.
    """
    first, second = (
        read_rows(table, schema, title=title)
        for table, title in ((real, "real"), (synthetic, "synthetic"))
    )
    for rows, title in ((first, "real"), (second, "synthetic")):
        if not rows.n_rows:
            raise DataError(f"there are no {title} rows to compare")
    bins = quantile_bins(first)
    return Comparison(
        columns=tuple(_shares(column, first, second) for column in schema.columns),
        names=bins.columns,
        two_way=_two_way(first, second, bins),
        correlated=correlated_columns(first),
        real_correlations=_tuples(correlations(first)),
        synthetic_correlations=_tuples(correlations(second)),
    )


def _two_way(real: Rows, synthetic: Rows, bins: Bins) -> tuple[tuple[float, ...], ...]:
    names = bins.columns
    found = np.zeros((len(names), len(names)))
    codes = (bins.codes(real), bins.codes(synthetic))
    for (i, first), (j, second) in itertools.combinations_with_replacement(enumerate(names), 2):
        subset = (first,) if i == j else (first, second)
        found[i, j] = found[j, i] = total_variation(*codes, subset, bins)
    return _tuples(found)


def _shares(column: Column, real: Rows, synthetic: Rows) -> ColumnShares:
    if column.name in real.choices:
        return _choice_shares(column, real, synthetic)
    low, high = _extremes(column, real, synthetic)
    edges = _edges(column, low, high)
    sides = [_bars(rows.numbers[column.name], edges) for rows in (real, synthetic)]
    return ColumnShares(
        name=column.name,
        kind=type_name(column),
        edges=tuple(edges.tolist()),
        ends=(low, high),
        real=sides[0][0],
        synthetic=sides[1][0],
        real_null=sides[0][1],
        synthetic_null=sides[1][1],
    )


def _choice_shares(column: Column, real: Rows, synthetic: Rows) -> ColumnShares:
    options = option_names(column)
    sides = [
        np.bincount(rows.choices[column.name], minlength=len(options)) / rows.n_rows
        for rows in (real, synthetic)
    ]
    unused = sides[0] + sides[1] == 0
    kept = [
        at
        for at, name in enumerate(options)
        if name != NULL and not (name == UNDECLARED and unused[at])
    ]
    nulls = [side[options.index(NULL)] if NULL in options else 0.0 for side in sides]
    return ColumnShares(
        name=column.name,
        kind=type_name(column),
        names=tuple(options[at] for at in kept),
        real=tuple(sides[0][kept].tolist()),
        synthetic=tuple(sides[1][kept].tolist()),
        real_null=float(nulls[0]),
        synthetic_null=float(nulls[1]),
    )


def _extremes(column: Column, real: Rows, synthetic: Rows) -> tuple[float, float]:
    """What occurs on either side, or what is declared where all cells are null."""
    values = np.concatenate([real.numbers[column.name], synthetic.numbers[column.name]])
    values = values[~np.isnan(values)]
    return (float(values.min()), float(values.max())) if len(values) else bounds(column)


def _edges(column: Column, low: float, high: float) -> Floats:
    """At most 40 equal bars over what occurs; whole numbers and few decimals are never cut."""
    decimals = column.decimals if isinstance(column, NumberColumn) else 0
    if decimals is None:
        return np.linspace(low, high if high > low else low + 1.0, _MOST_BARS + 1)
    step = 10.0**-decimals
    per_bar = max(round((high - low) / step + 1) / _MOST_BARS, 1.0)
    width = float(np.ceil(per_bar)) * step
    n_bars = max(int(np.ceil(round((high - low + step) / width, 6))), 1)
    return np.asarray(low - step / 2 + width * np.arange(n_bars + 1), np.float64)


def _bars(values: Floats, edges: Floats) -> tuple[tuple[float, ...], float]:
    present = values[~np.isnan(values)]
    counts, _ = np.histogram(present, bins=edges)
    shares: list[float] = (counts / len(values)).tolist()
    return tuple(shares), 1.0 - len(present) / len(values)


def _tuples(matrix: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in matrix)
