"""The images of the DP-MERF paper: 12 classifiers trained on synthetic images.

Reads synthetic images from ``NAME.COLUMN.SEED.npz`` (``x`` and ``y``) in the folder of samples,
where ``benchmarks/images.py`` or a machine with an accelerator has put them, and the real ones
from the data folder. Seed 0 has all 12 classifiers, the slow four (SVM, Ada, Bag, GBM) on 10,000
rows and marked so; other seeds have the eight fast ones.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from machine import data_folder
from papers_release import REAL, identity

from dpgist.evaluate.image_classifiers import FAST, TWELVE, Effort, guess

NAMES = ("mnist", "fashion_mnist")
COLUMNS = ("1", REAL, "0.2", "nonprivate")
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
) -> dict[str, Any]:
    """Accuracy of every classifier on the 10,000 real test images."""
    test = _idx(name, "t10k")
    if column == REAL or samples is None:
        train = _idx(name, "train")
    else:
        with np.load(_path(name, column, seed, samples)) as file:
            train = file["x"], file["y"].astype(np.int64)
    most = 500 if quick else MOST_ROWS
    train = train[0][:most], train[1][:most]
    scores, started = {}, time.perf_counter()
    for model in ("GNB", "BNB") if quick else TWELVE if seed == 0 else FAST:
        begun = time.perf_counter()
        found = guess(model, train, test[0], n_classes=10, seed=seed, effort=Effort())
        accuracy = None if found.codes is None else float(np.mean(found.codes == test[1]))
        took = round(time.perf_counter() - begun, 1)
        scores[model] = {"accuracy": accuracy, "as": found.model, "why": found.why, "seconds": took}
        progress(f"{found.model} {accuracy}")
    return {
        **identity(column, seed),
        "rows": {"train": len(train[1]), "test": len(test[1])},
        "scores": scores,
        "seconds": {"classify": round(time.perf_counter() - started, 1)},
    }


def _path(name: str, column: str, seed: int, samples: Path) -> Path:
    return samples / f"{name}.{column}.{seed}.npz"


def _idx(name: str, part: str) -> Images:
    folder = data_folder() / name
    images, labels = (
        np.frombuffer(gzip.decompress((folder / f"{part}-{what}.gz").read_bytes()), np.uint8)
        for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    return images[16:].reshape(-1, 28, 28), labels[8:].astype(np.int64)
