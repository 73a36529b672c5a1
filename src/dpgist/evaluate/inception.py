"""Features of the Inception network of FID and KID, from a TorchScript file on disk."""

from __future__ import annotations

import hashlib
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dpgist.artefact import new_file
from dpgist.errors import DataError
from dpgist.evaluate.cnn import image_tensor
from dpgist.evaluate.frechet import Moments, moments

RESOLUTION = 299
BATCH_ROWS = 50
POOL_ROWS = 10_000
_RECIPE = f"format 1: bilinear to {RESOLUTION}, three channels, [-1, 1], pool {POOL_ROWS}"

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Inception:
    """A loaded feature network and the hash of its file.

    Privacy: holds no data.
    """

    network: Any
    digest: str
    device: str


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What FID and KID need of one set: moments of all features, and up to 10,000 of them.

    Privacy: statistics without noise; outside the guarantee if the images are private.
    """

    moments: Moments
    pool: npt.NDArray[np.float32]


def load_inception(path: Path, *, device: str = "cpu") -> Inception:
    """Load a TorchScript network that maps (n, 3, 299, 299) in [-1, 1] to (n, features).

    It is tried on one black image: a file that holds another network is refused here, before
    anybody has looked at a real image.

    Privacy: reads no data. The file is a program: take it from a source you trust.
    """
    if not path.is_file():
        raise DataError(
            f"there is no Inception file {path.name}; give the path of a TorchScript file"
        )
    try:
        network = _torchscript(path, device).float().eval()
    except RuntimeError:
        raise DataError(f"{path.name} is no TorchScript file that torch can read") from None
    inception = Inception(
        network=network, digest=hashlib.sha256(path.read_bytes()).hexdigest(), device=device
    )
    try:
        _features(np.zeros((1, 8, 8), np.uint8), inception)
    except Exception:  # somebody else's program may raise anything
        raise DataError(
            f"the network in {path.name} makes no features of images of {RESOLUTION} x {RESOLUTION}"
            " pixels; give Inception's own file"
        ) from None
    return inception


def _torchscript(path: Path, device: str) -> Any:
    with warnings.catch_warnings():
        # The form in which FID's network is handed around; torch would rather have its successor.
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        return torch.jit.load(str(path), map_location=device)  # type: ignore[no-untyped-call]


def inception_statistics(
    images: Array,
    inception: Inception,
    *,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Statistics:
    """Statistics of the features of ``images``; ``progress`` is called with images done and all.

    With a folder ``cache`` they are looked up there, and put there, under a hash of the images and
    of the network: real images are looked at once, not at every evaluation.

    Privacy: outside the guarantee. The cache of private images is as private as they are.
    """
    if cache is None:
        return _computed(images, inception, progress)
    path = cache / f"inception-{_key(images, inception)}.npz"
    found = _read(path)
    if found is None:
        found = _computed(images, inception, progress)
        _write(path, found)
    return found


def _computed(
    images: Array, inception: Inception, progress: Callable[[int, int], None] | None
) -> Statistics:
    parts = []
    size = BATCH_ROWS if inception.device == "cpu" else 10 * BATCH_ROWS
    for start in range(0, len(images), size):
        parts.append(_features(images[start : start + size], inception))
        if progress is not None:
            progress(min(start + size, len(images)), len(images))
    features = np.concatenate(parts)
    pool = features[spaced_rows(len(features), min(POOL_ROWS, len(features)))]
    return Statistics(moments=moments(features), pool=pool)


def _features(images: Array, inception: Inception) -> npt.NDArray[np.float32]:
    with torch.no_grad():
        found = inception.network(network_input(images, device=inception.device))
    features: npt.NDArray[np.float32] = found.flatten(1).float().cpu().numpy()
    if len(features) != len(images) or not np.isfinite(features).all():
        raise ValueError("the network's features are no finite numbers for each image")
    return features


def spaced_rows(n_rows: int, n_wanted: int) -> npt.NDArray[np.int64]:
    """Places of some of the rows, evenly spaced: images may come sorted by class.

    Privacy: looks at no row.
    """
    return np.linspace(0, n_rows - 1, n_wanted).astype(np.int64)


def network_input(images: Array, *, device: str) -> Tensor:
    """Images (n, height, width[, channels]) in 0..255 as (n, 3, 299, 299) in [-1, 1].

    Privacy: a pure map of the images it is given.
    """
    pixels = image_tensor(images, device=device)
    size = (RESOLUTION, RESOLUTION)
    resized = torch.nn.functional.interpolate(pixels, size, mode="bilinear", align_corners=False)
    return (resized * 2 - 1).expand(-1, 3, -1, -1)


def _key(images: Array, inception: Inception) -> str:
    digest = hashlib.sha256(f"{_RECIPE}; {inception.digest}; {images.shape}".encode())
    digest.update(np.ascontiguousarray(images, dtype=np.uint8).data)
    return digest.hexdigest()[:32]


def _read(path: Path) -> Statistics | None:
    broken = (OSError, ValueError, KeyError, zipfile.BadZipFile)
    with suppress(*broken), path.open("rb") as file, np.load(file) as arrays:
        return Statistics(
            moments=Moments(mean=arrays["mean"], covariance=arrays["covariance"]),
            pool=arrays["pool"],
        )
    return None  # none there, or damaged: it is made again


def _write(path: Path, statistics: Statistics) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path, force=True) as file:
        np.savez(
            file,
            mean=statistics.moments.mean,
            covariance=statistics.moments.covariance,
            pool=statistics.pool,
        )
