"""The page: content in, one self-contained HTML text out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from dpgist.card import column_facts, round_up
from dpgist.plots import SYNTHETIC
from dpgist.report import figures
from dpgist.report.advice import CLEAR
from dpgist.report.content import Content
from dpgist.report.figures import NOISY, Series
from dpgist.report.inside import Marginal
from dpgist.report.outside_page import outside_context
from dpgist.report.svg import percent, plain, short
from dpgist.report.templates import fill
from dpgist.schema import Schema
from dpgist.version import __version__

SHOWN_ROWS = 5
CELL_DIGITS = 13
"""More do not fit into a cell of the synthetic rows."""
MOST_STRIPS = 20
_RELATIONS = {
    "add_remove": "a person's rows may come or go; the row count is protected too",
    "replace_one": "a person's rows may be replaced by others; the row count is public",
}

Array = npt.NDArray[Any]


def render(content: Content, images: dict[str, Array]) -> str:
    """The whole page; ``images`` are synthetic ones, empty for tables.

    Privacy: as private as the content.
    """
    schema = Schema.from_dict(content.card["declared_public"]["schema"])
    context = {
        **_top(content),
        **_card(content),
        **_gist(content),
        "images": list(_strips(images)),
        "outside": outside_context(content.outside, schema),
        "advice": content.advice,
    }
    return fill("page.html", context)


def _top(content: Content) -> dict[str, Any]:
    inside, card = content.inside, content.card
    n_columns = len(card["declared_public"]["schema"]["columns"])
    drawn = None if inside.n_synthetic is None else f"synthetic data, {inside.n_synthetic:,} rows"
    about = [drawn or "no synthetic rows", f"{n_columns} columns", f"method {card['method']}"]
    head, _, rest = content.stamp.partition(". ")
    return {
        "title": content.title,
        "lede": " · ".join(about),
        "inside_only": content.outside is None and not card["rehearsal"],
        "stamp_head": f"{head}.",
        "stamp": rest,
        "advice_words": _advice_words(content),
        "footer": f"Made by dpgist {__version__} from a release by dpgist {card['version']}. The "
        "numbers of this page are in report.json beside it.",
    }


def _advice_words(content: Content) -> str:
    words = "Read off the numbers of this report, the most pressing first."
    if content.outside is None:
        return f"{words} All of it comes from the gist, so acting on it breaks no promise."
    return (
        f"{words} Settings that were chosen by looking at real rows are themselves a leak that no "
        "guarantee covers: prefer what follows from the gist or from public facts."
    )


def _card(content: Content) -> dict[str, Any]:
    card = content.card
    columns = list(_columns(card))
    bad = any(column["flagged"] for column in columns)
    return {
        "card": card,
        "protected": not card["rehearsal"],
        "guarantee": card["guarantee"],
        "caveats": card["caveats"],
        "tiles": _tiles(card),
        "epsilons": _epsilons(card),
        "health_std": card["health"][0]["std"],
        "health_words": "Marked columns stand out of the noise: compare them with the schema."
        if bad
        else "No column stands out of the noise.",
        "declared": columns,
        "facts": list(_facts(card)),
    }


def _facts(card: dict[str, Any]) -> Iterator[tuple[str, str]]:
    declared, error, ledger = card["declared_public"], card["noise_error"], card["ledger"]
    yield "rows about", f"{declared['rows_about'] or 'not declared'}"
    if declared["n_rows"] is not None:
        yield "row count", f"{declared['n_rows']} (public under replace_one)"
    yield "rows per person", card["rows_per_person"]
    yield "mu", f"{round_up(card['mu']):g}"
    yield "sensitivity", f"{card['sensitivity']:.6g} (weighted L2, last stage)"
    yield "expected noise error", f"{error['expected']:.3g} (DP-MEPF, Prop. 4.1)"
    settings = ", ".join(f"{key}={value}" for key, value in sorted(card["settings"].items()))
    yield "method", f"{card['method']}: {settings}; feature seed {card['feature_seed']}"
    yield "sampler", card["sampler"]
    yield "ledger", f"{ledger['ledger_name']}, entry {ledger['sequence']}"
    yield "ledger id", ledger["ledger_id"]
    yield "ledger head", ledger["head"]


def _tiles(card: dict[str, Any]) -> list[dict[str, str]]:
    attack = card["membership_inference"]["by_mu"]
    return [
        {"value": f"ε = {card['epsilon']:g}", "words": "epsilon: how much may be revealed"},
        {
            "value": f"δ = {plain(card['delta'])}",
            "words": "delta: probability that epsilon may fail",
        },
        {
            "value": percent(attack),
            "words": "how often an attacker who knows all other rows can be right about one person "
            "at most; a coin is right 50 % of the time",
        },
        {"value": card["relation"], "words": _RELATIONS[card["relation"]]},
    ]


def _epsilons(card: dict[str, Any]) -> dict[str, Any]:
    other = card["other_relation"]
    tables = {card["relation"]: card["epsilon_at"], other["relation"]: other["epsilon_at"]}
    return {
        "deltas": [plain(entry["delta"]) for entry in card["epsilon_at"]],
        "rows": [
            {
                "relation": relation,
                "epsilons": [f"{entry['epsilon']:g}" for entry in table],
                "none": "" if table else other["guarantee"],
            }
            for relation, table in tables.items()
        ],
    }


def _columns(card: dict[str, Any]) -> Iterator[dict[str, Any]]:
    schema = card["declared_public"]["schema"]
    label = schema["table"].get("label")
    for entry in card["health"]:
        name = entry["column"]
        yield {
            "name": name,
            "label": name == label,
            "facts": column_facts(schema["columns"][name]),
            "broken": entry["broken_cells"],
            "flagged": entry["broken_cells"] > CLEAR * entry["std"],
        }


def _gist(content: Content) -> dict[str, Any]:
    inside = content.inside
    curve = inside.curve
    return {
        "label": content.card["declared_public"]["schema"]["table"].get("label"),
        "gist_title": "Gist" if inside.n_synthetic is None else "Gist and synthetic rows",
        "gist_words": _gist_words(content),
        "class_figure": _class_figure(content) if inside.classes else None,
        "class_words": _class_words(content),
        "panels": [_panel(marginal) for marginal in inside.marginals if marginal.synthetic],
        "colours": {"synthetic": SYNTHETIC, "noisy": NOISY},
        "curve": None
        if curve is None
        else figures.curve_figure(curve.steps, curve.losses, curve.floor),
        "curve_words": "Squared distance between the generator's mean features and the noisy ones. "
        "The true distribution itself would score at the dashed line on average; a loss that stays "
        "far above it has more to learn, one that reaches it has used up the gist.",
        "shown_rows": list(_turned(content)),
    }


def _gist_words(content: Content) -> str:
    if content.inside.n_synthetic is None:
        return "There are no synthetic rows in the folder; this is the gist alone."
    return (
        "What was released, noise included, beside the synthetic rows of the folder, which are "
        "taken to be drawn from the model. Where the two agree the generator has learnt what the "
        "gist tells; how far the gist is from the truth is the noise on the card."
    )


def _class_words(content: Content) -> str:
    marks = "Marks: noisy share in the gist, ± 2 standard deviations of its noise."
    if content.inside.n_synthetic is None:
        return f"{marks} The percentage is the noisy one."
    return f"Bars: share among the synthetic rows. {marks} The percentage is the synthetic one."


def _class_figure(content: Content) -> Markup:
    classes = content.inside.classes
    names = [entry.name for entry in classes]
    noisy = Series(
        name="noisy",
        shares=[entry.noisy for entry in classes],
        look="marks",
        colour=NOISY,
        std=classes[0].noisy_std,
    )
    drawn = [entry.synthetic for entry in classes if entry.synthetic is not None]
    if len(drawn) != len(names):
        return figures.choice_panel("", names, [noisy], wide=True)
    bars = Series(name="synthetic", shares=drawn, look="filled", colour=SYNTHETIC)
    return figures.choice_panel("", names, [bars, noisy], wide=True)


def _panel(marginal: Marginal) -> Markup:
    drawn = marginal.synthetic or ()
    series = [Series(name="synthetic", shares=drawn, look="filled", colour=SYNTHETIC)]
    if marginal.edges:
        return figures.interval_panel(
            marginal.column, marginal.edges, series, ends=marginal.ends, note=_null_note(marginal)
        )
    if marginal.noisy is not None:
        std = marginal.noisy_std or 0.0
        series.append(
            Series(name="noisy", shares=marginal.noisy, look="marks", colour=NOISY, std=std)
        )
    return figures.choice_panel(marginal.column, marginal.names, series, note=_gap_note(marginal))


def _gap_note(marginal: Marginal) -> str:
    if marginal.gap is None or marginal.chance_gap is None:
        return marginal.kind
    return f"gap {short(marginal.gap, 2)}, by chance {short(marginal.chance_gap, 2)}"


def _null_note(marginal: Marginal) -> str:
    if marginal.noisy_null is None or marginal.null is None:
        return marginal.kind
    return f"null: {percent(marginal.null)} synthetic, {percent(marginal.noisy_null)} in the gist"


def _turned(content: Content) -> Iterator[tuple[str, list[str]]]:
    """One line per column: so a table of any width fits the page."""
    inside, columns = content.inside, content.card["declared_public"]["schema"]["columns"]
    if len(inside.shown_columns) < 2:
        return
    for index, name in enumerate(inside.shown_columns):
        cells = [row[index] for row in inside.shown_rows[:SHOWN_ROWS]]
        yield name, [_shortened(c) for c in cells] if columns[name]["type"] == "number" else cells


def _shortened(number: str) -> str:
    """A number in as many digits as its cell has room for; null stays empty."""
    return number if len(number) <= CELL_DIGITS else f"{float(number):.6g}"


def _strips(images: dict[str, Array]) -> Iterator[dict[str, str]]:
    if not images or len(images["x"]) == 0:
        return
    labels = images.get("y", np.full(len(images["x"]), "all"))
    for kind in sorted(set(labels.tolist()), key=str)[:MOST_STRIPS]:
        chosen = images["x"][labels == kind]
        yield {
            "name": str(kind),
            "source": figures.image_strip(chosen, across=16),
            "about": f"{min(len(chosen), 16)} synthetic images of {kind}",
        }
