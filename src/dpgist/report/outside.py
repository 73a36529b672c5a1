"""What a report says by comparing with real rows: all of it outside the guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgist import workflow
from dpgist.errors import DataError
from dpgist.evaluate.compare import Comparison, compare_tables
from dpgist.evaluate.groups import FEWEST_ROWS
from dpgist.evaluate.image_rows import ImageRows, read_images
from dpgist.evaluate.scores import Evaluation
from dpgist.evaluate.steps import Progress
from dpgist.evaluate.table import class_names, shared_schema
from dpgist.report.folder import Folder
from dpgist.schema import Schema
from dpgist.sources import open_source

MeanImages = Mapping[str, tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]


@dataclass(frozen=True, kw_only=True)
class Against:
    """The real rows a report compares with, and how.

    ``real`` are rows that were not released; ``train`` the released ones, for the reference
    "real". Each is a table or a path. ``groups`` are columns whose values are scored one by one.
    ``references`` makes the references "independent" and "noise" too; ``inception`` is a file of
    Inception weights, for images.

    Privacy: holds private rows or their paths; what is made of them is outside the guarantee.
    """

    real: Any
    train: Any = None
    groups: Sequence[str] = ()
    classifiers: str = "three"
    references: bool = True
    inception: Path | None = None
    seed: int = 0
    progress: Progress | None = None

    def __repr__(self) -> str:
        return "<real rows to compare with>"


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Scores and comparisons with real rows; ``means`` are mean images, real and synthetic.

    Privacy: computed from real rows without noise; outside the guarantee.
    """

    evaluation: Evaluation
    comparison: Comparison | None
    means: MeanImages
    look: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; images stay out. Privacy: as private as the real rows."""
        return {
            "unprotected_look": self.look,
            "evaluation": self.evaluation.to_dict(),
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }

    def column_distances(self) -> list[tuple[str, float]]:
        """Total variation of every single column, the largest first."""
        if self.comparison is None:
            return []
        pairs = [(n, self.comparison.two_way[i][i]) for i, n in enumerate(self.comparison.names)]
        return sorted(pairs, key=lambda pair: -pair[1])


def look_outside(found: Folder, against: Against) -> Outside:
    """Score and compare the folder's synthetic rows; the ledger notes the look before.

    Privacy: reads real rows without any protection; outside the guarantee.
    """
    if found.rows is None:
        raise DataError(f"there are no synthetic rows in {found.path} to compare with real ones")
    gist = found.gist
    evaluation = workflow.evaluate(
        against.real,
        found.rows_path,
        gist.schema,
        train=against.train,
        gist=gist if against.references else None,
        groups=against.groups,
        classifiers=against.classifiers,
        ledger=found.ledger,
        inception=against.inception,
        progress=against.progress,
        seed=against.seed,
    )
    look = _noted(found)
    if gist.schema.image is not None:
        means = _mean_images(against.real, found.rows_path, gist.schema)
        return Outside(evaluation=evaluation, comparison=None, means=means, look=look)
    try:
        comparison = _compared(against.real, found.rows_path, gist.schema)
    except DataError as error:  # one of the tables has no row
        return Outside(
            evaluation=evaluation, comparison=None, means={}, look=look, notes=(str(error),)
        )
    return Outside(evaluation=evaluation, comparison=comparison, means={}, look=look)


def _noted(found: Folder) -> str:
    if found.ledger is None:
        return "There is no ledger in the folder, so this look at real rows is noted nowhere."
    line = found.ledger.entries()[-1].sequence
    return f"This look at real rows is line {line} of the ledger {found.ledger.name!r}."


def _compared(real: Any, synthetic: Path, schema: Schema) -> Comparison:
    """Side by side; columns that the real rows lack are left out."""
    shared, _ = shared_schema({"real": open_source(real)}, schema)
    return compare_tables(real, synthetic, shared)


def _mean_images(real: Any, synthetic: Any, schema: Schema) -> MeanImages:
    """The mean image of each class on both sides; classes that a side lacks are left out.

    So are classes of few real images, whose mean would show them: of one it is the image itself.
    """
    first, second = (read_images(side, schema) for side in (real, synthetic))
    names = class_names(schema) or ("all",)
    return {
        names[code]: (_mean_of(first, code), _mean_of(second, code))
        for code in np.intersect1d(first.classes, second.classes).tolist()
        if np.count_nonzero(first.classes == code) >= FEWEST_ROWS
    }


def _mean_of(rows: ImageRows, code: int) -> npt.NDArray[np.uint8]:
    return np.asarray(np.rint(rows.images[rows.classes == code].mean(axis=0)), np.uint8)


def main_metric(evaluation: Evaluation) -> str | None:
    """The score a reader looks at first: the best measure of use, else of likeness.

    Privacy: looks at which scores there are.
    """
    order = ("roc_auc", "f1_weighted", "accuracy", "tv2", "tv1", "lenet_fid", "fid")
    known = (name for name in order if (score := evaluation.find(name)) and score.value is not None)
    return next(known, None)
