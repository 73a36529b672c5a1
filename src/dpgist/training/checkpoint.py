"""An interrupted training run, on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dpgist.artefact import read_artefact, write_artefact
from dpgist.errors import ArtefactError

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_KIND = "checkpoint"


class Checkpoint:
    """Where a run can go on: snapshots in memory, one of them on disk after an interrupt.

    Ctrl-C may cut a step in two, with some weights updated and others not, so only a snapshot
    taken between two steps is ever written. ``identity`` says which run it belongs to.

    Privacy: post-processing of a release.
    """

    def __init__(
        self, path: Path, *, identity: str, network: nn.Module, optimiser: torch.optim.Optimizer
    ) -> None:
        self._path, self._identity = path, identity
        self._network, self._optimiser = network, optimiser
        self._snapshot: tuple[list[float], dict[str, npt.NDArray[Any]]] | None = None

    def snapshot(self, losses: list[float]) -> None:
        """Remember the state between two steps. Privacy: post-processing of a release."""
        tensors = {}
        for name, weights in self._network.named_parameters():
            tensors[name] = _copy(weights)
            state = self._optimiser.state.get(weights, {})
            tensors |= {f"{key}:{name}": _copy(state[key]) for key in _MOMENTS if key in state}
        self._snapshot = list(losses), tensors

    def write(self) -> None:
        """Write the latest snapshot, if there is one. Privacy: post-processing of a release."""
        if self._snapshot is not None:
            losses, tensors = self._snapshot
            payload = {"identity": self._identity, "losses": losses}
            write_artefact(self._path, _KIND, payload, tensors, force=True)

    def restore(self) -> list[float]:
        """Load the file, if there is one, into network and optimiser; the losses so far.

        Privacy: reads an artefact, which is post-processing of a release.
        """
        if not self._path.exists():
            return []
        payload, tensors = read_artefact(self._path, _KIND)
        if payload.get("identity") != self._identity:
            raise ArtefactError(
                f"{self._path}: belongs to another training run; delete it or name another"
            )
        for name, weights in self._network.named_parameters():
            self._load(name, weights, tensors)
        return [float(loss) for loss in payload["losses"]]

    def delete(self) -> None:
        """Forget the file once the run is done. Privacy: post-processing of a release."""
        self._path.unlink(missing_ok=True)

    def _load(self, name: str, weights: nn.Parameter, tensors: dict[str, npt.NDArray[Any]]) -> None:
        with torch.no_grad():
            weights.copy_(torch.from_numpy(tensors[name]))
        if f"step:{name}" in tensors:
            state = {key: torch.from_numpy(tensors[f"{key}:{name}"]) for key in _MOMENTS}
            step = state.pop("step").reshape(())  # Adam keeps its step count on the CPU
            self._optimiser.state[weights] = {k: v.to(weights.device) for k, v in state.items()}
            self._optimiser.state[weights]["step"] = step


def _copy(tensor: torch.Tensor) -> npt.NDArray[Any]:
    return np.array(tensor.detach().cpu().numpy(), ndmin=1)
