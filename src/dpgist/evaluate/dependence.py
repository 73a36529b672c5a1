"""Whether columns hang together in two tables in the same way."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from dpgist.evaluate.marginals import Bins
from dpgist.evaluate.table import Rows, bounds, class_names, option_names

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

MOST_KERNEL_ROWS = 4000
"""The kernel distance is that of so many rows of each table."""
_MEDIAN_ROWS = 1000


def correlated_columns(rows: Rows) -> tuple[str, ...]:
    """The columns with a correlation: all numbers, and a label of two classes.

    Privacy: public facts only.
    """
    label = rows.schema.label
    two = label is not None and len(class_names(rows.schema)) == 2
    return (*rows.numbers, *((label,) if two and label is not None else ()))


def correlations(rows: Rows) -> Floats:
    """Pearson correlations of :func:`correlated_columns`, each over the rows where both are known.

    A column without spread correlates with nothing: 0.

    Privacy: a function of real rows; outside the guarantee.
    """
    columns = [_values(rows, name) for name in correlated_columns(rows)]
    if not columns:
        return np.zeros((0, 0))
    values = np.column_stack(columns)
    known = (~np.isnan(values)).astype(np.float64)
    middles = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1.0)
    values = np.where(known > 0, values - middles, 0.0)  # near 0, so that sums stay exact
    values /= np.maximum(np.abs(values).max(axis=0, initial=0.0), 1e-300)
    count = np.maximum(known.T @ known, 1.0)
    sums, squares = values.T @ known, (values**2).T @ known
    covariance = values.T @ values / count - (sums / count) * (sums.T / count)
    variance = squares / count - (sums / count) ** 2
    scale = np.sqrt(np.maximum(variance, 0.0) * np.maximum(variance.T, 0.0))
    found: Floats = np.where(scale > 1e-12, covariance / np.maximum(scale, 1e-300), 0.0)
    return np.clip(found, -1.0, 1.0)


def _values(rows: Rows, name: str) -> Floats:
    if name in rows.numbers:
        return rows.numbers[name]
    classes = rows.classes()
    return np.where(classes < 0, np.nan, classes)


def correlation_error(real: Rows, other: Rows) -> float | None:
    """The mean absolute difference of correlations; None with fewer than two such columns.

    Privacy: a function of real rows; outside the guarantee.
    """
    first, second = correlations(real), correlations(other)
    above = np.triu_indices(len(first), 1)
    return float(np.abs(first - second)[above].mean()) if len(above[0]) else None


def cramers_v(first: Codes, second: Codes, sizes: tuple[int, int]) -> float:
    r"""Cramér's V of two columns of codes, corrected for its bias in small samples.

    .. math:: \tilde V = \sqrt{\frac{\max(0,\ \phi^2 - \frac{(r-1)(k-1)}{n-1})}
        {\min(\tilde r, \tilde k) - 1}}, \qquad \tilde r = r - \frac{(r-1)^2}{n-1}

    Symbols: :math:`\phi^2 = \chi^2/n`; :math:`r` and :math:`k` count the values that occur, and
    :math:`\tilde k` is like :math:`\tilde r`. A column without spread goes with nothing: 0.
    Reference: Bergsma 2013, "A bias-correction for Cramér's V and Tschuprow's T".

    Privacy: a function of real rows; outside the guarantee.
    """
    n_rows = len(first)
    table = np.bincount(first * sizes[1] + second, minlength=sizes[0] * sizes[1])
    table = table.reshape(sizes).astype(np.float64)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if n_rows < 2 or min(table.shape) < 2:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / n_rows
    phi_squared = float(((table - expected) ** 2 / expected).sum()) / n_rows
    r, k = table.shape
    corrected = max(0.0, phi_squared - (r - 1) * (k - 1) / (n_rows - 1))
    smaller = min(side - (side - 1) ** 2 / (n_rows - 1) for side in (r, k)) - 1
    return float(np.sqrt(corrected / smaller)) if smaller > 0 else 0.0


def cramers_matrix(codes: Mapping[str, Codes], bins: Bins) -> Floats:
    """Cramér's V of every pair of columns, numbers in their bins.

    Privacy: a function of real rows; outside the guarantee.
    """
    names = bins.columns
    found = np.eye(len(names))
    for (i, first), (j, second) in itertools.combinations(enumerate(names), 2):
        sizes = (bins.sizes[first], bins.sizes[second])
        found[i, j] = found[j, i] = cramers_v(codes[first], codes[second], sizes)
    return found


def cramers_error(first: Floats, second: Floats) -> float | None:
    """The mean absolute difference of two matrices of Cramér's V; None for a single column.

    Privacy: a function of real rows; outside the guarantee.
    """
    above = np.triu_indices(len(first), 1)
    return float(np.abs(first - second)[above].mean()) if len(above[0]) else None


def encoded(rows: Rows) -> npt.NDArray[np.float32]:
    """Rows as vectors: numbers in [0, 1] by their declared range, categories one-hot, null marked.

    Two categories lie at distance 1, as the two ends of a range do.

    Privacy: row-wise; as private as the rows.
    """
    parts = []
    for column in rows.schema.columns:
        if column.name in rows.choices:
            n_options = len(option_names(column))
            parts.append(np.eye(n_options)[rows.choices[column.name]] / np.sqrt(2.0))
            continue
        low, high = bounds(column)
        values = (rows.numbers[column.name] - low) / (high - low or 1.0)
        parts.append(np.nan_to_num(values)[:, None])
        if getattr(column, "nullable", False):
            parts.append(np.isnan(values)[:, None])
    return np.concatenate(parts, axis=1, dtype=np.float32)


def squared_distances(
    first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Squared distances of every row of one array to every row of another.

    Privacy: as private as the rows.
    """
    norms = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)
    distances: npt.NDArray[np.float32] = np.maximum(norms - 2 * (first @ second.T), 0.0)
    return distances


