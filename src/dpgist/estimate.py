"""What a release will cost and bring, from public facts alone: the answer of ``dpgist plan``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpgist.card import guarantee, guarantee_lines, other_reading
from dpgist.gist import NoiseError, expected_noise_error
from dpgist.privacy.accounting import MU_SQUARED_UNITS, mu_from_units
from dpgist.privacy.curator import Forecast, StageForecast
from dpgist.privacy.plan import COUNTS, HEALTH, Block, Budget, Relation
from dpgist.privacy.sensitivity import mu_squared
from dpgist.schema import Schema

SECONDS_PER_FEATURE = 2.5e-8
"""Private pass: time per row and feature on one core (map, bound, grid, sum)."""
SECONDS_PER_CELL = 2.0e-7
"""Private pass: time per row and column (reading and encoding)."""
SECONDS_PER_BYTE = 0.9e-11
"""Private pass: time per row and byte of the map, all of which is multiplied with each row."""
SECONDS_PER_DRAW = 3.0e-7
"""Noise: time per coordinate on one core."""
BASE_BYTES = 450 * 2**20
"""The libraries themselves."""
COPIES_OF_A_BLOCK = 6
"""Block-sized float64 arrays alive at once in the private pass."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A release foreseen: guarantee, noise, expected error, time and memory.

    Privacy: made from schema, budget and declared numbers; no row was read.
    """

    method: str
    schema: Schema
    budget: Budget
    forecast: Forecast
    rows_about: int | None

    @property
    def noise_error(self) -> NoiseError | None:
        """Expected error that the noise adds to the loss; None without a declared row count."""
        if self.rows_about is None:
            return None
        last = _parts(self.forecast.stages[-1])
        parts = [part for part in last if part[0].name not in (COUNTS, HEALTH)]
        return expected_noise_error(
            np.array([float(block.length * classes) for block, classes, _ in parts]),
            np.array([std / self.rows_about for _, _, std in parts]),
            np.array([float(block.bound_squared) for block, _, _ in parts]),
            random_lengths=[block.length for block, _, _ in parts if not block.non_negative],
        )

    @property
    def seconds(self) -> float | None:
        """Time of the private pass on one core; None without a declared row count."""
        if self.rows_about is None:
            return None
        per_row = (
            self.forecast.features * SECONDS_PER_FEATURE
            + sum(stage.map_bytes for stage in self.forecast.stages) * SECONDS_PER_BYTE
            + len(self.schema.columns) * SECONDS_PER_CELL
        )
        return self.rows_about * per_row + self.forecast.coordinates * SECONDS_PER_DRAW

    @property
    def memory_bytes(self) -> int:
        """Peak memory of the private pass; it does not grow with the number of rows."""
        features = max(stage.features for stage in self.forecast.stages)
        block_bytes = self.forecast.block_rows * features * 8
        maps = sum(stage.map_bytes for stage in self.forecast.stages)
        held = maps + COPIES_OF_A_BLOCK * block_bytes
        return BASE_BYTES + held + 4 * 8 * self.forecast.coordinates

    def to_dict(self) -> dict[str, Any]:
        """The estimate as JSON-able data."""
        error = self.noise_error
        return {
            "table": self.schema.name,
            "method": self.method,
            **guarantee(self.budget, self.forecast.mu),
            "other_relation": other_reading(self._other_mu(), self.budget),
            "rows_per_person": f"declared {self.schema.max_rows_per_person}, not checked",
            "coordinates": self.forecast.coordinates,
            "sensitivity": self.forecast.sensitivity,
            "noise": [
                {
                    "stage": number,
                    "block": block.name,
                    "classes": classes,
                    "length": block.length,
                    "grid_bits": block.bits,
                    "noise_std": std,
                }
                for number, stage in enumerate(self.forecast.stages, start=1)
                for block, classes, std in _parts(stage)
            ],
            "rows_about": self.rows_about,
            "noise_error": None if error is None else asdict(error),
            "seconds": self.seconds,
            "memory_bytes": self.memory_bytes,
        }

    def text(self) -> str:
        """The estimate for people."""
        facts = self.to_dict()
        lines = [f"plan for {facts['table']}: method {facts['method']}; no row was read", ""]
        lines += ["GUARANTEE", *(f"  {line}" for line in guarantee_lines(facts)), "", "RELEASE"]
        lines += [f"  {line}" for line in self._release_lines(facts)]
        return "\n".join(lines)

    def _release_lines(self, facts: dict[str, Any]) -> list[str]:
        lines = [f"{facts['coordinates']} coordinates, sensitivity {facts['sensitivity']:.6g}"]
        lines += [
            f"{b['block']}: {b['classes']} x {b['length']} numbers, noise std "
            f"{b['noise_std']:.4g}, grid 2^-{b['grid_bits']}"
            + (f", stage {b['stage']}" if b["stage"] > 1 else "")
            for b in facts["noise"]
        ]
        memory = f"memory of the private pass: about {self.memory_bytes / 2**20:.0f} MiB"
        if self.rows_about is None:
            lack = "expected error and time need a row count: --rows-about N, or rows_about = N"
            return [*lines, memory + ", whatever the row count", f"{lack} in the schema's [table]"]
        error = facts["noise_error"]
        return [
            *lines,
            memory + ", whatever the row count",
            f"time of the private pass: about {max(self.seconds or 0, 0.1):.1f} s on one core "
            f"for {self.rows_about} rows",
            f"expected error the noise adds to the matching loss: {error['expected']:.3g}",
            f"bound on the expected absolute error: {error['bound']:.3g} from noise, "
            f"{error['feature_term']:.3g} from finitely many features",
        ]

    def _other_mu(self) -> float | None:
        if self.budget.relation == Relation.REPLACE_ONE:
            return None
        first, *later = self.forecast.stages
        total = self._mu_squared(first, first.blocks, Relation.REPLACE_ONE)
        for stage in later:
            # Its counts, which a replaced row need not move, weigh less the more cells an earlier
            # stage leads to; so they get no credit, lest the release turn out weaker than this.
            others = [block for block in stage.blocks if block.name != COUNTS]
            replaced, added = (
                self._mu_squared(stage, others, relation)
                for relation in (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
            )
            total += replaced / added * Fraction(stage.mu_squared_units, MU_SQUARED_UNITS)
        return mu_from_units(math.ceil(total * MU_SQUARED_UNITS))

    def _mu_squared(
        self, stage: StageForecast, blocks: Sequence[Block], relation: Relation
    ) -> Fraction:
        """What a stage costs for a row that moves these of its blocks."""
        stds = dict(zip(stage.blocks, stage.noise_stds, strict=True))
        on_grid = [stds[block] * 2.0**block.bits for block in blocks]
        return mu_squared(blocks, on_grid, relation, self.schema.max_rows_per_person)


def _parts(stage: StageForecast) -> list[tuple[Block, int, float]]:
    return [
        (block, stage.n_classes if block.labelled else 1, std)
        for block, std in zip(stage.blocks, stage.noise_stds, strict=True)
    ]
