r"""DP-SGD: charges, then reads, and releases one noisy sum of clipped gradients per step.

    Private[Source] --release_gradients(query, budget, ledger, follower)--> Descended

Each step flips a coin for every row (:mod:`poisson`), clips every sampled row's gradient on the
lattice and sums exactly (:mod:`outer`), adds the library's own Gaussian to the integers, and hands
the noisy gradient, over the *expected* batch size of *public* numbers, to a follower. Whatever the
follower does with it (momentum, averaging, schedules) is post-processing. An empty batch releases
noise like any other.

**Sensitivity.** With the same coins for the other rows, one row more changes the integer sum by
that row's integers alone, whose norm the wall has checked: at most C(1 + 2^-40) in the units of the
clip bound C. PRIVACY ruling 8 allows for errors 2e of summation and g sqrt(p) of rounding; both
are zero here, because coefficients and inputs are integers before they are multiplied. A row may be
seen in several public copies; its gradient is their mean, clipped once as a whole (:mod:`copies`),
so the copies cost no privacy.

**What is trusted.** Not the model's numbers: the wall computes every norm itself, so a wrong or
mad coefficient costs utility only. That a row's coefficients depend on that row, its label and
released parameters alone is tested before the charge, slot by slot, on made-up rows; that a model
keeps no state between rows, does no I/O, and that the fixed shapes of a block are treated alike at
every step, is trusted and covered by the trust tests for the model that comes with the library.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from dpgist.encode import Encoder
from dpgist.errors import PrivacyError
from dpgist.privacy.accounting import MU_SQUARED_UNITS, epsilon_of, units_of
from dpgist.privacy.inputs import Inputs
from dpgist.privacy.ledger import Ledger, LedgerStamp
from dpgist.privacy.noise import LARGEST_STD, add_rounded_gaussian
from dpgist.privacy.opening import opened
from dpgist.privacy.outer import BITS, Space
from dpgist.privacy.plan import Budget, Relation
from dpgist.privacy.poisson import PoissonSampler, exact_rate
from dpgist.privacy.private import Private
from dpgist.privacy.subsampled import Run, Terms, calibrated, epsilon_by_pld, terms_for
from dpgist.schema import Schema
from dpgist.sources import Source

COUNT_SHARE = 1 / 64
"""Part of mu^2 that pays for the row count where none is declared."""

_ROWS_READ = 4096
_TEST_SEED = 80_801  # public: the rows of the self-test
_TEST_SIZES = (0.1, 1.0, 10.0)
_ROUND_UP = 1 + 2.0**-39  # the clip bound's own 2^-40, and a rounding
_SLOT_MARGIN = 1 + 2.0**-20
"""The last bit of a float64 coefficient may depend on the slot where no test saw it. About one in
10^8 then moves by a step of the grid, 2^-26: this pays for dozens of them in every batch."""

Coefficients = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_Integers = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Model(Protocol):
    """What is differentiated: a loss that is a function of linear maps of each row.

    Privacy: sees private rows, one block at a time; its numbers are not trusted.
    """

    def at(self, parameters: torch.Tensor, dtype: torch.dtype) -> Coefficients:
        """The function (rows, labels) -> d loss / d outputs, row by row, at these parameters.

        ``rows`` (n, inputs) are of ``dtype``, in [-1, 1], the copies of a row one after the other;
        ``labels`` (n,) are places in the list of classes, 0 for padding. Privacy: parameters are
        released.
        """
        ...


class Follower(Protocol):
    """Takes noisy gradients and moves the parameters. Privacy: post-processing."""

    @property
    def parameters(self) -> torch.Tensor:
        """Where the next gradient is wanted, (outputs, features + 1). Privacy: released."""
        ...

    def step(self, gradient: torch.Tensor) -> None:
        """Move by a noisy mean gradient. Privacy: post-processing."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientQuery:
    """What DP-SGD asks of the rows; everything here is public.

    ``classes`` are the encoder's codes of the classes that are learnt; a row of any other is in
    the sum as zero. ``rows`` is the declared row count that sums are divided by; None takes the
    count itself under replace_one and pays for a noisy one under add_remove.

    Privacy: public.
    """

    encoder: Encoder
    inputs: Inputs
    space: Space
    model: Model
    classes: tuple[int, ...]
    clip: float
    rate: float
    steps: int
    rows: int | None
    recipe: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Descended:
    """What a run of DP-SGD cost and how; public facts for the card.

    ``epsilon_alone`` is the epsilon of the steps at the budget's delta by privacy-loss
    distributions, without a paid count.

    Privacy: public, and the noisy row count if it was paid for.
    """

    budget: Budget
    max_rows_per_person: int
    mu_squared_units: int
    noise_multiplier: float
    rate: float
    steps: int
    clip: float
    copies: int
    rows: float
    rows_source: str
    epsilon_alone: float


