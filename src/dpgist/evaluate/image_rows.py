"""Images to arrays by the schema, for evaluation outside the guarantee."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def read_images(data: Any, schema: Schema, *, title: str = "given") -> tuple[Images, Codes]:
    """All images with a declared label, (n, height, width) or channels last, and their classes.

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
    images = np.concatenate([np.zeros((0, *shape), np.uint8), *(x for x, _ in blocks)])
    labels = np.concatenate([np.zeros(0, np.int64), *(y for _, y in blocks)])
    return images[labels >= 0], labels[labels >= 0]


class _Collect:
    """Stands where the curator's summation stands, and keeps the images."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self.recipe, self.block_rows = schema, "{}", 1024
        self._encoder = Encoder(schema)
        self.columns = self._encoder.columns
        names = class_names(schema) or (None,)
        allowed = zip(self._encoder.class_names, self._encoder.class_allowed, strict=True)
        self._places = np.array([names.index(n) if n in names and ok else -1 for n, ok in allowed])

    def __call__(self, blocks: Iterable[Mapping[str, Any]]) -> list[tuple[Images, Codes]]:
        return [self._images(self._encoder.encode(cells)) for cells in blocks]

    def _images(self, encoded: EncodedRows) -> tuple[Images, Codes]:
        channels, height, width = self._encoder.slots[0].shape or (1, 1, 1)
        pixels = np.rint(encoded.rows * 255.0).astype(np.uint8)
        images = pixels.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        return (images[..., 0] if channels == 1 else images), self._places[encoded.labels]
