"""The tables of the comparison with peers: rows, public schemas, one split each."""

from __future__ import annotations

import io
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from machine import data_folder
from papers_data import DATA
from sklearn.model_selection import GroupShuffleSplit, train_test_split

import dpgist as dg

COVERTYPE_ROWS = 100_000
NAMES = ("adult", "census", "covertype", "credit", "intrusion", "epileptic")

Split = tuple[pd.DataFrame, pd.DataFrame]


def schema_of(name: str) -> dg.Schema:
    """The public schema, from the data set's own documentation."""
    return DATA[name].schema()


def split_of(name: str) -> Split:
    """Four fifths to release and one to test on: by class, or by record where rows belong together.

    Unlike the papers' protocol nothing is under-sampled.
    """
    rows, groups = _covertype() if name == "covertype" else _loaded(name)
    if groups is not None:
        splitter = GroupShuffleSplit(1, test_size=0.2, random_state=0)
        train, test = next(splitter.split(rows, groups=groups))
        return rows.iloc[train], rows.iloc[test]
    labels = rows[schema_of(name).label]
    train, test = train_test_split(rows, test_size=0.2, stratify=labels, random_state=0)
    return train, test


def _loaded(name: str) -> tuple[pd.DataFrame, np.ndarray | None]:
    load: Callable[[Path], tuple[pd.DataFrame, np.ndarray | None]] = DATA[name].load
    return load(data_folder() / name)


def _covertype() -> tuple[pd.DataFrame, None]:
    """100,000 rows at random; presence columns as categories."""
    path = data_folder() / "covertype" / "covtype.csv.xz"
    rows = pd.read_csv(io.BytesIO(lzma.decompress(path.read_bytes())))
    rows = rows.sample(COVERTYPE_ROWS, random_state=0)
    joined = {name: _which(rows.filter(regex=f"^{name}")) for name in DATA["covertype"].one_hot}
    columns = [column.name for column in schema_of("covertype").columns]
    rows = rows.assign(**joined, Cover_Type=rows["Cover_Type"].astype(str))
    return rows[columns].reset_index(drop=True), None


def _which(presence: pd.DataFrame) -> np.ndarray:
    return (presence.to_numpy().argmax(axis=1) + 1).astype(str)
