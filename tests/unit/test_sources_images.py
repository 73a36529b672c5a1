"""Where images come from: every form gives the same rows, and no image decides about an error."""

import gzip
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.images import EncodeAll, colour, file_of, grey

from dpgist.errors import DataError
from dpgist.schema import CategoryColumn, ImageColumn, NumberColumn, Schema
from dpgist.sources import open_source

SCHEMA = Schema(
    name="t",
    label="digit",
    columns=(
        ImageColumn(name="img", height=2, width=3),
        CategoryColumn(name="digit", values=("0", "1", "2")),
    ),
)
UNLABELLED = Schema(name="t", columns=SCHEMA.columns[:1])
X, Y = grey(5), np.array([2, 0, 1, 1, 7])
CODES = [2, 0, 1, 1, 3]


def encoded(data, schema=SCHEMA, block_rows=2):
    source = open_source(data)
    source.check(schema)
    summation = EncodeAll(schema, block_rows)
    (found,) = source.partial_sums(summation)
    assert all(size == block_rows for size in summation.sizes[:-1])
    return found


def write_idx(path, array, kind=8):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wb") as file:
        file.write(bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape))
        file.write(array.tobytes())


def in_arrays(folder):
    return {"x": X, "y": Y}


def in_tuple(folder):
    return X, Y.astype(np.uint8)


def in_npz(folder):
    np.savez(folder / "t.npz", x=X, y=Y)
    return folder / "t.npz"


def in_packed_npz(folder):
    np.savez_compressed(folder / "t.npz", x=X[..., None] / 255, y=Y.astype(str))
    return folder / "t.npz"


def in_idx(folder):
    write_idx(folder / "t-images-idx3-ubyte", X)
    write_idx(folder / "t-labels-idx1-ubyte", Y.astype(np.uint8))
    return folder / "t-images-idx3-ubyte"


def in_packed_idx(folder):
    write_idx(folder / "t-images.idx3-ubyte.gz", X)
    write_idx(folder / "t-labels.idx1-ubyte.gz", Y.astype(np.uint8))
    return str(folder / "t-images.idx3-ubyte.gz")


def in_folder(folder):
    for at, (image, label) in enumerate(zip(X, Y, strict=True)):
        (folder / "d" / str(label)).mkdir(parents=True, exist_ok=True)
        (folder / "d" / str(label) / f"{at}.png").write_bytes(file_of(image))
    return folder / "d"


def in_parquet(folder):
    files = [{"bytes": file_of(image), "path": "p"} for image in X]
    pq.write_table(pa.table({"img": files, "digit": Y}), folder / "t.parquet")
    return folder / "t.parquet"


def in_polars(folder):
    return pl.DataFrame({"img": [image.tobytes() for image in X], "digit": Y})


FORMS = {
    in_arrays: "arrays",
    in_tuple: "arrays",
    in_npz: "npz",
    in_packed_npz: "npz",
    in_idx: "idx",
    in_packed_idx: "idx",
    in_folder: "folder",
    in_parquet: "parquet",
    in_polars: "polars",
}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_gives_the_same_images_labels_and_bucket(form, tmp_path):
    data = form(tmp_path)
    for block_rows in (1, 2, 7):
        found = encoded(data, block_rows=block_rows)
        order = np.argsort(Y, kind="stable") if form is in_folder else np.arange(5)
        assert np.array_equal(found.rows, X[order].reshape(5, 6) / 255)
        assert found.labels.tolist() == np.array(CODES)[order].tolist()
        assert found.broken.sum(axis=0).tolist() == [0, 1]
    source = open_source(data)
    assert source.kind == FORMS[form]
    assert repr(source) == str(source) == f"<{FORMS[form]} source>"


@pytest.mark.parametrize("form", [f for f in FORMS if f not in (in_parquet, in_polars)])
def test_labels_are_not_read_where_the_schema_has_none(form, tmp_path):
    assert encoded(form(tmp_path), UNLABELLED).labels.tolist() == [0] * 5


@pytest.mark.parametrize("form", [in_arrays, in_npz, in_idx, in_folder])
def test_images_need_a_schema_with_an_image(form, tmp_path):
    table = Schema(name="t", columns=(NumberColumn(name="x", min=0, max=1),))
    with pytest.raises(DataError, match="declares no column of type image"):
        open_source(form(tmp_path)).check(table)


