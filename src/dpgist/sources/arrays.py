"""Images as arrays: ``x`` (n, height, width[, channels]) and, if there are labels, ``y`` (n,)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgist.cells import Mask, cell_text
from dpgist.errors import DataError
from dpgist.pixels import raw_images
from dpgist.sources.header import Header
from dpgist.sources.images import IMAGES, LABELS

_CHUNK_BYTES = 2**22
_WIDEST_CELL = 2**31 - 1

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Form:
    """Type and shape of an array, known without reading it.

    Privacy: the number of rows is private; all else is public.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes in one row. Privacy: public."""
        return int(np.prod(self.shape[1:], dtype=object)) * self.dtype.itemsize


class Rows(Protocol):
    """An array that can be read piece by piece.

    Privacy: holds private rows; for a source alone.
    """

    def form(self) -> Form:
        """Type and shape; raises ``DataError`` if unreadable. Privacy: reads no row."""
        ...

    def check_whole(self) -> None:
        """Raise ``DataError`` unless all rows are there. Privacy: looks at lengths alone."""
        ...

    def chunks(self, n_rows: int) -> Iterator[Array]:
        """Every row once, ``n_rows`` at a time. Privacy: private rows, for the curator."""
        ...


@dataclass(frozen=True, kw_only=True, repr=False)
class MemoryRows:
    """An array in memory.

    Privacy: holds private rows; for a source alone.
    """

    array: Array

    def form(self) -> Form:
        """Type and shape. Privacy: reads no row."""
        return Form(dtype=self.array.dtype, shape=self.array.shape)

    def check_whole(self) -> None:
        """Nothing to check. Privacy: reads no row."""

    def chunks(self, n_rows: int) -> Iterator[Array]:
        """Every row once. Privacy: private rows, for the curator."""
        for start in range(0, len(self.array), n_rows):
            yield self.array[start : start + n_rows]


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageArrays:
    """A reader of named arrays: the images ``x``, the labels ``y``, and any others by name only.

    Images are uint8, or floats from 0 to 1, which are rounded to 256 levels; one with a value
    outside breaks the schema as a whole.

    Privacy: holds private images; for a source alone.
    """

    arrays: Mapping[str, Rows]

    def header(self) -> Header:
        """Names, types and the images' size. Privacy: reads no image."""
        if IMAGES not in self.arrays:
            raise DataError("there is no array 'x' of images; name the images x and the labels y")
        images = self.arrays[IMAGES].form()
        if len(images.shape) not in (3, 4):
            raise DataError(
                "x must have the shape (n, height, width) or (n, height, width, channels)"
            )
        if images.dtype != np.uint8 and not _is_float(images.dtype):
            raise DataError(f"x must be uint8, or float from 0 to 1, not {images.dtype}; cast it")
        if LABELS in self.arrays:
            _check_labels(self.arrays[LABELS].form(), n_images=images.shape[0])
        for name in {IMAGES, LABELS} & set(self.arrays):
            self.arrays[name].check_whole()
        size = (*images.shape[1:], 1)[:3]
        types = {IMAGES: _cell_type(size), LABELS: pa.large_string()}
        return Header(
            names=tuple(self.arrays),
            types=tuple(types.get(name, pa.null()) for name in self.arrays),
            image_size=(size[0], size[1], size[2]),
        )

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Every image once. Privacy: private images, for the curator."""
        n_rows = max(1, _CHUNK_BYTES // self.arrays[IMAGES].form().row_bytes)
        pieces = [self.arrays[name].chunks(n_rows) for name in columns]
        for parts in zip(*pieces, strict=True):
            named = zip(columns, parts, strict=True)
            yield pa.table(
                {name: _images(part) if name == IMAGES else _labels(part) for name, part in named}
            )


def memory_arrays(data: tuple[Any, ...] | Mapping[Any, Any]) -> ImageArrays:
    """A reader for (x,), (x, y) or a dict of numpy arrays.

    Privacy: reads no image.
    """
    named = dict(zip((IMAGES, LABELS), data, strict=False)) if isinstance(data, tuple) else data
    arrays = all(isinstance(array, np.ndarray) for array in named.values())
    if not arrays or not named or len(named) < len(data):
        raise DataError(
            "a tuple or dict is read as numpy arrays of images x and labels y; for a table, pass a "
            "pandas or polars DataFrame, a pyarrow Table, or a path"
        )
    return ImageArrays(
        arrays={str(name): MemoryRows(array=np.asarray(array)) for name, array in named.items()}
    )


def _cell_type(size: tuple[int, ...]) -> pa.DataType:
    """The type of raw pixels; where Arrow has none, ``image_size`` tells that nothing fits."""
    n_values = int(np.prod(size, dtype=object))
    return pa.binary(min(max(n_values, 0), _WIDEST_CELL))


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" and dtype.itemsize <= 8


def _check_labels(labels: Form, *, n_images: int) -> None:
    if len(labels.shape) != 1 or labels.dtype.kind not in "iubUS" or not labels.dtype.itemsize:
        raise DataError(
            f"y must have the shape (n,) and hold integers, booleans or texts, not {labels.dtype} "
            f"in {len(labels.shape)} dimensions; ravel or cast it"
        )
    if labels.shape[0] != n_images:
        raise DataError("x and y differ in length; every image needs one label")


def _images(part: Array) -> pa.Array:
    values = part.reshape(len(part), int(np.prod(part.shape[1:])))
    if values.dtype == np.uint8:
        return raw_images(values)
    fits: Mask = np.logical_and.reduce((values >= 0) & (values <= 1), axis=1)
    levels = np.where(fits[:, None], values, 0).astype(np.float64) * 255.0
    return raw_images(np.rint(levels).astype(np.uint8), broken=~fits)


def _labels(part: Array) -> pa.Array:
    if part.dtype.kind in "iub":
        return pa.array(part.astype(part.dtype.newbyteorder("="))).cast(pa.large_string())
    texts = _valid_texts(part) if part.dtype.kind == "U" else part
    return pa.array([cell_text(text) for text in texts.tolist()], pa.large_string())


def _valid_texts(part: Array) -> Array:
    """The texts with what is no character replaced, over which numpy would stumble."""
    codes = np.ascontiguousarray(part).view(part.dtype.byteorder.replace("|", "=") + "u4")
    codes = codes.astype(np.uint32)
    return np.where(codes > 0x10FFFF, np.uint32(0xFFFD), codes).view(f"U{part.dtype.itemsize // 4}")
