"""The distance to released marginals in units of their noise, in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.errors import ArtefactError
from dpgist.features.expected import ExpectedProducts
from dpgist.features.marginal import MarginalMap
from dpgist.generators.binned import BinnedMixture
from dpgist.privacy.plan import COUNTS
from dpgist.privacy.released import Released, ReleasedBlock, ReleasedStage
from dpgist.training.matching import Target, class_sizes

PAIRS, SINGLES, LEAVES = "pairs", "singles", "leaves"

_SMALLEST_STD = 0.5  # rows: what rounding alone could be, where there is no noise
_SHARE_VARIANCE = 2.0  # of a bin's released mass, in units of the noise on one leaf's count
_ENOUGH = 0.9  # of the noise energy: the fit's own freedom takes up some of it


@dataclass(frozen=True, kw_only=True)
class Marginals:
    """Released marginals in rows, for the classes that will be generated.

    ``pairs`` and ``singles`` (classes, length) with their noise; ``shares`` is every column's
    share of its bins by the first stage, with the noise of its masses in rows.
    """

    classes: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.float64]
    pairs: npt.NDArray[np.float64]
    singles: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]
    pair_std: float
    single_std: float
    share_std: float

    def target(self) -> Target:
        """Classes and their shares. Privacy: post-processing of a release."""
        return Target(
            classes=self.classes,
            class_weights=self.sizes / self.sizes.sum(),
            means=(),
            loss_weights=(),
        )


def marginals_from(
    released: Released, row_map: MarginalMap, *, class_allowed: tuple[bool, ...]
) -> Marginals:
    """Put together what both stages say of the marginals.

    Privacy: post-processing of a release; touches no row.
    """
    last = released.last
    kept, sizes = class_sizes(last[COUNTS], class_allowed, n_rows=released.n_rows)
    pairs = _rows(last, PAIRS, kept, row_map.pair_length) if row_map.pairs else None
    singles = _rows(last, SINGLES, kept, row_map.single_length)
    leaf_std = released.stages[0][LEAVES].noise_std * _SHARE_VARIANCE**0.5
    return Marginals(
        classes=kept,
        sizes=sizes,
        pairs=np.zeros((len(kept), 0)) if pairs is None else pairs,
        singles=singles,
        shares=np.concatenate([binning.bin_shares() for binning in row_map.binnings]),
        pair_std=max(last[PAIRS].noise_std if row_map.pairs else 1.0, _SMALLEST_STD),
        single_std=max(last[SINGLES].noise_std, _SMALLEST_STD),
        share_std=max(leaf_std, _SMALLEST_STD),
    )


def n_coordinates(released: Released, *, class_allowed: tuple[bool, ...]) -> int:
    """How many released numbers a fit is compared with: what the truth itself scores on average.

    Privacy: post-processing of a release; touches no row.
    """
    kept, _ = class_sizes(released.last[COUNTS], class_allowed, n_rows=released.n_rows)
    names = (PAIRS, SINGLES)
    labelled = sum(b.block.length for b in released.last.blocks if b.block.name in names)
    return len(kept) * labelled + released.last[SINGLES].block.length


def _rows(
    stage: ReleasedStage, name: str, kept: npt.NDArray[np.int64], length: int
) -> npt.NDArray[np.float64]:
    block: ReleasedBlock = stage[name]
    if block.block.length != length:
        raise ArtefactError("the bins of this release cannot be rebuilt from its first stage")
    return np.asarray(block.sums()[kept if block.block.labelled else slice(None)])


class Whitened:
    r"""How far a mixture's marginals are from the released ones, in units of the noise.

    .. math:: \sum_v \sum_c \| (m_c\, \mu_{v,c} - \tilde S_{v,c}) / \sigma_v \|^2

    Symbols: v runs over pairs, single columns, and single columns of all classes together by the
    first stage; :math:`\tilde S_{v,c}` are released sums of class c with noise :math:`\sigma_v`,
    :math:`m_c` is the noisy count, :math:`\mu_{v,c}` the mixture's means.

    The truth itself is expected to have a loss of one per coordinate, and a fit a little less, as
    its own freedom takes up some noise: ``enough``. Below that it learns nothing but noise, so
    training ends there (the discrepancy principle).

    Privacy: post-processing of a release; touches no row.
    """

    betas = (0.9, 0.99)
    smallest_moment = 1e-12
    average_rate = 1.0
    window, rest = 1, 0.0

    def __init__(
        self, generator: BinnedMixture, row_map: MarginalMap, marginals: Marginals
    ) -> None:
        device = generator.components.device
        self._generator = generator
        self._expected = ExpectedProducts(row_map.sizes, row_map.halves)
        self._classes = torch.tensor(marginals.classes, device=device)
        self._sizes = _floats(marginals.sizes[:, None], device)
        shares = marginals.shares[None] * marginals.sizes.sum()
        wanted = marginals.pairs, marginals.singles, shares
        self._wanted = [_floats(view, device) for view in wanted]
        stds = marginals.pair_std, marginals.single_std, marginals.share_std
        self._precisions = [std**-2 for std in stds]
        self.enough = _ENOUGH * sum(view.size for view in wanted)

    def loss(self, rng: torch.Generator) -> Tensor:
        """See the class. Privacy: post-processing of a release."""
        del rng
        components, bins = self._generator()
        components = components[self._classes]
        pairs = self._expected(components, bins) * self._sizes
        singles = components @ bins.T * self._sizes
        views = pairs, singles, singles.sum(dim=0, keepdim=True)
        total: Tensor = singles.new_zeros(())
        for view, wanted, precision in zip(views, self._wanted, self._precisions, strict=True):
            total = total + precision * (view - wanted).square().sum()
        return total

    def settle(self, averaged: nn.Module, rng: torch.Generator) -> None:
        """Nothing to do. Privacy: post-processing of a release."""


def _floats(values: npt.NDArray[np.float64], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device)
