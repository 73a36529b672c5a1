"""A network for tables: one head for each kind of column."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpgist.encode import Slot
from dpgist.generators.network import draw_rows, initialise

_TEMPERATURE = 0.5


class TabularNetwork(nn.Module):
    r"""Map noise and a class to a row: sigmoids for intervals, one-hots for choices.

    .. math:: h = \mathrm{MLP}(z, c), \qquad x_{\text{interval}} = \mathrm{sigmoid}(h) \cdot g,
              \qquad x_{\text{choice}} = \mathrm{onehot}(\arg\max_i\, h_i + \gamma_i)

    Symbols: :math:`z` normal noise, :math:`\gamma_i` Gumbel noise, so that an option is drawn with
    the softmax of its logits; g is the "present" option of a nullable interval. Options that may
    not be emitted are barred. In training a one-hot is hard forwards and a softmax at
    ``_TEMPERATURE`` backwards (straight-through): features see rows such as the table could hold.

    Reference: Jang, Gu and Poole 2017 (Gumbel-softmax); DP-MERF, Harder, Adamczewski and Park
    2021, for the generator conditioned on a one-hot label.

    Privacy: none needed; sees released statistics only.
    """

    kind: ClassVar[str] = "network"
    barred: Tensor

    def __init__(
        self,
        slots: Sequence[Slot],
        *,
        n_classes: int,
        latent: int,
        hidden: int,
        depth: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.slots, self.n_classes, self.latent = tuple(slots), n_classes, latent
        self.sizes = {"latent": latent, "hidden": hidden, "depth": depth}
        width = sum(slot.width for slot in slots)
        self.n_noise = latent + width
        barred = [not allowed for slot in slots for allowed in slot.allowed or (True,) * slot.width]
        walls = torch.zeros(width).masked_fill(torch.tensor(barred, dtype=torch.bool), -torch.inf)
        self.register_buffer("barred", walls, persistent=False)
        with torch.random.fork_rng(devices=[]):  # layers fill themselves from torch's own state
            self.layers = _layers(latent + n_classes, width, hidden=hidden, depth=depth)
        initialise(self.layers, generator)

    def forward(self, noise: Tensor, classes: Tensor) -> Tensor:
        outputs = self.layers(torch.cat([noise[:, : self.latent], classes], dim=1))
        # The logarithm of a uniform number, exact in both tails.
        gumbel = -torch.log(-torch.special.log_ndtr(noise[:, self.latent :]))
        scores = outputs + gumbel + self.barred
        parts: dict[int, Tensor] = {}
        for slot in reversed(self.slots):  # a gate stands right after the interval that it opens
            place = slice(slot.start, slot.start + slot.width)
            if slot.kind == "choice":
                parts[slot.start] = self._one_hot(scores[:, place])
            else:
                value = torch.sigmoid(outputs[:, place])
                parts[slot.start] = value if slot.gate is None else value * parts[slot.gate][:, :1]
        return torch.cat([parts[start] for start in sorted(parts)], dim=1)

    def sample(
        self, classes: npt.NDArray[np.int64], *, rng: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """One encoded row (n, width) for each class code.

        Privacy: post-processing of a release; touches no row.
        """
        sizes = {"n_noise": self.n_noise, "n_classes": self.n_classes}
        return draw_rows(self, classes, **sizes, rng=rng)

    def _one_hot(self, scores: Tensor) -> Tensor:
        hard = functional.one_hot(scores.argmax(dim=1), scores.shape[1]).to(scores.dtype)
        if not self.training:
            return hard
        soft = torch.softmax(scores / _TEMPERATURE, dim=1)
        return hard + (soft - soft.detach())


def _layers(inputs: int, outputs: int, *, hidden: int, depth: int) -> nn.Sequential:
    widths = [inputs, *[hidden] * depth]
    body = [
        layer
        for before, after in itertools.pairwise(widths)
        for layer in (nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU())
    ]
    return nn.Sequential(*body, nn.Linear(hidden, outputs))
