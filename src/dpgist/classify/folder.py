"""The folder that ``dpgist classify fit`` writes: maps, card, figure, perhaps a ledger."""

from __future__ import annotations

from pathlib import Path

from dpgist.artefact import ResultFolder
from dpgist.classify.maps import Maps
from dpgist.errors import ArtefactError, DataError
from dpgist.schema import Schema


class ClassifierFiles(ResultFolder):
    """Names of everything that fitting writes.

    Privacy: names only.
    """

    @property
    def maps(self) -> Path:
        """The fitted classifier."""
        return self.folder / "classifier.maps"

    def files(self) -> list[Path]:
        return [self.maps, self.card_text, self.card_json, self.plot("filters")]


def classifier_file(path: Path) -> Path:
    """The file of the classifier in a folder that fitting wrote; a file is taken as it is.

    Privacy: names only.
    """
    return ClassifierFiles(folder=path).maps if path.is_dir() else path


def read_classifier(path: Path) -> tuple[Maps, Schema]:
    """The classifier in a folder that fitting wrote, or in a file, and its schema.

    Privacy: reads an artefact, which is already released.
    """
    file = classifier_file(path)
    if path.is_dir() and not file.is_file():
        raise DataError(
            f"there is no {file.name} in {path}; name a folder that dpgist classify fit wrote"
        )
    if not file.is_file():
        raise DataError(f"there is no classifier {file}; check the path")
    maps = Maps.load(file)
    if maps.schema is None:
        raise ArtefactError(
            f"{file}: this classifier was fitted to arrays and has no schema, so its inputs have no"
            " names; use it from Python"
        )
    return maps, maps.schema
