"""Arrays in files: ``.npz`` archives and the idx format of MNIST, read piece by piece.

Nothing is unpickled: an array of objects is refused by its type.
"""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from dpgist.errors import DataError
from dpgist.sources.arrays import Array, Form, ImageArrays
from dpgist.sources.damage import damage_reported
from dpgist.sources.images import IMAGES, LABELS

_SKIM_BYTES = 2**20
_NPY_HEADERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
_IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_IDX_IMAGES = re.compile(r"images([-.])idx3(-ubyte)?(\.gz)?$")


@dataclass(frozen=True, kw_only=True, repr=False)
class StoredRows:
    """An array in a file, perhaps packed: a head that tells its form, then the rows.

    Privacy: holds a path to private rows; for a source alone.
    """

    path: Path
    opened: Callable[[], AbstractContextManager[IO[bytes]]]
    read_head: Callable[[IO[bytes]], Form]

    def form(self) -> Form:
        """Type and shape. Privacy: reads no row."""
        with damage_reported(self.path), self.opened() as file:
            return self.read_head(file)

    def check_whole(self) -> None:
        """Skim the file for its length and checksum. Privacy: looks at no row."""
        with damage_reported(self.path), self.opened() as file:
            form = self.read_head(file)
            length = sum(map(len, iter(lambda: file.read(_SKIM_BYTES), b"")))
            if length != form.shape[0] * form.row_bytes:
                raise ValueError("the head promises another length")

    def chunks(self, n_rows: int) -> Iterator[Array]:
        """Every row once. Privacy: private rows, for the curator."""
        with damage_reported(self.path), self.opened() as file:
            form = self.read_head(file)
            for start in range(0, form.shape[0], n_rows):
                size = min(n_rows, form.shape[0] - start)
                content = file.read(size * form.row_bytes)
                yield np.frombuffer(content, form.dtype).reshape(size, *form.shape[1:])


def npz_arrays(path: Path) -> ImageArrays:
    """A reader for the arrays of an ``.npz`` file.

    Privacy: reads names, no array.
    """
    with damage_reported(path), zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
    return ImageArrays(arrays={name[: -len(".npy")]: _member(path, name) for name in members})


def is_idx(path: Path) -> bool:
    """Whether a file's name says that it holds images in the idx format. Privacy: a name only."""
    return _IDX_IMAGES.search(path.name) is not None


def idx_arrays(path: Path) -> ImageArrays:
    """A reader for images in an idx file, and for the labels in the file of the matching name.

    Privacy: reads names, no array.
    """
    labels = path.with_name(_IDX_IMAGES.sub(r"labels\1idx1\2\3", path.name))
    found = {IMAGES: path, **({LABELS: labels} if labels.exists() else {})}
    return ImageArrays(arrays={name: _idx_rows(file) for name, file in found.items()})


def _member(path: Path, name: str) -> StoredRows:
    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(path) as archive, archive.open(name) as file:
            yield file

    return StoredRows(path=path, opened=opened, read_head=_npy_form)


def _npy_form(file: IO[bytes]) -> Form:
    version = npy.read_magic(file)
    if version not in _NPY_HEADERS:
        raise ValueError("an array format of another version")
    try:
        shape, by_columns, dtype = _NPY_HEADERS[version](file)
    except (IndexError, TypeError):  # Python, but not what numpy takes it for
        raise ValueError("no head of an array") from None
    if by_columns and len(shape) > 1:
        raise DataError(
            "an array is stored column by column, so it cannot be read row by row; "
            "save it again after numpy.ascontiguousarray"
        )
    return Form(dtype=dtype, shape=shape or (1,))


def _idx_rows(path: Path) -> StoredRows:
    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file  # type: ignore[misc]

    return StoredRows(path=path, opened=opened, read_head=_idx_form)


def _idx_form(file: IO[bytes]) -> Form:
    head = file.read(4)
    if len(head) != 4 or head[:2] != b"\0\0" or head[2] not in _IDX_TYPES or not head[3]:
        raise ValueError("no idx file")
    shape = np.frombuffer(file.read(4 * head[3]), ">u4", count=head[3]).tolist()
    return Form(dtype=np.dtype(_IDX_TYPES[head[2]]), shape=tuple(shape))
