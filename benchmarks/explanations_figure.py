"""Images beside what several models see in them, as figures 2 and 4 of the thesis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from dpgist.classify.plots import show_filter, show_image
from dpgist.plots import STYLE, write_png

SIDE = 28


def draw(images: np.ndarray, columns: Mapping[str, np.ndarray], path: Path) -> None:
    """A line for each image: itself, then the pixels of each titled column; red speaks for it."""
    with mpl.rc_context(STYLE):
        size = (1.12 * (len(columns) + 1), 1.2 * len(images) + 0.5)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(images), len(columns) + 1, squeeze=False)
        for at, (line, image) in enumerate(zip(axes, images, strict=True)):
            show_image(line[0], image.reshape(SIDE, SIDE))
            for axis, pixels in zip(line[1:], columns.values(), strict=True):
                show_filter(axis, pixels[at].reshape(SIDE, SIDE))
        for axis, title in zip(axes[0], ["input", *columns], strict=True):
            axis.set_title(title, fontsize=7, loc="center")
        write_png(figure, path, force=True)
