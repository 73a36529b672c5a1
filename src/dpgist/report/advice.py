"""What to do if a score is poor, read off the numbers of this very report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpgist.gist import Gist
from dpgist.privacy.accounting import mu_of
from dpgist.privacy.plan import COUNTS, HEALTH
from dpgist.report.inside import Inside, Marginal, ranges_are_released
from dpgist.report.svg import percent, short

CLEAR = 3.0
"""A noisy number counts as different from 0 beyond so many standard deviations."""
NOTICEABLE_SHARE = 0.005
UNTRAINED, HARDLY_TRAINED = 1.2, 2.0
"""A loss so many times over what the noise alone leaves has more to learn."""
NARROW = 0.2
WEAK_EPSILON = 10.0

_AGAIN = "A second release is charged to the ledger like the first."


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One finding: how much it matters, what was seen, and what to do about it."""

    level: Literal["act", "look", "fine"]
    title: str
    why: str
    do: str


def advise(gist: Gist, inside: Inside) -> tuple[Advice, ...]:
    """Findings from the gist, the model and the synthetic rows, the most pressing first.

    Privacy: post-processing of a release.
    """
    found = [
        *_guarantee(gist),
        *_health(gist),
        *_classes(inside),
        *_training(gist, inside),
        *_noise(gist, inside),
        *_rows_about(gist),
        *_columns(gist, inside),
    ]
    return in_order(found)


def in_order(found: list[Advice]) -> tuple[Advice, ...]:
    """The most pressing first. Privacy: as private as the findings."""
    return tuple(sorted(found, key=lambda piece: ("act", "look", "fine").index(piece.level)))


def _guarantee(gist: Gist) -> Iterator[Advice]:
    budget = gist.released.budget
    if budget.delta > 1 / gist.rows:
        yield Advice(
            level="act",
            title="Delta is larger than one over the number of rows",
            why=f"With delta {budget.delta:g} and about {gist.rows:,.0f} rows the guarantee allows "
            "a method that publishes somebody's row outright.",
            do=f"Release with a delta well below {short(1 / gist.rows)}. {_AGAIN}",
        )
    if budget.epsilon > WEAK_EPSILON:
        yield Advice(
            level="look",
            title=f"Epsilon {budget.epsilon:g} protects weakly",
            why="The membership line of the card says how often an attacker may be right.",
            do="If scores are far better than needed, release with a smaller epsilon.",
        )


def _health(gist: Gist) -> Iterator[Advice]:
    for entry in gist.card_dict()["health"]:
        share = entry["broken_cells"] / gist.rows
        if entry["broken_cells"] > CLEAR * entry["std"] and share > NOTICEABLE_SHARE:
            yield Advice(
                level="act",
                title=f"Many cells of {entry['column']!r} broke the schema",
                why=f"About {entry['broken_cells']:,.0f} ± {entry['std']:.0f} cells "
                f"({percent(share)}) were outside what the schema declares and were replaced.",
                do="Compare the schema with the data dictionary: bounds, values, date format, "
                f"`nullable`, `other`. Correct it from public facts, not from the rows. {_AGAIN}",
            )


def _classes(inside: Inside) -> Iterator[Advice]:
    weak = [
        entry
        for entry in inside.classes
        if entry.name != "(undeclared)" and entry.count < CLEAR * entry.count_std
    ]
    if weak:
        names = ", ".join(repr(entry.name) for entry in weak[:5])
        yield Advice(
            level="act",
            title="Some classes drown in the noise",
            why=f"The noisy counts of {names} do not stand out of noise of "
            f"± {weak[0].count_std:.0f}; such classes are learnt badly or left out.",
            do=f"Merge rare classes in the schema, or release with more epsilon. {_AGAIN}",
        )


def _training(gist: Gist, inside: Inside) -> Iterator[Advice]:
    curve = inside.curve
    if curve is None:
        return
    ended = f"The loss ended at {short(curve.last)}; the noise alone would leave "
    ended += f"{short(curve.floor)}."
    if curve.last > UNTRAINED * curve.floor:
        yield Advice(
            level="act" if curve.last > HARDLY_TRAINED * curve.floor else "look",
            title="Training stopped above the noise",
            why=f"{ended} The gist holds more than the generator has learnt.",
            do=f"Train longer, which costs no privacy: dpgist train release.gist --steps "
            f"{4 * curve.n_steps} --out generator.model --force. If the loss stays, try another "
            "--generator.",
        )
    else:
        yield Advice(
            level="fine",
            title="Training has used up the gist",
            why=f"{ended} Longer training could only learn the noise.",
            do="If a score is poor nevertheless, the noise or the method is the limit, not "
            "training.",
        )


