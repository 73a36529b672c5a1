"""Adam, by PyTorch's own arithmetic."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


class Adam(nn.Module):
    """Move weights against their gradients: Kingma and Ba 2015.

    ``torch.optim.Adam`` imports PyTorch's compiler when it is made: seconds and memory for which
    training has no use. This calls the same function underneath; and what it remembers are buffers,
    kept and restored like those of any module.

    Privacy: post-processing of a release; touches no row.
    """

    def __init__(
        self, network: nn.Module, *, betas: tuple[float, float], smallest_moment: float
    ) -> None:
        super().__init__()
        self._betas, self._smallest_moment = betas, smallest_moment
        self._weights = list(network.parameters())
        self._fused = self._weights[0].device.type == "cuda"
        for place, weights in enumerate(self._weights):
            self.register_buffer(f"mean_{place}", torch.zeros_like(weights))
            self.register_buffer(f"square_{place}", torch.zeros_like(weights))
            self.register_buffer(f"steps_{place}", torch.zeros((), device=weights.device))

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move all weights that have a gradient, then forget the gradients.

        Privacy: post-processing of a release.
        """
        moved = [place for place, weights in enumerate(self._weights) if weights.grad is not None]
        adam(
            [self._weights[place] for place in moved],
            [weights.grad for weights in self._weights if weights.grad is not None],
            self._remembered("mean", moved),
            self._remembered("square", moved),
            [],  # only a variant of Adam remembers its largest squares
            self._remembered("steps", moved),
            fused=self._fused,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=rate,
            weight_decay=0.0,
            eps=self._smallest_moment,
            maximize=False,
        )
        for weights in self._weights:
            weights.grad = None

    def _remembered(self, what: str, places: list[int]) -> list[Tensor]:
        return [self.get_buffer(f"{what}_{place}") for place in places]
