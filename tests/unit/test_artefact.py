"""Artefact files: whole, checked, and nothing but data."""

import errno
import io
import json
import os
import pickle
import sqlite3
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from dpgist.artefact import (
    artefact_kind,
    new_file,
    read_artefact,
    refuse_bad_output,
    smallest_integers,
    write_artefact,
)
from dpgist.errors import ArtefactError
from dpgist.outputs import Outputs


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "some.gist"
    tensors = {"a": np.arange(6, dtype=np.int8).reshape(2, 3), "b": np.ones(2)}
    write_artefact(path, "gist", {"numbers": [1, 0.1, None], "word": "grüße"}, tensors)
    return path


def test_what_was_written_is_what_is_read(file):
    payload, tensors = read_artefact(file, "gist")
    assert payload == {"numbers": [1, 0.1, None], "word": "grüße"}
    assert tensors["a"].dtype == np.int8
    assert tensors["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tensors["b"].tolist() == [1.0, 1.0]
    assert artefact_kind(file) == "gist"


def test_a_payload_that_quotes_a_checksum_still_round_trips(tmp_path):
    trick = {"x": '"sha256":"' + "0" * 64 + '"'}
    write_artefact(tmp_path / "x", "gist", trick, {"a": np.zeros(1)})
    assert read_artefact(tmp_path / "x", "gist")[0] == trick


def test_every_flipped_bit_pattern_of_every_byte_is_noticed(file):
    good = file.read_bytes()
    for place in range(len(good)):
        for mask in (0x01, 0x20, 0x80, 0xFF):
            file.write_bytes(good[:place] + bytes([good[place] ^ mask]) + good[place + 1 :])
            with pytest.raises(ArtefactError):
                read_artefact(file, "gist")


def test_every_truncation_and_any_extra_byte_is_noticed(file):
    good = file.read_bytes()
    for length in range(len(good)):
        file.write_bytes(good[:length])
        with pytest.raises(ArtefactError):
            read_artefact(file, "gist")
    file.write_bytes(good + b"\0")
    with pytest.raises(ArtefactError):
        read_artefact(file, "gist")


def test_another_kind_is_named(file):
    with pytest.raises(ArtefactError, match="holds a gist, a model was expected"):
        read_artefact(file, "model")


def test_a_pickle_in_disguise_runs_nothing(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    path = tmp_path / "x.gist"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ArtefactError, match="pickle"):
        read_artefact(path, "gist")
    assert not (tmp_path / "sprung").exists()


def test_a_zip_archive_is_named_as_such(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", b"0" * 10**6)
    (tmp_path / "x.gist").write_bytes(buffer.getvalue())
    with pytest.raises(ArtefactError, match="zip"):
        read_artefact(tmp_path / "x.gist", "gist")


def _header(length, text=b"{}"):
    return struct.pack("<Q", length) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        _header(2**62),
        _header(2**40) + b"x" * 1000,
        _header(0),
        _header(2),
        _header(8, b'{"a":{}}'),
        _header(10**5, b"[" * 10**5),
        _header(30, b'{"__metadata__":{"dpgist":"1"}}'),
    ],
    ids=lambda content: repr(content[:12]),
)
def test_broken_headers_are_refused_in_little_memory(tmp_path, content):
    path = tmp_path / "x.gist"
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ArtefactError):
        read_artefact(path, "gist")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


def test_a_tensor_larger_than_the_file_is_refused_without_allocating_it(tmp_path):
    head = {"format": 1, "kind": "gist", "payload": {}, "sha256": "0" * 64}
    table = {
        "__metadata__": {"dpgist": json.dumps(head)},
        "a": {"dtype": "I8", "shape": [2**50], "data_offsets": [0, 2**50]},
    }
    text = json.dumps(table).encode()
    (tmp_path / "x.gist").write_bytes(_header(len(text), text))
    with pytest.raises(ArtefactError):
        read_artefact(tmp_path / "x.gist", "gist")


def test_an_unknown_format_number_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("dpgist.artefact.FORMAT", 2)
    write_artefact(tmp_path / "x", "gist", {}, {"a": np.zeros(1)})
    monkeypatch.undo()
    with pytest.raises(ArtefactError, match="format 2 is unknown"):
        read_artefact(tmp_path / "x", "gist")


def test_an_existing_file_is_kept_unless_forced(file):
    before = file.read_bytes()
    with pytest.raises(FileExistsError):
        write_artefact(file, "gist", {}, {"a": np.zeros(1)})
    assert file.read_bytes() == before
    write_artefact(file, "gist", {"new": 1}, {"a": np.zeros(1)}, force=True)
    assert read_artefact(file, "gist")[0] == {"new": 1}


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    path = tmp_path / "x"

    def write_late():
        with new_file(path) as file:
            file.write(b"mine")
            path.write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        write_late()
    assert path.read_bytes() == b"theirs"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    def fail_halfway():
        with new_file(tmp_path / "x") as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert list(tmp_path.iterdir()) == []


def test_outputs_that_cannot_be_written_are_refused_beforehand(tmp_path):
    with pytest.raises(FileNotFoundError):
        refuse_bad_output(tmp_path / "nowhere" / "x")
    with pytest.raises(IsADirectoryError):
        refuse_bad_output(tmp_path, force=True)
    refuse_bad_output(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_what_a_command_reads_is_not_overwritten_even_by_force(tmp_path):
    (tmp_path / "data").mkdir()
    own, part = tmp_path / "own.csv", tmp_path / "data" / "part.parquet"
    for path in (own, part):
        path.write_text("precious")
    (tmp_path / "link.csv").symlink_to(own)
    for out, given in ((own, own), (tmp_path / "link.csv", own), (part, tmp_path / "data")):
        with pytest.raises(FileExistsError, match=r"(is|a folder that) .*this very command"):
            refuse_bad_output(out, force=True, inputs=[None, tmp_path / "nowhere", given])
    refuse_bad_output(own, force=True, inputs=[part, tmp_path / "data"])


def test_a_folder_that_a_command_reads_gets_no_new_file(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    roundabout = tmp_path / "x" / ".." / "data" / "new"
    for out in (data / "new.parquet", data / "deeper" / "new", roundabout):
        with pytest.raises(FileExistsError, match="a folder that this very command reads"):
            refuse_bad_output(out, inputs=[data])
    for folder in (data, data / "results"):
        with pytest.raises(FileExistsError, match="a folder that this very command reads"):
            Outputs(folder=folder).prepare(inputs=[data])
    assert list(data.iterdir()) == []
    refuse_bad_output(tmp_path / "data.parquet", inputs=[data])


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match="no file can be written in this folder") as caught:
        refuse_bad_output(tmp_path / "x")
    assert caught.value.filename == str(tmp_path)


def test_an_sqlite_file_is_not_overwritten_even_by_force(tmp_path):
    ledger = tmp_path / "some.ledger"
    sqlite3.connect(ledger).execute("CREATE TABLE lines (a)").connection.close()
    before = ledger.read_bytes()
    with pytest.raises(FileExistsError, match="never overwritten"), new_file(ledger, force=True):
        pass
    assert ledger.read_bytes() == before


@pytest.mark.parametrize(
    ("top", "dtype"), [(127, "int8"), (128, "int16"), (2**15, "int32"), (2**31, "int64")]
)
def test_integers_are_stored_in_the_smallest_type_that_holds_them(top, dtype):
    values = np.array([-1, top], dtype=np.int64)
    assert smallest_integers(values).dtype == dtype
    assert smallest_integers(values).tolist() == [-1, top]
