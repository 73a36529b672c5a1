"""An image's encoding is its own: no junk beside it, block or form of storage changes a bit."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.images import EncodeAll, colour, file_of, grey, stacked

from dpgist.encode import Encoder
from dpgist.pixels import image_arrays
from dpgist.schema import CategoryColumn, ImageColumn, Schema
from dpgist.sources import open_source

LABEL = CategoryColumn(name="y", values=("a", "1"))
SCHEMA = Schema(
    name="t", label="y", columns=(ImageColumn(name="i", height=2, width=3, channels=3), LABEL)
)
PIXELS = st.binary(min_size=18, max_size=18)
WHOLE = [file_of(colour(1, seed=seed)[0], form) for seed in (0, 1) for form in ("PNG", "JPEG")]
WRONG = [file_of(grey(1)[0]), file_of(colour(1, 3, 2)[0]), file_of(colour(1)[0], "GIF")]
LABELS = st.sampled_from(["a", "1", " a ", "", "zebra"]) | st.text(max_size=3) | st.none()


@st.composite
def damaged(draw):
    """A whole file with some bytes changed, and perhaps its end missing."""
    content = bytearray(draw(st.sampled_from(WHOLE)))
    for at in draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[at] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)) | st.just(len(content)))])


JUNK = st.one_of(
    PIXELS, st.none(), st.binary(max_size=20), damaged(), st.sampled_from(WHOLE + WRONG)
)
ROWS = st.lists(st.tuples(JUNK, LABELS), min_size=1, max_size=6)


def same(left, right):
    return (
        left.rows.tobytes() == right.rows.tobytes()
        and left.labels.tobytes() == right.labels.tobytes()
        and left.broken.tobytes() == right.broken.tobytes()
    )


def encoded(rows, block_rows, kind):
    images, labels = zip(*rows, strict=True)
    cells = [{"bytes": image} for image in images] if pa.types.is_struct(kind) else images
    texts = [None if t is None else t.encode("utf-8", "replace").decode() for t in labels]
    source = open_source(pa.table({"i": pa.array(cells, kind), "y": pa.array(texts, pa.string())}))
    source.check(SCHEMA)
    return stacked(source.partial_sums(EncodeAll(SCHEMA, block_rows)))


@settings(max_examples=80, deadline=None)
@given(
    ROWS,
    st.integers(1, 7),
    st.sampled_from([pa.binary(), pa.large_binary(), pa.struct({"bytes": pa.binary()})]),
)
def test_junk_images_encode_in_company_as_they_do_alone(rows, block_rows, kind):
    together = encoded(rows, block_rows, kind)
    assert same(together, stacked(encoded([row], 1, kind) for row in rows))
    assert ((together.rows >= 0) & (together.rows <= 1)).all()
    assert not together.rows[together.broken[:, 0]].any()
    assert len(together.rows) == len(rows)


FLOATS = st.lists(st.floats(0, 1) | st.floats(), min_size=6, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FLOATS, st.integers(-3, 3)), min_size=1, max_size=6), st.integers(1, 7))
def test_float_images_encode_in_company_as_they_do_alone(rows, block_rows):
    schema = Schema(name="t", label="y", columns=(ImageColumn(name="i", height=2, width=3), LABEL))

    def of(chosen, size):
        values, labels = zip(*chosen, strict=True)
        source = open_source((np.array(values).reshape(-1, 2, 3), np.array(labels)))
        source.check(schema)
        return stacked(source.partial_sums(EncodeAll(schema, size)))

    together = of(rows, block_rows)
    assert same(together, stacked(of([row], 1) for row in rows))
    assert ((together.rows >= 0) & (together.rows <= 1)).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(PIXELS, st.sampled_from(["a", "1"])), min_size=1, max_size=5))
def test_every_declared_image_survives_encoding_and_decoding(rows):
    images, labels = zip(*rows, strict=True)
    cells = {"i": pa.array(images, pa.binary(18)), "y": pa.array(labels)}
    encoder = Encoder(SCHEMA)
    found = encoder.encode(cells)
    table = encoder.decode(found.rows, found.labels)
    assert table.to_pydict() == pa.table(cells).to_pydict()
    assert not found.broken.any()
    arrays = image_arrays(table, SCHEMA)
    again = stacked(open_source(arrays).partial_sums(EncodeAll(SCHEMA, 2)))
    assert same(found, again)
