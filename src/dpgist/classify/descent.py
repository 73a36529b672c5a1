"""What is done with noisy gradients: Adam, a falling rate, and an average of the path. All free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Schedule = Literal["constant", "linear", "staircase"]


@dataclass(frozen=True, kw_only=True)
class Descent:
    """How to follow noisy gradients.

    ``learning_rate`` is Adam's step at the start; ``schedule`` lets it fall to 0 ("linear"), by a
    fifth every quarter of the way with a fresh Adam each time ("staircase", the paper's), or not at
    all. ``averaging`` p > 0 returns the average of the path with weights t^p; 0 returns its end.

    Privacy: public; post-processing of released gradients.
    """

    learning_rate: float
    schedule: Schedule = "linear"
    momentum: float = 0.9
    second: float = 0.99
    averaging: float = 0.0

    def __post_init__(self) -> None:
        if not self.learning_rate > 0 or not 0 <= self.momentum < 1 or not 0 <= self.second < 1:
            raise ValueError("learning_rate must be positive, momentum and second in [0, 1)")
        if self.schedule not in ("constant", "linear", "staircase") or self.averaging < 0:
            raise ValueError("unknown schedule, or a negative averaging")


class AdamPath:
    """A path of parameters under noisy gradients. Privacy: post-processing."""

    def __init__(self, start: torch.Tensor, descent: Descent, steps: int) -> None:
        self.parameters = start.to(torch.float64).clone()
        self.average = self.parameters.clone()
        self._descent, self._steps, self._taken = descent, steps, 0
        self._weight = 0.0
        self._restart()

    def _restart(self) -> None:
        self._first = torch.zeros_like(self.parameters)
        self._second = torch.zeros_like(self.parameters)
        self._since = 0

    def step(self, gradient: torch.Tensor) -> None:
        """Move by a noisy gradient. Privacy: post-processing."""
        how = self._descent
        if how.schedule == "staircase" and self._taken % max(1, self._steps // 4) == 0:
            self._restart()
        rate = how.learning_rate * self._factor()
        self._taken += 1
        self._since += 1
        self._first.mul_(how.momentum).add_(gradient, alpha=1 - how.momentum)
        self._second.mul_(how.second).addcmul_(gradient, gradient, value=1 - how.second)
        mean = self._first / (1 - how.momentum**self._since)
        spread = (self._second / (1 - how.second**self._since)).sqrt_()
        self.parameters.addcdiv_(mean, spread.add_(1e-12), value=-rate)
        self._include()

    def found(self) -> torch.Tensor:
        """The parameters to use. Privacy: post-processing."""
        return self.average if self._descent.averaging else self.parameters

    def _factor(self) -> float:
        if self._descent.schedule == "linear":
            return 2 * (1 - self._taken / self._steps)
        if self._descent.schedule == "staircase":
            return float(0.8 ** (self._taken // max(1, self._steps // 4)))
        return 1.0

    def _include(self) -> None:
        weight = float(self._taken) ** self._descent.averaging
        self._weight += weight
        self.average.lerp_(self.parameters, weight / self._weight)
