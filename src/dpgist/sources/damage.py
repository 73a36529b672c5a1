"""One way of saying that a file cannot be read."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from dpgist.errors import DataError

_COMPLAINTS = (
    pa.ArrowException,
    OSError,
    EOFError,
    ValueError,
    zlib.error,
    zipfile.BadZipFile,
    NotImplementedError,  # a zip file packed in a way Python does not know
    RuntimeError,  # a zip file behind a password; RecursionError is one, too
    # numpy reads the head of an array as Python, which a damaged one is not
    tokenize.TokenError,
    SyntaxError,
    OverflowError,
    MemoryError,
)


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn the complaints of the libraries that read files, which may quote them, into one.

    Privacy: the message names the file and nothing in it.
    """
    try:
        yield
    except _COMPLAINTS:
        raise DataError(
            f"{path} cannot be read; it is damaged, cut short, of another format than its name "
            "says, or not yours to open"
        ) from None
