"""The kinds of column a table may have, and the rules each must keep.

Everything in this file is public by definition, so error messages may quote it in full.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

EXACT_LIMIT = 10**15
"""Up to here integers, and numbers in units of their last decimal, survive encoding exactly."""

MOST_PIXELS = 1024
"""An image may be this many pixels high or wide."""


@dataclass(frozen=True, kw_only=True)
class IntegerColumn:
    """Whole numbers from ``min`` to ``max``, both included.

    Privacy: public; the range must not be read off the private rows.
    """

    name: str
    min: int
    max: int
    nullable: bool = False
    default: int | None = None

    def problems(self) -> Iterator[str]:
        """Yield each contradiction in this column. Privacy: public facts only."""
        yield from _range_problems(self, is_integer, "an integer")
        yield from _too_wide(self, decimals=0)


@dataclass(frozen=True, kw_only=True)
class NumberColumn:
    """Real numbers from ``min`` to ``max``, both included; ``decimals`` are kept when sampling.

    Privacy: public; the range must not be read off the private rows.
    """

    name: str
    min: float
    max: float
    decimals: int | None = None
    nullable: bool = False
    default: float | None = None

    def __post_init__(self) -> None:
        for field in ("min", "max", "default"):
            value = getattr(self, field)
            if _is_number(value):
                object.__setattr__(self, field, float(value))

    def problems(self) -> Iterator[str]:
        """Yield each contradiction in this column. Privacy: public facts only."""
        yield from _range_problems(self, _is_number, "a finite number")
        if _is_number(self.min) and _is_number(self.max) and math.isinf(self.max - self.min):
            yield "the distance from min to max overflows; choose a narrower range"
        if self.decimals is None:
            return
        if not is_integer(self.decimals) or not 0 <= self.decimals <= 15:
            yield f"decimals must be an integer from 0 to 15, got {self.decimals!r}"
        else:
            yield from _too_wide(self, decimals=self.decimals)


@dataclass(frozen=True, kw_only=True)
class CategoryColumn:
    """One of the listed ``values``; ``other`` names what any value outside the list becomes.

    Privacy: public; the list must not be read off the private rows.
    """

    name: str
    values: tuple[str, ...]
    ordered: bool = False
    other: str | None = None
    nullable: bool = False
    default: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.values, list):
            object.__setattr__(self, "values", tuple(self.values))

    def problems(self) -> Iterator[str]:
        """Yield each contradiction in this column. Privacy: public facts only."""
        yield from _flag_problems(self, "nullable", "ordered")
        if not isinstance(self.values, tuple):
            yield f"values must be a list of texts, got {self.values!r}"
            return
        if not self.values:
            yield "values is empty; list every value the column may hold"
        for value in self.values:
            yield from text_problems(value, "value")
        texts = [value for value in self.values if isinstance(value, str)]
        yield from (f"value {text!r} is listed more than once" for text in repeated(texts))
        if self.other is not None:
            yield from text_problems(self.other, "other")
            if self.other in texts:
                yield f"other {self.other!r} is also listed in values; drop it from one of the two"
        if self.default is not None and self.default not in texts:
            yield f"default {self.default!r} is not listed in values"


@dataclass(frozen=True, kw_only=True)
class BooleanColumn:
    """True or false.

    Privacy: public.
    """

    name: str
    nullable: bool = False
    default: bool | None = None

    def problems(self) -> Iterator[str]:
        """Yield each contradiction in this column. Privacy: public facts only."""
        yield from _flag_problems(self, "nullable")
        if self.default is not None and not isinstance(self.default, bool):
            yield f"default must be true or false, got {self.default!r}"


@dataclass(frozen=True, kw_only=True)
class DateColumn:
    """Days from ``min`` to ``max``, both included; ``format`` reads dates that arrive as text.

    Bounds are dates or ISO texts ("2024-01-31") and are kept as dates.

    Privacy: public; the range must not be read off the private rows.
    """

    name: str
    min: dt.date | str
    max: dt.date | str
    format: str = "%Y-%m-%d"
    nullable: bool = False
    default: dt.date | str | None = None

    def __post_init__(self) -> None:
        for field in ("min", "max", "default"):
            object.__setattr__(self, field, _as_date(getattr(self, field)))

    def problems(self) -> Iterator[str]:
        """Yield each contradiction in this column. Privacy: public facts only."""
        yield from _range_problems(self, _is_date, "a date like 2024-01-31")
        if not isinstance(self.format, str):
            yield f"format must be a text like '%Y-%m-%d', got {self.format!r}"
            return
        for bound in (self.min, self.max):
            if isinstance(bound, dt.date) and not _survives_format(bound, self.format):
                yield f"format {self.format!r} does not write {bound} in a way it can read back"
                return


@dataclass(frozen=True, kw_only=True)
class ImageColumn:
    """Images of one size: grey for one channel, red-green-blue for three; 8 bits a channel.

    Images of any other size or mode break the schema; they are neither resized nor converted.

    Privacy: public; the size must be known without looking at the private images.
    """

    name: str
    height: int
    width: int
    channels: int = 1

    @property
    def n_values(self) -> int:
        """Numbers in one image. Privacy: public facts only."""
        return self.height * self.width * self.channels

    def problems(self) -> Iterator[str]:
        """Yield each contradiction in this column. Privacy: public facts only."""
        for field in ("height", "width"):
            size = getattr(self, field)
            if not is_integer(size) or not 1 <= size <= MOST_PIXELS:
                yield f"{field} must be an integer from 1 to {MOST_PIXELS}, got {size!r}"
        if not is_integer(self.channels) or self.channels not in (1, 3):
            yield f"channels must be 1 (grey) or 3 (colour), got {self.channels!r}"


Column = IntegerColumn | NumberColumn | CategoryColumn | BooleanColumn | DateColumn | ImageColumn

COLUMN_TYPES: dict[str, type[Column]] = {
    "integer": IntegerColumn,
    "number": NumberColumn,
    "category": CategoryColumn,
    "boolean": BooleanColumn,
    "date": DateColumn,
    "image": ImageColumn,
}


def type_name(column: Column) -> str:
    """The word a schema file uses for this kind of column.

    Privacy: public facts only.
    """
    return next(name for name, kind in COLUMN_TYPES.items() if kind is type(column))


def _range_problems(
    column: IntegerColumn | NumberColumn | DateColumn, fits: Any, wanted: str
) -> Iterator[str]:
    yield from _flag_problems(column, "nullable")
    low, high, default = column.min, column.max, column.default
    for field, value in (("min", low), ("max", high)):
        if value is None:
            yield f"{field} is missing; give {wanted} known without looking at the data"
        elif not fits(value):
            yield f"{field} must be {wanted}, got {value!r}"
    if default is not None and not fits(default):
        yield f"default must be {wanted}, got {default!r}"
    if not fits(low) or not fits(high):
        return
    if low > high:  # type: ignore[operator]
        yield f"min {low} is above max {high}"
    elif default is not None and fits(default) and not low <= default <= high:  # type: ignore[operator]
        yield f"default {default} is outside min {low} to max {high}"


def _too_wide(column: IntegerColumn | NumberColumn, *, decimals: int) -> Iterator[str]:
    bounds = [bound for bound in (column.min, column.max) if is_integer(bound) or _is_number(bound)]
    if any(abs(bound) * 10**decimals > EXACT_LIMIT for bound in bounds):
        unit = f"10^-{decimals}" if decimals else "1"
        yield (
            f"min and max may be at most 10^15 steps of {unit} from 0, or values could not be told "
            "apart; narrow the range or use a number without decimals"
        )


def _flag_problems(column: Column, *flags: str) -> Iterator[str]:
    for flag in flags:
        if not isinstance(getattr(column, flag), bool):
            yield f"{flag} must be true or false, got {getattr(column, flag)!r}"


def text_problems(text: Any, role: str) -> Iterator[str]:
    """Yield what is wrong with a name or value. Privacy: public facts only."""
    if not isinstance(text, str):
        yield f"{role} must be a text in quotes, got {text!r}"
    elif text != text.strip(string.whitespace) or not text:
        yield f"{role} {text!r} is empty or has blanks around it, which are stripped from cells"
    elif text.encode("utf-8", "replace").decode() != text:
        yield f"{role} {text!r} is not valid Unicode text"


def repeated(names: Iterable[Any]) -> list[Any]:
    """The names that occur more than once. Privacy: only for public names."""
    return [name for name, count in Counter(names).items() if count > 1]


def date_text(day: dt.date, form: str) -> str:
    """A day as a column's format writes it. Privacy: row-wise; for public and synthetic days."""
    # C libraries write the year 1 as "1", which strptime does not read back.
    years = {"%Y": day.year, "%G": day.isocalendar().year}
    padded = re.sub(r"%.", lambda own: _padded_year(own.group(), years), form, flags=re.DOTALL)
    return day.strftime(padded)


def is_integer(value: Any) -> bool:
    """Whether a setting is a whole number; true and false are not. Privacy: public facts only."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= 1.7e308 and not math.isnan(value)


def _is_date(value: Any) -> bool:
    return isinstance(value, dt.date) and not isinstance(value, dt.datetime)


def _as_date(value: Any) -> Any:
    """An ISO text as a date; anything else unchanged, for the rules to judge."""
    try:
        return dt.date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _padded_year(directive: str, years: dict[str, int]) -> str:
    return f"{years[directive]:04}" if directive in years else directive


def _survives_format(day: dt.date, form: str) -> bool:
    try:
        return dt.datetime.strptime(date_text(day, form), form).date() == day
    except (ValueError, OverflowError):
        return False
