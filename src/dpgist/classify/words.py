"""Explanations for people and for programs: text and JSON-able data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpgist.classify.effects import contributions, effects, middle_row
from dpgist.classify.explain import Explanation, contrasts, local_contrasts
from dpgist.classify.maps import Maps
from dpgist.encode import Encoder
from dpgist.schema import Schema

MOST_COLUMNS, MOST_MAPS = 8, 3
MEANING = (
    "Sizes are what a cell adds to the score of the class; e^size is how many times likelier the"
    " class becomes beside a class that gains nothing. What all classes share is left out."
)


def global_dict(maps: Maps, schema: Schema) -> dict[str, Any]:
    """The filter bank as data: every effect of every column, for each map of each class.

    Privacy: post-processing of a released classifier.
    """
    if schema.image is not None:
        bank = maps.filters()
        return {"classes": list(maps.classes), "maps": bank.shape[1], "filters": bank.tolist()}
    bank = contrasts(maps)
    return {
        "classes": [
            {
                "class": name,
                "mean": _filter_dict(own.mean(axis=0), float(np.mean(b)), schema),
                "maps": [_filter_dict(one, bias, schema) for one, bias in zip(own, b, strict=True)],
            }
            for name, own, b in zip(maps.classes, bank, maps.biases.tolist(), strict=True)
        ]
    }


def global_text(maps: Maps, schema: Schema, *, most: int = MOST_COLUMNS) -> str:
    """Which columns drive each class, the strongest first, in their own units.

    Privacy: post-processing of a released classifier.
    """
    return "\n".join(_global_lines(maps, schema, most))


def local_dicts(maps: Maps, explanation: Explanation, schema: Schema) -> list[dict[str, Any]]:
    """Why each row got its class: active maps with attention, and what each cell added.

    Privacy: as confidential as the rows.
    """
    local = local_contrasts(maps, explanation)
    found = []
    for row, place in enumerate(explanation.predicted.tolist()):
        active = zip(explanation.active[row, place], explanation.attention[row, place], strict=True)
        one = {
            "class": explanation.classes[place],
            "probability": float(explanation.probabilities[row, place]),
            "active_maps": [{"map": int(m) + 1, "attention": float(s)} for m, s in active],
        }
        if schema.image is None:
            parts = contributions(local[row, place], explanation.inputs[row], schema)
            one["contributions"] = [
                {"column": part.column, "cell": part.cell, "size": part.size} for part in parts
            ]
        found.append(one)
    return found


def local_text(
    maps: Maps,
    explanation: Explanation,
    schema: Schema,
    names: Sequence[str],
    *,
    most: int = MOST_COLUMNS,
) -> str:
    """Why each row got its class, for people; ``names`` say which rows these are.

    Privacy: as confidential as the rows.
    """
    lines = []
    for name, one in zip(names, local_dicts(maps, explanation, schema), strict=True):
        lines.append(f"{name}: {one['class']}, probability {one['probability']:.3f}")
        active = ", ".join(
            f"map {a['map']} (attention {a['attention']:.2f})" for a in one["active_maps"]
        )
        lines.append(f"  active: {active}")
        for part in one.get("contributions", [])[:most]:
            lines.append(f"  {part['size']:+7.3f}  {part['column']} = {part['cell']}")
    return "\n".join(lines)


def _global_lines(maps: Maps, schema: Schema, most: int) -> Iterator[str]:
    n_classes, n_maps = maps.biases.shape
    label = schema.label or "the class"
    if schema.image is not None:
        size = f"{schema.image.height} x {schema.image.width} pixels"
        yield f"{schema.name}: {n_classes} classes of {label}, {n_maps} filters each, of {size}"
        yield "Filters are pictures: --plot draws them, --json prints their numbers."
        return
    yield f"{schema.name}: which columns drive each class of {label}"
    yield MEANING
    for name, own in zip(maps.classes, contrasts(maps), strict=True):
        if n_maps > 1:
            yield from ("", f"{label} = {name}, mean of its {n_maps} maps")
            yield from _effect_lines(own.mean(axis=0), schema, most)
        kept = sorted(np.argsort(-np.linalg.norm(own, axis=1), kind="stable")[:MOST_MAPS].tolist())
        for place in kept:
            yield ""
            yield f"{label} = {name}" + (f", map {place + 1} of {n_maps}" if n_maps > 1 else "")
            yield from _effect_lines(own[place], schema, most)
        if n_maps > len(kept):
            yield f"  ({n_maps - len(kept)} weaker maps are left out; --json prints all)"


def _effect_lines(filter_: Any, schema: Schema, most: int) -> Iterator[str]:
    found = effects(filter_, schema)
    width = max(len(effect.column) for effect in found[:most])
    for effect in found[:most]:
        yield f"  {effect.column:<{width}}  {effect.text()}"
    if len(found) > most:
        yield f"  ({len(found) - most} weaker columns are left out)"


def _filter_dict(filter_: Any, bias: float, schema: Schema) -> dict[str, Any]:
    middle = float(filter_ @ middle_row(Encoder(schema))) + bias
    return {
        "middle_row": middle,
        "columns": [
            {
                "column": effect.column,
                "strength": effect.strength,
                "slope": effect.slope,
                "sizes": [{"cell": cell, "size": size} for cell, size in effect.sizes],
            }
            for effect in effects(filter_, schema)
        ],
    }