@pytest.mark.parametrize("form", [in_arrays, in_npz, in_idx])
def test_another_size_than_declared_is_refused_by_the_header(form, tmp_path):
    turned = ImageColumn(name="img", height=3, width=2)
    with pytest.raises(
        DataError, match="images are 2 x 3 pixels with 1 channel, but column 'img' is declared as 3"
    ):
        open_source(form(tmp_path)).check(Schema(name="t", columns=(turned,)))


def test_colour_arrays_are_read_channels_last():
    schema = Schema(name="t", columns=(ImageColumn(name="img", height=2, width=3, channels=3),))
    images = colour(3)
    found = encoded((images,), schema)
    assert np.array_equal(found.rows, images.transpose(0, 3, 1, 2).reshape(3, 18) / 255)
    with pytest.raises(DataError, match="images are 3 x 2 pixels with 3 channels"):
        open_source((images.transpose(0, 3, 1, 2),)).check(schema)


def test_raw_pixels_of_another_number_are_refused_by_the_header():
    table = pa.table({"img": pa.array([bytes(7)], pa.binary(7)), "digit": ["0"]})
    with pytest.raises(DataError, match=r"holds 7 bytes an image, but images of 2 x 3 .* have 6"):
        open_source(table).check(SCHEMA)


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.list_(pa.uint8())])
def test_a_column_that_cannot_hold_images_is_refused(kind):
    table = pa.table({"img": pa.array([], kind), "digit": pa.array([], pa.string())})
    with pytest.raises(DataError, match="column 'img' is declared image but stored as"):
        open_source(table).check(SCHEMA)


def test_text_files_hold_no_images(tmp_path):
    (tmp_path / "t.csv").write_text("img,digit\nx,1\n")
    with pytest.raises(DataError, match="declared image but stored as text or objects"):
        open_source(tmp_path / "t.csv").check(SCHEMA)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y}, "no array 'x'"),
        ({"x": X[0], "y": Y}, "x must have the shape"),
        ({"x": X.astype(np.int64), "y": Y}, "x must be uint8, or float from 0 to 1, not int64"),
        ({"x": X.astype(object), "y": Y}, "x must be uint8, or float from 0 to 1, not object"),
        ({"x": X, "y": Y[:4]}, "x and y differ in length"),
        ({"x": X, "y": Y[:, None]}, r"y must have the shape \(n,\)"),
        ({"x": X, "y": Y.astype(float)}, "y must .* hold integers, booleans or texts, not float64"),
        ({"x": X, "y": Y.astype(object)}, "y must .* not object"),
        ({"x": X}, r"no labels y, .* as column 'digit'; arrays must be named x .* and y"),
        ({"x": X, "digit": Y}, "no labels y, which the schema declares as column 'digit'"),
        ({"x": X, "y": Y, "digit": Y}, "has column 'digit' more than once"),
        ({"x": X, "y": Y, "person": Y}, "has column 'person', which the schema does not know"),
    ],
)
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "npz"])
def test_arrays_of_the_wrong_form_are_refused_by_the_header(arrays, message, stored, tmp_path):
    if stored:
        np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(DataError, match=message):
        open_source(tmp_path / "t.npz" if stored else arrays).check(SCHEMA)


@pytest.mark.parametrize("data", [(), (X, Y, Y), {}, {"x": X.tolist()}, (None,)])
def test_tuples_and_dicts_of_anything_else_are_refused(data):
    with pytest.raises(DataError, match="read as numpy arrays of images x and labels y"):
        open_source(data)


def test_an_array_stored_by_columns_is_refused_in_a_file_and_read_in_memory(tmp_path):
    by_columns = np.asfortranarray(X)
    assert np.array_equal(encoded((by_columns, Y)).rows, X.reshape(5, 6) / 255)
    np.savez(tmp_path / "t.npz", x=by_columns, y=Y)
    with pytest.raises(DataError, match=r"save it again after numpy\.ascontiguousarray"):
        open_source(tmp_path / "t.npz").check(SCHEMA)


