"""Mean features of a product distribution, in closed form: no sampling noise in training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.features.characteristic import CharacteristicMap
from dpgist.features.compose import ChoiceMap, SideBySide
from dpgist.features.fourier import FourierMap
from dpgist.features.hermite import Column, ColumnFeatures, ProductMap, SumMap
from dpgist.features.support import Support

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

_NODES = 16  # of the quadrature over a cell: exact to rounding for the widest cells there are


class ExpectedFourier(nn.Module):
    r"""Mean Fourier features of rows whose columns are independent.

    .. math:: E\,e^{i\omega^\top x} = \prod_j \sum_q p_{jq}\, e^{i\omega_j^\top v_{jq}}
              \,\mathrm{sinc}(\omega_{j1} h_{jq})

    Symbols: column j lies in its cell q, middle :math:`v_{jq}` and half width :math:`h_{jq}`, with
    probability :math:`p_{jq}`. Maps cell probabilities, one tensor (cells, K) per column, to
    (length, K) for K products at once; or bin probabilities, if ``within`` (cells, bins) says for
    each column how a bin's mass is spread over its cells. A column outside a frequency's group
    has the factor 1 and costs nothing.

    Privacy: none needed; a function of public frequencies and of the generator.
    """

    def __init__(
        self,
        feature_map: FourierMap,
        supports: Sequence[Support],
        within: Sequence[Floats] | None = None,
    ) -> None:
        super().__init__()
        frequencies = feature_map.frequencies.double().cpu().numpy()
        self.n_frequencies = len(frequencies)
        seen = [(frequencies[:, s.start : s.start + s.width] != 0).any(axis=1) for s in supports]
        ranked = _ranked_columns(seen, self.n_frequencies)
        cells = [
            _Cells(support, within[j] if within else None) for j, support in enumerate(supports)
        ]
        self.factors = nn.ModuleList(_Factor(ranks, frequencies, cells) for ranks in ranked.T)

    def forward(self, probabilities: Sequence[Tensor]) -> Tensor:
        real, imaginary = self.factors[0](probabilities)
        for factor in self.factors[1:]:
            a, b = factor(probabilities)
            real, imaginary = real * a - imaginary * b, real * b + imaginary * a
        return torch.cat([real, imaginary]) * (1.0 / math.sqrt(self.n_frequencies))


class _Factor(nn.Module):
    """The factor of every frequency's r-th column, for one rank r: real and imaginary (m, K)."""

    places: Tensor

    def __init__(self, columns: Codes, frequencies: Floats, cells: Sequence[_Cells]) -> None:
        super().__init__()
        self.columns = [int(j) for j in np.unique(columns)]
        groups = [np.flatnonzero(columns == j) for j in self.columns]
        for j, group in zip(self.columns, groups, strict=True):
            self.register_buffer(f"table_{j}", _table(cells, j, frequencies[group]))
        # Matrix products come out column by column; ``places`` puts them back in order.
        places = np.argsort(np.concatenate(groups), kind="stable")
        self.in_order = bool((places == np.arange(len(places))).all())
        self.register_buffer("places", torch.tensor(places))

    def forward(self, probabilities: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        reals, imaginaries = [], []
        for j in self.columns:
            table = self.get_buffer(f"table_{j}")
            values = table @ (probabilities[j] if j >= 0 else torch.ones_like(probabilities[0][:1]))
            real, imaginary = values.chunk(2)
            reals.append(real)
            imaginaries.append(imaginary)
        real, imaginary = torch.cat(reals), torch.cat(imaginaries)
        if self.in_order:
            return real, imaginary
        return real.index_select(0, self.places), imaginary.index_select(0, self.places)


class ExpectedChoices(nn.Module):
    """Mean one-hots of rows whose columns are independent, scaled as :class:`ChoiceMap` does.

    Privacy: none needed; a function of the generator.
    """

    def __init__(self, feature_map: ChoiceMap, supports: Sequence[Support]) -> None:
        super().__init__()
        kept = set(feature_map.coordinates.tolist())
        for j, support in enumerate(supports):
            own = [i for i in range(support.width) if support.start + i in kept]
            table = support.points[:, own].T * float(feature_map.scale)
            self.register_buffer(f"table_{j}", torch.tensor(table, dtype=torch.float32))

    def forward(self, probabilities: Sequence[Tensor]) -> Tensor:
        return torch.cat([self.get_buffer(f"table_{j}") @ p for j, p in enumerate(probabilities)])


class ExpectedProducts(nn.Module):
    r"""Mean products of several columns' features, for a mixture of products.

    .. math:: E\, f_{ia}(x_i)\, f_{jb}(x_j) = \sum_k \pi_{k \mid c}\, p_{kia}\, p_{kjb}

    Symbols: :math:`p_{kja}` is the mean of feature a of column j in component k; with indicators
    of bins it is a bin's probability. Columns that are independent given the component have
    the product of their means; for all subsets that share a first half this is one matrix
    product, far smaller than the features of every component. ``sizes`` counts the features of
    each column, ``halves`` gives the second halves for each first one; coordinates stand as in
    :class:`~dpgist.features.hermite.ProductMap`.

    Privacy: none needed; a function of public maps and of the generator.
    """

    def __init__(
        self, sizes: Sequence[int], halves: Mapping[tuple[int, ...], Sequence[tuple[int, ...]]]
    ) -> None:
        super().__init__()
        ends = np.cumsum(sizes).tolist()
        self._slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self._halves = {first: tuple(seconds) for first, seconds in halves.items()}

    def forward(self, components: Tensor, features: Tensor) -> Tensor:
        """Components (classes, K) and features (length, K) to (classes, products of features)."""
        none = features.new_zeros(len(components), 0)
        products = [self._products(first, components, features) for first in self._halves]
        return torch.cat([*products, none], dim=1)

    def _products(self, first: tuple[int, ...], components: Tensor, features: Tensor) -> Tensor:
        own = components[:, None, :] * self._outer(first, features)
        others = torch.cat([self._outer(second, features) for second in self._halves[first]])
        return (own.flatten(0, 1) @ others.T).reshape(len(components), -1)

    def _outer(self, columns: tuple[int, ...], features: Tensor) -> Tensor:
        """Products of all features of some columns, component by component."""
        product = features[self._slices[columns[0]]]
        for column in columns[1:]:
            product = (product[:, None] * features[self._slices[column]]).flatten(0, 1)
        return product


class ExpectedColumns(nn.Module):
    """Mean Hermite features of each column alone, from its cells: (cells, K) to (length, K).

    Privacy: none needed; a function of public maps and of the generator.
    """

    def __init__(self, features: ColumnFeatures, supports: Sequence[Support]) -> None:
        super().__init__()
        self.sizes = [column.size for column in features.columns]
        for j, (column, support) in enumerate(zip(features.columns, supports, strict=True)):
            self.register_buffer(f"table_{j}", _column_table(column, support).float())

    def forward(self, probabilities: Sequence[Tensor]) -> Tensor:
        return torch.cat([self.get_buffer(f"table_{j}") @ p for j, p in enumerate(probabilities)])


class ExpectedMeans(nn.Module):
    """Mean features of a mixture of products in each class, block by block: (classes, length).

    Privacy: none needed; a function of public maps and of the generator.
    """

    def __init__(self, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, components: Tensor, probabilities: Sequence[Tensor]) -> list[Tensor]:
        return [block(components, probabilities) for block in self.blocks]


class _MeanOverComponents(nn.Module):
    """Class means of a block whose mean features (length, K) are known for each component."""

    def __init__(self, twin: nn.Module, *, scale: float = 1.0) -> None:
        super().__init__()
        self.twin, self.scale = twin, scale

    def forward(self, components: Tensor, probabilities: Sequence[Tensor]) -> Tensor:
        means: Tensor = components @ self.twin(probabilities).T
        return means * self.scale


class _MeanProducts(nn.Module):
    """Class means of Hermite features of subsets of columns."""

    def __init__(self, feature_map: ProductMap, supports: Sequence[Support]) -> None:
        super().__init__()
        self.columns = ExpectedColumns(feature_map.features, supports)
        self.products = ExpectedProducts(self.columns.sizes, feature_map.halves)
        self.scale = feature_map.scale

    def forward(self, components: Tensor, probabilities: Sequence[Tensor]) -> Tensor:
        means: Tensor = self.products(components, self.columns(probabilities))
        return means * self.scale


def expected_means(row_map: nn.Module, supports: Sequence[Support]) -> ExpectedMeans:
    """The closed-form twin of a row map: a mixture of products -> class means of every block.

    Privacy: none needed; built from public maps and supports.
    """
    if isinstance(row_map, CharacteristicMap):
        return ExpectedMeans([_MeanOverComponents(_expected_function(row_map, supports))])
    if not isinstance(row_map, SideBySide):
        raise TypeError(f"no closed form is known for {type(row_map).__name__}")
    return ExpectedMeans(_means(own, supports) for own in row_map.maps)


def _means(feature_map: nn.Module, supports: Sequence[Support]) -> nn.Module:
    if isinstance(feature_map, SumMap):
        twin = ExpectedColumns(feature_map.features, supports)
        return _MeanOverComponents(twin, scale=feature_map.scale)
    if isinstance(feature_map, ProductMap):
        return _MeanProducts(feature_map, supports)
    return _MeanOverComponents(_twin(feature_map, supports))


def _column_table(column: Column, support: Support) -> Tensor:
    """Mean features (size, cells) of a column over each of its cells, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    rows = np.repeat(support.points[:, None, :], _NODES, axis=1)
    rows[:, :, 0] += support.half_widths[:, None] * nodes
    gate = None if column.gate is None else column.gate - support.start
    alone = ColumnFeatures([replace(column, start=column.start - support.start, gate=gate)])
    values = alone(torch.tensor(rows.reshape(-1, support.width)))
    by_cell = values.reshape(len(support.points), _NODES, -1)
    return torch.einsum("qns,n->sq", by_cell, torch.tensor(weights / 2.0))


def _expected_function(row_map: CharacteristicMap, supports: Sequence[Support]) -> ExpectedFourier:
    """Of cells, or, where a release has cut the columns, of its bins."""
    if row_map.stretch is None:
        return ExpectedFourier(row_map.fourier, supports)
    within = [
        np.eye(binning.n_bins)[list(binning.bins)] * binning.within()[:, None]
        for binning in row_map.stretch.binnings
    ]
    return ExpectedFourier(row_map.fourier, row_map.stretch.supports(), within)


def _twin(feature_map: nn.Module, supports: Sequence[Support]) -> nn.Module:
    if isinstance(feature_map, FourierMap):
        return ExpectedFourier(feature_map, supports)
    if isinstance(feature_map, ChoiceMap):
        return ExpectedChoices(feature_map, supports)
    raise TypeError(f"no closed form is known for {type(feature_map).__name__}")


@dataclass(frozen=True)
class _Cells:
    """The cells of one column and, if bins have probabilities, how those are spread over them."""

    support: Support
    within: Floats | None


def _table(cells: Sequence[_Cells], column: int, frequencies: Floats) -> Tensor:
    """Cosines over sines (2m, cells) of one column's cells; column -1 is the constant 1."""
    if column < 0:
        return torch.tensor(np.repeat([[1.0], [0.0]], len(frequencies), axis=0)).float()
    support, within = cells[column].support, cells[column].within
    weights = frequencies[:, support.start : support.start + support.width]
    phases = weights @ support.points.T
    spread = np.sinc(np.outer(weights[:, 0], support.half_widths) / np.pi)
    table = np.concatenate([np.cos(phases) * spread, np.sin(phases) * spread])
    return torch.tensor(table if within is None else table @ within, dtype=torch.float32)


def _ranked_columns(seen: Sequence[npt.NDArray[np.bool_]], n: int) -> Codes:
    """Row f lists the columns that frequency f sees, in order, padded with -1."""
    filled = np.zeros(n, dtype=np.int64)
    ranked = np.full((n, max(len(seen), 1)), -1, dtype=np.int64)
    for j, touched in enumerate(seen):
        rows = np.flatnonzero(touched)
        ranked[rows, filled[rows]] = j
        filled[rows] += 1
    return ranked[:, : max(int(filled.max(initial=0)), 1)]