def release_gradients(
    private: Private[Source],
    query: GradientQuery,
    budget: Budget,
    ledger: Ledger,
    *,
    schema: Schema,
    follower: Follower,
) -> tuple[Descended, LedgerStamp]:
    """Run DP-SGD: one charge, one pass to read, ``query.steps`` noisy sums for the follower.

    Guarantee: everything the follower is given, taken together, is (epsilon, delta)-DP under
    ``budget.relation`` for persons with at most ``schema.max_rows_per_person`` rows, and composes
    with all else in the ledger as :mod:`subsampled` proves.

    Privacy: reads private rows; a refused run has read none.
    """
    source = opened(private)
    source.check(schema)
    ledger.check_terms(budget, name=schema.name, max_rows_per_person=schema.max_rows_per_person)
    units = units_of(budget)
    ledger.check_room(units)
    prepared = Prepared(query, budget, ledger, schema)
    prepared.check_slots(follower.parameters)

    stamp = ledger.charge(units, what=_description(query, budget))
    rows = _descend(source, prepared, follower)
    result = prepared.described(rows)
    ledger.finish(stamp, digest=_digest(follower.parameters))
    return result, stamp


class Prepared:
    """A query with its noise, made ready without a look. Privacy: public numbers only."""

    def __init__(
        self, query: GradientQuery, budget: Budget, ledger: Ledger, schema: Schema
    ) -> None:
        if query.encoder.schema != schema:
            raise PrivacyError("the query was made for another schema than the release names")
        if query.inputs.outputs != query.space.inputs or query.inputs.levels != query.space.levels:
            raise ValueError("inputs and space do not fit together")
        if query.inputs.copies != query.space.copies:
            raise ValueError("inputs give another number of copies than the space expects")
        query.space.check(query.clip, rows=query.rate * (query.rows or 0))
        self.query, self.budget, self.per_person = query, budget, schema.max_rows_per_person
        self.run = Run(
            rate=exact_rate(query.rate),
            steps=query.steps,
            relation=budget.relation,
            rows_per_person=self.per_person,
        )
        self.units = units_of(budget)
        self.count_units = math.ceil(self.units * COUNT_SHARE) if self._pays_for_count else 0
        terms = terms_for(
            self.units - self.count_units,
            epsilon=budget.epsilon,
            delta=budget.delta,
            ledger_epsilon=ledger.epsilon,
            cap_units=ledger.cap_units,
        )
        self._check_count(terms)
        self.multiplier = calibrated(self.run, terms)
        bound = query.space.grid_bound(query.clip) * _SLOT_MARGIN
        self.noise_std = self.multiplier * bound * _ROUND_UP
        if self.noise_std > LARGEST_STD:
            raise ValueError("the noise is larger than the sampler can draw; use a smaller clip")
        self.dtype = torch.float32

    @property
    def _pays_for_count(self) -> bool:
        return self.query.rows is None and self.budget.relation == Relation.ADD_REMOVE

    def _check_count(self, terms: Terms) -> None:
        """With a paid count, run and count together must keep the budget's own promise too."""
        mu = math.sqrt(terms.mu**2 + self.count_units / MU_SQUARED_UNITS)
        left = self.budget.delta - terms.slack
        if self.count_units and epsilon_of(mu, left) > self.budget.epsilon:
            raise PrivacyError("no room for a paid row count; declare a public one")

    def rows(self, n_rows: int) -> float:
        """What sums are divided by: declared, public by the relation, or noisy and paid for.

        Guarantee: a noisy count is mu-GDP for the share of mu^2 that was set aside.
        """
        if self.query.rows is not None:
            return float(self.query.rows)
        if not self._pays_for_count:
            return float(max(n_rows, 1))
        std = self.per_person / math.sqrt(self.count_units / MU_SQUARED_UNITS) * _ROUND_UP
        noisy = add_rounded_gaussian(np.array([n_rows], np.int64), noise_std=std)
        return float(max(noisy[0], 1))

    def described(self, rows: float) -> Descended:
        """The facts for the card. Privacy: public or released."""
        known = "noisy, paid for" if self._pays_for_count else "public by the relation"
        return Descended(
            budget=self.budget,
            max_rows_per_person=self.per_person,
            mu_squared_units=self.units,
            noise_multiplier=self.multiplier,
            rate=self.run.rate,
            steps=self.run.steps,
            clip=self.query.clip,
            copies=self.query.space.copies,
            rows=rows,
            rows_source=known if self.query.rows is None else "declared",
            epsilon_alone=epsilon_by_pld(self.run, self.multiplier, self.budget.delta),
        )

    def check_slots(self, start: torch.Tensor) -> None:
        """Refuse a model that gives a row other integers in another slot of a block.

        In float32 if it is row-wise there, else in float64, else refused. Asked where training
        starts and at public parameters of several sizes: at zero all slots look alike.
        """
        rng = np.random.Generator(np.random.Philox(_TEST_SEED))
        space = self.query.space
        shape = (space.block_rows, space.copies, space.inputs)
        rows = torch.from_numpy(rng.integers(-space.levels, space.levels + 1, shape))
        labels = torch.from_numpy(rng.integers(0, len(self.query.classes), space.block_rows))
        gains = space.gains(rows)
        drawn = torch.from_numpy(rng.standard_normal(tuple(start.shape)))
        places = [start, *(size * drawn.to(start.dtype) for size in _TEST_SIZES)]
        for self.dtype in (torch.float32, torch.float64):
            asked = (self.integers(parameters) for parameters in places)
            if all(_same_in_every_slot(integers, rows, labels, gains) for integers in asked):
                return
        raise PrivacyError(
            "the model gives a row other coefficients in another slot of the block, even in "
            "float64; it is not row-wise on this machine, so nothing was read or charged"
        )

    def integers(self, parameters: torch.Tensor) -> _Integers:
        """The function from integer rows, labels and gains to clipped integer coefficients.

        Labels below 0 (padding, and classes that are not learnt) give zero.
        """
        space, clip = self.query.space, self.query.clip
        coefficients = self.query.model.at(parameters, self.dtype)

        def clipped(rows: torch.Tensor, labels: torch.Tensor, gains: torch.Tensor) -> torch.Tensor:
            real = rows.flatten(0, 1).to(self.dtype) / space.levels
            found = coefficients(real, labels.clamp(min=0).repeat_interleave(space.copies))
            if found.shape != (len(real), space.outputs):
                raise PrivacyError("the model gives another number of coefficients than declared")
            shaped = found.reshape(len(rows), space.copies, space.outputs)
            grid = space.clipped(shaped, gains, clip=clip)
            return torch.where(labels[:, None, None] >= 0, grid, 0.0)

        return clipped


