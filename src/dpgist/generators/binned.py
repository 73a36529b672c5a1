"""A mixture of products over bins that a release chose, with released shares inside each bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.encode import Encoder
from dpgist.errors import ArtefactError
from dpgist.features.binning import Binning
from dpgist.features.leaves import Leaves, column_leaves
from dpgist.generators.drawing import Products
from dpgist.generators.mixture import as_numpy

_BUMP = 0.3
_LARGEST = 2**16


class Cut(Protocol):
    """A map whose columns are cut into the cells and bins of a released histogram.

    Privacy: public facts and released places only.
    """

    leaves: tuple[Leaves, ...]
    binnings: tuple[Binning, ...]
    most_leaves: int


class BinnedMixture(nn.Module):
    r"""Draw a component given the class, a bin of each column given the component, then a cell.

    .. math:: Q(x \mid c) = \sum_{k=1}^{K} \pi_{k \mid c} \prod_j p_{kj}(b_j)\, s_j(x_j \mid b_j)

    Symbols: :math:`\pi_{k|c}` is ``components`` (softmax of one row per class), :math:`p_{kj}` is
    ``bins`` (softmax over the bins of column j), :math:`s_j` the share of a cell within its bin,
    from the released histogram, whatever the component: bins are so narrow in mass that what
    depends on other columns is which bin, hardly where within it. ``leaves`` is how many of the
    schema's finest cells a numeric column has.

    Privacy: none needed; sees released statistics only.
    """

    kind: ClassVar[str] = "binned"

    def __init__(
        self,
        leaves: Sequence[Leaves],
        binnings: Sequence[Binning],
        *,
        most_leaves: int,
        n_classes: int,
        n_components: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.sizes = {"components": n_components, "leaves": most_leaves}
        self.supports = tuple(
            own.support(binning.firsts) for own, binning in zip(leaves, binnings, strict=True)
        )
        self.splits = [binning.n_bins for binning in binnings]
        self.components = nn.Parameter(torch.zeros(n_classes, n_components))
        first = [
            _first_logits(own, binning, n_components, generator)
            for own, binning in zip(leaves, binnings, strict=True)
        ]
        self.bins = nn.Parameter(torch.cat(first))
        for j, binning in enumerate(binnings):
            self.register_buffer(f"firsts_{j}", torch.tensor(binning.firsts))
            self.register_buffer(f"bins_{j}", torch.tensor(binning.bins))
            self.register_buffer(f"within_{j}", torch.tensor(binning.within()).float())

    @classmethod
    def of(
        cls,
        row_map: Cut,
        encoder: Encoder,
        *,
        n_components: int,
        generator: torch.Generator,
    ) -> BinnedMixture:
        """The mixture over the bins of a map. Privacy: public facts and released bins only."""
        return cls(
            row_map.leaves,
            row_map.binnings,
            most_leaves=row_map.most_leaves,
            n_classes=encoder.n_classes,
            n_components=n_components,
            generator=generator,
        )

    def forward(self) -> tuple[Tensor, Tensor]:
        """Component probabilities (classes, K), and bin probabilities of all columns (bins, K)."""
        bins = [torch.softmax(logits, dim=0) for logits in torch.split(self.bins, self.splits)]
        return torch.softmax(self.components, dim=1), torch.cat(bins)

    @torch.no_grad()
    def products(self) -> Products:
        """The mixture over cells as plain arrays. Privacy: post-processing of a release."""
        components, bins = self()
        cells = [
            as_numpy(own[self.get_buffer(f"bins_{j}")])
            * as_numpy(self.get_buffer(f"within_{j}"))[:, None]
            for j, own in enumerate(torch.split(bins, self.splits))
        ]
        return Products(supports=self.supports, components=as_numpy(components), cells=tuple(cells))

    def sample(
        self, classes: npt.NDArray[np.int64], *, rng: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """One encoded row (n, width) for each class code.

        Privacy: post-processing of a release; touches no row.
        """
        return self.products().draw(classes, rng=rng)


def binned_from(
    encoder: Encoder, sizes: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]
) -> BinnedMixture:
    """A mixture of the cells and bins that a file names, its weights still to be loaded.

    Privacy: public facts and released places only.
    """
    if set(sizes) != {"components", "leaves"} or not all(
        type(size) is int and 1 <= size <= _LARGEST for size in sizes.values()
    ):
        raise ArtefactError("a binned mixture has other sizes")
    leaves = column_leaves(encoder, most=sizes["leaves"])
    return BinnedMixture(
        leaves,
        [_checked_binning(own, j, tensors) for j, own in enumerate(leaves)],
        most_leaves=sizes["leaves"],
        n_classes=encoder.n_classes,
        n_components=sizes["components"],
        generator=torch.Generator().manual_seed(0),
    )


def _checked_binning(
    leaves: Leaves, column: int, tensors: Mapping[str, npt.NDArray[Any]]
) -> Binning:
    firsts, bins, within = (
        tensors[f"{name}_{column}"].tolist() for name in ("firsts", "bins", "within")
    )
    ordered = leaves.ordered if leaves.numeric else leaves.count
    rising = firsts[:1] == [0] and all(np.diff(firsts) > 0) and firsts[-1] < ordered
    complete = leaves.numeric or len(firsts) == leaves.count
    n_cells = len(firsts) + int(leaves.nullable)
    filled = sorted(set(bins)) == list(range(len(set(bins))))
    positive = all(np.isfinite(share) and share >= 0 for share in within)
    if not (rising and complete and filled and positive and len(bins) == len(within) == n_cells):
        raise ArtefactError("the cells of a column contradict the schema")
    return Binning(firsts=tuple(firsts), bins=tuple(bins), shares=tuple(within))


def _first_logits(
    leaves: Leaves, binning: Binning, n_components: int, generator: torch.Generator
) -> Tensor:
    """The released shares, leaning towards a random place (numbers) or at random (choices)."""
    shares = torch.tensor(binning.bin_shares(), dtype=torch.float32)[:, None]
    if not leaves.numeric:
        leaning = torch.randn(len(shares), n_components, generator=generator)
        return shares.log() + leaning
    ranks = shares.cumsum(dim=0) - shares / 2
    places = torch.rand(1, n_components, generator=generator)
    return shares.log() - ((ranks - places) / _BUMP) ** 2
