r"""The gradient of locally linear maps, in closed form.

With p the softmax of the scores f and y the row's class, the loss -log p_y has by eq. 1 to 3

.. math:: a_{mk} = \frac{\partial \ell}{\partial g_{mk}}
                 = (p_k - 1[y = k])\, s_{mk}\, (1 + \beta (g_{mk} - f_k)),

and the gradient by w_mk is a_mk R_m' x, by b_mk it is a_mk: outer products, as DP-SGD wants them.
Parameters are the maps over a public ``sharpness``: the larger it is, the further a step of the
same length goes, and the more of the gradients are at the clip bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch


@dataclass(frozen=True, kw_only=True, eq=False)
class LocallyLinearModel:
    """M maps for each of K classes; outputs are ordered map by map, a class after the other.

    ``sharpness`` multiplies the parameters, ``constant`` the biases among them; ``projection``
    (maps, inputs, features) is public, in real units, or None.

    Privacy: public; the gradient is row-wise.
    """

    n_classes: int
    maps: int
    temperature: float
    constant: float
    sharpness: float = 1.0
    projection: npt.NDArray[np.float64] | None = None

    def at(
        self, parameters: torch.Tensor, dtype: torch.dtype
    ) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """The coefficients a of rows and labels at parameters (maps * classes, features + 1).

        Privacy: row-wise.
        """
        sharp = parameters * self.sharpness
        filters = self._filters(sharp[:, :-1].to(dtype)).T.contiguous()
        biases = (sharp[:, -1] * self.constant).to(dtype)

        def coefficients(rows: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            responses = torch.addmm(biases, rows, filters)
            return self.sharpness * self._coefficients(responses, labels)

        return coefficients

    def _filters(self, weights: torch.Tensor) -> torch.Tensor:
        """The maps in the space of the rows, (maps * classes, inputs)."""
        if self.projection is None:
            return weights
        grouped = weights.reshape(self.maps, self.n_classes, -1)
        single = weights.dtype == torch.float32
        back = self._single_back if single else self._back.to(weights.dtype)
        return torch.bmm(grouped, back).reshape(self.maps * self.n_classes, -1)

    @property
    def _back(self) -> torch.Tensor:
        return torch.from_numpy(np.asarray(self.projection)).transpose(1, 2)

    @cached_property
    def _single_back(self) -> torch.Tensor:
        """From features to rows in float32, made once: every step reads all of it."""
        return self._back.to(torch.float32).contiguous()

    def _coefficients(self, responses: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        n_rows, beta = len(responses), self.temperature
        g = responses.reshape(n_rows, self.maps, self.n_classes)
        s = torch.softmax(beta * g, dim=1)
        f = (s * g).sum(dim=1, keepdim=True)
        error = torch.softmax(f, dim=2)
        error[torch.arange(n_rows), 0, labels] -= 1
        return (error * s * (1 + beta * (g - f))).reshape(n_rows, -1)
