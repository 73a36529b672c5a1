"""The curator: charges, then looks, bounds, sums on a lattice, adds noise.

    Private[Source] --release_plan(plan, budget, ledger)--> Released

Order matters and is the whole point: public structure is checked, the map is tested on made-up
rows, the ledger is charged durably, and only then is the first row read. Whatever goes wrong
afterwards is reported without detail, because an error message is a release too.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dpgist.encode import EncodedRows, Encoder
from dpgist.errors import PrivacyError
from dpgist.privacy.accounting import mu_from_units, units_of
from dpgist.privacy.lattice import class_sums, count_marks, to_grid
from dpgist.privacy.ledger import Ledger, LedgerStamp
from dpgist.privacy.noise import LARGEST_STD, add_rounded_gaussian
from dpgist.privacy.opening import opened
from dpgist.privacy.plan import COUNTS, HEALTH, Block, Budget, Plan, Query, Relation
from dpgist.privacy.private import Private
from dpgist.privacy.released import Released, ReleasedBlock, ReleasedStage
from dpgist.privacy.rowmap import PreparedMap
from dpgist.privacy.sensitivity import grid_noise_stds, l2_sensitivity
from dpgist.schema import Schema
from dpgist.sources import Source

HEALTH_SHARE = 0.01
"""Part of the weighted squared sensitivity that pays for the health block: 0.5 % more noise."""

ROWS_READ = 4096
"""Rows that a source hands over at once; the map then sees them in its own fixed blocks."""

_Sums = list[npt.NDArray[np.int64]]


def release_plan(
    private: Private[Source], plan: Plan, budget: Budget, ledger: Ledger, *, schema: Schema
) -> tuple[Released, LedgerStamp]:
    """Carry out a plan: one charge, one pass and one joint Gaussian per stage.

    Guarantee: the result is (epsilon, delta)-DP under ``budget.relation`` for persons with at most
    ``schema.max_rows_per_person`` rows: every stage is mu_i-GDP with sum mu_i^2 at most the charged
    mu^2 (exact composition), which is at most what the budget buys (Balle and Wang 2018, Thm 8).
    Under replace_one the row count is public and part of the result.

    Privacy: the only function that reads private rows. A refused release has read none.
    """
    source = opened(private)
    source.check(schema)
    ledger.check_terms(budget, name=schema.name, max_rows_per_person=schema.max_rows_per_person)
    units = units_of(budget)
    ledger.check_room(units)
    first = _PreparedStage(plan.stages[0].query(()), plan, 0, budget, schema)

    stamp = ledger.charge(units, what=_description(first.query, budget))
    stages: list[ReleasedStage] = []
    for index, stage in enumerate(plan.stages):
        prepared = (
            first
            if index == 0
            else _PreparedStage(stage.query(tuple(stages)), plan, index, budget, schema)
        )
        sums = _look(source, prepared)
        stages.append(prepared.with_noise(sums))
    released = Released(
        stages=tuple(stages),
        budget=budget,
        max_rows_per_person=schema.max_rows_per_person,
        sensitivity=prepared.sensitivity,
        mu_squared_units=units,
        n_rows=_public_row_count(sums, prepared.blocks, budget.relation),
    )
    ledger.finish(stamp, digest=_digest(released))
    return released, stamp


@dataclass(frozen=True, kw_only=True)
class StageForecast:
    """What one stage of a plan will release and how noisy, before any row is read."""

    blocks: tuple[Block, ...]
    noise_stds: tuple[float, ...]
    n_classes: int
    mu_squared_units: int
    map_bytes: int

    @property
    def coordinates(self) -> int:
        """Length of the released vector."""
        return sum(
            block.length * (self.n_classes if block.labelled else 1) for block in self.blocks
        )

    @property
    def features(self) -> int:
        """How many numbers a row is mapped to."""
        return sum(block.length for block in self.blocks)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a plan will release; ``sensitivity`` and ``block_rows`` are those of its last stage."""

    stages: tuple[StageForecast, ...]
    sensitivity: float
    mu: float
    block_rows: int

    @property
    def coordinates(self) -> int:
        """How many numbers all stages release together."""
        return sum(stage.coordinates for stage in self.stages)

    @property
    def features(self) -> int:
        """How many numbers a row is mapped to in all stages together."""
        return sum(stage.features for stage in self.stages)