def _noise(gist: Gist, inside: Inside) -> Iterator[Advice]:
    curve, budget = inside.curve, gist.released.budget
    if curve is None:
        return
    share = curve.floor / curve.losses[0]
    less = (mu_of(2 * budget.epsilon, budget.delta) / mu_of(budget.epsilon, budget.delta)) ** 2
    blocks = [b for b in gist.released.last.blocks if b.block.name not in (COUNTS, HEALTH)]
    numbers = sum(block.values.size for block in blocks)
    for_tables = "list columns nobody needs under `ignore`, merge rare values and classes"
    ask = "merge rare classes" if gist.schema.image else for_tables
    level, title = next(words for least, words in _NOISE_LEVELS if share >= least)
    yield Advice(
        level=level,
        title=title,
        why=f"The noise alone ({short(curve.floor)}) is {percent(share, 2)} of the loss before "
        f"training ({short(curve.losses[0])}): {numbers:,} noisy numbers were released about "
        f"{gist.rows:,.0f} rows with {len(gist.schema.columns)} columns.",
        do=f"To lower it: epsilon {2 * budget.epsilon:g} would divide it by {less:.1f}, twice as "
        f"many rows by 4. Or ask for less: {ask}. {_AGAIN}",
    )


_Level = Literal["act", "look", "fine"]
_NOISE_LEVELS: tuple[tuple[float, tuple[_Level, str]], ...] = (
    (0.5, ("act", "The noise drowns the signal")),
    (0.05, ("look", "The noise is a good part of the signal")),
    (0.0, ("fine", "The noise is small beside the signal")),
)


def _rows_about(gist: Gist) -> Iterator[Advice]:
    declared, noisy = gist.schema.rows_about, gist.rows
    counts = gist.released.last[COUNTS]
    std = counts.noise_std * len(counts.values) ** 0.5
    if declared is None:
        if gist.released.n_rows is None:
            yield Advice(
                level="look",
                title="The schema does not say about how many rows there are",
                why="Without `rows_about` dpgist plan cannot foresee the error of a release.",
                do="If the row count is roughly public, declare `rows_about` in the schema.",
            )
    elif abs(declared - noisy) > max(CLEAR * std, 0.25 * declared):
        yield Advice(
            level="look",
            title="The declared row count is far off",
            why=f"The schema says about {declared:,} rows, the noisy count is {noisy:,.0f}.",
            do="Correct `rows_about` from what is public, and check that the whole table was "
            "released.",
        )


def _columns(gist: Gist, inside: Inside) -> Iterator[Advice]:
    for marginal in inside.marginals:
        yield from _misfit(marginal)
        yield from _rare(marginal)
        if not ranges_are_released(gist):
            yield from _narrow(marginal)


def _misfit(marginal: Marginal) -> Iterator[Advice]:
    gap, chance = marginal.gap, marginal.chance_gap
    if gap is not None and chance is not None and gap > max(CLEAR * chance, 0.01):
        yield Advice(
            level="look",
            title=f"{marginal.column!r} does not follow the gist",
            why=f"Its synthetic shares are {gap:.3f} away (total variation) from the noisy ones; "
            f"noise and drawing explain {chance:.3f}.",
            do="Train longer or with another --generator; both are free.",
        )


def _rare(marginal: Marginal) -> Iterator[Advice]:
    if marginal.noisy is None or marginal.noisy_std is None or len(marginal.names) < 4:
        return
    lost = int(np.sum(np.asarray(marginal.noisy) < 2 * marginal.noisy_std))
    if 2 * lost > len(marginal.names):
        yield Advice(
            level="look",
            title=f"Most values of {marginal.column!r} drown in the noise",
            why=f"{lost} of its {len(marginal.names)} values have a noisy share below twice the "
            f"noise of {short(marginal.noisy_std)}.",
            do=f"Merge rare values in the schema (`values` and `other`). {_AGAIN}",
        )


def _narrow(marginal: Marginal) -> Iterator[Advice]:
    if not marginal.edges or not marginal.synthetic or sum(marginal.synthetic) <= 0:
        return
    shares = np.sort(np.asarray(marginal.synthetic))[::-1].cumsum()
    used = (int(np.searchsorted(shares, 0.99 * shares[-1])) + 1) / len(shares)
    if used < NARROW:
        yield Advice(
            level="look",
            title=f"{marginal.column!r} uses little of its declared range",
            why=f"99 % of its synthetic values lie in {percent(used, 0)} of the bins between the "
            "declared bounds, so that features see them as nearly equal.",
            do="If tighter bounds are public knowledge, declare them; values beyond are clipped. "
            f"{_AGAIN}",
        )