def test_an_array_to_be_ignored_is_not_even_looked_at(tmp_path):
    np.savez(tmp_path / "t.npz", x=X, y=Y, person=np.array([object()], object))
    ignoring = Schema(name="t", columns=SCHEMA.columns, label="digit", ignore=("person",))
    assert encoded(tmp_path / "t.npz", ignoring).labels.tolist() == CODES


def test_a_float_image_with_a_value_outside_is_broken_as_a_whole():
    images = np.repeat([[[0.0, 0.5, 1.0]]], 6, axis=0)
    for at, value in enumerate([0.25, -0.001, 1.001, np.nan, np.inf]):
        images[at, 0, 1] = value
    schema = Schema(name="t", columns=(ImageColumn(name="img", height=1, width=3),))
    for dtype in (np.float32, np.float64, ">f8"):
        found = encoded((images.astype(dtype),), schema)
        assert found.broken[:, 0].tolist() == [False, True, True, True, True, False]
        assert found.rows[[0, 5]].tolist() == [[0, 64 / 255, 1], [0, 128 / 255, 1]]
        assert not found.rows[1:5].any()


def test_every_type_of_label_is_read_by_its_text():
    texts = ["2", "0", "1", "1", "7"]
    kinds = ["int8", ">i4", "uint64", "U3", ">U2", "S2"]
    for labels in (np.array(texts).astype(kind) for kind in kinds):
        assert encoded((X, labels)).labels.tolist() == CODES, labels.dtype


def test_label_text_that_is_no_text_falls_into_the_bucket(tmp_path):
    impossible = np.array([0x110000, 0xD800, 0xFFFFFFFF, 0, ord("2")], np.uint32).view("U1")
    not_utf8 = np.array([b"\xff", b"\xc3", b"", b"\0", b"2"])
    for labels in (impossible, not_utf8):
        np.savez(tmp_path / "t.npz", x=X, y=labels)
        for data in ((X, labels), tmp_path / "t.npz"):
            assert encoded(data).labels.tolist() == [3, 3, 3, 3, 2]


def test_no_images_are_a_table_of_no_rows(tmp_path):
    np.savez(tmp_path / "t.npz", x=X[:0], y=Y[:0])
    write_idx(tmp_path / "images-idx3-ubyte", X[:0])
    write_idx(tmp_path / "labels-idx1-ubyte", Y[:0].astype(np.uint8))
    (tmp_path / "folder" / "cat").mkdir(parents=True)
    (tmp_path / "bare").mkdir()
    names = ("t.npz", "images-idx3-ubyte", "folder", "bare")
    for data in ((X[:0], Y[:0]), *(tmp_path / name for name in names)):
        assert len(encoded(data).rows) == 0


def refuses(path):
    with pytest.raises(DataError, match="cannot be read; it is damaged, cut short") as caught:
        open_source(path).check(SCHEMA)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("form", [in_npz, in_packed_npz, in_idx, in_packed_idx])
def test_a_file_cut_short_or_damaged_is_refused_before_any_row(form, tmp_path):
    path = Path(form(tmp_path))
    content = path.read_bytes()
    for damaged in (content[:-3], content[: len(content) // 2], content[:2], b"", b"x" * 99):
        path.write_bytes(damaged)
        refuses(path)
    if path.suffix == ".npz":
        at = content.index(X.tobytes()) if form is in_npz else content.index(b"x.npy") + 120
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        refuses(path)


def test_an_archive_with_a_member_that_is_no_array_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", b"canary" * 50)
    refuses(tmp_path / "t.npz")


def npz_with_head(path, head):
    """An archive whose ``x`` has a valid checksum, this head and no image."""
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head))
    np.savez(path, y=Y[:0])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", start + head)
    return path


@pytest.mark.parametrize(
    "head",
    [
        b"(" * 5000,
        b"-" * 9000 + b"1",
        b"{{}: 1}",
        b"{1: 2, 'a': 3}",
        b"  1\n 2",
        b"{'descr': (), 'fortran_order': False, 'shape': (0, 2, 3)}",
    ],
    ids=["brackets", "signs", "unhashable", "unsortable", "indented", "no type"],
)
def test_a_head_that_numpy_stumbles_over_is_damage(head, tmp_path):
    refuses(npz_with_head(tmp_path / "t.npz", head))


