"""Images and labels that have no column names of their own, under the names of a schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from dpgist.errors import DataError
from dpgist.schema import Schema
from dpgist.sources.blocks import Reader
from dpgist.sources.header import Header, check_header

IMAGES, LABELS = "x", "y"
"""What readers of images call their two columns."""


@dataclass(frozen=True, kw_only=True)
class NamedImages:
    """A reader of images whose columns go by the schema's names for the image and the label.

    Labels are not read where the schema declares none.

    Privacy: holds private images; for a source alone.
    """

    reader: Reader
    schema: Schema

    def header(self) -> Header:
        """The images' header in the schema's words. Privacy: reads no image."""
        return self._named(self.reader.header())

    def check(self) -> None:
        """Raise ``DataError`` if the header breaks the schema. Privacy: reads no image."""
        found, label = self.reader.header(), self.schema.label
        named = self._named(found)
        if label is not None and LABELS not in found.names:
            raise DataError(
                f"the data has no labels y, which the schema declares as column {label!r}; arrays "
                "must be named x (images) and y (labels), and idx files of labels stand beside "
                "those of the images"
            )
        check_header(named, self.schema)

    def _named(self, found: Header) -> Header:
        names = self._declared()
        kept = [at for at, name in enumerate(found.names) if name != LABELS or LABELS in names]
        return replace(
            found,
            names=tuple(names.get(found.names[at], found.names[at]) for at in kept),
            types=tuple(found.types[at] for at in kept),
        )

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Every image once. Privacy: private images, for the curator."""
        stored = {declared: name for name, declared in self._declared().items()}
        for table in self.reader.tables(tuple(stored[name] for name in columns)):
            yield table.rename_columns(list(columns))

    def _declared(self) -> dict[str, str]:
        image = self.schema.image
        if image is None:
            raise DataError(
                "the data can only be read as images (a folder is one of images if it holds no "
                ".parquet file), but the schema declares no column of type image"
            )
        label = {} if self.schema.label is None else {LABELS: self.schema.label}
        return {IMAGES: image.name, **label}
