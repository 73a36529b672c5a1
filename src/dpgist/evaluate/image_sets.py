"""Sets of images with their labels as codes, checked so that they can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgist.errors import DataError

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.int64]
LabelledImages = tuple[Array, Array]


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """Images in 0..255 and the place of each label in ``ImageTask.classes``.

    Privacy: may hold real rows; only evaluation, outside the guarantee, makes one.
    """

    x: Array
    codes: Codes


@dataclass(frozen=True, kw_only=True)
class ImageTask:
    """Sets to train on, by name, and the real images to test on, with their labels as codes.

    Privacy: holds real rows; outside the guarantee.
    """

    train_sets: Mapping[str, ImageSet]
    test: ImageSet
    classes: tuple[str, ...]


def image_task(train_sets: Mapping[str, LabelledImages], test: LabelledImages) -> ImageTask:
    """Check shapes and turn labels, which may be numbers or texts, into codes.

    Privacy: holds the rows it is given; errors name shapes, not contents.
    """
    for name, (x, y) in {**train_sets, "test": test}.items():
        if x.dtype != np.uint8 or x.ndim not in (3, 4) or len(x) != len(y):
            raise DataError(
                f"{name} images must be uint8 of the shape (n, height, width) or"
                f" (n, height, width, channels) with one label each"
            )
        if x.shape[1:] != test[0].shape[1:]:
            raise DataError(
                f"{name} images are {_size(x)} and test images {_size(test[0])};"
                " only images of one size can be compared"
            )
    texts = {name: _texts(y) for name, (_, y) in train_sets.items()}
    test_texts = _texts(test[1])
    found = {text for part in (*texts.values(), test_texts) for text in np.unique(part).tolist()}
    classes = sorted(found, key=lambda text: (len(text), text))  # 2 before 10
    return ImageTask(
        train_sets={
            name: ImageSet(x=x, codes=_codes(texts[name], classes))
            for name, (x, _) in train_sets.items()
        },
        test=ImageSet(x=test[0], codes=_codes(test_texts, classes)),
        classes=tuple(classes),
    )


def _size(x: Array) -> str:
    return " x ".join(map(str, x.shape[1:]))


def _texts(labels: Array) -> Array:
    return np.array([str(label) for label in np.asarray(labels).tolist()], dtype=np.str_)


def _codes(texts: Array, classes: Sequence[str]) -> Codes:
    place = {text: code for code, text in enumerate(classes)}
    return np.array([place[text] for text in texts.tolist()], dtype=np.int64)
