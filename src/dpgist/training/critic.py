"""The critic: which frequencies of a characteristic function to look at."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpgist.features.characteristic import CharacteristicMap, effective_share, log_ratios

EVERY = 5
"""So many steps of the generator for one of the critic."""
_STEP = 0.05  # the most that the logarithm of a scale moves at once
_LEAST_SHARE = 0.5  # of the frequencies must be worth looking at
_SHRINK = 0.95


class Critic(nn.Module):
    r"""Weigh frequencies by the Gaussian under which a generator looks worst.

    .. math:: \max_s \sum_i w_i(s)\, |\tilde\Phi(t_i) - \Phi_Q(t_i)|^2, \qquad
              w_i(s) = k\, e^{\ell_i(s)} / \textstyle\sum_m e^{\ell_m(s)}

    Symbols: :math:`\ell_i` are the logarithms of importance weights of
    :func:`~dpgist.features.characteristic.log_ratios` between the frequencies' own Gaussian and
    the one whose axes are longer by the factors :math:`s`; :math:`\tilde\Phi` is the released
    characteristic function and :math:`\Phi_Q` the generator's. Frequencies stay where they were
    released, so that looking at others costs nothing.

    ``ascend`` moves the scales a step of fixed length uphill, by the gaps of the generator's last
    step, then back towards 1 until the weights are worth half of the frequencies: on fewer ones it
    would mostly see their noise. The rows of the next step are drawn anew, so its loss stays
    unbiased. The critic has no memory between steps but its scales.

    Reference: PEARL, Liew, Takahashi and Ueno 2022, section 4 and algorithm 1.

    Privacy: post-processing of a release; touches no row.
    """

    squares: Tensor
    sizes: Tensor

    def __init__(self, row_map: CharacteristicMap) -> None:
        super().__init__()
        self.register_buffer("squares", row_map.squares.clone(), persistent=False)
        self.register_buffer("sizes", row_map.sizes.clone(), persistent=False)
        self.log_scales = nn.Parameter(torch.zeros(self.squares.shape[1]), requires_grad=False)
        self._gaps: Tensor | None = None

    def weights(self) -> Tensor:
        """One weight per frequency, 1 on average. Privacy: post-processing of a release."""
        return self._weights(self.log_scales)

    def forward(self, gaps: Tensor) -> Tensor:
        """Add up the squared gaps of cosines and sines by the weights, and remember them.

        Privacy: post-processing of a release.
        """
        both = gaps.reshape(2, -1).sum(dim=0)
        self._gaps = both.detach()
        return self.weights() @ both

    def ascend(self) -> None:
        """One step on the gaps seen last. Privacy: post-processing of a release."""
        if self._gaps is None:
            return
        scales = self.log_scales.detach().clone().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad((self._weights(scales) * self._gaps).mean(), scales)
        steepest = float(slope.abs().max())
        if steepest > 0:
            self.log_scales.copy_(self._spread(scales.detach() + slope * (_STEP / steepest)))

    def _weights(self, log_scales: Tensor) -> Tensor:
        ratios = log_ratios(self.squares, self.sizes, log_scales)
        return torch.softmax(ratios, dim=0) * len(ratios)

    def _spread(self, log_scales: Tensor) -> Tensor:
        """The longest of these scales, shrunk, whose weights are worth enough frequencies."""
        while float(effective_share(self._weights(log_scales))) < _LEAST_SHARE:
            log_scales = log_scales * _SHRINK
        return log_scales
