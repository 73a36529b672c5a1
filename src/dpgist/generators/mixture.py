"""A generator for tables: a mixture of products over the cells of each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.features.support import Support
from dpgist.generators.drawing import Products

_BUMP = 0.25
_ATOM_HEAD_START = 3.0  # where features cannot tell an atom from its neighbour, prefer it


class MixtureGenerator(nn.Module):
    r"""Draw a component given the class, then every column on its own given the component.

    .. math:: Q(x \mid c) = \sum_{k=1}^{K} \pi_{k \mid c} \prod_j p_{kj}(x_j)

    Symbols: :math:`\pi_{k|c}` is ``components`` (softmax of one row per class), :math:`p_{kj}` is
    ``cells`` (softmax over the cells of column j's :class:`Support`). Dependence between columns
    lives in the choice of component, as it does in a network whose noise picks the means of its
    outputs; but here the mean of Fourier features is a finite sum of products, so training needs
    no batches, and columns with atoms, several modes or nulls are nothing special.

    Privacy: none needed; sees released statistics only.
    """

    kind: ClassVar[str] = "mixture"

    def __init__(
        self,
        supports: Sequence[Support],
        *,
        n_classes: int,
        n_components: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.supports = tuple(supports)
        self.sizes = {"components": n_components}
        self.components = nn.Parameter(torch.zeros(n_classes, n_components))
        self.cells = nn.ParameterList(
            nn.Parameter(_first_logits(support, n_components, generator)) for support in supports
        )

    @property
    def width(self) -> int:
        """How many coordinates an encoded row has."""
        return sum(support.width for support in self.supports)

    def forward(self) -> tuple[Tensor, list[Tensor]]:
        """Component probabilities (classes, K), and per column cell probabilities (cells, K)."""
        cells = [torch.softmax(logits, dim=0) for logits in self.cells]
        return torch.softmax(self.components, dim=1), cells

    @torch.no_grad()
    def products(self) -> Products:
        """The mixture as plain arrays. Privacy: post-processing of a release."""
        components, cells = self()
        return Products(
            supports=self.supports,
            components=as_numpy(components),
            cells=tuple(as_numpy(own) for own in cells),
        )

    def sample(
        self, classes: npt.NDArray[np.int64], *, rng: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """One encoded row (n, width) for each class code.

        Privacy: post-processing of a release; touches no row.
        """
        return self.products().draw(classes, rng=rng)


def as_numpy(tensor: Tensor) -> npt.NDArray[np.float64]:
    """The same numbers in float64. Privacy: post-processing of a release."""
    return np.asarray(tensor.detach().cpu().double().numpy())


def _first_logits(support: Support, n_components: int, generator: torch.Generator) -> Tensor:
    """Numeric columns start as bumps around random middles, choices as random leanings."""
    if support.half_widths.any() or not np.isin(support.points, (0.0, 1.0)).all():
        places = torch.tensor(support.points[:, :1], dtype=torch.float32)
        middles = torch.rand(1, n_components, generator=generator)
        atoms = torch.tensor(support.half_widths == 0)[:, None] & bool(support.half_widths.any())
        return -(((places - middles) / _BUMP) ** 2) + _ATOM_HEAD_START * atoms
    return torch.randn(len(support.points), n_components, generator=generator)
