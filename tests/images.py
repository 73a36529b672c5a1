"""Small images, their files, and a summation that keeps rows: for tests alone."""

import io

import numpy as np
from PIL import Image

from dpgist.encode import EncodedRows, Encoder


def grey(n, height=2, width=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, height, width), dtype=np.uint8)


def colour(n, height=2, width=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def file_of(image, form="PNG", mode=None):
    """The bytes of a PNG or JPEG file."""
    picture = Image.fromarray(image)
    buffer = io.BytesIO()
    (picture if mode is None else picture.convert(mode)).save(buffer, form)
    return buffer.getvalue()


def stacked(parts) -> EncodedRows:
    parts = list(parts)
    return EncodedRows(
        rows=np.concatenate([part.rows for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        broken=np.concatenate([part.broken for part in parts]),
    )


class EncodeAll:
    recipe = "{}"

    def __init__(self, schema, block_rows):
        self.schema, self.block_rows = schema, block_rows
        self.encoder = Encoder(schema)
        self.columns = self.encoder.columns
        self.sizes = []

    def __call__(self, blocks):
        empty = np.zeros((0, self.encoder.width)), np.zeros(0, np.int64)
        parts = [
            EncodedRows(
                rows=empty[0], labels=empty[1], broken=np.zeros((0, len(self.columns)), bool)
            )
        ]
        for block in blocks:
            parts.append(self.encoder.encode(block))
            self.sizes.append(len(parts[-1].rows))
        return stacked(parts)
