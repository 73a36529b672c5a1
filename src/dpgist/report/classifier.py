"""The report of a classifier: privacy card first, then its filters, all inside the guarantee."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from dpgist.artefact import refuse_bad_output
from dpgist.classify.effects import as_images, effects
from dpgist.classify.explain import contrasts
from dpgist.classify.folder import read_classifier
from dpgist.classify.maps import Maps
from dpgist.classify.plots import DIVERGING, effect_bars
from dpgist.classify.statement import stated
from dpgist.classify.words import MEANING, global_dict
from dpgist.outputs import write_text
from dpgist.plots import ACCENT, SYNTHETIC
from dpgist.report.figures import heading, image_strip
from dpgist.report.svg import FAINT_INK, box, fit, label, line, picture, plain, text_width
from dpgist.report.templates import fill
from dpgist.schema import Schema
from dpgist.version import __version__

FORMAT = 1
STAMP = (
    "Inside the guarantee. Everything in this report was made from the fitted classifier and its "
    "card. No real row was read, so sharing this report costs no privacy beyond what the card "
    "states."
)
MOST_CLASSES, MOST_MAPS, MOST_BARS = 20, 4, 10
MOST_IMAGES = 12
_WIDTH = 480.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ClassifierContent:
    """A report on a classifier.

    Privacy: post-processing of a released classifier.
    """

    maps: Maps
    schema: Schema

    @property
    def stamp(self) -> str:
        """What may be done with this report, in words."""
        return STAMP

    @property
    def card(self) -> dict[str, Any]:
        """The card that travels with the maps."""
        return stated(self.maps)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; images keep their filters in the classifier's own file.

        Privacy: post-processing of a released classifier.
        """
        table = self.schema.image is None
        return {
            "format": FORMAT,
            "version": __version__,
            "inside_the_guarantee": True,
            "stamp": STAMP,
            "card": self.card,
            "filters": global_dict(self.maps, self.schema) if table else None,
        }


def write_classifier_report(folder: Path, *, force: bool = False) -> ClassifierContent:
    """Write report.html and report.json into a folder that ``dpgist classify fit`` wrote.

    Privacy: post-processing of a released classifier, inside the guarantee.
    """
    maps, schema = read_classifier(folder)
    page, twin = folder / "report.html", folder / "report.json"
    for path in (page, twin):
        refuse_bad_output(path, force=force)
    content = ClassifierContent(maps=maps, schema=schema)
    write_text(render_classifier(content), page, force=force)
    write_text(json.dumps(content.to_dict(), indent=2, allow_nan=False), twin, force=force)
    return content


def render_classifier(content: ClassifierContent) -> str:
    """The whole page.

    Privacy: post-processing of a released classifier.
    """
    n_classes, n_maps = content.maps.biases.shape
    head, _, rest = STAMP.partition(". ")
    context = {
        "title": content.schema.name,
        "lede": f"classifier of {content.schema.label} · {n_classes} classes · {n_maps} "
        f"linear map{'s' if n_maps > 1 else ''} each",
        "stamp_head": f"{head}.",
        "stamp": rest,
        "inside_only": True,
        "protected": True,
        "guarantee": content.card.get("guarantee", ""),
        "tiles": _tiles(content.card),
        "facts": list(_facts(content.card)),
        "caveats": content.card.get("caveats", []),
        "meaning": MEANING if content.schema.image is None else _IMAGE_WORDS,
        "label": content.schema.label,
        "banks": list(_banks(content)),
        "footer": f"Made by dpgist {__version__}. The numbers of this page are in report.json "
        "beside it; the filters themselves are in classifier.maps.",
    }
    return fill("classifier.html", context)


_IMAGE_WORDS = (
    "Red pixels speak for the class, blue ones against it; what the filters of all classes share "
    "is left out. An image gets the class whose best filter fits it best."
)


