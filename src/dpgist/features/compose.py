"""Several feature maps side by side, and the plain one-hot block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from dpgist.encode import Slot


class ChoiceMap(nn.Module):
    r"""Keep the one-hot coordinates, scaled so that the whole vector has norm 1.

    .. math:: \phi(x) = C^{-1/2}\,[x_{\text{choice } 1}, \dots, x_{\text{choice } C}]

    Its mean holds every one-way marginal of the choices (DP-MERF, Harder, Adamczewski and Park
    2021, section 4.2).

    Privacy: none by itself; a pure map of the rows it is given.
    """

    coordinates: Tensor
    scale: Tensor

    def __init__(self, slots: Sequence[Slot]) -> None:
        super().__init__()
        choices = [slot for slot in slots if slot.kind == "choice"]
        coordinates = [slot.start + i for slot in choices for i in range(slot.width)]
        self.register_buffer("coordinates", torch.tensor(coordinates, dtype=torch.int64))
        self.register_buffer("scale", torch.tensor(1.0 / math.sqrt(max(len(choices), 1))))

    @property
    def length(self) -> int:
        """How many numbers a row is mapped to."""
        return len(self.coordinates)

    def forward(self, rows: Tensor) -> Tensor:
        return rows.to(self.scale.dtype).index_select(1, self.coordinates) * self.scale


class SideBySide(nn.Module):
    """Apply several maps to the same rows: one (B, length) tensor per block.

    ``loss_factors`` multiply the blocks' weights in the training loss, and nothing else; none
    leaves them as the release weighs them. ``ends_at_noise`` says that a loss in closed form is
    not to be brought far below what noise leaves on average, where there is only noise to learn.

    Privacy: none by itself; row-wise if each of its maps is.
    """

    def __init__(
        self,
        maps: Iterable[nn.Module],
        loss_factors: Sequence[float] = (),
        *,
        ends_at_noise: bool = False,
    ) -> None:
        super().__init__()
        self.maps = nn.ModuleList(maps)
        self.loss_factors = tuple(loss_factors)
        self.ends_at_noise = ends_at_noise

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        return tuple(feature_map(rows) for feature_map in self.maps)