def forecast(plan: Plan, budget: Budget, schema: Schema) -> Forecast:
    """What each stage of a plan would release if the stages before it found nothing.

    Privacy: schema, plan and budget only; reads no row and charges nothing.
    """
    nothing: tuple[ReleasedStage, ...] = ()
    stages: list[StageForecast] = []
    for index, ahead in enumerate(plan.stages):
        stage = _PreparedStage(ahead.query(nothing), plan, index, budget, schema)
        nothing = (*nothing, stage.with_nothing())
        stages.append(
            StageForecast(
                blocks=stage.blocks,
                noise_stds=tuple(block.noise_std for block in nothing[-1].blocks),
                n_classes=stage.query.encoder.n_classes,
                mu_squared_units=stage.units,
                map_bytes=stage.map.n_bytes,
            )
        )
    return Forecast(
        stages=tuple(stages),
        sensitivity=stage.sensitivity,
        mu=mu_from_units(units_of(budget)),
        block_rows=stage.map.block_rows,
    )


class _PreparedStage:
    """A stage made ready without a look: blocks, noise, tested map."""

    def __init__(
        self, query: Query, plan: Plan, index: int, budget: Budget, schema: Schema
    ) -> None:
        if query.encoder.schema != schema:
            raise PrivacyError("the plan was made for another schema than the release names")
        self.query = query
        last = index == len(plan.stages) - 1
        self.blocks = _with_own_blocks(query, budget.relation, health=last)
        self.units = math.floor(plan.stages[index].share * units_of(budget))
        per_person = schema.max_rows_per_person
        self.sensitivity = l2_sensitivity(self.blocks, budget.relation, per_person)
        self.grid_stds = grid_noise_stds(
            self.blocks, budget.relation, per_person, mu_squared_units=self.units
        )
        if max(self.grid_stds) > LARGEST_STD:
            raise ValueError(
                f"epsilon {budget.epsilon:g} needs more noise than the sampler can draw on this "
                "grid; raise epsilon, or the weights of the smallest blocks"
            )
        self.map = PreparedMap(query, rows_about=schema.rows_about)

    def with_nothing(self) -> ReleasedStage:
        """What the stage would release of no rows, without noise."""
        blocks = tuple(
            ReleasedBlock(
                block=block,
                values=np.zeros(_shape(block, self.query.encoder), np.int64),
                grid_noise_std=std,
            )
            for block, std in zip(self.blocks, self.grid_stds, strict=True)
        )
        return ReleasedStage(blocks=blocks, mu_squared_units=self.units)

    def with_noise(self, sums: _Sums) -> ReleasedStage:
        """The joint Gaussian: every coordinate of every block gets its own draw."""
        blocks = tuple(
            ReleasedBlock(
                block=block,
                values=add_rounded_gaussian(exact, noise_std=std),
                grid_noise_std=std,
            )
            for block, exact, std in zip(self.blocks, sums, self.grid_stds, strict=True)
        )
        return ReleasedStage(blocks=blocks, mu_squared_units=self.units)


def _with_own_blocks(query: Query, relation: Relation, *, health: bool) -> tuple[Block, ...]:
    """The query's blocks, the row counts per class, and in the last stage the health block."""
    names = [block.name for block in query.blocks]
    if len(set(names)) != len(names) or {COUNTS, HEALTH} & set(names):
        raise ValueError("block names must be distinct and not 'counts' or 'health'")
    if any(block.constant for block in query.blocks):
        raise PrivacyError("only the counts are known to be the same for every row")
    counts = Block(
        name=COUNTS,
        length=1,
        weight=_counts_weight(query.blocks, relation),
        bits=0,
        non_negative=True,
        constant=True,
        labelled=query.encoder.schema.label is not None,
    )
    columns = len(query.encoder.columns)
    own = [counts]
    if health:
        weight = math.sqrt(HEALTH_SHARE * _weight_squared(query.blocks) / columns)
        own.append(
            Block(
                name=HEALTH,
                length=columns,
                weight=weight,
                bits=0,
                bound_squared=columns,
                non_negative=True,
            )
        )
    return (*query.blocks, *own)


def _counts_weight(blocks: Iterable[Block], relation: Relation) -> float:
    """Weight of the counts: c = D^(-1/4) relative to the features minimises the error of means.

    Under replace_one a row that changes its label moves signed features by at most sqrt 2 where
    one that keeps it moves them by 2; the counts ride in that gap for free.
    """
    blocks = tuple(blocks)
    length = sum(block.length for block in blocks)
    weight = math.sqrt(_weight_squared(blocks) / math.sqrt(length))
    if relation == Relation.REPLACE_ONE:
        signed = [block for block in blocks if block.labelled and not block.non_negative]
        weight = max(weight, math.sqrt(_weight_squared(signed)))
    return weight


def _weight_squared(blocks: Iterable[Block]) -> float:
    return sum(block.bound_squared * block.weight**2 for block in blocks)


