"""Images to arrays by the schema, for evaluation outside the guarantee."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgist.encode import EncodedRows, Encoder
from dpgist.errors import DataError
from dpgist.evaluate.table import class_names
from dpgist.schema import Schema
from dpgist.sources import open_source

Images = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageRows:
    """Images (n, height, width), or channels last, and their places among the class names.

    ``broken`` counts the cells of each column that broke the schema: such an image is black, such
    a label the schema's default. ``left_out`` counts the images without a declared label, which
    are not among ``images``.

    Privacy: as private as the images; its ``repr`` shows nothing of them.
    """

    schema: Schema
    images: Images
    classes: Codes
    broken: Mapping[str, int]
    left_out: int

    def __repr__(self) -> str:
        return f"<images of {self.schema.name}>"


def read_images(data: Any, schema: Schema, *, title: str = "given") -> ImageRows:
    """All images with a declared label, and how many were left out or broke the schema.

    Privacy: reads every image without any protection; for evaluation outside the guarantee.
    """
    column, source = schema.image, open_source(data)
    if column is None:
        raise DataError("the schema declares no column of type image")
    try:
        source.check(schema)
    except DataError as error:
        raise DataError(f"the {title} images: {error}") from None
    shape = (column.height, column.width, *((3,) if column.channels == 3 else ()))
    blocks = [part for parts in source.partial_sums(_Collect(schema)) for part in parts]
    return _joined(blocks, schema, shape)


def image_notes(title: str, rows: ImageRows) -> Iterator[str]:
    """One sentence for whatever was left out or corrected.

    Privacy: counts of real images; outside the guarantee.
    """
    for name, count in rows.broken.items():
        if count:
            cells = "1 cell breaks" if count == 1 else f"{count} cells break"
            image = rows.schema.image is not None and rows.schema.image.name == name
            how = "scored as black" if image else "corrected"
            yield f"column {name!r} of the {title} images: {cells} the schema, {how}"
    if rows.left_out:
        label = rows.schema.label
        yield f"{title} images left out, as their {label!r} is not a declared one: {rows.left_out}"


@dataclass(frozen=True, kw_only=True, repr=False)
class _Block:
    images: Images
    classes: Codes
    broken: npt.NDArray[np.bool_]


def _joined(blocks: Sequence[_Block], schema: Schema, shape: tuple[int, ...]) -> ImageRows:
    names = [column.name for column in schema.columns]
    images = np.concatenate([np.zeros((0, *shape), np.uint8), *(b.images for b in blocks)])
    classes = np.concatenate([np.zeros(0, np.int64), *(b.classes for b in blocks)])
    broken = np.concatenate([np.zeros((0, len(names)), bool), *(b.broken for b in blocks)])
    kept = classes >= 0
    counts = broken[kept].sum(axis=0, dtype=np.int64).tolist()
    return ImageRows(
        schema=schema,
        images=images[kept],
        classes=classes[kept],
        broken=dict(zip(names, counts, strict=True)),
        left_out=int(np.count_nonzero(~kept)),
    )


class _Collect:
    """Stands where the curator's summation stands, and keeps the images."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self.recipe, self.block_rows = schema, "{}", 1024
        self._encoder = Encoder(schema)
        self.columns = self._encoder.columns
        names = class_names(schema) or (None,)
        allowed = zip(self._encoder.class_names, self._encoder.class_allowed, strict=True)
        self._places = np.array([names.index(n) if n in names and ok else -1 for n, ok in allowed])

    def __call__(self, blocks: Iterable[Mapping[str, Any]]) -> list[_Block]:
        return [self._images(self._encoder.encode(cells)) for cells in blocks]

    def _images(self, encoded: EncodedRows) -> _Block:
        channels, height, width = self._encoder.slots[0].shape or (1, 1, 1)
        pixels = np.rint(encoded.rows * 255.0).astype(np.uint8)
        images = pixels.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        return _Block(
            images=images[..., 0] if channels == 1 else images,
            classes=self._places[encoded.labels],
            broken=encoded.broken,
        )
