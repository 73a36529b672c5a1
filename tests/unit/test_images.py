"""The image column: what a schema may say, and what an image becomes."""

import builtins
import logging

import numpy as np
import pyarrow as pa
import pytest
from tests.images import colour, file_of, grey

from dpgist.encode import Encoder, Slot
from dpgist.errors import DataError
from dpgist.pixels import image_arrays
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    ImageColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

GREY = ImageColumn(name="i", height=2, width=3)
COLOUR = ImageColumn(name="i", height=2, width=3, channels=3)
LABEL = CategoryColumn(name="y", values=("cat", "dog"))


def encode(column, cells):
    found = Encoder(Schema(name="t", columns=(column,))).encode({"i": cells})
    return found.rows, found.broken[:, 0].tolist()


def raw(images):
    return pa.array([image.tobytes() for image in images], pa.binary(images[0].size))


# --- schema ---------------------------------------------------------------------------------


def test_an_image_schema_survives_its_nested_form():
    schema = Schema(name="t", columns=(COLOUR, LABEL), label="y")
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema.to_dict()["columns"]["i"] == {
        "type": "image",
        "height": 2,
        "width": 3,
        "channels": 3,
    }
    assert schema.image == COLOUR
    assert Schema(name="t", columns=(NumberColumn(name="a", min=0, max=1),)).image is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"height": 0}, "column 'i': height must be an integer from 1 to 1024, got 0"),
        ({"width": 1025}, "column 'i': width must be an integer from 1 to 1024, got 1025"),
        ({"width": 2.0}, "column 'i': width must be an integer"),
        ({"height": True}, "column 'i': height must be an integer"),
        ({"channels": 2}, r"column 'i': channels must be 1 \(grey\) or 3 \(colour\), got 2"),
        ({"channels": "3"}, "column 'i': channels must be"),
        ({"nullable": True}, "column 'i': unknown setting 'nullable'"),
    ],
)
def test_an_impossible_image_is_refused(settings, message):
    column = {"type": "image", "height": 2, "width": 3, **settings}
    with pytest.raises(DataError, match=message):
        Schema.from_dict({"table": {"name": "t"}, "columns": {"i": column}})


def test_a_table_of_images_has_one_image_and_at_most_a_label():
    with pytest.raises(DataError, match="only one image column, not 'i', 'j'"):
        Schema(name="t", columns=(GREY, ImageColumn(name="j", height=1, width=1)))
    with pytest.raises(DataError, match="no column but the image and the label; drop or ignore 'a"):
        Schema(name="t", columns=(GREY, LABEL, IntegerColumn(name="a", min=0, max=1)), label="y")
    with pytest.raises(DataError, match="drop or ignore 'y'"):
        Schema(name="t", columns=(GREY, LABEL))
    with pytest.raises(DataError, match="label must be a category or a boolean, not image"):
        Schema(name="t", columns=(GREY, LABEL), label="i")
    with pytest.raises(DataError, match="at least one column besides the label"):
        Schema(name="t", columns=(LABEL,), label="y")


# --- encoding -------------------------------------------------------------------------------


def test_an_image_is_one_slot_of_its_channels_in_turn():
    encoder = Encoder(Schema(name="t", columns=(LABEL, COLOUR), label="y"))
    assert encoder.slots == (Slot(column="i", kind="image", start=0, width=18, shape=(3, 2, 3)),)
    assert (encoder.width, encoder.n_classes, encoder.columns) == (18, 3, ("y", "i"))


def test_raw_pixels_are_scaled_into_the_unit_interval_channels_first():
    images = colour(4)
    rows, broken = encode(COLOUR, raw(images))
    assert np.array_equal(rows, images.transpose(0, 3, 1, 2).reshape(4, 18) / 255)
    assert broken == [False] * 4
    assert encode(GREY, raw(np.full((1, 2, 3), 255, np.uint8)))[0].tolist() == [[1.0] * 6]