def _tiles(card: dict[str, Any]) -> list[dict[str, str]]:
    words = {
        "epsilon": ("ε = {:g}", "epsilon: how much may be revealed"),
        "delta": ("δ = {}", "delta: probability that epsilon may fail"),
        "relation": ("{}", "what one person may change"),
    }
    return [
        {"value": form.format(plain(card[key]) if key == "delta" else card[key]), "words": text}
        for key, (form, text) in words.items()
        if key in card
    ]


def _facts(card: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Every plain fact of the card, also those inside other facts; the schema is shown below."""
    for key, value in card.items():
        name = f"{before}{key}".replace("_", " ")
        if key in ("guarantee", "caveats", "schema", "declared_public"):
            continue
        if isinstance(value, dict):
            yield from _facts(value, f"{name}, ")
        elif isinstance(value, float):
            yield name, f"{value:.6g}"
        elif isinstance(value, str | int) or value is None:
            yield name, "none" if value is None else str(value)
        elif all(isinstance(item, str | int | float) for item in value):
            yield name, ", ".join(map(str, value))


def _banks(content: ClassifierContent) -> Iterator[dict[str, Any]]:
    """What stands under each class's heading: bars for columns, a strip of pictures for images."""
    bank = contrasts(content.maps)
    for name, own in zip(content.maps.classes[:MOST_CLASSES], bank, strict=False):
        order = np.argsort(-np.linalg.norm(own, axis=1), kind="stable")
        if content.schema.image is not None:
            shown = as_images(own[order[:MOST_IMAGES]], content.schema)
            about = f"{len(shown)} filters of {name}"
            yield {"name": name, "panels": [], "source": _strip(shown), "about": about}
            continue
        panels = [
            _bar_panel(f"map {place + 1} of {len(own)}", own[place], content.schema)
            for place in sorted(order[:MOST_MAPS].tolist())
        ]
        yield {"name": name, "panels": panels, "source": "", "about": ""}


def _strip(filters: Floats) -> str:
    planes = filters if filters.ndim == 3 else filters.sum(axis=3)
    reach = np.abs(planes).max(axis=(1, 2), keepdims=True)
    shares = 0.5 + 0.5 * planes / np.where(reach > 0, reach, 1.0)
    colours = mpl.colormaps[DIVERGING](shares)[..., :3]
    return image_strip((255 * colours).round().astype(np.uint8), across=len(planes))


def _bar_panel(title: str, filter_: Floats, schema: Schema) -> Markup:
    bars = effect_bars(effects(filter_, schema), most=MOST_BARS)
    reach = max((abs(size) for _, size in bars), default=0.0) or 1.0
    left = min(max((text_width(name, 11) for name, _ in bars), default=0.0), 220.0) + 12
    half = (_WIDTH - left - 52) / 2
    middle, top = left + half, 26.0
    parts = heading(title, "", _WIDTH)
    for index, (name, size) in enumerate(bars):
        parts += _bar(name, size, left, middle, half * size / reach, top + 18 * index)
    parts.append(line(middle, top - 2, middle, top + 18 * len(bars), stroke="#c3ccd4"))
    return picture(_WIDTH, top + 18 * len(bars) + 4, parts, about=f"{title}: {_told(bars)}")


def _bar(
    name: str, size: float, left: float, middle: float, length: float, y: float
) -> Iterator[Markup]:
    shown = fit(name, 11, left - 10)
    yield label(left - 8, y + 11, shown, anchor="end", fill=FAINT_INK, full=name)
    start, colour = (middle + length, SYNTHETIC) if length < 0 else (middle, ACCENT)
    yield box(start, y + 1, abs(length), 13, fill=colour, opacity=0.75, hint=f"{name}: {size:+.4g}")
    yield label(_WIDTH - 2, y + 11, f"{size:+.3g}", size=10.5, anchor="end")


def _told(bars: Sequence[tuple[str, float]]) -> str:
    """The figure in words, for whoever cannot see it."""
    return ", ".join(f"{name} {size:+.3g}" for name, size in bars)
