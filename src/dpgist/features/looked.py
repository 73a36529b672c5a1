"""Features that stand in a small table: a row says only where."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class LookedUp:
    """Features of a block of rows as places in a table of pairs.

    ``places`` (B, m) in int32 are rows of ``pairs`` (T, 2); the 2 m features of row i are
    ``pairs[places[i], 0]`` and then ``pairs[places[i], 1]``. Whoever bounds the table bounds
    every row.

    Privacy: as private as the rows it was made from.
    """

    places: Tensor
    pairs: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Of the features: rows and numbers a row."""
        return len(self.places), 2 * self.places.shape[1]

    def is_floating_point(self) -> bool:
        """Whether the features are."""
        return self.pairs.is_floating_point()