def test_every_physical_type_of_an_image_means_the_same():
    images = grey(3)
    expected = images.reshape(3, 6) / 255
    files = [file_of(image) for image in images]
    for cells in (
        raw(images),
        raw(images).cast(pa.binary()),
        pa.chunked_array([raw(images[:1]), raw(images[1:])]),
        raw(np.concatenate([images, images])).slice(3),
        pa.array(files, pa.binary()),
        pa.array(files, pa.large_binary()),
        pa.array(files, pa.binary()).dictionary_encode(),
        pa.array([{"bytes": file, "path": "x"} for file in files]),
        pa.array([None, *({"bytes": file, "path": None} for file in files)]).slice(1),
    ):
        rows, broken = encode(GREY, cells)
        assert np.array_equal(rows, expected), cells.type
        assert broken == [False] * 3


def test_colour_and_jpeg_files_are_read():
    image = np.full((2, 3, 3), (250, 10, 10), np.uint8)
    rows, broken = encode(COLOUR, pa.array([file_of(image), file_of(image, "JPEG")]))
    assert broken == [False, False]
    assert np.array_equal(rows[0], image.transpose(2, 0, 1).ravel() / 255)
    assert np.abs(rows[1] - rows[0]).max() < 0.05


def damaged_files():
    whole = file_of(grey(1, 20, 30)[0])
    return {
        "null": None,
        "empty": b"",
        "text": b"hello",
        "one byte short": bytes(5),
        "one byte long": bytes(7),
        "cut short": file_of(grey(1)[0])[:-30],
        "bits flipped": file_of(grey(1)[0])[:45] + b"\0\0\0\0" + file_of(grey(1)[0])[49:],
        "turned": file_of(grey(1, 3, 2)[0]),
        "large": whole,
        "colour": file_of(colour(1)[0]),
        "palette": file_of(grey(1)[0], mode="P"),
        "alpha": file_of(grey(1)[0], mode="LA"),
        "bits": file_of(grey(1)[0], mode="1"),
        "sixteen bits": file_of(grey(1)[0].astype(np.uint16)),
        "gif": file_of(grey(1)[0], "GIF"),
        "bmp": file_of(grey(1)[0], "BMP"),
    }


@pytest.mark.parametrize("damage", damaged_files())
def test_an_image_that_breaks_the_schema_is_the_zero_row_and_its_neighbours_are_not(damage):
    good = grey(2)
    files = [file_of(good[0]), damaged_files()[damage], file_of(good[1])]
    rows, broken = encode(GREY, pa.array(files, pa.binary()))
    assert broken == [False, True, False]
    assert not rows[1].any()
    assert np.array_equal(rows[[0, 2]], good.reshape(2, 6) / 255)


def test_grey_pixels_do_not_make_a_colour_image():
    rows, broken = encode(COLOUR, pa.array([file_of(grey(1)[0]), file_of(grey(1)[0], "JPEG")]))
    assert broken == [True, True]
    assert not rows.any()


def test_a_bomb_is_not_unpacked(monkeypatch):
    from PIL import ImageFile

    bomb = file_of(np.zeros((3000, 3000), np.uint8))
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("unpacked"))
    assert encode(GREY, pa.array([bomb]))[1] == [True]


def test_raw_pixels_as_long_as_a_file_are_told_by_their_start():
    column = ImageColumn(name="i", height=1, width=len(file_of(grey(1)[0])))
    pixels = np.arange(column.width, dtype=np.uint8)[None]
    start = pixels.copy()
    start[0, :3] = (0xFF, 0xD8, 0xFF)
    rows, broken = encode(column, pa.array([pixels.tobytes(), start.tobytes()]))
    assert broken == [False, False]
    assert encode(column, pa.array([file_of(grey(1)[0])]))[1] == [True]
    assert rows[1, 0] == 1.0


@pytest.mark.parametrize("cells", [pa.nulls(2), pa.array(["a", "b"]), pa.array([1, 2])])
def test_cells_that_are_no_images_at_all_are_broken(cells):
    rows, broken = encode(GREY, cells)
    assert broken == [True, True]
    assert not rows.any()


