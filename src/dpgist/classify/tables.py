"""What a classifier is given: arrays or tables, with public names for their columns and classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse

from dpgist.cells import cell_text, numbers
from dpgist.encode import Encoder
from dpgist.errors import DataError
from dpgist.schema import CategoryColumn, ImageColumn, NumberColumn, Schema
from dpgist.sources import Source, open_source

LABEL = "label"


def array_schema(
    shape: tuple[int, ...], *, classes: tuple[str, ...], low: float, high: float, name: str
) -> Schema:
    """A schema for arrays: numbers x0, x1, ... in [low, high], or images by their shape.

    Privacy: from declared facts and the arrays' public structure; reads no row.
    """
    label = CategoryColumn(name=LABEL, values=classes)
    if len(shape) in (3, 4):
        channels = shape[3] if len(shape) == 4 else 1
        columns: tuple[Any, ...] = (
            ImageColumn(name="image", height=shape[1], width=shape[2], channels=channels),
        )
    else:
        columns = tuple(NumberColumn(name=f"x{i}", min=low, max=high) for i in range(shape[1]))
    return Schema(name=name, columns=(*columns, label), label=LABEL)


def without_label(schema: Schema) -> Schema:
    """The same columns but for the label: what is there to predict from. Privacy: public."""
    columns = tuple(column for column in schema.columns if column.name != schema.label)
    return replace(schema, columns=columns, label=None)


def is_array(x: Any) -> bool:
    """Whether this is something to be read as numbers or images without names.

    Privacy: looks at types only.
    """
    if scipy.sparse.issparse(x):
        raise TypeError("Sparse data was passed, but dense data is required; use X.toarray()")
    table = hasattr(x, "columns") or hasattr(x, "column_names")
    return isinstance(x, list) or (hasattr(x, "__array__") and not table)


def as_array(x: Any) -> npt.NDArray[Any]:
    """A numeric array of two to four dimensions, judged by its type alone.

    The types of arrays and frames are public, like those of a typed file. Lists have none: their
    cells are read one by one, and what is no number is NaN, lest one cell decide about all. Lists
    of images are refused, because whether they hold bytes or shares would be for a cell to say.

    Privacy: refuses by type and shape, never by a value.
    """
    array = _from_lists(x) if isinstance(x, list) else np.asarray(x)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if array.ndim not in (2, 3, 4):
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: "
            "(rows, columns), each row as long as the others, or images (rows, height, width[, "
            "channels])"
        )
    if array.dtype.kind not in "biuf":
        raise TypeError("X must hold numbers; describe anything else by a schema and pass a table")
    if array.ndim == 2 and array.shape[1] == 0:
        raise ValueError("0 feature(s) (shape=(n, 0)) while a minimum of 1 is required.")
    return array


def _from_lists(x: list[Any]) -> npt.NDArray[Any]:
    cells = np.asarray(x, dtype=object)
    if cells.ndim > 2:
        raise TypeError("pass images as a numpy array, uint8 or float from 0 to 1, not as lists")
    if cells.ndim < 2:
        return cells
    plain = (int(v) if isinstance(v, bool | np.bool_) else v for v in cells.ravel().tolist())
    found, _ = numbers(pa.array([cell_text(value) for value in plain], pa.large_string()))
    return found.reshape(cells.shape)


def labelled_source(x: Any, y: Any, schema: Schema) -> Source:
    """The source of rows with labels; ``y`` is None where a table has them in a column.

    Privacy: reads no row; the result holds private rows.
    """
    label = str(schema.label)
    if is_array(x):
        array, labels = as_array(x), _labels(y)
        if len(array) != len(labels):
            raise ValueError("Found input variables with inconsistent numbers of samples")
        if array.ndim > 2:
            return open_source((array, labels))
        return open_source(_table(array, schema).append_column(label, _texts(labels)))
    if y is None:
        return open_source(x)
    if hasattr(x, "assign"):
        if len(x) != len(_labels(y)):
            raise ValueError("Found input variables with inconsistent numbers of samples")
        return open_source(x.assign(**{label: _labels(y)}))
    raise DataError("give the labels as a column of the table, or pass arrays X and y")


class _Collection:
    """What a source runs to hand over encoded rows. Privacy: its result is private."""

    recipe = "{}"
    block_rows = 4096

    def __init__(self, encoder: Encoder) -> None:
        self.schema, self.columns, self._encoder = encoder.schema, encoder.columns, encoder

    def __call__(self, blocks: Any) -> npt.NDArray[np.float64]:
        parts = [self._encoder.encode(cells).rows for cells in blocks]
        return np.concatenate(parts) if parts else np.zeros((0, self._encoder.width))


def encoded_rows(x: Any, schema: Schema) -> npt.NDArray[np.float64]:
    """Encoded rows of arrays or a table to predict for; a label column may be there or not.

    Privacy: for rows that the caller may look at; row-wise.
    """
    bare = without_label(schema)
    if is_array(x):
        array = as_array(x)
        source = open_source((array,) if array.ndim > 2 else _table(array, bare))
    else:
        source = open_source(x)
        if schema.label in source.names(schema):
            bare = replace(bare, ignore=(*bare.ignore, str(schema.label)))
    source.check(bare)
    return np.concatenate(list(source.partial_sums(_Collection(Encoder(bare)))))


def _table(array: npt.NDArray[Any], schema: Schema) -> pa.Table:
    names = [column.name for column in schema.columns if column.name != schema.label]
    if len(names) != array.shape[1]:
        raise ValueError(
            f"X has {array.shape[1]} features, but LocallyLinearMaps is expecting {len(names)} "
            "features as input"
        )
    real = array.astype(np.float64)
    return pa.table({name: real[:, at] for at, name in enumerate(names)})


def _labels(y: Any) -> npt.NDArray[Any]:
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    labels = np.asarray(y, dtype=object) if isinstance(y, list) else np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.ravel()
    if labels.ndim != 1:
        raise ValueError("y should be a 1d array")
    return np.array([class_name(value) for value in labels.tolist()], dtype=np.str_)


def class_name(value: Any) -> str:
    """A class as text; 1.0 is "1". Privacy: of one value alone."""
    return cell_text(value) or ""


def _texts(labels: npt.NDArray[Any]) -> pa.Array:
    return pa.array(labels.tolist(), pa.large_string())