def _look(source: Source, stage: _PreparedStage) -> _Sums:
    """Read the rows once and return exact sums; on failure say only that it failed."""
    sums: _Sums | None = None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            sums = _total(source.partial_sums(RowSummation(stage.query, stage.blocks, stage.map)))
    except Exception:
        sums = None  # raised below, outside this block, so that no context rides along
    if sums is None:
        raise PrivacyError(
            "the private pass did not finish; the charge stays and nothing was released. No "
            "detail is given because it could tell something about a row. Check that the data "
            "can be read to its end, then release again (a new charge)"
        )
    stage.map.check_unchanged()
    return sums


class RowSummation:
    """From blocks of raw cells to exact integer sums; what a source runs where its rows are.

    Privacy: its result is private until noise is added; a cluster rebuilds it from ``recipe``.
    """

    def __init__(self, query: Query, blocks: tuple[Block, ...], row_map: PreparedMap) -> None:
        self.recipe = json.dumps(query.recipe, sort_keys=True)
        self.schema = query.encoder.schema
        self.columns = query.encoder.columns
        self.block_rows = ROWS_READ
        self._encoder, self._blocks, self._map = query.encoder, blocks, row_map

    def __call__(self, blocks: Iterable[Mapping[str, Any]]) -> _Sums:
        totals = [np.zeros(_shape(block, self._encoder), np.int64) for block in self._blocks]
        for batch in blocks:
            encoded = self._encoder.encode(batch)
            for start in range(0, len(encoded.labels), self._map.block_rows):
                part = _cut(encoded, start, start + self._map.block_rows)
                self._add_block(totals, part)
        return totals

    def _add_block(self, totals: _Sums, encoded: EncodedRows) -> None:
        """Add exact sums of one block of rows; the map sees it padded to the fixed shape."""
        n_rows = len(encoded.labels)
        codes = torch.from_numpy(encoded.labels)
        as_one = torch.zeros_like(codes)
        padded = self._map(_padded(encoded.rows, self._map.block_rows))
        grids = [*(grid[:n_rows] for grid in padded), *self._own_grids(encoded)]
        for total, grid, block in zip(totals, grids, self._blocks, strict=True):
            own = codes if block.labelled else as_one
            if grid.dtype == torch.int64:
                count_marks(torch.from_numpy(total), grid, own, block)
            else:
                total += class_sums(grid, own, len(total)).numpy()

    def _own_grids(self, encoded: EncodedRows) -> list[torch.Tensor]:
        present = torch.ones(len(encoded.labels), 1, dtype=torch.float64)
        own = {COUNTS: present, HEALTH: torch.from_numpy(encoded.broken)}
        return [to_grid(own[block.name], block) for block in self._blocks if block.name in own]


def _cut(encoded: EncodedRows, start: int, stop: int) -> EncodedRows:
    return EncodedRows(
        rows=encoded.rows[start:stop],
        labels=encoded.labels[start:stop],
        broken=encoded.broken[start:stop],
    )


def _padded(rows: npt.NDArray[Any], block_rows: int) -> torch.Tensor:
    padded = torch.zeros(block_rows, rows.shape[1], dtype=torch.float64)
    padded[: len(rows)] = torch.from_numpy(np.asarray(rows, dtype=np.float64))
    return padded


def _shape(block: Block, encoder: Encoder) -> tuple[int, int]:
    return (_classes(block, encoder), block.length)


def _classes(block: Block, encoder: Encoder) -> int:
    return encoder.n_classes if block.labelled else 1


def _total(parts: Iterable[_Sums]) -> _Sums:
    """Add the sources' partial sums; integers, so their order does not matter."""
    parts = iter(parts)
    totals = next(parts)
    for part in parts:
        for total, more in zip(totals, part, strict=True):
            total += more
    return totals


def _public_row_count(sums: _Sums, blocks: tuple[Block, ...], relation: Relation) -> int | None:
    """The row count, where neighbouring tables share it."""
    if relation != Relation.REPLACE_ONE:
        return None
    names = [block.name for block in blocks]
    return int(sums[names.index(COUNTS)].sum())


def _description(query: Query, budget: Budget) -> dict[str, Any]:
    """What the ledger line says of a release: public, and enough to recognise it."""
    recipe = json.dumps(query.recipe, sort_keys=True).encode()
    return {
        "epsilon": budget.epsilon,
        "method": query.recipe.get("method", "custom"),
        "recipe": hashlib.sha256(recipe).hexdigest(),
    }


def _digest(released: Released) -> str:
    digest = hashlib.sha256()
    for stage in released.stages:
        for part in stage.blocks:
            digest.update(part.values.tobytes())
    return digest.hexdigest()