def _same_in_every_slot(
    integers: _Integers, rows: torch.Tensor, labels: torch.Tensor, gains: torch.Tensor
) -> bool:
    """Each row with its copies in three slots with other neighbours, and two in all at once."""

    def at(slots: torch.Tensor) -> torch.Tensor:
        return integers(rows[slots], labels[slots], gains[slots])

    slots = torch.arange(len(rows))
    expected = at(slots)
    others = [slots.roll(1), slots.roll(len(rows) // 2 + 1)]
    others += [torch.full_like(slots, 0), torch.full_like(slots, len(rows) - 1)]
    return all(torch.equal(expected[other], at(other)) for other in others)


def _descend(source: Source, prepared: Prepared, follower: Follower) -> float:
    """Read the rows once and take every step; on failure say only that it failed."""
    rows: float | None = None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), torch.no_grad():
            warnings.simplefilter("ignore")
            held = _read(source, prepared.query)
            rows = prepared.rows(len(held))
            sampler = PoissonSampler(prepared.run.rate)
            for _ in range(prepared.run.steps):
                batch = sampler.draw(len(held))
                take_step(prepared, held, batch, rows, follower)
    except Exception:
        rows = None  # raised below, outside this block, so that no context rides along
    if rows is None:
        raise PrivacyError(
            "the private training did not finish; the charge stays and nothing was released. No "
            "detail is given because it could tell something about a row. Check that the data "
            "can be read to its end, then fit again (a new charge)"
        )
    return rows


@dataclass(frozen=True, kw_only=True, repr=False)
class Held:
    """Rows as integers (n, copies, inputs), labels as places in the list of classes, or -1.

    Privacy: private; lives inside the wall for the length of one run.
    """

    rows: torch.Tensor
    labels: torch.Tensor
    gains: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)


