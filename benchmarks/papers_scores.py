"""The papers' evaluation of a table: 12 classifiers trained on given rows, tested on real ones.

The classifiers and metrics are those of ``dpgist.evaluate`` (see its ``classifiers`` and
``utility``): numbers as they are, categories as integer codes, ROC and PRC from hard labels as in
the papers (``roc_hard``, ``pr_hard``) and from scores beside them (``roc_auc``, ``pr_auc``).
Here stands only what the papers do to the columns before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from papers_data import PaperData

import dpgist as dg
from dpgist.evaluate.classifiers import classifiers
from dpgist.evaluate.steps import Steps
from dpgist.evaluate.table import Rows, read_rows
from dpgist.evaluate.utility import utility_scores

Scores = dict[str, dict[str, float | str | None]]


def table_scores(
    train: pd.DataFrame,
    test: pd.DataFrame,
    data: PaperData,
    *,
    seed: int,
    progress: Callable[[str], None],
    names: Collection[str] | None = None,
) -> Scores:
    """Every classifier's scores on the test rows, or some by name; ``seconds`` are its own."""
    first = "f1_weighted" if data.positive is None else "roc_hard"
    source, real = _as_seen(train, data), _as_seen(test, data)
    scores: Scores = {}
    for classifier in classifiers("twelve"):
        if names is not None and classifier.name not in names:
            continue
        started = time.perf_counter()
        found = utility_scores(
            {"fitted": source},
            real,
            classifiers=[classifier],
            groups=(),
            rng=np.random.default_rng([seed, 1]),
            steps=Steps(1, None),
        )
        own = [score for score in found if score.model == classifier.name and not score.group]
        scores[classifier.name] = {score.metric: score.value for score in own}
        whys = {score.why for score in own} - {None}
        scores[classifier.name] |= {"why": min(whys)} if whys else {}
        scores[classifier.name]["seconds"] = round(time.perf_counter() - started, 2)
        progress(f"{classifier.name} {scores[classifier.name].get(first)}")
    return scores


def _as_seen(rows: pd.DataFrame, data: PaperData) -> Rows:
    """Rows as the papers' classifiers see them: some categories as presence columns."""
    schema = data.schema()
    columns: list[Any] = []
    for column in schema.columns:
        if column.name not in data.one_hot or not isinstance(column, dg.CategoryColumn):
            columns.append(column)
            continue
        for value in column.values:
            columns.append(dg.BooleanColumn(name=f"{column.name}{value}"))
            rows = rows.assign(**{f"{column.name}{value}": rows[column.name] == value})
    seen = replace(schema, columns=tuple(columns), ignore=(*schema.ignore, *data.one_hot))
    return read_rows(rows, seen)
