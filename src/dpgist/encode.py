"""Rows <-> vectors, from the schema alone. (Contract; see the docstrings.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A run of coordinates of the encoded row that belongs to one column.

    ``interval``: one coordinate in [0, 1]. ``choice``: a one-hot of ``width`` options;
    ``allowed`` says which options a generator may emit (the implicit bucket for undeclared
    values is never emitted). A nullable interval column has two slots: the interval, and a
    choice (present, null) right after it; the interval is 0 wherever the cell is null
    (``gate`` is the coordinate of "present" that multiplies it).
    """

    column: str
    kind: Literal["interval", "choice"]
    start: int
    width: int
    allowed: tuple[bool, ...] = ()
    ordered: bool = False
    gate: int | None = None


@dataclass(frozen=True, kw_only=True)
class EncodedRows:
    """``rows`` (n, width) float64; ``labels`` (n,) class codes, 0 if unlabelled; ``broken`` (n, columns) bool."""

    rows: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    broken: npt.NDArray[np.bool_]


class Encoder:
    """Encode and decode rows by a schema.

    Attributes: ``schema``; ``slots`` (every column but the label, in schema order); ``width``;
    ``columns`` (names in schema order, label included: the order of ``broken``); ``n_classes``
    (1 if unlabelled; the implicit bucket and null included); ``class_allowed`` (which classes a
    generator may emit); ``class_names``.
    """

    schema: Any
    slots: tuple[Slot, ...]
    width: int
    columns: tuple[str, ...]
    n_classes: int
    class_allowed: tuple[bool, ...]
    class_names: tuple[str | None, ...]

    def encode(self, cells: Mapping[str, Any]) -> EncodedRows:
        """Encode pyarrow arrays (one per column); a bad cell never raises, it is marked broken."""
        raise NotImplementedError

    def decode(self, rows: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> Any:
        """A pyarrow table with the schema's types, in schema order."""
        raise NotImplementedError
