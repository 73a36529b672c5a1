"""The card: what a release promises, what it assumed, and what it cost, as data and as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dpgist.encode import Encoder
from dpgist.privacy.accounting import epsilon_of, membership_bound
from dpgist.privacy.noise import SAMPLER
from dpgist.privacy.plan import COUNTS, HEALTH, Budget, Relation
from dpgist.privacy.sensitivity import mu_under

if TYPE_CHECKING:
    from dpgist.gist import Gist

REHEARSAL = "REHEARSAL: NOT PRIVATE. Made with repeatable noise from simulated or public rows."
NO_GUARANTEE = (
    "NONE. This is a rehearsal: its noise is repeatable or left out, so that it protects nobody. "
    "Epsilon, delta and noise below are what a real release under this budget would have had."
)
CAVEATS = (
    "The promise is computational: it rests on AES-256 keyed by the operating system's entropy.",
    "Timing is out of scope: how long the private pass took is not protected.",
    "The ledger is evidence, not enforcement: compare its id, entry and head with the file.",
)


def card_dict(gist: Gist) -> dict[str, Any]:
    """The card as JSON-able data; :func:`card_text` renders it.

    Privacy: a function of the release and of public facts.
    """
    released = gist.released
    return {
        "rehearsal": gist.rehearsal,
        "table": gist.schema.name,
        **guarantee(released.budget, released.mu),
        **({"guarantee": NO_GUARANTEE} if gist.rehearsal else {}),
        "other_relation": _other_relation(gist),
        "max_rows_per_person": released.max_rows_per_person,
        "rows_per_person": f"declared {released.max_rows_per_person}, not checked",
        "sensitivity": released.sensitivity,
        "noise": _noise(gist),
        "noise_error": asdict(gist.noise_error()),
        "declared_public": _declared(gist),
        "class_counts": _class_counts(gist),
        "health": _health(gist),
        "method": gist.method,
        "settings": gist.settings,
        "feature_seed": gist.feature_seed,
        "sampler": "none that protects anybody" if gist.rehearsal else SAMPLER,
        "ledger": asdict(gist.ledger),
        "version": gist.version,
        "caveats": [NO_GUARANTEE] if gist.rehearsal else list(CAVEATS),
    }


def guarantee(budget: Budget, mu: float) -> dict[str, Any]:
    """The promise of a budget and its mu: in words, for three deltas, and to an attacker.

    Privacy: arithmetic on public quantities; epsilon and the attacker's odds are rounded up.
    """
    return {
        "guarantee": in_words(budget),
        "relation": budget.relation.value,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "mu": mu,
        "epsilon_at": epsilons(mu, budget),
        "membership_inference": membership_inference(budget, mu),
    }


def epsilons(mu: float, budget: Budget, *, own: bool = True) -> list[dict[str, float]]:
    """Epsilon at the budget's delta and at two smaller ones.

    Privacy: arithmetic on public quantities, rounded up.
    """
    others = [d for d in (1e-6, 1e-9, 1e-12) if d < budget.delta / 2][:2]
    while len(others) < 2:
        others.append(min(others, default=budget.delta) / 1000)
    result = []
    for delta in (budget.delta, *others):
        epsilon = epsilon_of(mu, delta)
        if own and delta == budget.delta:  # two valid bounds on the same number
            epsilon = min(epsilon, budget.epsilon)
        result.append({"delta": delta, "epsilon": round_up(epsilon)})
    return result


def membership_inference(budget: Budget, mu: float) -> dict[str, float]:
    r"""How often an attacker with a fifty-fifty prior can be right about one person.

    ``by_epsilon`` is :math:`(e^\varepsilon + \delta)/(1 + e^\varepsilon)`: table 1.1 of the thesis,
    :math:`1/(1+e^{-\varepsilon})`, with delta added. ``by_mu`` is :math:`\Phi(\mu/2)`, the exact
    best of all tests against this Gaussian (Dong, Roth, Su 2022, Cor. 2.13).

    Privacy: arithmetic on public quantities, rounded up.
    """
    odds = math.exp(-budget.epsilon)
    by_epsilon = min(1.0, (1.0 + budget.delta * odds) / (1.0 + odds))
    return {"by_epsilon": round_up(by_epsilon), "by_mu": round_up(membership_bound(mu))}


def round_up(value: float, digits: int = 4) -> float:
    """Round away from zero to some significant digits, forgiving one part in 10^12.

    Privacy: rounds claims against ourselves.
    """
    if value <= 0 or not math.isfinite(value):
        return value
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return float(f"{math.ceil(value * scale * (1 - 1e-12)) / scale:.{digits}g}")


def at_least(value: float) -> str:
    """A claimed number in few digits, or in all it has where few would promise more.

    Privacy: rounds claims against ourselves.
    """
    short = f"{value:g}"
    return short if float(short) >= value else repr(value)


def card_text(card: dict[str, Any]) -> str:
    """The card for people.

    Privacy: a function of the card.
    """
    title = f"dpgist release card: {card['table']}"
    parts = [title, "=" * len(title), ""]
    if card["rehearsal"]:
        parts += [REHEARSAL, ""]
    for heading, lines in _sections(card):
        parts += [heading, *(f"  {line}" for line in lines), ""]
    return "\n".join(parts)


def guarantee_lines(card: dict[str, Any]) -> list[str]:
    """The guarantee section; ``plan`` prints it before anything is spent.

    Privacy: a function of the card.
    """
    in_words = textwrap.wrap(card["guarantee"], 94)
    if card.get("rehearsal"):
        return in_words
    attack = card["membership_inference"]
    other = card["other_relation"]
    lines = [
        *in_words,
        f"relation {card['relation']}, mu = {round_up(card['mu']):g}; epsilon = "
        + _epsilon_list(card["epsilon_at"]),
        f"relation {other['relation']}: {other['guarantee']}",
        *textwrap.wrap(
            f"Membership inference: with a fifty-fifty prior and all other rows known, an attacker "
            f"is right at most {_percent(attack['by_epsilon'])} of the time by epsilon and delta "
            f"alone (thesis, table 1.1), and at most {_percent(attack['by_mu'])} by mu.",
            94,
        ),
        f"rows per person: {card['rows_per_person']}",
    ]
    return lines


def other_reading(mu: float | None, budget: Budget) -> dict[str, Any]:
    """What a release under one relation promises under the other, given its mu there.

    Privacy: arithmetic on public quantities, rounded up.
    """
    if mu is None:
        return {
            "relation": Relation.ADD_REMOVE.value,
            "guarantee": "none, the row count is published",
            "mu": None,
            "epsilon_at": [],
        }
    table = epsilons(mu, budget, own=False)
    words = f"mu = {round_up(mu):g}; epsilon = {_epsilon_list(table)}"
    other = next(relation for relation in Relation if relation != budget.relation)
    return {"relation": other.value, "guarantee": words, "mu": mu, "epsilon_at": table}


def _epsilon_list(table: list[dict[str, float]]) -> str:
    return ", ".join(f"{e['epsilon']:g} (delta {at_least(e['delta'])})" for e in table)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"  # shares come rounded up to four digits


def in_words(budget: Budget) -> str:
    """The promise of a budget. Privacy: public."""
    epsilon, delta = at_least(budget.epsilon), at_least(budget.delta)
    both = f"({epsilon}, {delta})-differential privacy"
    if budget.relation == Relation.ADD_REMOVE:
        return (
            f"{both}: whatever is done with this gist, any conclusion is at most "
            f"e^{epsilon} times as likely with a person's rows in the table as with them "
            f"left out, and the other way round, up to a probability of {delta}. "
            "The row count is protected too."
        )
    return (
        f"{both}: whatever is done with this gist, any conclusion is at most "
        f"e^{epsilon} times as likely with a person's rows as with any other rows in "
        f"their place, up to a probability of {delta}. The row count is public."
    )


def _other_relation(gist: Gist) -> dict[str, Any]:
    budget = gist.released.budget
    other = next(relation for relation in Relation if relation != budget.relation)
    return other_reading(mu_under(gist.released, other), budget)


def _noise(gist: Gist) -> list[dict[str, Any]]:
    return [
        {
            "stage": number,
            "block": block.block.name,
            "classes": block.values.shape[0],
            "length": block.block.length,
            "weight": block.block.weight,
            "grid_bits": block.block.bits,
            "noise_std": block.noise_std,
        }
        for number, stage in enumerate(gist.released.stages, start=1)
        for block in stage.blocks
    ]


def _declared(gist: Gist) -> dict[str, Any]:
    return {
        "schema": gist.schema.to_dict(),
        "rows_about": gist.schema.rows_about,
        "n_rows": gist.released.n_rows,
        "feature_seed": gist.feature_seed,
        "table_kind": gist.table_kind,
    }


def _class_counts(gist: Gist) -> list[dict[str, Any]]:
    block = gist.released.last[COUNTS]
    return [
        {"class": name, "count": float(count), "std": block.noise_std}
        for name, count in zip(_class_names(gist), block.sums()[:, 0], strict=True)
    ]


def _class_names(gist: Gist) -> list[str]:
    if gist.schema.label is None:
        return ["all rows"]
    encoder = Encoder(gist.schema)
    nameless = ["(null)" if allowed else "(undeclared)" for allowed in encoder.class_allowed]
    return [name or rest for name, rest in zip(encoder.class_names, nameless, strict=True)]


def _health(gist: Gist) -> list[dict[str, Any]]:
    block = gist.released.last[HEALTH]
    columns = Encoder(gist.schema).columns
    return [
        {"column": column, "broken_cells": float(n), "std": block.noise_std}
        for column, n in zip(columns, block.sums().sum(axis=0), strict=True)
    ]


def _sections(card: dict[str, Any]) -> list[tuple[str, list[str]]]:
    model = [("MODEL (post-processing, costs nothing)", card["model"])] if "model" in card else []
    return [
        ("GUARANTEE", guarantee_lines(card)),
        ("NOISE", _noise_lines(card)),
        ("DECLARED PUBLIC (never computed from the rows)", _declared_lines(card)),
        ("NOISY CLASS COUNTS", _count_lines(card)),
        ("HEALTH (noisy number of cells that broke the schema)", _health_lines(card)),
        ("MADE BY", _made_lines(card)),
        *model,
        ("READ THIS TOO", [line for text in card["caveats"] for line in textwrap.wrap(text, 94)]),
    ]


def _noise_lines(card: dict[str, Any]) -> list[str]:
    error = card["noise_error"]
    lines = [f"sensitivity {card['sensitivity']:.6g} (weighted L2, last stage)"]
    lines += [
        f"{b['block']}: {b['classes']} x {b['length']} numbers, noise std {b['noise_std']:.4g}, "
        f"weight {b['weight']:.4g}, grid 2^-{b['grid_bits']}"
        + (f", stage {b['stage']}" if b["stage"] > 1 else "")
        for b in card["noise"]
    ]
    return [
        *lines,
        f"sampler: {card['sampler']}",
        f"expected error the noise adds to the matching loss: {error['expected']:.3g} "
        "(DP-MEPF, Prop. 4.1)",
        f"bound on the expected absolute error: {error['bound']:.3g} from noise, "
        f"{error['feature_term']:.3g} from finitely many features (DP-MERF, Prop. 3.1)",
    ]


def _declared_lines(card: dict[str, Any]) -> list[str]:
    declared = card["declared_public"]
    table = declared["schema"].get("table", {})
    rows = declared["rows_about"]
    lines = [
        f"rows about {rows}" if rows else "rows_about: not declared",
        f"label: {table.get('label') or 'none'}",
        f"feature seed {declared['feature_seed']}; source kind {_kind(declared['table_kind'])}",
    ]
    if declared["n_rows"] is not None:
        lines.insert(0, f"row count {declared['n_rows']} (public under replace_one)")
    columns = declared["schema"]["columns"]
    for name in table.get("order", columns):
        lines += textwrap.wrap(
            f"{name}: {column_facts(columns[name])}",
            94,
            subsequent_indent="    ",
            break_long_words=False,
        )
    return lines


def _kind(name: str) -> str:
    """A source's kind; of text files also what their one row a record rests on."""
    return f"{name}, trusted to be quoted as RFC 4180 says" if name == "csv" else name


