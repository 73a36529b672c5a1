"""What stretching samples beyond black and white does to trees: one model, several margins.

    python benchmarks/images_margin.py MODEL --data mnist

Draws 20,000 images of a model that ``images.py train --models`` has made, and
scores a tree and a forest trained on them on 10,000 TRAINING images; no test image is read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from machine import write_result
from papers_images import idx_images

import dpgist as dg
from dpgist.evaluate.image_classifiers import Effort, guess
from dpgist.generators import image

MARGINS = (0.0, 0.02, 0.04, 0.08)


def main() -> None:
    """Score every margin."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", default="mnist")
    options = parser.parse_args()
    model = dg.read_model(options.model)
    x, y = (part[:10_000] for part in idx_images(options.data, "train"))
    lines = []
    for margin in MARGINS:
        image.MARGIN = margin
        made = model.sample(20_000, seed=0, kind="arrays")
        train = made["x"], made["y"].astype(np.int64)
        line = {"margin": margin}
        for name in ("DT", "RF"):
            found = guess(name, train, x, n_classes=10, seed=0, effort=Effort())
            line[name] = float(np.mean(found.codes == y))
        lines.append(line)
        print(line, flush=True)
    header = model.gist_header
    method, budget = header["method"], header["released"]["budget"]
    name = "images_margin" if method == "merf" else f"images_margin_{method}"
    write_result(name, {"method": method, "budget": budget, "lines": lines})


if __name__ == "__main__":
    main()