def mmd_squared(real: Rows, other: Rows, *, rng: np.random.Generator, most: int) -> float | None:
    r"""Squared maximum mean discrepancy with a Gaussian kernel, without bias.

    .. math:: \frac{1}{n(n-1)}\sum_{i \ne j} k(x_i, x_j) + \frac{1}{m(m-1)}\sum_{i \ne j}
        k(y_i, y_j) - \frac{2}{nm}\sum_{i,j} k(x_i, y_j), \qquad
        k(x, y) = \exp(-\|x - y\|^2 / 2\ell^2)

    Symbols: :math:`\ell` is the median distance of two real rows, among 1,000 of them. At most
    ``most`` rows of each table take part. Reference: Gretton et al. 2012, Lemma 6.

    Privacy: a function of real rows; outside the guarantee.
    """
    x, y = (encoded(rows.at_most(most, rng)) for rows in (real, other))
    if min(len(x), len(y)) < 2:
        return None
    within = squared_distances(x, x)
    scale = _median(within, rng=rng) or 1.0
    kernels = (within, squared_distances(y, y), squared_distances(x, y))
    xx, yy, xy = (float(np.exp(-d / (2 * scale)).sum(dtype=np.float64)) for d in kernels)
    n, m = len(x), len(y)
    return (xx - n) / (n * (n - 1)) + (yy - m) / (m * (m - 1)) - 2 * xy / (n * m)


def _median(distances: npt.NDArray[np.float32], *, rng: np.random.Generator) -> float:
    """The median of distances within a table, of some rows: the first ones may be of one kind."""
    some = rng.choice(len(distances), min(len(distances), _MEDIAN_ROWS), replace=False)
    above = np.triu_indices(len(some), 1)
    return float(np.median(distances[some[above[0]], some[above[1]]]))


def nearest_record(real: Rows, other: Rows, *, rng: np.random.Generator, most: int) -> float | None:
    """The median distance of rows to the nearest real row. It measures NO privacy.

    A table can keep its distance from every real row and still give somebody away, or come close
    by chance; the guarantee is what the card says. At most ``most`` rows of each table take part.

    Privacy: a function of real rows; outside the guarantee, and no evidence about one.
    """
    x, y = (encoded(rows.at_most(most, rng)) for rows in (real, other))
    if not len(x) or not len(y):
        return None
    return float(np.median(np.sqrt(squared_distances(y, x).min(axis=1))))
