"""Numbers that callers hand over, checked before anything is spent on them."""

from __future__ import annotations

import operator
from typing import Any


def whole_number(value: Any, name: str, *, at_least: int) -> int:
    """The value as a plain int, or a refusal that names the argument.

    The refusal shows no value of another type: it could be a table put in the wrong place.

    Privacy: public facts only.
    """
    try:
        number = operator.index(value)  # numpy's integers too, which JSON would not take
    except TypeError:
        kind = type(value).__name__
        raise TypeError(f"{name} must be a whole number, got {kind}") from None
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {number}")
    return number
