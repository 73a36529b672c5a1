"""The 5x5 Gaussian grid of the DP-MERF paper as a table: a problem whose true density is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgist.evaluate import mixtures
from dpgist.evaluate.mixtures import GRID
from dpgist.schema import CategoryColumn, NumberColumn, Schema

N_CLASSES = 5
N_ROWS = 90_000

Points = npt.NDArray[np.float64]

CENTRES = GRID.centres
STD = GRID.std
CLASS_OF_CELL = np.asarray(GRID.classes)

SCHEMA = Schema(
    name="demo-grid",
    columns=(
        NumberColumn(name="x", min=-1.0, max=5.0),
        NumberColumn(name="y", min=-1.0, max=5.0),
        CategoryColumn(name="class", values=tuple(map(str, range(N_CLASSES)))),
    ),
    label="class",
    rows_about=N_ROWS,
)


def simulate(n_rows: int, *, rng: np.random.Generator) -> pa.Table:
    """Rows of the true mixture: a uniform cell, its class, and a point around its centre.

    Privacy: simulated; nobody's data.
    """
    points, cells = mixtures.simulate(GRID, n_rows, rng=rng)
    return pa.table(
        {
            "x": points[:, 0],
            "y": points[:, 1],
            "class": [str(label) for label in CLASS_OF_CELL[cells]],
        }
    )


def points_of(table: pa.Table) -> Points:
    """The (n, 2) points of a table.

    Privacy: for simulated or synthetic rows.
    """
    return np.stack([table["x"].to_numpy(), table["y"].to_numpy()], axis=1)


def mean_log_likelihood(points: Points) -> float:
    """Mean log-likelihood of the points under the true density, in nats.

    Privacy: for simulated or synthetic rows.
    """
    return mixtures.mean_log_likelihood(GRID, points)


def modes_covered(table: pa.Table) -> int:
    """How many of the 25 modes hold enough points, within three std and of the right class.

    Privacy: for simulated or synthetic rows.
    """
    classes = np.array([int(label) for label in table["class"].to_pylist()])
    return mixtures.count_modes(GRID, points_of(table), classes).covered
