"""One file per artefact: safetensors with a JSON header, checked byte for byte; never a pickle."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from dpgist.errors import ArtefactError

FORMAT = 1
MAX_HEADER_BYTES = 16 * 2**20
MAX_FILE_BYTES = 4 * 2**30
_DTYPES = frozenset({"I8", "I16", "I32", "I64", "U8", "F32", "F64"})
_DIGEST_LENGTH = 64
_NO_DIGEST = "0" * _DIGEST_LENGTH
_CHUNK = 2**20
_SQLITE = b"SQLite format 3"
_LOOKALIKES = {
    b"PK\x03\x04": "a zip archive (torch.save writes those)",
    b"PAR1": "a parquet file",
    b"SQLite f": "an SQLite file (a ledger?)",
    b"\x1f\x8b": "a gzip file",
    b"\x93NUMPY": "a numpy file",
}

Arrays = Mapping[str, npt.NDArray[Any]]


def write_artefact(
    path: str | os.PathLike[str],
    kind: str,
    payload: Mapping[str, Any],
    tensors: Arrays,
    *,
    force: bool = False,
) -> None:
    """Write header and tensors as one file that appears whole or not at all.

    The SHA-256 in the header covers every byte of the file, its own 64 digits read as zeros.

    Privacy: writes only what it is given; callers give released or public values.
    """
    content = _serialise(kind, payload, tensors)
    with new_file(path, force=force) as file:
        file.write(content)


def read_artefact(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read an artefact of the given kind, or raise :class:`ArtefactError`.

    Lengths are checked against the file before anything is allocated, and the checksum before
    any tensor is made.

    Privacy: reads an artefact, which is already released.
    """
    path = Path(path)
    head = _read_head(path)
    if head["kind"] != kind:
        raise ArtefactError(f"{path}: holds a {head['kind']}, a {kind} was expected")
    try:
        tensors = load(path.read_bytes())
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ArtefactError(f"{path}: the tensors contradict the header") from error
    return head["payload"], tensors


def artefact_kind(path: str | os.PathLike[str]) -> str:
    """Say whether a file holds a "gist" or a "model", after checking its checksum.

    Privacy: reads an artefact, which is already released.
    """
    return str(_read_head(Path(path))["kind"])


