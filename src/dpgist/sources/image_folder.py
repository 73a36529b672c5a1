"""A folder of PNG and JPEG files: a sub-folder for each class, a file for each row."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from dpgist.cells import cell_text
from dpgist.sources.damage import damage_reported
from dpgist.sources.header import Header
from dpgist.sources.images import IMAGES, LABELS

_BATCH_FILES = 256
_MOST_BYTES = 2**24
_ENDINGS = (".png", ".jpg", ".jpeg")
_FILE = pa.struct({"bytes": pa.large_binary()})


@dataclass(frozen=True, kw_only=True)
class ImageFolder:
    """Files that end in .png, .jpg or .jpeg, labelled by the first folder on the way to them.

    A file is a row whatever it holds; one that cannot be read, or is larger than 16 MB, is a
    broken one. Names that start with a dot are skipped, other files and linked folders too.

    Privacy: holds a path to private images; which folders exist decides nothing.
    """

    path: Path

    def header(self) -> Header:
        """Always the same two columns. Privacy: reads no file; every folder must be open to us."""
        with damage_reported(self.path):
            for _ in os.walk(self.path, onerror=_refuse):
                pass
        return Header(names=(IMAGES, LABELS), types=(_FILE, pa.large_string()))

    def tables(self, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Every file once, by sorted names. Privacy: private images, for the curator."""
        files = self._files()
        while batch := list(islice(files, _BATCH_FILES)):
            cells = {
                IMAGES: pa.array([{"bytes": _content(path)} for path, _ in batch], _FILE),
                LABELS: pa.array([cell_text(label) for _, label in batch], pa.large_string()),
            }
            yield pa.table({name: cells[name] for name in columns})

    def _files(self) -> Iterator[tuple[Path, str | None]]:
        for folder, folders, names in os.walk(self.path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            way = Path(folder).relative_to(self.path).parts
            for name in sorted(names):
                if name.lower().endswith(_ENDINGS) and not name.startswith("."):
                    yield Path(folder, name), way[0] if way else None


def _content(path: Path) -> bytes | None:
    try:
        found = path.stat()
        fits = stat.S_ISREG(found.st_mode) and found.st_size <= _MOST_BYTES
        return path.read_bytes() if fits else None
    except OSError:
        return None


def _refuse(error: OSError) -> None:
    raise error