@pytest.mark.parametrize("size", [(2**20, 2**20), (2**15, 2**16), (-2, 3), (-1, 1)])
def test_a_size_that_no_cell_can_hold_is_compared_with_the_schema(size, tmp_path):
    head = repr({"descr": "|u1", "fortran_order": False, "shape": (0, *size)}).encode()
    path = npz_with_head(tmp_path / "t.npz", head)
    with pytest.raises(DataError, match=f"images are {size[0]} x {size[1]} pixels"):
        open_source(path).check(SCHEMA)


def test_idx_labels_that_are_damaged_are_refused_and_missing_ones_missed(tmp_path):
    path = in_idx(tmp_path)
    labels = tmp_path / "t-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    refuses(path)
    labels.unlink()
    with pytest.raises(DataError, match=r"no labels y, .*; .* idx files of labels stand beside"):
        open_source(path).check(SCHEMA)
    assert len(encoded(path, UNLABELLED).rows) == 5


def test_files_of_a_folder_are_rows_whatever_they_hold(tmp_path):
    image = file_of(X[0])
    for name, content in {
        "0/a.png": image,
        "0/b.JPG": b"canary",
        "0/deep/er/c.png": image,
        "1/d.jpeg": file_of(grey(1, 3, 3)[0]),
        "undeclared/e.png": image,
        "f.png": image,
        "0/.hidden.png": image,
        ".cache/g.png": image,
        "0/notes.txt": b"",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "gone.png").symlink_to("nowhere")
    os.mkfifo(tmp_path / "2" / "pipe.png")
    (tmp_path / "2" / "folder.png").mkdir()
    found = encoded(tmp_path)
    assert found.labels.tolist() == [3, 0, 0, 0, 1, 2, 2, 3]
    assert found.broken[:, 0].tolist() == [False, False, True, False, True, True, True, False]
    assert not found.rows[found.broken[:, 0]].any()


def test_a_file_too_large_to_be_an_image_is_broken(tmp_path):
    (tmp_path / "0").mkdir()
    with (tmp_path / "0" / "a.png").open("wb") as file:
        file.truncate(2**24 + 1)
    assert encoded(tmp_path).broken.tolist() == [[True, False]]


def test_a_folder_name_that_is_no_text_is_an_undeclared_class(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    (Path(os.fsdecode(folder)) / "a.png").write_bytes(file_of(X[0]))
    assert encoded(tmp_path).labels.tolist() == [3]


def test_image_files_need_pillow_before_anything_is_read(tmp_path, monkeypatch):
    def missing():
        raise DataError("pip install 'dpgist[images]'")

    folder, parquet, arrays = in_folder(tmp_path), in_parquet(tmp_path), in_npz(tmp_path)
    monkeypatch.setattr("dpgist.sources.header.pillow", missing)
    for data in (folder, parquet):
        with pytest.raises(DataError, match="pip install"):
            open_source(data).check(SCHEMA)
    open_source(arrays).check(SCHEMA)


def test_an_image_table_goes_through_the_curator(tmp_path):
    import dpgist as dg

    budget = dg.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    ledger = dg.Ledger.in_memory(name="t", budget=budget, max_rows_per_person=1)
    method = dg.Merf(joint_frequencies=8, pair_frequencies=8)
    gist = dg.release(in_npz(tmp_path), SCHEMA, method, budget, ledger=ledger)
    assert (gist.table_kind, gist.released.n_rows) == ("npz", 5)


DATA = Path(os.environ.get("DPGIST_DATA", Path(__file__).parents[3] / "shared" / "data"))
DIGITS = Schema(
    name="mnist",
    label="y",
    columns=(
        ImageColumn(name="x", height=28, width=28),
        CategoryColumn(name="y", values=tuple("0123456789")),
    ),
)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "ones", "mean"), [("mnist", 1135, 0.1325), ("fashion_mnist", 1000, 0.2868)]
)
def test_the_real_image_sets_are_read_whole(name, ones, mean):
    path = DATA / name / "t10k-images-idx3-ubyte.gz"
    if not path.exists():
        pytest.skip(f"{path} is absent; set DPGIST_DATA to the folder of data sets")
    found = encoded(path, DIGITS, block_rows=1024)
    assert found.rows.shape == (10_000, 784)
    assert not found.broken.any()
    assert (found.labels == 1).sum() == ones
    assert abs(found.rows.mean() - mean) < 1e-3