def column_facts(column: dict[str, Any]) -> str:
    """What the schema declares of one column, in a line. Privacy: public facts only."""
    words = [str(column.get("type", ""))]
    if "min" in column:
        words.append(f"{column['min']} to {column['max']}")
    if "values" in column:
        joiner = " < " if column.get("ordered") else ", "
        words.append(joiner.join(map(str, column["values"])))
    if column.get("other") is not None:
        words.append(f"else {column['other']}")
    if column.get("nullable"):
        words.append("or null")
    return " ".join(words)


def _count_lines(card: dict[str, Any]) -> list[str]:
    return [f"{c['class']}: {c['count']:.0f} ± {c['std']:.0f}" for c in card["class_counts"]]


def _health_lines(card: dict[str, Any]) -> list[str]:
    return [f"{h['column']}: {h['broken_cells']:.0f} ± {h['std']:.0f}" for h in card["health"]]


def _made_lines(card: dict[str, Any]) -> list[str]:
    ledger = card["ledger"]
    settings = ", ".join(f"{key}={value}" for key, value in sorted(card["settings"].items()))
    return [
        *textwrap.wrap(f"method {card['method']} ({settings})", 94),
        f"dpgist {card['version']}",
        *ledger_lines(ledger),
    ]


def ledger_lines(ledger: Mapping[str, Any]) -> list[str]:
    """Where a release stands in its ledger. Privacy: public."""
    if ledger.get("in_memory"):
        return ["ledger kept in memory only: no other release of the same rows is counted"]
    return [
        f"ledger {ledger['ledger_name']}, id {ledger['ledger_id']}, entry {ledger['sequence']}",
        f"ledger head {ledger['head']}",
    ]
