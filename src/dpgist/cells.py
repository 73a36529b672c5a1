"""Reading one column of cells, whatever their physical type, by what the schema says they mean.

Each result depends on its own cell alone, never on the company that cell keeps, and nothing here
raises on a cell: what cannot be read is NaN or -1, for :mod:`dpgist.encode` to deal with. Text is
stripped of blanks, and empty text is an absent cell.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Arrow and Python both round decimal text correctly, so the two paths agree on every cell they
# share; the short form keeps Arrow away from exponents that overflow.
_SHORT_NUMBER = r"^-?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,2})?$"
_ANY_NUMBER = (
    r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)$"
)
_TRUTH_WORDS = pa.array(["false", "0", "no", "f", "true", "1", "yes", "t"], pa.large_string())
_FIRST_TRUE = 4
_ISO_FORMAT = "%Y-%m-%d"
# How the objects that stand for an absent cell print: not numbers, not a time, not available.
_ABSENT_OBJECTS = frozenset({"nan", "NaN", "-NaN", "sNaN", "-sNaN", "NaT", "<NA>"})
_WITHOUT_VIEW = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types from which Arrow cannot take, and those to use instead."""
_EXACT_BELOW = 2**53
_MILLISECONDS_PER_DAY = 86_400_000
_TICKS_PER_DAY = {
    "s": 86_400,
    "ms": _MILLISECONDS_PER_DAY,
    "us": 86_400 * 10**6,
    "ns": 86_400 * 10**9,
}


def numbers(cells: pa.Array) -> tuple[Floats, Mask]:
    """Values (NaN where absent or not a number) and which cells are absent.

    Privacy: row-wise and unbounded; for the private pass alone.
    """
    cells = flat(cells)
    if not is_numeric(cells.type):
        cells = texts(cells)
        return _numbers_in(cells), _absent(cells)
    return _floats(cells.cast(pa.float64(), safe=False)), _absent(cells)


def days(cells: pa.Array, form: str) -> tuple[Floats, Mask]:
    """Days since 1970 (NaN where absent or not a date) and which cells are absent.

    A time of day is dropped; a moment with a time zone counts in UTC.

    Privacy: row-wise and unbounded; for the private pass alone.
    """
    cells = flat(cells)
    if pa.types.is_date32(cells.type):
        return _floats(cells.cast(pa.int32())), _absent(cells)
    if pa.types.is_date64(cells.type):
        return _whole_days(cells, _MILLISECONDS_PER_DAY), _absent(cells)
    if pa.types.is_timestamp(cells.type):
        return _whole_days(cells, _TICKS_PER_DAY[cells.type.unit]), _absent(cells)
    cells = texts(cells)
    return _days_in(cells, form), _absent(cells)


def choices(cells: pa.Array, values: tuple[str, ...]) -> tuple[Codes, Mask]:
    """Positions in ``values`` (-1 where absent or not listed) and which cells are absent.

    Privacy: row-wise; for the private pass alone.
    """
    cells = texts(cells)
    return _positions(cells, pa.array(values, pa.large_string())), _absent(cells)


