r"""Gradients that are outer products, on a lattice: exact norms and sums without the gradients.

For maps that are linear in their inputs, a row's gradient is an outer product of its coefficients
a (one for each output) and its inputs x, the constant 1 among them. Inputs are integers here, and
so are the coefficients once they are clipped. Then a row's norm,

.. math:: \|\nabla_i\|^2 = \sum_m \big(\|R_m^\top x_i\|^2 + 1\big) \sum_{k} a_{imk}^2,

needs no gradient (``R`` is a public projection of integers, one for each group m of outputs, or
none), and the sum over a batch is a matrix product of integers, which float64 carries out exactly,
in any order. No error of summation has to be bounded, and no gradient of a row is ever made. A row
that is seen in several public copies has the mean of their gradients, and is clipped as one
(:mod:`copies`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from dpgist.privacy import copies as several

BLOCK_ROWS = 512
"""Rows in every block of a batch, copies counted, padded: one fixed shape for every slot."""

BITS = 26
"""Coefficients lie on the grid 2^-26."""

_MOST_LEVELS, _MOST_OUTPUTS = 4095, 2**12
_LARGEST_PRODUCT, _LARGEST_SUM = 2**53, 2**61
_SPLIT = 2**26
_SHRINK = 1 + 2.0**-40

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Space:
    """Where gradients live: outputs, inputs, their integers, and a public projection.

    An input in [-1, 1] is an integer in [-levels, levels]. ``projection`` (groups, inputs,
    features) holds integers that stand for multiples of ``1/projection_scale``; the outputs are
    then ordered group by group. ``constant`` is the value of the constant input. Parameters are
    (outputs, features + 1), the last column for the constant. A row comes in ``copies``, each
    (inputs,); several of them need one group of outputs.

    Privacy: public.
    """

    outputs: int
    inputs: int
    levels: int
    constant: float
    projection: Integers | None = None
    projection_scale: float = 1.0
    copies: int = 1

    def __post_init__(self) -> None:
        if not (1 <= self.levels <= _MOST_LEVELS and 1 <= self.outputs <= _MOST_OUTPUTS):
            raise ValueError(
                f"levels must lie in 1..{_MOST_LEVELS} and outputs (maps x classes) in "
                f"1..{_MOST_OUTPUTS}"
            )
        if not (2.0**-10 <= self.constant <= 2.0**10 and self.projection_scale > 0):
            raise ValueError("the constant must lie in 2^-10..2^10 and scales be positive")
        if not 1 <= self.copies <= several.MOST_COPIES:
            raise ValueError(f"a row may have 1 to {several.MOST_COPIES} copies")
        longest = self.inputs * self.levels**2 + self.whole_constant**2
        if self.copies > 1 and longest > _LARGEST_PRODUCT:
            raise ValueError("copies are too long to be multiplied exactly; use a smaller constant")
        if self.projection is not None:
            self._check_projection(self.projection)

    def _check_projection(self, projection: Integers) -> None:
        if projection.ndim != 3 or projection.shape[1] != self.inputs:
            raise ValueError("a projection must be (groups, inputs, features)")
        if self.copies > 1:
            raise ValueError("copies of a row cannot be combined with a projection for each group")
        if self.outputs % len(projection):
            raise ValueError("every group of the projection needs the same number of outputs")
        largest = int(np.abs(projection).max(initial=0)) * self.inputs
        if largest * max(self.levels, 2**37) > _LARGEST_PRODUCT:
            raise ValueError("the projection's integers are too large to be multiplied exactly")

    @property
    def groups(self) -> int:
        """Groups of outputs that share a projection. Privacy: public."""
        return 1 if self.projection is None else len(self.projection)

    @property
    def features(self) -> int:
        """Columns of the parameters but for the constant's. Privacy: public."""
        return self.inputs if self.projection is None else self.projection.shape[2]

    @property
    def block_rows(self) -> int:
        """Rows of a block, each with all its copies. Privacy: public."""
        return BLOCK_ROWS // self.copies

    @property
    def unit(self) -> float:
        """Integer steps in a feature of size 1. Privacy: public."""
        return self.levels * self.projection_scale

    @property
    def whole_constant(self) -> int:
        """The constant input in these steps, rounded. Privacy: public."""
        return max(1, round(self.constant * self.unit))

    @property
    def real_constant(self) -> float:
        """The constant input as it really is after rounding. Privacy: public."""
        return self.whole_constant / self.unit

    @cached_property
    def _real_projection(self) -> torch.Tensor:
        """The projection's integers as float64, made once: every step multiplies by them."""
        return torch.from_numpy(np.asarray(self.projection, np.float64))

    def gains(self, rows: torch.Tensor) -> torch.Tensor:
        """What norms need to know of integer rows (n, copies, inputs), constant included.

        Of one copy its squared norm as every group sees it, (n, groups); of several their inner
        products (n, copies, copies).

        Privacy: row-wise and exact; as private as the rows.
        """
        if self.copies > 1:
            return several.gram(rows, self.whole_constant)
        rows = rows[:, 0]
        if self.projection is None:
            squares = rows.to(torch.float64).square().sum(dim=1, keepdim=True)
        else:
            largest = int(np.abs(self.projection).max(initial=0)) * self.inputs * self.levels
            exact = torch.float32 if largest < 2**24 else torch.float64
            squares = torch.stack(
                [
                    (rows.to(exact) @ torch.from_numpy(part).to(exact))
                    .to(torch.float64)
                    .square()
                    .sum(dim=1)
                    for part in self.projection
                ],
                dim=1,
            )
        return squares + float(self.whole_constant) ** 2

    def grid_bound(self, clip: float) -> float:
        """The clip bound in the integers of a row's gradient. Privacy: public."""
        return clip * 2.0**BITS * self.unit

    def check(self, clip: float, *, rows: float = 0) -> None:
        """Refuse a clip bound with which sums might not be exact, or wrap around; public numbers.

        ``rows`` is how many are expected in a batch, 0 if that is not public.
        """
        largest = self.grid_bound(clip) / self.whole_constant
        if not 0 < clip < math.inf or BLOCK_ROWS * largest * self.levels > _LARGEST_PRODUCT:
            raise ValueError(f"a clip bound of {clip:g} is too large for sums to be exact")
        if rows * self.grid_bound(clip) > _LARGEST_SUM:
            raise ValueError(f"a clip bound of {clip:g} is too large for sums of {rows:,.0f} rows")
        spare = self._spare if self.copies > 1 else 0.0
        if self.grid_bound(clip) < max(2**12, 8 * spare):
            raise ValueError(f"a clip bound of {clip:g} is too small for the grid")

    def clipped(
        self, coefficients: torch.Tensor, gains: torch.Tensor, *, clip: float
    ) -> torch.Tensor:
        r"""Integer coefficients (n, copies, outputs) of gradients with norms of at most the bound.

        A row's gradient is the mean over its copies; the integers are of its summands.

        Guarantee: for any coefficients, NaN and infinite ones too, and the true gains, a returned
        row's gradient has a norm of at most ``grid_bound(clip) * (1 + 2**-40)``: it is checked on
        the integers themselves, by sums of non-negative numbers whose relative error in float64 is
        below 2^-41, or for several copies as :mod:`copies` proves; a row that fails is zero.

        Privacy: row by row.
        """
        if self.copies > 1:
            bound = self.grid_bound(clip)
            return several.clipped(
                coefficients.to(torch.float64) * (2.0**BITS / self.copies),
                gains,
                bound=bound,
                spare=self._spare,
                most=bound / self.whole_constant,
            )
        grouped = coefficients.to(torch.float64).reshape(len(gains), self.groups, -1)
        norm = self._norm(grouped, gains) / self.unit
        scale = torch.where(norm <= clip, 1.0, clip / (norm * _SHRINK))
        grid = torch.trunc(grouped * (scale * 2.0**BITS)[:, None, None])
        inside = self._norm(grid, gains) <= self.grid_bound(clip)  # false for NaN
        return torch.where(inside[:, None, None], grid, 0.0).reshape(len(gains), 1, -1)

    @property
    def _spare(self) -> float:
        return several.margin(
            outputs=self.outputs,
            copies=self.copies,
            inputs=self.inputs,
            levels=self.levels,
            constant=self.whole_constant,
        )

    @staticmethod
    def _norm(grouped: torch.Tensor, gains: torch.Tensor) -> torch.Tensor:
        return (gains * grouped.square().sum(dim=2)).sum(dim=1).sqrt()

    def summed(self, grid: torch.Tensor, rows: torch.Tensor) -> tuple[Integers, Integers]:
        """Exact sums over one block: of outer products (outputs, inputs), of coefficients alone.

        Blocks are added in int64, modulo 2^64, which ends in no error that a row could cause.

        Privacy: private until noise is added.
        """
        if len(rows) > self.block_rows:
            raise ValueError(f"a block has at most {self.block_rows} rows")
        flat = grid.flatten(0, 1)
        products = flat.T @ rows.flatten(0, 1).to(torch.float64)
        return products.to(torch.int64).numpy(), flat.sum(dim=0).to(torch.int64).numpy()

    def gradient(self, products: Integers, alone: Integers) -> Integers:
        """The summed gradient (outputs, features + 1) in integers, projected exactly.

        Privacy: private until noise is added.
        """
        constants = alone[:, None] * self.whole_constant
        return np.concatenate([self._projected(products), constants], axis=1)

    def _projected(self, products: Integers) -> Integers:
        """Integers times integers by way of float64: their high and low halves side by side.

        Exact for all of int64, whose high halves are at most 2^37, and modulo 2^64.
        """
        if self.projection is None:
            return products
        grouped = products.reshape(self.groups, -1, self.inputs)
        halves = np.concatenate(np.divmod(grouped, _SPLIT), axis=1).astype(np.float64)
        found = torch.bmm(torch.from_numpy(halves), self._real_projection).to(torch.int64)
        high, low = found.chunk(2, dim=1)
        whole: Integers = (high * _SPLIT + low).numpy()
        return whole.reshape(self.outputs, self.features)
