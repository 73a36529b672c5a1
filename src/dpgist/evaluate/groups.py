"""Groups of rows that are scored on their own: noise hurts minorities first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpgist.errors import DataError
from dpgist.evaluate.table import NULL, Mask, Rows, class_names, option_names
from dpgist.schema import Column, DateColumn, NumberColumn, Schema

FEWEST_ROWS = 30
"""A group with fewer real rows is named but not scored: chance would decide."""
_NUMBER_GROUPS = 4


@dataclass(frozen=True, kw_only=True)
class Group:
    """The rows of one class, or with one value (or range of values) of one column.

    ``code`` is the option or class; ``low`` and ``high`` the range, ``high`` excluded;
    ``is_null`` says that the group holds a number's nulls.

    Privacy: ranges are quartiles of real rows; outside the guarantee.
    """

    name: str
    column: str
    is_class: bool = False
    code: int | None = None
    low: float = -np.inf
    high: float = np.inf
    is_null: bool = False

    def of(self, rows: Rows) -> Mask:
        """Which rows belong to the group."""
        if self.is_class:
            return np.asarray(rows.classes() == self.code)
        if self.code is not None:
            return np.asarray(rows.choices[self.column] == self.code)
        values = rows.numbers[self.column]
        if self.is_null:
            return np.isnan(values)
        return np.asarray((values >= self.low) & (values < self.high))


def check_group_columns(schema: Schema, columns: Sequence[str]) -> None:
    """Refuse, before any row is read, columns to group by that do not exist or say nothing new.

    Privacy: public facts only.
    """
    names = [column.name for column in schema.columns]
    for name in columns:
        if name not in names:
            raise DataError(f"cannot group by {name!r}: the schema has {', '.join(names)}")
        if name == schema.label:
            raise DataError(f"{name!r} is the label; every score is shown by class anyway")
    if len(set(columns)) != len(columns):
        raise DataError("a column to group by is named twice")


def make_groups(real: Rows, columns: Sequence[str]) -> tuple[Group, ...]:
    """A group for each class, and for each value (numbers: each quarter) of the named columns.

    Privacy: a function of real rows; outside the guarantee.
    """
    schema = real.schema
    classes = [
        Group(name=f"class={name}", column=schema.label or "", is_class=True, code=code)
        for code, name in enumerate(class_names(schema))
    ]
    named = [group for name in columns for group in _column_groups(real, schema.column(name))]
    return tuple(group for group in (*classes, *named) if group.of(real).any())


def _column_groups(real: Rows, column: Column) -> Iterator[Group]:
    if column.name in real.choices:
        for code, option in enumerate(option_names(column)):
            yield Group(name=f"{column.name}={option}", column=column.name, code=code)
        return
    yield from _quarters(real, column)
    yield Group(name=f"{column.name}={NULL}", column=column.name, is_null=True)


def _quarters(real: Rows, column: Column) -> Iterator[Group]:
    values = real.numbers[column.name]
    present = values[~np.isnan(values)]
    if not len(present):
        return
    inner = np.quantile(present, np.arange(1, _NUMBER_GROUPS) / _NUMBER_GROUPS, method="lower")
    edges = [-np.inf, *np.unique(inner), np.inf]
    for low, high in itertools.pairwise(edges):
        yield Group(
            name=f"{column.name}{_range_text(column, low, high)}",
            column=column.name,
            low=low,
            high=high,
        )


def _range_text(column: Column, low: float, high: float) -> str:
    """Both ends of a range belong to it, but for the end of numbers that come in no steps."""
    if np.isinf(low) and np.isinf(high):
        return "=any"
    if np.isinf(low):
        return f"<{_text(column, high)}"
    if np.isinf(high):
        return f">={_text(column, low)}"
    decimals = _decimals(column)
    if decimals is None:
        return f"={_text(column, low)}..<{_text(column, high)}"
    first, last = _text(column, low), _text(column, high - 10.0**-decimals)
    return f"={first}" if first == last else f"={first}..{last}"


def _text(column: Column, value: float) -> str:
    if isinstance(column, DateColumn):
        return str(np.datetime64(round(value), "D"))
    decimals = _decimals(column)
    return f"{value:g}" if decimals is None else f"{value:.{decimals}f}"


def _decimals(column: Column) -> int | None:
    """In what steps values come; whole ones for integers and dates."""
    return column.decimals if isinstance(column, NumberColumn) else 0
