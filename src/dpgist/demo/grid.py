"""The 5x5 Gaussian grid of the DP-MERF paper: a problem whose true density is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgist.schema import CategoryColumn, NumberColumn, Schema

SIDE = 5
N_CLASSES = 5
STD = 0.2
N_ROWS = 90_000
COVERED_SHARE = 0.25
"""A mode counts as covered if it holds at least this much of its fair share."""

Points = npt.NDArray[np.float64]

_CELLS = np.stack(np.divmod(np.arange(SIDE**2), SIDE)[::-1], axis=1)
CENTRES = _CELLS.astype(np.float64)
CLASS_OF_CELL = (_CELLS[:, 0] + 2 * _CELLS[:, 1]) % N_CLASSES

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
    cells = rng.integers(SIDE**2, size=n_rows)
    points = CENTRES[cells] + STD * rng.standard_normal((n_rows, 2))
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
    r"""Mean of :math:`\log \frac1{25}\sum_c (2\pi s^2)^{-1} e^{-\|x-c\|^2/2s^2}`, in nats.

    The normaliser is the two-dimensional one; the authors' script has the one-dimensional.

    Privacy: for simulated or synthetic rows.
    """
    exponents = -_squared_distances(points) / (2 * STD**2)
    log_normaliser = np.log(2 * np.pi * STD**2 * SIDE**2)
    return float(np.mean(np.logaddexp.reduce(exponents, axis=1) - log_normaliser))


def modes_covered(table: pa.Table) -> int:
    """How many of the 25 modes hold enough points, within three std and of the right class.

    Privacy: for simulated or synthetic rows.
    """
    squared = _squared_distances(points_of(table))
    nearest = squared.argmin(axis=1)
    labels = np.array([int(label) for label in table["class"].to_pylist()])
    inside = (squared.min(axis=1) <= (3 * STD) ** 2) & (labels == CLASS_OF_CELL[nearest])
    shares = np.bincount(nearest[inside], minlength=SIDE**2) / len(labels)
    return int(np.sum(shares >= COVERED_SHARE / SIDE**2))


def _squared_distances(points: Points) -> Points:
    gaps = points[:, None, :] - CENTRES[None, :, :]
    return np.asarray(np.einsum("nck,nck->nc", gaps, gaps))
