"""One evaluation from beginning to end: headers, the ledger line, rows, references, scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from dpgist.errors import DataError
from dpgist.evaluate.classifiers import classifiers as classifier_set
from dpgist.evaluate.groups import check_group_columns
from dpgist.evaluate.image_rows import ImageRows, Images, image_notes, read_images
from dpgist.evaluate.scores import Evaluation, Score
from dpgist.evaluate.steps import Progress, Steps
from dpgist.evaluate.table import (
    broken_notes,
    check_rows,
    class_names,
    read_rows,
    shared_schema,
)
from dpgist.evaluate.tables import n_steps, score_tables
from dpgist.gist import Gist
from dpgist.references import independent_rows, noise_rows
from dpgist.schema import Schema
from dpgist.sources import open_source

TEST = "real test"
_MOST_NOISE_IMAGES = 10_000


@dataclass(frozen=True, kw_only=True, repr=False)
class Given:
    """What an evaluation is given: tables of any kind, and perhaps the gist behind the rows.

    Privacy: holds private rows; its ``repr`` shows none.
    """

    test: Any
    synthetic: Any
    train: Any = None
    gist: Gist | None = None

    def tables(self) -> dict[str, Any]:
        """The tables that there are, under the names of their scores."""
        tables = {TEST: self.test, "synthetic": self.synthetic, "real": self.train}
        return {title: table for title, table in tables.items() if table is not None}


def score(
    given: Given,
    schema: Schema,
    *,
    groups: Sequence[str],
    classifiers: str,
    inception: Path | None,
    before_looking: Callable[[], None],
    progress: Progress | None,
    rng: np.random.Generator,
) -> Evaluation:
    """Score synthetic rows and their references; see :func:`dpgist.workflow.evaluate`.

    ``before_looking`` is called when all headers were found good and no row has been read.

    Privacy: reads real rows without any protection; outside the guarantee.
    """
    started = time.perf_counter()
    check_group_columns(schema, groups)
    classifier_set(classifiers)  # refuses a name that is none
    if inception is not None:
        _refuse_unfit(inception, schema)
    if schema.image is not None:
        scores, notes = _score_images(
            given, schema, classifiers, inception, before_looking, progress, rng
        )
    else:
        scores, notes = _score_tables(
            given, schema, groups, classifiers, before_looking, progress, rng
        )
    seconds = time.perf_counter() - started
    return Evaluation(scores=scores, notes=notes, seconds=seconds)


def _refuse_unfit(inception: Path, schema: Schema) -> None:
    """Found only after the look, a misspelt name or another network would cost another look."""
    if not inception.is_file():
        raise DataError(f"there is no Inception file {inception}; check the path, or name none")
    if schema.image is not None:
        from dpgist.evaluate.inception import load_inception  # torch networks: not for tables

        load_inception(inception, device=_device())


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


_Found = tuple[tuple[Score, ...], tuple[str, ...]]


def _score_tables(
    given: Given,
    schema: Schema,
    groups: Sequence[str],
    classifiers: str,
    before_looking: Callable[[], None],
    progress: Progress | None,
    rng: np.random.Generator,
) -> _Found:
    sources = {title: open_source(table) for title, table in given.tables().items()}
    shared, left_out = shared_schema(sources, schema)
    for title, source in sources.items():
        check_rows(source, shared, title=title)
    before_looking()
    n_references = 2 if given.gist is not None else 0
    per_source = n_steps(1, classifiers)
    steps = Steps(n_references + (len(sources) - 1 + n_references) * per_source, progress)
    steps.doing("reading rows")
    rows = {t: read_rows(table, shared, title=t) for t, table in given.tables().items()}
    notes = [*left_out, *broken_notes(rows)]
    if given.gist is not None:
        n_rows = rows["synthetic"].n_rows or rows[TEST].n_rows
        steps.doing("releasing independent columns")
        independent = _independent(given, given.gist, n_rows, notes, rng)
        if independent is not None:
            rows["independent"] = read_rows(independent, shared)
        steps.finish("training on pure noise", 1 if independent is not None else 1 + per_source)
        rows["noise"] = read_rows(noise_rows(given.gist, n_rows, rng=rng), shared)
        steps.finish("training classifiers")
    known = {column.name for column in shared.columns}
    scores, more = score_tables(
        {title: table for title, table in rows.items() if title != TEST},
        rows[TEST],
        group_columns=[name for name in groups if name in known],
        classifiers=classifiers,
        rng=rng,
        steps=steps,
    )
    return scores, (*notes, *more)


def _independent(
    given: Given, gist: Gist, n_rows: int, notes: list[str], rng: np.random.Generator
) -> pa.Table | None:
    """Independent columns of the rows that were released, or of the test rows if need be."""
    title, table = ("real", given.train) if given.train is not None else (TEST, given.test)
    try:
        own = check_rows(open_source(table), gist.schema, title=title)
    except DataError as error:
        notes.append(f"independent columns could not be made: {error}")
        return None
    if given.train is None:
        notes.append("independent columns were made from the test rows: no training rows given")
    return independent_rows(table, own, gist.released.budget, n_rows, rng=rng)


def _score_images(
    given: Given,
    schema: Schema,
    classifiers: str,
    inception: Path | None,
    before_looking: Callable[[], None],
    progress: Progress | None,
    rng: np.random.Generator,
) -> _Found:
    from dpgist.evaluate.image_classifiers import THREE, TWELVE  # torch networks: not for tables
    from dpgist.evaluate.images import score_images

    for title, table in given.tables().items():
        check_rows(open_source(table), schema, title=title)
    before_looking()
    rows = {t: read_images(table, schema, title=t) for t, table in given.tables().items()}
    notes = tuple(note for title, read in rows.items() for note in image_notes(title, read))
    sets = {title: _named_images(read) for title, read in rows.items()}
    test = sets.pop(TEST)
    if given.gist is not None:
        n_images = min(len(sets["synthetic"][1]) or 1, _MOST_NOISE_IMAGES)
        table = noise_rows(given.gist, n_images, rng=rng)
        sets["noise"] = _named_images(read_images(table, schema, title="noise"))
    scores = score_images(
        sets,
        test,
        models=THREE if classifiers == "three" else TWELVE,
        inception=inception,
        lenet=classifiers == "twelve",
        device=_device(),
        progress=progress,
        rng=rng,
    )
    return scores, notes


def _named_images(rows: ImageRows) -> tuple[Images, npt.NDArray[np.str_]]:
    """Images and the names of their classes: the score of a class should say which."""
    names = np.asarray(class_names(rows.schema) or ("",), dtype=np.str_)
    return rows.images, names[rows.classes]
