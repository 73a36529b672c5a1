"""A few shapes of SVG as text: small, printable, and every label in them escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from dpgist.plots import FAINT, INK

FAINT_INK = "#5c6b78"
_NARROW = frozenset("fijlrtI.,:;'|!()[]{} -")
_WIDE = frozenset("mwMWQO@%&<>=+~…")
_BOLD = 1.12


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide a text is drawn in a common sans-serif font; rather too wide than too narrow.

    Privacy: looks at labels only.
    """
    return size * sum(map(_advance, text)) * (_BOLD if bold else 1.0)


def fit(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """The text, or as much of its beginning as there is room for, with an ellipsis.

    Privacy: looks at labels only.
    """
    if text_width(text, size, bold=bold) <= room:
        return text
    kept = len(text)
    while kept > 1 and text_width(text[:kept] + "…", size, bold=bold) > room:
        kept -= 1
    return text[:kept].rstrip() + "…"


def fit_ends(text: str, size: float, room: float) -> str:
    """The text, or as much of both its ends as there is room for: long names may begin alike.

    Privacy: looks at labels only.
    """
    if text_width(text, size) <= room:
        return text
    kept = len(text)
    while kept > 2 and text_width(_ends(text, kept), size) > room:
        kept -= 1
    return _ends(text, kept)


def _ends(text: str, kept: int) -> str:
    first = kept // 2
    return f"{text[:first].rstrip()}…{text[len(text) - (kept - first) :].lstrip()}"


def label(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 11,
    anchor: str = "start",
    fill: str = INK,
    bold: bool = False,
    turn: float = 0,
    full: str | None = None,
) -> Markup:
    """A line of text; ``full`` is shown by browsers when the pointer rests on it.

    Privacy: escapes what it is given.
    """
    weight = Markup(' font-weight="600"') if bold else ""
    turned = Markup(' transform="rotate({} {} {})"').format(turn, _n(x), _n(y)) if turn else ""
    hint = Markup("<title>{}</title>").format(full) if full is not None and full != text else ""
    return Markup(
        '<text x="{}" y="{}" font-size="{}" text-anchor="{}" fill="{}"{}{}>{}{}</text>'
    ).format(_n(x), _n(y), _n(size), anchor, fill, weight, turned, text, hint)


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = "none",
    stroke: str = "none",
    stroke_width: float = 1.0,
    opacity: float = 1.0,
    hint: str | None = None,
) -> Markup:
    """A rectangle. Privacy: draws what it is given."""
    inner = Markup("<title>{}</title>").format(hint) if hint is not None else ""
    return Markup(
        '<rect x="{}" y="{}" width="{}" height="{}" fill="{}" stroke="{}" stroke-width="{}"'
        ' fill-opacity="{}">{}</rect>'
    ).format(
        _n(x), _n(y), _n(max(width, 0)), _n(max(height, 0)), fill, stroke, stroke_width, opacity,
        inner,
    )  # fmt: skip


def line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    *,
    stroke: str = FAINT,
    width: float = 1.0,
    dash: str = "",
) -> Markup:
    """A straight line. Privacy: draws what it is given."""
    dashes = Markup(' stroke-dasharray="{}"').format(dash) if dash else ""
    return Markup('<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="{}"{}/>').format(
        _n(x1), _n(y1), _n(x2), _n(y2), stroke, width, dashes
    )


def dot(x: float, y: float, radius: float, *, fill: str, hint: str | None = None) -> Markup:
    """A filled circle with a white rim. Privacy: draws what it is given."""
    inner = Markup("<title>{}</title>").format(hint) if hint is not None else ""
    return Markup(
        '<circle cx="{}" cy="{}" r="{}" fill="{}" stroke="white" stroke-width="1">{}</circle>'
    ).format(_n(x), _n(y), _n(radius), fill, inner)


def polyline(
    points: Sequence[tuple[float, float]],
    *,
    stroke: str = "none",
    width: float = 1.5,
    fill: str = "none",
    opacity: float = 1.0,
) -> Markup:
    """A line through points, perhaps filled. Privacy: draws what it is given."""
    path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    return Markup(
        '<polyline points="{}" fill="{}" fill-opacity="{}" stroke="{}" stroke-width="{}"'
        ' stroke-linejoin="round"/>'
    ).format(path, fill, opacity, stroke, width)


def picture(width: float, height: float, parts: Iterable[Markup], *, about: str) -> Markup:
    """A whole figure; ``about`` is what a screen reader says.

    Privacy: draws what it is given.
    """
    return Markup(
        '<svg viewBox="0 0 {w} {h}" width="{w}" height="{h}"'
        ' role="img" aria-label="{about}" class="figure">{parts}</svg>'
    ).format(w=_n(width), h=_n(height), about=about, parts=Markup("").join(map(escape, parts)))


def mix(low: str, high: str, share: float) -> str:
    """A colour between two, as #rrggbb. Privacy: draws what it is given."""
    share = min(max(share, 0.0), 1.0)
    pairs = zip(_channels(low), _channels(high), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def short(value: float, digits: int = 3) -> str:
    """A number for people: few digits, no needless zeros. Privacy: writes what it is given."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits + 3) or abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e")
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def score_text(value: float) -> str:
    """A score with three decimals, or as many as a tiny one needs. Privacy: as above."""
    return f"{value:.3f}" if 0.0095 <= abs(value) < 100 else short(value)


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage. Privacy: writes what it is given."""
    return f"{100 * share:.{digits}f} %"


def plain(value: float) -> str:
    """A number as ``%g`` writes it, without the needless 0 of 1e-06. Privacy: as above."""
    return f"{value:g}".replace("e-0", "e-").replace("e+0", "e")


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _advance(character: str) -> float:
    """The advance in DejaVu Sans, one of the widest fonts a browser may fall back to, in ems."""
    if ord(character) >= 0x1100:
        return 1.05
    if character in _NARROW:
        return 0.42
    if character in _WIDE:
        return 1.0
    return 0.75 if character.isupper() or not character.isascii() else 0.65


def _n(value: float) -> str:
    """Coordinates to a tenth: enough for a pixel, short in the file."""
    return f"{float(value):.1f}".removesuffix(".0")