def smallest_integers(values: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The same integers in the smallest signed type that holds them.

    Privacy: a function of released values.
    """
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for dtype in (np.int8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return np.ascontiguousarray(values, dtype=dtype)
    return np.ascontiguousarray(values, dtype=np.int64)


def refuse_bad_output(
    path: str | os.PathLike[str], *, force: bool = False, inputs: Iterable[Path | None] = ()
) -> None:
    """Raise before anything is spent if ``path`` could not, or must not, be written afterwards.

    Not even ``force`` overwrites ``inputs``, what the same command reads, or a ledger: both hold
    what no repetition brings back. Nor may a folder of inputs get a new file, which the next
    command would take for a part of them.

    Privacy: looks at the output folder and at names, and at an existing output's first bytes.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
    _refuse_what_is_read(path, inputs)
    _refuse_ledger(path)
    if path.exists() and not force:
        raise FileExistsError(
            errno.EEXIST, "exists already; use another name or --force", str(path)
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder; create it first", str(path.parent))
    # Asking the file system is the only test that also holds for root and read-only mounts.
    probe, descriptor = _temporary_file(path)
    os.close(descriptor)
    probe.unlink()


def _refuse_what_is_read(path: Path, inputs: Iterable[Path | None]) -> None:
    for given in inputs:
        if given is None:
            continue
        if given.is_dir() and path.resolve().is_relative_to(given.resolve()):
            what = "is or lies in a folder that this very command reads; write to another"
            raise FileExistsError(errno.EEXIST, what, str(path))
        if path.exists() and given.exists() and given.samefile(path):
            what = "is read by this very command; write to another file"
            raise FileExistsError(errno.EEXIST, what, str(path))


def _refuse_ledger(path: Path) -> None:
    if not path.is_file():
        return
    with path.open("rb") as file:
        ledger = file.read(len(_SQLITE)) == _SQLITE
    if ledger:
        what = "is an SQLite file (a ledger?), which is never overwritten; use another name"
        raise FileExistsError(errno.EEXIST, what, str(path))


@contextmanager
def new_file(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[BinaryIO]:
    """Give a file to write; it gets its name only when complete and on disk.

    Privacy: moves bytes; looks at none.
    """
    path = Path(path)
    refuse_bad_output(path, force=force)
    temporary, descriptor = _temporary_file(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _publish(temporary, path, force=force)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    _sync_folder(path.parent)


@dataclass(frozen=True, kw_only=True)
class ResultFolder:
    """A folder for all that one command makes: artefacts, a privacy card and figures.

    Privacy: names only.
    """

    folder: Path
    force: bool = False

    @property
    def card_text(self) -> Path:
        """The card for people."""
        return self.folder / "card.txt"

    @property
    def card_json(self) -> Path:
        """The card for programs."""
        return self.folder / "card.json"

    @property
    def ledger(self) -> Path:
        """The ledger that the command makes where none is named."""
        return self.folder / "ledger.sqlite"

    def plot(self, name: str) -> Path:
        """A figure's file."""
        return self.folder / "plots" / f"{name}.png"

    def files(self) -> list[Path]:
        """Every file, in the order of writing."""
        raise NotImplementedError

    def reports(self) -> list[Path]:
        """What ``dpgist report`` has said of the results."""
        return [self.folder / "report.html", self.folder / "report.json"]

    def prepare(self, *, inputs: Sequence[Path | None] = ()) -> None:
        """Make the folder and refuse, before anything is spent, what could not be written.

        Privacy: looks at the output folder, and at the names of what the command reads.
        """
        _refuse_what_is_read(self.folder, inputs)
        (self.folder / "plots").mkdir(parents=True, exist_ok=True)
        for path in (*self.files(), *self.reports()):
            refuse_bad_output(path, force=self.force, inputs=inputs)

    def discard_reports(self) -> None:
        """Take back what was said of results that others have replaced."""
        for path in self.reports():
            path.unlink(missing_ok=True)

    def discard_if_empty(self) -> None:
        """Take back the folders, unless something was written into them."""
        for folder in (self.folder / "plots", self.folder):
            with suppress(OSError):  # not empty
                folder.rmdir()


def _temporary_file(path: Path) -> tuple[Path, int]:
    """A new file beside a path, and its descriptor."""
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        return temporary, os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except OSError as error:
        what = f"no file can be written in this folder ({error.strerror})"
        raise OSError(error.errno, what, str(path.parent)) from None


def _publish(temporary: Path, path: Path, *, force: bool) -> None:
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)  # unlike a rename, a link never overwrites
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: claim the name, then rename over it
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.replace(temporary, path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _serialise(kind: str, payload: Mapping[str, Any], tensors: Arrays) -> bytes:
    head = {"format": FORMAT, "kind": kind, "payload": payload, "sha256": _NO_DIGEST}
    text = json.dumps(head, sort_keys=True, separators=(",", ":"))
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    content = bytes(save(arrays, metadata={"dpgist": text}))
    digest = hashlib.sha256(content).hexdigest()
    # "sha256" sorts last, so its digits are the last run of zeros in the header.
    end = 8 + int.from_bytes(content[:8], "little")
    if end - 8 > MAX_HEADER_BYTES or len(content) > MAX_FILE_BYTES:
        raise ArtefactError("this artefact is larger than the format allows")
    start = _digest_place(content[:end], _NO_DIGEST)
    return content[:start] + digest.encode() + content[start + _DIGEST_LENGTH :]


def _digest_place(head: bytes, digest: str) -> int:
    place = head.rfind(f'\\"sha256\\":\\"{digest}\\"'.encode())
    if place < 0:
        raise ArtefactError("the checksum is not where it belongs")
    return place + len('\\"sha256\\":\\"')


def _read_head(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    with path.open("rb") as file:
        raw = _raw_head(file, path, size)
        head = _parse_head(raw, path)
        if not _digest_matches(file, raw, head["sha256"]):
            raise ArtefactError(f"{path}: the checksum does not match; the file was altered")
    return head


def _raw_head(file: BinaryIO, path: Path, size: int) -> bytes:
    start = file.read(8)
    length = int.from_bytes(start, "little")
    for magic, what in _LOOKALIKES.items():
        if start.startswith(magic):
            raise ArtefactError(f"{path}: this is {what}, not a dpgist file")
    if start[:1] == b"\x80" and length > size:
        raise ArtefactError(f"{path}: this looks like a pickle; dpgist never loads one")
    if size > MAX_FILE_BYTES:
        raise ArtefactError(f"{path}: {size} bytes are more than a dpgist file may have")
    if len(start) < 8 or not 0 < length <= min(size - 8, MAX_HEADER_BYTES):
        raise ArtefactError(f"{path}: truncated, or not a dpgist file")
    return start + file.read(length)


def _parse_head(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        table = json.loads(raw[8:])
        head = json.loads(table.pop("__metadata__")["dpgist"])
        dtypes = {entry["dtype"] for entry in table.values()}
        good = isinstance(head["payload"], dict) and isinstance(head["sha256"], str)
        number = head["format"]
        kind = head["kind"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ArtefactError(f"{path}: the header is damaged, or not a dpgist file") from None
    if number != FORMAT:
        raise ArtefactError(f"{path}: format {number!r:.20} is unknown to this version")
    if not (good and isinstance(kind, str) and dtypes <= _DTYPES):
        raise ArtefactError(f"{path}: the header is damaged, or not a dpgist file")
    return dict(head)


def _digest_matches(file: BinaryIO, raw: bytes, digest: str) -> bool:
    if len(digest) != _DIGEST_LENGTH or not digest.isascii():
        return False
    try:
        place = _digest_place(raw, digest)
    except ArtefactError:
        return False
    total = hashlib.sha256(raw[:place] + _NO_DIGEST.encode() + raw[place + _DIGEST_LENGTH :])
    while chunk := file.read(_CHUNK):
        total.update(chunk)
    return total.hexdigest() == digest
