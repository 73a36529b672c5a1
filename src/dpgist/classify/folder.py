"""The folder that ``dpgist classify fit`` writes: maps, card, figure, perhaps a ledger."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpgist.artefact import refuse_bad_output
from dpgist.classify.maps import Maps
from dpgist.errors import ArtefactError, DataError
from dpgist.schema import Schema


@dataclass(frozen=True, kw_only=True)
class ClassifierFiles:
    """Names of everything that fitting writes.

    Privacy: names only.
    """

    folder: Path
    force: bool = False

    @staticmethod
    def prepare(folder: Path, *, force: bool) -> ClassifierFiles:
        """Make the folder and refuse, before anything is spent, what could not be written.

        Privacy: looks at the output folder only.
        """
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plots").mkdir(exist_ok=True)
        files = ClassifierFiles(folder=folder, force=force)
        for path in (files.maps, files.card_text, files.card_json, files.plot("filters")):
            refuse_bad_output(path, force=force)
        return files

    def discard_if_empty(self) -> None:
        """Take back the folders, unless something was written into them."""
        for folder in (self.folder / "plots", self.folder):
            with suppress(OSError):  # not empty
                folder.rmdir()

    @property
    def maps(self) -> Path:
        """The fitted classifier."""
        return self.folder / "classifier.maps"

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
        """The ledger that fitting makes where none is named."""
        return self.folder / "ledger.sqlite"

    def plot(self, name: str) -> Path:
        """A figure's file."""
        return self.folder / "plots" / f"{name}.png"


def read_classifier(path: Path) -> tuple[Maps, Schema]:
    """The classifier in a folder that fitting wrote, or in a file, and its schema.

    Privacy: reads an artefact, which is already released.
    """
    if path.is_dir():
        path = ClassifierFiles(folder=path).maps
        if not path.is_file():
            raise DataError(
                f"there is no {path.name} in {path.parent}; name a folder that dpgist classify fit"
                " wrote"
            )
    if not path.is_file():
        raise DataError(f"there is no classifier {path}; check the path")
    maps = Maps.load(path)
    if maps.schema is None:
        raise ArtefactError(
            f"{path}: this classifier was fitted to arrays and has no schema, so its inputs have no"
            " names; use it from Python"
        )
    return maps, maps.schema
