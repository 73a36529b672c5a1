"""What a source says about itself before any row is read, and whether the schema agrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from dpgist.cells import is_numeric, is_text, is_whole
from dpgist.columns import repeated
from dpgist.errors import DataError
from dpgist.pixels import is_file, is_raw, pillow
from dpgist.schema import Column, ImageColumn, Schema, type_name


@dataclass(frozen=True, kw_only=True)
class Header:
    """Names and physical types of a source's columns.

    A type of None is text that the schema gives meaning; a type that Arrow cannot hold is a name.
    ``image_size`` is (height, width, channels) where the form of the data fixes it.

    Privacy: public, unless a text file has no header: see :func:`check_header`.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType | str | None, ...]
    image_size: tuple[int, int, int] | None = None


def check_header(header: Header, schema: Schema) -> None:
    """Raise ``DataError`` unless the header offers exactly what the schema declares.

    The names found are quoted only once every declared column is among them: the first line of a
    csv file without a header is somebody's row.

    Privacy: sees names and types, never a row.
    """
    declared = [column.name for column in schema.columns]
    missing = [name for name in declared if name not in header.names]
    if len(missing) == len(declared):
        raise DataError(
            "the data has none of the schema's columns; is it the right table and, if it is a csv "
            "file, does its first line name the columns, separated by commas?"
        )
    if missing:
        raise DataError(
            f"the data lacks {_columns(missing)}, which the schema declares; "
            "add the data, correct the name, or drop it from the schema"
        )
    if twice := repeated(header.names):
        raise DataError(f"the data has {_columns(twice)} more than once; rename or drop the copies")
    allowed = {*declared, *schema.ignore}
    if unknown := [name for name in header.names if name not in allowed]:
        raise DataError(
            f"the data has {_columns(unknown)}, which the schema does not know; "
            "declare it under [columns] or list it under ignore in [table]"
        )
    types = dict(zip(header.names, header.types, strict=True))
    problems = [problem for c in schema.columns if (problem := _type_problem(c, types[c.name]))]
    if problems:
        raise DataError("; ".join(problems))
    if schema.image is not None:
        _check_image(schema.image, types[schema.image.name], header.image_size)


def _columns(names: list[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(map(repr, names))


def _type_problem(column: Column, found: pa.DataType | str | None) -> str | None:
    accepts, wanted = _ACCEPTED[type_name(column)]
    if found is None and isinstance(column, ImageColumn):
        found = "text or objects"
    if found is None or (isinstance(found, pa.DataType) and accepts(_value_type(found))):
        return None
    return (
        f"column {column.name!r} is declared {type_name(column)} but stored as {found}; "
        f"cast it to {wanted}, or change its type in the schema"
    )


def _check_image(
    column: ImageColumn, found: pa.DataType, size: tuple[int, int, int] | None
) -> None:
    """Raw pixels must be as many as declared, and files need the library that reads them."""
    declared = (column.height, column.width, column.channels)
    found = _value_type(found)
    if size is not None and size != declared:
        raise DataError(
            f"the data's images are {_size(size)}, but column {column.name!r} is declared as "
            f"{_size(declared)}; correct the schema, or resize the images"
        )
    if is_raw(found) and found.byte_width != column.n_values:
        raise DataError(
            f"column {column.name!r} holds {found.byte_width} bytes an image, but images of "
            f"{_size(declared)} have {column.n_values}; correct the schema, or resize the images"
        )
    if is_file(found):
        pillow()


def _size(size: tuple[int, int, int]) -> str:
    return f"{size[0]} x {size[1]} pixels with {size[2]} channel{'' if size[2] == 1 else 's'}"


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_numeric(kind: pa.DataType) -> bool:
    return is_numeric(kind) or bool(pa.types.is_null(kind))


def _is_category(kind: pa.DataType) -> bool:
    """Floats too: readers turn integers into them where a cell is empty, which is not public."""
    checks = (is_text, is_whole, pa.types.is_floating, pa.types.is_null)
    return any(check(kind) for check in checks)


def _is_date(kind: pa.DataType) -> bool:
    checks = (is_text, pa.types.is_date, pa.types.is_timestamp, pa.types.is_null)
    return any(check(kind) for check in checks)


def _is_image(kind: pa.DataType) -> bool:
    return is_raw(kind) or is_file(kind) or bool(pa.types.is_null(kind))


_ACCEPTED: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "integer": (_is_numeric, "an integer, float or decimal type"),
    "number": (_is_numeric, "an integer, float or decimal type"),
    "category": (_is_category, "a string, integer, float or boolean type"),
    "boolean": (_is_category, "a boolean, integer, float or string type"),
    "date": (_is_date, "a date, timestamp or string type"),
    "image": (_is_image, "a binary type (PNG or JPEG files; of fixed size for raw pixels)"),
}
