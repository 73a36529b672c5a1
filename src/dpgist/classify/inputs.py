"""Rows to classify or explain, read by the schema; a label is neither needed nor read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgist.encode import Encoder
from dpgist.schema import Schema
from dpgist.sources import open_source

Floats = npt.NDArray[np.float64]
_BLOCK_ROWS = 8192


def check_inputs(data: Any, schema: Schema) -> None:
    """Raise ``DataError`` if a table lacks an input column or stores one as something else.

    Privacy: reads the header and no row.
    """
    open_source(data).check(input_schema(schema))


def read_inputs(data: Any, schema: Schema) -> Floats:
    """The encoded rows (n, inputs) of a table of any kind that ``open_source`` accepts.

    Cells are read by the rules of training: one that breaks the schema becomes null, ``other`` or
    the nearest allowed value, and never raises.

    Privacy: reads every row without any protection; what is made of it is as confidential.
    """
    source, own = open_source(data), input_schema(schema)
    source.check(own)
    blocks = [block for part in source.partial_sums(_Encode(own)) for block in part]
    return np.concatenate([np.zeros((0, Encoder(own).width)), *blocks])


def input_schema(schema: Schema) -> Schema:
    """The schema without its label, which a table to classify may have or lack.

    Privacy: public facts only.
    """
    columns = tuple(column for column in schema.columns if column.name != schema.label)
    unread = () if schema.label is None else (schema.label,)
    return replace(schema, columns=columns, label=None, ignore=(*schema.ignore, *unread))


@dataclass(frozen=True)
class _Encode:
    """Hands back encoded blocks; a summation in form only."""

    schema: Schema

    @property
    def recipe(self) -> str:
        return "{}"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.schema.columns)

    @property
    def block_rows(self) -> int:
        return _BLOCK_ROWS

    def __call__(self, blocks: Iterable[Mapping[str, pa.Array]]) -> list[Floats]:
        encoder = Encoder(self.schema)
        with np.errstate(all="ignore"):
            return [encoder.encode(block).rows for block in blocks]
