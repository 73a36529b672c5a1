"""What came out of the wall: noisy integers and the guarantee that was paid for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgist.privacy.accounting import mu_from_units
from dpgist.privacy.plan import Block, Budget


@dataclass(frozen=True, kw_only=True)
class ReleasedBlock:
    """Noisy grid integers of one block, of shape (classes, length); one class if unlabelled."""

    block: Block
    values: npt.NDArray[np.int64]
    grid_noise_std: float

    def sums(self) -> npt.NDArray[np.float64]:
        """The noisy sums in the features' own units."""
        return np.ldexp(self.values.astype(np.float64), -self.block.bits)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on :meth:`sums`."""
        return float(self.grid_noise_std * 2.0**-self.block.bits)


@dataclass(frozen=True, kw_only=True)
class ReleasedStage:
    """One joint Gaussian: its blocks, in order; counts (and health) come last."""

    blocks: tuple[ReleasedBlock, ...]
    mu_squared_units: int

    def __getitem__(self, name: str) -> ReleasedBlock:
        return next(block for block in self.blocks if block.block.name == name)


@dataclass(frozen=True, kw_only=True)
class Released:
    """All stages of one plan and what they cost together.

    ``sensitivity`` is the weighted L2 sensitivity of the last stage. ``n_rows`` is the row count
    where the relation makes it public (replace_one), else None.
    """

    stages: tuple[ReleasedStage, ...]
    budget: Budget
    max_rows_per_person: int
    sensitivity: float
    mu_squared_units: int
    n_rows: int | None

    @property
    def last(self) -> ReleasedStage:
        """The stage that holds the embedding."""
        return self.stages[-1]

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of everything released, rounded up."""
        return mu_from_units(self.mu_squared_units)
