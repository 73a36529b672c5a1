"""Where an interrupted training run can go on, to the same bits, from one file on disk."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from dpgist.artefact import read_artefact, write_artefact
from dpgist.errors import ArtefactError

_KIND = "checkpoint"
_SECONDS_BETWEEN_WRITES = 60.0


class Checkpoint:
    """Where a run can go on: snapshots in memory, one of them on disk.

    Ctrl-C may cut a step in two, with some weights updated and others not, so only a snapshot
    taken between two steps is ever written: on Ctrl-C, and every minute against a killed process.
    ``identity`` says which run it belongs to; ``modules`` are what to keep, by name.

    Privacy: post-processing of a release.
    """

    def __init__(
        self,
        path: Path,
        *,
        identity: str,
        modules: Mapping[str, nn.Module],
    ) -> None:
        self._path, self._identity, self._modules = path, identity, modules
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
        """Load the file, if there is one, into the modules; the losses so far.

        Privacy: reads an artefact, which is post-processing of a release.
        """
        if not self._path.exists():
            return []
        payload, arrays = read_artefact(self._path, _KIND)
        known = payload.get("identity") == self._identity
        if not known or arrays.keys() != dict(self._state()).keys():  # or another version wrote it
            raise ArtefactError(
                f"{self._path}: belongs to another training run; delete it or name another"
            )
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        for name, module in self._modules.items():
            own = {key: tensors[f"{name}:{key}"] for key in module.state_dict()}
            module.load_state_dict(own)
        return [float(loss) for loss in payload["losses"]]

    def delete(self) -> None:
        """Forget the file once the run is done. Privacy: post-processing of a release."""
        self._path.unlink(missing_ok=True)

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for name, module in self._modules.items():
            for key, tensor in module.state_dict().items():
                yield f"{name}:{key}", tensor
