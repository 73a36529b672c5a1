"""Rehearsals: releases with repeatable noise, or none, of rows that need no protection.

The papers' "non-private" columns, and experiments that must come out the same twice, need a gist
whose noise is known. Real noise takes no seed, so this is another door, for rows that the caller
declares public or simulated. What comes out of it is stamped as not private in the object, on the
card and in every file, and :func:`dpgist.train` refuses it unless told otherwise. Nothing in the
package imports this module, and the command line does not know it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpgist.gist import REHEARSAL_LEDGER, Gist
from dpgist.methods import Method, settings
from dpgist.privacy import curator
from dpgist.privacy.accounting import units_of
from dpgist.privacy.ledger import LedgerStamp
from dpgist.privacy.plan import Budget
from dpgist.privacy.released import Released, ReleasedBlock, ReleasedStage
from dpgist.schema import Schema
from dpgist.sources import open_source
from dpgist.version import __version__

__all__ = ["NoNoise", "RepeatableNoise", "rehearse"]

_Integers = npt.NDArray[np.int64]


class Noise(Protocol):
    """What a rehearsal adds to exact sums. Privacy: protects nobody."""

    @property
    def words(self) -> str: ...

    def added(self, values: _Integers, *, noise_std: float, place: tuple[int, int]) -> _Integers:
        """The values with noise; ``place`` numbers stage and block, so that none repeats."""
        ...


@dataclass(frozen=True, kw_only=True)
class RepeatableNoise:
    """Gaussian noise of the budget's size from a published seed: whoever knows it takes it off.

    Privacy: none.
    """

    seed: int

    @property
    def words(self) -> str:
        """What the card says. Privacy: public."""
        return f"repeatable noise, seed {self.seed}"

    def added(self, values: _Integers, *, noise_std: float, place: tuple[int, int]) -> _Integers:
        """The values with rounded Gaussian noise. Privacy: none."""
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([self.seed, *place])))
        return values + np.rint(noise_std * rng.standard_normal(values.shape)).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class NoNoise:
    """The exact sums, as in the papers' non-private columns.

    Privacy: none.
    """

    words = "no noise at all"

    def added(self, values: _Integers, *, noise_std: float, place: tuple[int, int]) -> _Integers:
        """The values themselves. Privacy: none."""
        del noise_std, place
        return values


def rehearse(
    table: Any,
    schema: Schema,
    method: Method,
    budget: Budget,
    *,
    public: str,
    noise: Noise,
    seed: int = 0,
) -> Gist:
    """Go through a release with rows that need no protection, without ledger and real noise.

    Args:
        table: rows that are public or simulated.
        schema: the table's public description.
        method: what to release, such as ``Merf()``.
        budget: what a real release would spend. It decides the size of the noise, which is what
            the gist states and training counts with, also where :class:`NoNoise` adds none.
        public: why these rows need no protection, such as "UCI Adult, published data".
        noise: :class:`RepeatableNoise` or :class:`NoNoise`.
        seed: fixes the public features, as in :func:`dpgist.release`.

    Privacy: NONE. The caller's declaration that the rows are public is all there is; it goes onto
    the card. The sums are those of the curator, bit for bit; its own noise stays unseedable.
    """
    if not public.strip():
        raise ValueError('public must say why these rows need no protection, e.g. "simulated"')
    source = open_source(table)
    source.check(schema)
    method = method.settled(schema, budget)  # the gist must say what was chosen
    plan = method.plan(schema, budget=budget, feature_seed=seed)
    stages: list[ReleasedStage] = []
    for index, stage in enumerate(plan.stages):
        prepared = curator._PreparedStage(stage.query(tuple(stages)), plan, index, budget, schema)
        sums = curator._look(source, prepared)
        stages.append(_with_noise(prepared.with_nothing(), sums, noise, index))
    released = Released(
        stages=tuple(stages),
        budget=budget,
        max_rows_per_person=schema.max_rows_per_person,
        sensitivity=prepared.sensitivity,
        mu_squared_units=units_of(budget),
        n_rows=curator._public_row_count(sums, prepared.blocks, budget.relation),
    )
    return Gist(
        released=released,
        schema=schema,
        method=method.name,
        settings=settings(method),
        feature_seed=seed,
        table_kind=source.kind,
        ledger=_no_ledger(public.strip(), noise),
        version=__version__,
        rehearsal=True,
    )


def _with_noise(
    empty: ReleasedStage, sums: list[_Integers], noise: Noise, stage: int
) -> ReleasedStage:
    def noisy(index: int, block: ReleasedBlock) -> ReleasedBlock:
        place = (stage, index)
        values = noise.added(sums[index], noise_std=block.grid_noise_std, place=place)
        return replace(block, values=values)

    return replace(empty, blocks=tuple(noisy(i, block) for i, block in enumerate(empty.blocks)))


def _no_ledger(public: str, noise: Noise) -> LedgerStamp:
    """A stamp that no ledger gives, so that the gist cannot pass for a private one."""
    name = f"NONE: a rehearsal without privacy, {noise.words}; rows declared public: {public}"
    return LedgerStamp(ledger_id=REHEARSAL_LEDGER, ledger_name=name, sequence=0, head="none")
