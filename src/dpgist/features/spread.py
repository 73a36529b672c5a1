"""How far rows lie apart: the two moments from which a paid length scale is made."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dpgist.encode import Slot


class SpreadMap(nn.Module):
    r"""Map each row to itself and to its squared norm, both scaled to norm at most 1.

    .. math:: \phi_1(x) = x / \sqrt{s}, \qquad \phi_2(x) = \|x\|^2 / s

    Symbols: :math:`s` is the largest squared norm a row can have: 1 per interval, choice or pixel.
    The mean squared distance of two rows is :math:`2 (E\|x\|^2 - \|E x\|^2)`.

    Privacy: none by itself; a pure map of the rows it is given.
    """

    scale: Tensor

    def __init__(self, slots: Sequence[Slot]) -> None:
        super().__init__()
        self.largest = largest_squared_norm(slots)
        self.width = sum(slot.width for slot in slots)
        self.register_buffer("scale", torch.tensor(1.0 / math.sqrt(self.largest)))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        unit = rows.to(self.scale.dtype) * self.scale
        return unit, unit.square().sum(dim=1, keepdim=True)


def largest_squared_norm(slots: Sequence[Slot]) -> int:
    """The squared norm that no encoded row exceeds. Privacy: public facts only."""
    return sum(1 if slot.kind == "choice" else slot.width for slot in slots)


def public_squared_distance(slots: Sequence[Slot]) -> float:
    """Mean squared distance of two made-up rows: 1/6 per uniform number, 1 per one-hot.

    Privacy: public facts only.
    """
    return sum(1.0 if slot.kind == "choice" else slot.width / 6 for slot in slots)
