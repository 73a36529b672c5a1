"""Mean features of a product distribution, in closed form: no sampling noise in training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.features.characteristic import CharacteristicMap
from dpgist.features.compose import ChoiceMap, SideBySide
from dpgist.features.fourier import FourierMap
from dpgist.features.support import Support

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


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


class ExpectedPairs(nn.Module):
    r"""Mean products of two columns' features, for a mixture of products.

    .. math:: E\, f_{ia}(x_i)\, f_{jb}(x_j) = \sum_k \pi_{k \mid c}\, p_{kia}\, p_{kjb}

    Symbols: :math:`p_{kja}` is the mean of feature a of column j in component k; with indicators
    of bins it is a bin's probability. For all partners j of a column i this is one matrix
    product, far smaller than the features of every component. ``sizes`` counts the features of
    each column, ``partners`` gives the second columns for each first one; coordinates stand as in
    :class:`~dpgist.features.marginal.MarginalMap`.

    Privacy: none needed; a function of public maps and of the generator.
    """

    def __init__(self, sizes: Sequence[int], partners: Mapping[int, Sequence[int]]) -> None:
        super().__init__()
        ends = np.cumsum(sizes).tolist()
        self._slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self._partners = {i: tuple(js) for i, js in partners.items()}

    def forward(self, components: Tensor, features: Tensor) -> Tensor:
        """Components (classes, K) and features (length, K) to (classes, pairs of features)."""
        none = features.new_zeros(len(components), 0)
        pairs = [self._products(i, components, features) for i in self._partners]
        return torch.cat([*pairs, none], dim=1)

    def _products(self, column: int, components: Tensor, features: Tensor) -> Tensor:
        own = components[:, None, :] * features[self._slices[column]]
        others = torch.cat([features[self._slices[j]] for j in self._partners[column]])
        return (own.flatten(0, 1) @ others.T).reshape(len(components), -1)


def expected_features(row_map: nn.Module, supports: Sequence[Support]) -> SideBySide:
    """The closed-form twin of a row map: cell probabilities -> mean features, block by block.

    Privacy: none needed; built from public maps and supports.
    """
    if isinstance(row_map, CharacteristicMap):
        return SideBySide([_expected_function(row_map, supports)])
    if not isinstance(row_map, SideBySide):
        raise TypeError(f"no closed form is known for {type(row_map).__name__}")
    return SideBySide(_twin(feature_map, supports) for feature_map in row_map.maps)


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