def truths(cells: pa.Array) -> tuple[Codes, Mask]:
    """0 for false, 1 for true (-1 where absent or neither) and which cells are absent.

    Privacy: row-wise; for the private pass alone.
    """
    cells = texts(cells)
    words = _positions(pc.ascii_lower(cells), _TRUTH_WORDS)
    return np.where(words < 0, words, words // _FIRST_TRUE), _absent(cells)


def texts(cells: pa.Array) -> pa.LargeStringArray:
    """Cells as stripped text; integers in decimals, booleans as true and false; null if empty.

    A whole number is written alike whatever holds it, for one empty cell makes many a reader keep
    a column of integers as floats.

    Privacy: row-wise; for the private pass alone.
    """
    cells = flat(cells)
    if is_text(cells.type):
        stripped = pc.ascii_trim_whitespace(cells.cast(pa.large_string()))
        empty = pc.equal(pc.binary_length(stripped), 0)
        return pc.if_else(empty, pa.scalar(None, pa.large_string()), stripped)
    if is_whole(cells.type) or pa.types.is_null(cells.type):
        return cells.cast(pa.large_string())
    if pa.types.is_floating(cells.type):
        return _float_texts(_floats(cells.cast(pa.float64(), safe=False)))
    return texts(pa.array([_scalar_text(cell) for cell in cells], pa.large_string()))


def cell_text(value: Any) -> str | None:
    """Any Python object as text, or None; cannot raise.

    Dates are written with a time, so that no declared date format can mistake them.

    Privacy: row-wise; for the private pass alone.
    """
    try:
        text = _object_text(value)
        if text is None or text.isascii():
            return text
        return str.encode(text, "utf-8", "replace").decode("utf-8")
    except Exception:  # a cell may hold any object, and none of them may stop the pass
        return None


def without_text(value: str) -> str:
    """How :func:`texts` writes a cell of this meaning that holds a number or a truth value.

    Privacy: for public values.
    """
    if value.lower() in ("true", "false"):
        return value.lower()
    number = numbers(pa.array([value], pa.large_string()))[0]
    return str(texts(pa.array(number))[0].as_py()) if np.isfinite(number[0]) else value


def flat(cells: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array without chunks, dictionary or extension type.

    Privacy: row-wise; for the private pass alone.
    """
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if isinstance(cells, pa.ExtensionArray):
        cells = cells.storage
    return without_dictionary(cells)


def without_dictionary(cells: pa.Array) -> pa.Array:
    """The cells themselves where an array holds their places in a dictionary.

    Privacy: row-wise; for the private pass alone.
    """
    if not pa.types.is_dictionary(cells.type):
        return cells
    values = cells.dictionary
    return values.cast(_WITHOUT_VIEW.get(values.type, values.type)).take(cells.indices)


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text. Privacy: looks at a type, not at cells."""
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(kind) for check in checks)


def is_whole(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds integers or booleans. Privacy: looks at a type, not at cells."""
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds numbers. Privacy: looks at a type, not at cells."""
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(check(kind) for check in checks)


def _absent(cells: pa.Array) -> Mask:
    return _mask(cells.is_null())


def _mask(cells: pa.BooleanArray) -> Mask:
    found: Mask = cells.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _floats(cells: pa.Array) -> Floats:
    values: Floats = cells.to_numpy(zero_copy_only=False).astype(np.float64)
    return values


def _float_texts(values: Floats) -> pa.LargeStringArray:
    whole = (np.abs(values) < _EXACT_BELOW) & (values == np.trunc(values))
    integers = pa.array(np.where(whole, values, 0.0).astype(np.int64)).cast(pa.large_string())
    others = pa.array(values, mask=np.isnan(values)).cast(pa.large_string())
    return pc.if_else(pa.array(whole), integers, others)


def _positions(cells: pa.LargeStringArray, values: pa.LargeStringArray) -> Codes:
    found = pc.index_in(cells, value_set=values).fill_null(-1)
    positions: Codes = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def _numbers_in(cells: pa.LargeStringArray) -> Floats:
    short = pc.match_substring_regex(cells, pattern=_SHORT_NUMBER)
    safe = pc.if_else(short, cells, pa.scalar(None, cells.type))
    values = _floats(safe.cast(pa.float64()))
    if safe.null_count > cells.null_count:
        long = pc.match_substring_regex(cells, pattern=_ANY_NUMBER)
        for index in np.flatnonzero(_mask(pc.and_not(long, short))):
            values[index] = float(cells[int(index)].as_py())
    return values


def _whole_days(cells: pa.Array, ticks_per_day: int) -> Floats:
    ticks = cells.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(_absent(cells), np.nan, ticks // ticks_per_day)


def _days_in(cells: pa.LargeStringArray, form: str) -> Floats:
    # Each distinct text is parsed once; bytes, because a file may hold text that is not UTF-8.
    distinct = cells.cast(pa.large_binary()).dictionary_encode()
    parsed = [
        _day(text.decode("utf-8", "replace"), form) for text in distinct.dictionary.to_pylist()
    ]
    indices = distinct.indices.fill_null(len(parsed)).to_numpy(zero_copy_only=False)
    found: Floats = np.array([*parsed, np.nan])[indices]
    return found


def _day(text: str, form: str) -> float:
    for read in (_formatted_date, _iso_moment):
        try:
            return float((read(text, form) - dt.date(1970, 1, 1)).days)
        except (ValueError, OverflowError):
            continue
    return np.nan


def _formatted_date(text: str, form: str) -> dt.date:
    if form != _ISO_FORMAT:
        return dt.datetime.strptime(text, form).date()
    if len(text) != 10 or text[4] != "-" or text[7] != "-":
        raise ValueError("not of the form YYYY-MM-DD")
    return dt.date.fromisoformat(text)


def _iso_moment(text: str, form: str) -> dt.date:
    if text[10:11] not in ("T", " ") or len(text) < 16:
        raise ValueError("not a date with a time")
    moment = dt.datetime.fromisoformat(text)
    return (moment if moment.tzinfo is None else moment.astimezone(dt.UTC)).date()


def _scalar_text(cell: pa.Scalar) -> str | None:
    try:
        return cell_text(cell.as_py())
    except Exception:  # Arrow holds values that Python cannot, such as a date in the year 300000
        return None


def _object_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 1024:
        return "-inf" if value < 0 else "inf"
    if isinstance(value, float | np.floating) and value.is_integer():
        return str(int(value)) if abs(float(value)) < _EXACT_BELOW else str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dt.date):
        text = value.isoformat()
        text = text if isinstance(value, dt.datetime) else f"{text}T00:00:00"
    else:
        text = str(value)
    return None if text in _ABSENT_OBJECTS else text