def test_null_among_raw_pixels_is_zero_whatever_lies_under_it():
    under = pa.py_buffer(bytes([9] * 18))
    cells = pa.Array.from_buffers(pa.binary(6), 3, [pa.py_buffer(b"\x05"), under])
    rows, broken = encode(GREY, cells)
    assert broken == [False, True, False]
    assert rows.any(axis=1).tolist() == [True, False, True]


def test_a_broken_image_still_counts_in_its_class():
    encoder = Encoder(Schema(name="t", columns=(GREY, LABEL), label="y"))
    found = encoder.encode({"i": pa.array([b"x", b"x"]), "y": pa.array(["dog", "bird"])})
    assert found.labels.tolist() == [1, 2]
    assert found.broken.tolist() == [[True, False], [True, True]]


def test_no_images_encode_to_no_rows_and_decode_to_none():
    encoder = Encoder(Schema(name="t", columns=(COLOUR, LABEL), label="y"))
    for kind in (pa.binary(18), pa.binary()):
        found = encoder.encode({"i": pa.array([], kind), "y": pa.array([], pa.string())})
        assert found.rows.shape == (0, 18)
        assert len(encoder.decode(found.rows, found.labels)) == 0


def test_reading_files_leaves_no_trace_in_the_log(caplog):
    with caplog.at_level(logging.DEBUG):
        encode(GREY, pa.array([file_of(grey(1)[0]), b"canary", file_of(grey(1)[0], "JPEG")]))
    assert caplog.records == []


def test_a_missing_pillow_names_the_line_that_installs_it(monkeypatch):
    real = builtins.__import__

    def without_pillow(name, *args, **kwargs):
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(DataError, match=r"pip install 'dpgist\[images\]'"):
        encode(GREY, pa.array([b"x"]))
    assert encode(GREY, raw(grey(1)))[1] == [False]


# --- decoding -------------------------------------------------------------------------------


def test_decoding_gives_back_pixels_and_label():
    encoder = Encoder(Schema(name="t", columns=(COLOUR, LABEL), label="y"))
    images = colour(3)
    found = encoder.encode({"i": raw(images), "y": pa.array(["cat", "dog", "cat"])})
    table = encoder.decode(found.rows, found.labels)
    assert table.schema == pa.schema({"i": pa.binary(18), "y": pa.string()})
    arrays = image_arrays(table, encoder.schema)
    assert np.array_equal(arrays["x"], images)
    assert arrays["x"].dtype == np.uint8
    assert arrays["y"].tolist() == ["cat", "dog", "cat"]


def test_decoding_clips_and_rounds():
    encoder = Encoder(Schema(name="t", columns=(ImageColumn(name="i", height=1, width=4),)))
    table = encoder.decode(np.array([[-1.0, 2.0, 0.5, 0.1]]), np.zeros(1, np.int64))
    arrays = image_arrays(table, encoder.schema)
    assert arrays["x"].tolist() == [[[0, 255, 128, 26]]]
    assert set(arrays) == {"x"}


@pytest.mark.parametrize(
    ("label", "kind", "first"),
    [
        (CategoryColumn(name="y", values=("3", "10")), "i", 3),
        (CategoryColumn(name="y", values=("03", "10")), "U", "03"),
        (CategoryColumn(name="y", values=("3",), other="rest"), "U", "3"),
        (CategoryColumn(name="y", values=("3",), nullable=True), "O", "3"),
        (BooleanColumn(name="y"), "b", False),
    ],
)
def test_labels_are_integers_where_the_schema_has_only_those(label, kind, first):
    encoder = Encoder(Schema(name="t", columns=(GREY, label), label="y"))
    table = encoder.decode(np.zeros((1, 6)), np.zeros(1, np.int64))
    labels = image_arrays(table, encoder.schema)["y"]
    assert labels.dtype.kind == kind
    assert labels.tolist() == [first]


def test_only_a_table_of_images_becomes_arrays():
    schema = Schema(name="t", columns=(NumberColumn(name="a", min=0, max=1),))
    with pytest.raises(ValueError, match="no image column"):
        image_arrays(pa.table({"a": [1.0]}), schema)
