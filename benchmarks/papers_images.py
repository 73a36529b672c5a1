"""The images of the DP-MERF paper: 12 classifiers trained on synthetic images.

Samples from models ``NAME.COLUMN.SEED.model`` in the folder of samples, where ``images.py train
--models`` has put them (on a machine with an accelerator), and reads the real images from the data
folder. A model must state the column's own budget and the method. Seed 0 has all 12 classifiers,
the slow four (SVM, Ada, Bag, GBM) on 10,000 rows and marked so; other seeds have the fast ones.
"""

from __future__ import annotations

import functools
import gzip
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from machine import data_folder
from papers_release import DELTA, NONPRIVATE, REAL, RELATION, identity

import dpgist as dg
from dpgist.evaluate.image_classifiers import FAST, TWELVE, Effort, guess

NAMES = ("mnist", "fashion_mnist")
COLUMNS = ("1", REAL, "0.2", NONPRIVATE)
SEEDS = (0, 1, 2)
MOST_ROWS = 60_000

Images = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def available(name: str, column: str, seed: int, samples: Path | None) -> bool:
    """Whether there is something to score; the real images are scored once."""
    if column == REAL:
        return seed == 0
    return samples is not None and _path(name, column, seed, samples).exists()


def run_images(
    name: str,
    column: str,
    seed: int,
    *,
    samples: Path | None,
    quick: bool,
    progress: Callable[[str], None],
    method: str = dg.Merf.name,
    jobs: int = 1,
) -> dict[str, Any]:
    """Accuracy of every classifier on the 10,000 real test images, ``jobs`` of them at a time."""
    test, made = idx_images(name, "t10k"), {}
    most = 500 if quick else MOST_ROWS
    if column == REAL or samples is None:
        x, y = idx_images(name, "train")
        train = x[:most], y[:most]
    else:
        model = dg.read_model(_path(name, column, seed, samples))
        refuse_other_budget(model, column)
        refuse_other_method(model, method)
        drawn = model.sample(most, seed=seed, kind="arrays")
        train = drawn["x"], drawn["y"].astype(np.int64)
        header = model.gist_header
        made = {"method": {header["method"]: header["settings"]}, "training": model.training}
    scores, started = {}, time.perf_counter()
    names = ("GNB", "BNB") if quick else TWELVE if seed == 0 else FAST
    for classifier, score in _scored(names, train, test, seed=seed, jobs=jobs):
        scores[classifier] = score
        progress(f"{score['as']} {score['accuracy']}")
    return {
        **identity(column, seed),
        "rows": {"train": len(train[1]), "test": len(test[1])},
        **made,
        "scores": scores,
        "seconds": {"classify": round(time.perf_counter() - started, 1)},
    }


def _scored(
    names: Sequence[str], train: Images, test: Images, *, seed: int, jobs: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    score = functools.partial(_score, train=train, test=test, seed=seed)
    if jobs == 1:
        yield from zip(names, map(score, names), strict=True)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from zip(names, pool.map(score, names), strict=True)


def _score(name: str, *, train: Images, test: Images, seed: int) -> dict[str, Any]:
    """One classifier's accuracy on real images, and how it came about."""
    begun = time.perf_counter()
    found = guess(name, train, test[0], n_classes=10, seed=seed, effort=Effort())
    accuracy = None if found.codes is None else float(np.mean(found.codes == test[1]))
    took = round(time.perf_counter() - begun, 1)
    return {"accuracy": accuracy, "as": found.model, "why": found.why, "seconds": took}


def refuse_other_method(model: dg.Model, method: str) -> None:
    """Refuse a model whose release was made by another method than the result file's."""
    made = model.gist_header["method"]
    if made != method:
        raise ValueError(f"this model was made by method {made}, not by {method}")


def refuse_other_budget(model: dg.Model, column: str) -> None:
    """Refuse a model that was paid for by another budget than the column says."""
    header = model.gist_header
    stated = {"rehearsal": header["rehearsal"]} | header["released"]["budget"]
    if column == NONPRIVATE:
        good = stated["rehearsal"]
    else:
        wanted = {"epsilon": float(column), "delta": DELTA, "relation": RELATION}
        good = stated == {"rehearsal": False} | wanted
    if not good:
        raise ValueError(f"column {column} is not what this model was made with: {stated}")


def _path(name: str, column: str, seed: int, samples: Path) -> Path:
    return samples / f"{name}.{column}.{seed}.model"


def idx_images(name: str, part: str) -> Images:
    """The images and labels of a part ("train" or "t10k") of a data set."""
    folder = data_folder() / name
    images, labels = (
        np.frombuffer(gzip.decompress((folder / f"{part}-{what}.gz").read_bytes()), np.uint8)
        for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    return images[16:].reshape(-1, 28, 28), labels[8:].astype(np.int64)
