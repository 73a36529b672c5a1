"""Where an interrupted training run can go on, to the same bits, from one file on disk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from dpgist.artefact import read_artefact, write_artefact
from dpgist.errors import ArtefactError

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_KIND = "checkpoint"
_SECONDS_BETWEEN_WRITES = 60.0


class Checkpoint:
    """Where a run can go on: snapshots in memory, one of them on disk.

    Ctrl-C may cut a step in two, with some weights updated and others not, so only a snapshot
    taken between two steps is ever written: on Ctrl-C, and every minute against a killed process.
    ``identity`` says which run it belongs to; ``networks`` are the modules to keep, by name, of
    which the optimiser trains the first.

    Privacy: post-processing of a release.
    """

    def __init__(
        self,
        path: Path,
        *,
        identity: str,
        networks: Mapping[str, nn.Module],
        optimiser: torch.optim.Optimizer,
    ) -> None:
        self._path, self._identity = path, identity
        self._networks, self._optimiser = networks, optimiser
        self._snapshot: tuple[list[float], dict[str, Tensor]] | None = None
        self._written = time.monotonic()

    def snapshot(self, losses: list[float]) -> None:
        """Remember the state between two steps. Privacy: post-processing of a release."""
        tensors = {name: tensor.detach().clone() for name, tensor in self._state()}
        self._snapshot = list(losses), tensors
        if time.monotonic() - self._written > _SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Write the latest snapshot, if there is one. Privacy: post-processing of a release."""
        if self._snapshot is not None:
            losses, tensors = self._snapshot
            payload = {"identity": self._identity, "losses": losses}
            arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            write_artefact(self._path, _KIND, payload, arrays, force=True)
            self._written = time.monotonic()

    def restore(self) -> list[float]:
        """Load the file, if there is one, into networks and optimiser; the losses so far.

        Privacy: reads an artefact, which is post-processing of a release.
        """
        if not self._path.exists():
            return []
        payload, arrays = read_artefact(self._path, _KIND)
        if payload.get("identity") != self._identity:
            raise ArtefactError(
                f"{self._path}: belongs to another training run; delete it or name another"
            )
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        for name, network in self._networks.items():
            own = {key: tensors[f"{name}:{key}"] for key in network.state_dict()}
            network.load_state_dict(own)
        self._load_moments(tensors)
        return [float(loss) for loss in payload["losses"]]

    def delete(self) -> None:
        """Forget the file once the run is done. Privacy: post-processing of a release."""
        self._path.unlink(missing_ok=True)

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for name, network in self._networks.items():
            for key, tensor in network.state_dict().items():
                yield f"{name}:{key}", tensor
        for key, weights in self._trained().items():
            for moment, tensor in self._optimiser.state.get(weights, {}).items():
                yield f"{moment}:{key}", tensor

    def _load_moments(self, tensors: Mapping[str, Tensor]) -> None:
        for key, weights in self._trained().items():
            if f"step:{key}" in tensors:
                state = {moment: tensors[f"{moment}:{key}"] for moment in _MOMENTS}
                step = state.pop("step")  # Adam keeps its step count on the CPU
                moved = {moment: value.to(weights.device) for moment, value in state.items()}
                self._optimiser.state[weights] = {**moved, "step": step}

    def _trained(self) -> dict[str, nn.Parameter]:
        return dict(next(iter(self._networks.values())).named_parameters())