def take_step(
    prepared: Prepared,
    held: Held,
    batch: npt.NDArray[np.int64],
    rows: float,
    follower: Follower,
) -> None:
    """One release: the batch's clipped sum with noise, over the expected batch size.

    Guarantee: a Gaussian mechanism of the run's noise multiplier on a sum of the batch's rows. The
    divisor is rate times declared or released rows, never the size of this batch.
    """
    space = prepared.query.space
    exact = clipped_sum(prepared, held, batch, follower.parameters)
    noisy = add_rounded_gaussian(exact, noise_std=prepared.noise_std)
    expected_batch = prepared.run.rate * rows
    scale = 1 / (2.0**BITS * space.unit * expected_batch)
    follower.step(torch.from_numpy(noisy.astype(np.float64) * scale))


def clipped_sum(
    prepared: Prepared, held: Held, batch: npt.NDArray[np.int64], parameters: torch.Tensor
) -> npt.NDArray[np.int64]:
    """The exact integer sum of a batch's clipped gradients, block by block of one fixed shape.

    Privacy: private until noise is added.
    """
    space, integers = prepared.query.space, prepared.integers(parameters)
    products = np.zeros((space.outputs, space.inputs), np.int64)
    alone = np.zeros(space.outputs, np.int64)
    for start in range(0, len(batch), space.block_rows):
        chosen = torch.from_numpy(batch[start : start + space.block_rows])
        rows = torch.zeros(space.block_rows, space.copies, space.inputs, dtype=torch.float64)
        labels = torch.full((space.block_rows,), -1)
        gains = torch.ones(space.block_rows, *held.gains.shape[1:], dtype=torch.float64)
        rows[: len(chosen)], labels[: len(chosen)] = held.rows[chosen], held.labels[chosen]
        gains[: len(chosen)] = held.gains[chosen]
        more, more_alone = space.summed(integers(rows, labels, gains), rows)
        products += more
        alone += more_alone
    return space.gradient(products, alone)


class _Gathering:
    """What a source runs to hand over its rows as integers. Privacy: its result is private."""

    def __init__(self, query: GradientQuery) -> None:
        self.recipe = json.dumps(query.recipe, sort_keys=True)
        self.schema, self.columns = query.encoder.schema, query.encoder.columns
        self.block_rows = _ROWS_READ
        self._query = query
        self._places = np.full(query.encoder.n_classes, -1, np.int64)
        self._places[list(query.classes)] = np.arange(len(query.classes))

    def __call__(self, blocks: Iterable[Mapping[str, Any]]) -> Held:
        inputs = self._query.inputs
        rows = [np.zeros((0, inputs.copies, inputs.outputs), np.int16)]
        labels = [np.zeros(0, np.int64)]
        for cells in blocks:
            encoded = self._query.encoder.encode(cells)
            rows.append(inputs(encoded.rows))
            labels.append(self._places[encoded.labels])
        whole = torch.from_numpy(np.concatenate(rows))
        gains = [self._query.space.gains(part) for part in torch.split(whole, _ROWS_READ)]
        return Held(
            rows=whole, labels=torch.from_numpy(np.concatenate(labels)), gains=torch.cat(gains)
        )


def _read(source: Source, query: GradientQuery) -> Held:
    parts = list(source.partial_sums(_Gathering(query)))
    return Held(
        rows=torch.cat([part.rows for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        gains=torch.cat([part.gains for part in parts]),
    )


def _description(query: GradientQuery, budget: Budget) -> dict[str, Any]:
    """What the ledger line says of a run: public, and enough to recognise it."""
    recipe = json.dumps(query.recipe, sort_keys=True).encode()
    return {
        "epsilon": budget.epsilon,
        "method": query.recipe.get("method", "custom"),
        "recipe": hashlib.sha256(recipe).hexdigest(),
    }


def _digest(parameters: torch.Tensor) -> str:
    whole = parameters.detach().to(torch.float64).contiguous().numpy()
    return hashlib.sha256(whole.tobytes()).hexdigest()
