"""Reading one column of images: raw pixels, or whole PNG and JPEG files.

Raw pixels are unsigned bytes, row by row, the channels of a pixel side by side. An image that is
damaged, or of another size or mode than the schema declares, is all zeros and marked as broken;
nothing here raises on an image, and none touches another.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpgist.cells import Mask, flat
from dpgist.errors import DataError
from dpgist.schema import BooleanColumn, CategoryColumn, Column, ImageColumn, Schema

Pixels = npt.NDArray[np.uint8]

_MODES = {1: "L", 3: "RGB"}
_PNG_START = b"\x89PNG\r\n\x1a\n"
_JPEG_START, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"


def pixels(cells: pa.Array, column: ImageColumn) -> tuple[Pixels, Mask]:
    """Bytes (n, height * width * channels), channels last, and which cells are no such image.

    Fixed-size cells hold raw pixels and structs hold image files; plain bytes may be either.

    Privacy: row-wise; for the private pass alone.
    """
    cells = flat(cells)
    if cells.type == pa.binary(column.n_values):
        return _raw_pixels(cells, column.n_values)
    found = np.zeros((len(cells), column.n_values), np.uint8)
    broken = np.ones(len(cells), bool)
    for index, image in enumerate(_images(cells, column)):
        if image is not None:
            found[index], broken[index] = image, False
    return found, broken


def raw_images(values: Pixels, broken: Mask | None = None) -> pa.FixedSizeBinaryArray:
    """Cells of raw pixels from (n, bytes per image); null where broken.

    Privacy: row-wise; as private as what it is given.
    """
    n, size = values.shape
    absent = None if broken is None else pa.array(~broken).buffers()[1]
    content = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.binary(size), n, [absent, content])


def image_arrays(table: pa.Table, schema: Schema) -> dict[str, npt.NDArray[Any]]:
    """Decoded rows as arrays: ``x`` (n, height, width[, 3]) uint8, and ``y`` if there is a label.

    Labels are integers where the schema says that all of them are, else texts or booleans.

    Privacy: row-wise; post-processing when the rows come from a generator.
    """
    image = schema.image
    if image is None:
        raise ValueError("the schema declares no image column")
    size = (image.height, image.width, *((3,) if image.channels == 3 else ()))
    values, _ = pixels(table.column(image.name), image)
    arrays: dict[str, npt.NDArray[Any]] = {"x": values.reshape(-1, *size)}
    if schema.label is not None:
        labels = table.column(schema.label).to_numpy()
        arrays["y"] = labels.astype(_label_type(schema.column(schema.label)))
    return arrays


def is_raw(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds raw pixels. Privacy: looks at a type, not at cells."""
    return bool(pa.types.is_fixed_size_binary(kind))


def is_file(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds image files. Privacy: looks at a type, not at cells."""
    if pa.types.is_struct(kind):
        at = kind.get_field_index("bytes")
        return at >= 0 and is_file(kind.field(at).type)
    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(check(kind) for check in checks)


def pillow() -> Any:
    """The module that reads image files, or ``DataError`` with the line that installs it.

    Privacy: touches no image. Its log is silenced, for it quotes the files it reads.
    """
    try:
        from PIL import Image
    except ImportError:
        raise DataError(
            "reading PNG and JPEG files needs pillow; run: pip install 'dpgist[images]'"
        ) from None
    logging.getLogger("PIL").setLevel(logging.CRITICAL)
    return Image


def _raw_pixels(cells: pa.FixedSizeBinaryArray, size: int) -> tuple[Pixels, Mask]:
    broken: Mask = cells.is_null().to_numpy(zero_copy_only=False)
    content = cells.buffers()[1] if len(cells) else b""
    found = np.frombuffer(content, np.uint8, len(cells) * size, cells.offset * size)
    found = found.reshape(len(cells), size)
    return (np.where(broken[:, None], np.uint8(0), found) if broken.any() else found), broken


def _images(cells: pa.Array, column: ImageColumn) -> Iterator[Pixels | None]:
    if not is_file(cells.type):
        return
    open_image, only_files = pillow().open, pa.types.is_struct(cells.type)
    for cell in pc.struct_field(cells, "bytes") if only_files else cells:
        content = cell.as_py() or b""
        raw = len(content) == column.n_values and not _looks_like_a_file(content)
        if raw and not only_files:
            yield np.frombuffer(content, np.uint8)
        else:
            yield _picture(content, column, open_image)


def _picture(content: bytes, column: ImageColumn, open_image: Any) -> Pixels | None:
    try:
        with open_image(io.BytesIO(content), formats=("PNG", "JPEG")) as picture:
            # Size and mode stand at the start of a file, so a huge image is never unpacked.
            if picture.size != (column.width, column.height):
                return None
            if picture.mode != _MODES[column.channels]:
                return None
            return np.frombuffer(picture.tobytes(), np.uint8)
    except Exception:  # a damaged file may raise anything, and none may stop the pass
        return None


def _looks_like_a_file(content: bytes) -> bool:
    jpeg = content.startswith(_JPEG_START) and content.endswith(_JPEG_END)
    return jpeg or content.startswith(_PNG_START)


def _label_type(column: Column) -> type[Any]:
    if isinstance(column, BooleanColumn) and not column.nullable:
        return bool
    if isinstance(column, CategoryColumn) and not column.nullable:
        names = (*column.values, *((column.other,) if column.other is not None else ()))
        return int if all(_is_decimal(name) for name in names) else str
    return object


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdigit() and str(int(text)) == text
