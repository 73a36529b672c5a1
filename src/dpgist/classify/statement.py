"""The card of a classifier for people: the guarantee first, then how it was trained."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from dpgist.card import CAVEATS, at_least, column_facts, in_words, ledger_lines, round_up
from dpgist.classify.maps import Maps
from dpgist.errors import ArtefactError
from dpgist.privacy.accounting import units_of
from dpgist.privacy.plan import Budget, Relation
from dpgist.schema import Schema

_WIDTH = 94
_LARGEST_EXPONENT = 700.0


def statement(maps: Maps, schema: Schema) -> dict[str, Any]:
    """The card that travels with the maps, with their shape and the schema beside it.

    Privacy: a function of a released classifier.
    """
    n_classes, n_maps = maps.biases.shape
    return {
        **stated(maps),
        "classifier": {
            "label": schema.label,
            "classes": list(maps.classes),
            "maps": n_maps,
            "inverse_temperature": maps.temperature,
            "inputs": maps.inputs,
            "features": maps.weights.shape[2],
            "copies": maps.n_copies,
            "numbers": n_classes * n_maps * (maps.weights.shape[2] + 1),
        },
        "declared_public": {"schema": schema.to_dict()},
        "caveats": list(CAVEATS),
    }


def stated(maps: Maps) -> dict[str, Any]:
    """The card that travels with the maps; its promise is worded anew, and its cost allows it.

    Privacy: a function of a released classifier.
    """
    card: Any = maps.facts.get("card", {})
    if card == {}:  # maps that were made by hand state nothing
        return {}
    try:
        known = {name: card[name] for name in ("epsilon", "delta", "relation")}
        budget = Budget(**known)
        if card["training"]["mu_squared_units"] > units_of(budget):
            raise ArtefactError("this classifier cost more than its card promises")
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ArtefactError("the card of this classifier is damaged") from error
    return {**card, "guarantee": in_words(budget).replace("this gist", "this classifier")}


def statement_text(card: Mapping[str, Any]) -> str:
    """The card for people.

    Privacy: a function of the card.
    """
    try:
        title = f"dpgist classifier card: {card['table']}"
        parts = [title, "=" * len(title), ""]
        for heading, lines in _sections(card):
            parts += [heading, *(f"  {line}" for line in lines), ""]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ArtefactError("the card of this classifier is damaged, or it has none") from error
    return "\n".join(parts)


def _sections(card: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    yield "GUARANTEE", list(_guarantee(card))
    yield "TRAINING (DP-SGD)", list(_training(card["training"]))
    yield "CLASSIFIER", list(_classifier(card["classifier"]))
    yield "DECLARED PUBLIC (never computed from the rows)", list(_declared(card))
    yield "MADE BY", list(_made(card))
    yield "READ THIS TOO", [line for text in card["caveats"] for line in _wrapped(text)]


def _guarantee(card: Mapping[str, Any]) -> Iterator[str]:
    yield from _wrapped(card["guarantee"])
    epsilon, delta = card["epsilon"], card["delta"]
    yield f"relation {card['relation']}, epsilon {at_least(epsilon)}, delta {at_least(delta)}"
    if card["relation"] == Relation.ADD_REMOVE:
        # Replacing a row is taking one out and putting one in: group privacy of two.
        both = round_up(delta * (1 + math.exp(min(epsilon, _LARGEST_EXPONENT))))
        other = f"epsilon {round_up(2 * epsilon):g}, delta {both:g}" if both < 1 else "none"
        yield f"relation {Relation.REPLACE_ONE}: {other}"
    else:
        yield f"relation {Relation.ADD_REMOVE}: none, the row count is published"
    attack = 100 * _membership_bound(card["epsilon"], card["delta"])
    yield from _wrapped(
        "Membership inference: with a fifty-fifty prior and all other rows known, an attacker is "
        f"right at most {attack:.2f} % of the time."
    )
    yield f"rows per person: declared {card['max_rows_per_person']}, not checked"


def _training(run: Mapping[str, Any]) -> Iterator[str]:
    yield f"{run['steps']} steps, each row in a step with probability {run['rate']:.6g} (Poisson)"
    yield f"gradients clipped to {run['clip']:.4g}; noise multiplier {run['noise_multiplier']:.5g}"
    yield f"row count: {run['rows']:.0f}, {run['rows_source']}; sums are divided by count x rate"
    alone = round_up(run["epsilon_alone"])
    yield f"this run alone by privacy-loss distributions: epsilon {alone:g}"


def _classifier(shape: Mapping[str, Any]) -> Iterator[str]:
    yield from _wrapped(f"label {shape['label']}: {', '.join(shape['classes'])}")
    yield (
        f"{shape['maps']} maps per class, inverse temperature {shape['inverse_temperature']:g}, "
        f"{shape['inputs']} inputs, {shape['features']} features, {shape['numbers']:,} numbers"
    )
    if shape["copies"] > 1:
        yield f"trained on {shape['copies']} moved copies of each image; scores are their mean"


def _declared(card: Mapping[str, Any]) -> Iterator[str]:
    schema = card["declared_public"]["schema"]
    for name in schema["table"]["order"]:
        yield from textwrap.wrap(
            f"{name}: {column_facts(schema['columns'][name])}", _WIDTH, subsequent_indent="    "
        )


def _made(card: Mapping[str, Any]) -> Iterator[str]:
    yield f"dpgist {card['version']}"
    yield from ledger_lines(card["ledger"])


def _membership_bound(epsilon: float, delta: float) -> float:
    """How often an attacker with a fifty-fifty prior can be right, rounded up."""
    odds = math.exp(-epsilon)
    return round_up(min(1.0, (1.0 + delta * odds) / (1.0 + odds)))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)
