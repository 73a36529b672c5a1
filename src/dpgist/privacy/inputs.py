"""From encoded rows to the integers that DP-SGD works on, the same for a row wherever it stands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_MOST = 2**53
_CHUNK_CELLS = 2**21

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    r"""Copy a row by public views, centre it, round it to integers, and mix its coordinates.

    .. math:: v = \mathrm{round}(\ell_0 (x - c)), \qquad
              z = \mathrm{clip}(\mathrm{round}(\gamma\, v^\top P), -\ell, \ell)

    Symbols: x is a copy of the row: ``views`` (copies, width) name for every coordinate of every
    copy the coordinate it is taken from, -1 for 0; None is the row alone. ``centre`` is c;
    ``fine`` is l0; ``mixing`` is P (width, inputs) or None for the identity; ``gain`` is gamma;
    ``levels`` is l, and z stands for z/l. Only products and sums of integers below 2^53 and
    roundings of single numbers occur, so the result of a row does not depend on the rows beside
    it, nor on the order of a sum.

    Privacy: public; row-wise.
    """

    width: int
    levels: int
    centre: Floats
    fine: int = 255
    mixing: Integers | None = None
    gain: float = 1.0
    views: Integers | None = None

    def __post_init__(self) -> None:
        if (
            self.centre.shape != (self.width,)
            or not ((self.centre >= 0) & (self.centre <= 1)).all()
        ):
            raise ValueError("centre must hold a number in [0, 1] for every coordinate")
        if self.fine < 1 or not self.gain > 0:
            raise ValueError("levels and gain must be positive")
        if self.mixing is not None:
            if self.mixing.ndim != 2 or len(self.mixing) != self.width:
                raise ValueError("a projection must be (inputs, features)")
            largest = int(np.abs(self.mixing).max(initial=0))
            if largest * (self.fine + 1) * self.width > _MOST:
                raise ValueError("the projection's integers are too large to be multiplied exactly")
        if self.views is not None and not _are_views(self.views, self.width):
            raise ValueError("views must name coordinates of a row, or -1: (copies, inputs)")

    @property
    def copies(self) -> int:
        """How many copies a row is seen in. Privacy: public."""
        return 1 if self.views is None else len(self.views)

    @property
    def outputs(self) -> int:
        """How many integers a copy becomes. Privacy: public."""
        return self.width if self.mixing is None else self.mixing.shape[1]

    @property
    def matrix(self) -> Floats:
        """What a centred row is multiplied by, as (width, outputs), but for the rounding.

        Privacy: public.
        """
        plain = np.eye(self.width) if self.mixing is None else self.mixing.astype(np.float64)
        matrix: Floats = plain * (self.gain * self.fine / self.levels)
        return matrix

    def __call__(self, rows: Floats) -> npt.NDArray[np.int16]:
        """Integers (n, copies, outputs) of encoded rows (n, width).

        Privacy: row-wise; as private as the rows.
        """
        whole = np.empty((len(rows), self.copies, self.outputs), np.int16)
        step = max(1, _CHUNK_CELLS // max(self.width, self.outputs))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            for copy in range(self.copies):
                whole[start : start + step, copy] = self._whole(self._seen(part, copy))
        return whole

    def _seen(self, rows: Floats, copy: int) -> Floats:
        if self.views is None:
            return rows
        places = self.views[copy]
        return np.where(places >= 0, rows[:, places], 0.0)

    def _whole(self, rows: Floats) -> Floats:
        part = np.rint((rows - self.centre) * self.fine)
        mixed = part if self.mixing is None else part @ self.mixing.astype(np.float64)
        limited: Floats = np.clip(np.rint(mixed * self.gain), -self.levels, self.levels)
        return limited


def _are_views(views: Integers, width: int) -> bool:
    shaped = views.ndim == 2 and len(views) >= 1 and views.shape[1] == width
    return bool(shaped and views.dtype.kind == "i" and ((views >= -1) & (views < width)).all())
