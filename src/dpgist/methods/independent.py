"""Independent columns: one noisy histogram each. A reference to measure against, not a method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgist.encode import Encoder
from dpgist.features.marginal import HistogramMap
from dpgist.features.support import Support, column_supports
from dpgist.privacy.lattice import grid_bits
from dpgist.privacy.plan import Block, Plan, Query, Stage
from dpgist.privacy.released import Released
from dpgist.schema import Schema

HISTOGRAMS = "histograms"


@dataclass(frozen=True, kw_only=True)
class Independent:
    """Release one histogram per column in one joint Gaussian, and draw columns independently.

    The label is a column like any other. Numeric columns have the public cells of
    :func:`~dpgist.features.support.column_supports`, atoms before the intervals around them.

    Privacy: settings are public; the curator bounds the block and pays for the release.
    """

    schema: Schema

    @property
    def unlabelled(self) -> Schema:
        """The schema that the release is made under."""
        return replace(self.schema, label=None)

    def plan(self) -> Plan:
        """All histograms in one stage."""
        encoder, row_map = Encoder(self.unlabelled), HistogramMap(self._supports())
        block = Block(
            name=HISTOGRAMS,
            length=row_map.length,
            bits=grid_bits(self.schema.rows_about, row_map.length),
            bound_squared=len(encoder.columns),
            non_negative=True,
        )
        recipe = {"method": "independent", "schema": self.unlabelled.to_dict()}
        query = Query(
            encoder=encoder, row_map=row_map, blocks=(block,), batched=True, recipe=recipe
        )
        return Plan(stages=(Stage(share=Fraction(1), query=lambda released: query),))

    def sample(self, released: Released, n_rows: int, *, rng: np.random.Generator) -> pa.Table:
        """Rows whose columns follow the noisy histograms, each on its own."""
        encoder, supports = Encoder(self.unlabelled), self._supports()
        counts = released.last[HISTOGRAMS].sums()[0]
        ends = np.cumsum([len(support.points) for support in supports])
        rows = np.zeros((n_rows, encoder.width))
        for support, own in zip(supports, np.split(counts, ends[:-1]), strict=True):
            rows[:, support.start : support.start + support.width] = _draw(
                support, own, n_rows, rng
            )
        return encoder.decode(rows, np.zeros(n_rows, np.int64))

    def _supports(self) -> tuple[Support, ...]:
        """Atoms first: a bound belongs to its atom and not to the interval beside it."""
        return tuple(_atoms_first(support) for support in column_supports(Encoder(self.unlabelled)))


def _atoms_first(support: Support) -> Support:
    order = np.argsort(support.half_widths > 0, kind="stable")
    return replace(support, points=support.points[order], half_widths=support.half_widths[order])


def _draw(
    support: Support, counts: npt.NDArray[np.float64], n_rows: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    weights = np.maximum(counts, 0.0)
    shares = weights / weights.sum() if weights.sum() > 0 else np.full(len(counts), 1 / len(counts))
    cells = rng.choice(len(counts), size=n_rows, p=shares)
    drawn: npt.NDArray[np.float64] = support.points[cells].copy()
    drawn[:, 0] += support.half_widths[cells] * rng.uniform(-1.0, 1.0, n_rows)
    drawn[:, 0] = np.clip(drawn[:, 0], 0.0, 1.0)
    return drawn
