"""The networks of the comparison of explanations: trained by a peer, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import ROOT
from torch import nn

PEERS_FOLDER = ROOT / "benchmarks" / "peers"
INSTALL = ("torch==2.13.0", "opacus==1.6.0")
PRIVATE = {"batch": 512, "learning_rate": 2.0, "clip": 0.1, "epochs": 8}
PLAIN = {"batch": 128, "learning_rate": 0.02, "clip": None, "epochs": 3}
DELTA = 1e-5

sys.path.insert(0, str(PEERS_FOLDER))
from cnn import network  # noqa: E402 - the peer's own module


def trained_network(
    work: Path, x: np.ndarray, y: np.ndarray, *, epsilon: float | None, seed: int = 0
) -> tuple[nn.Module, dict[str, Any]]:
    """A network of flat images and what its trainer says; kept in ``work`` for the next time."""
    settings = PRIVATE if epsilon is not None else PLAIN
    job = {"epsilon": epsilon, "delta": DELTA, "seed": seed, "threads": 1, **settings}
    folder = work / f"cnn-{'plain' if epsilon is None else f'{epsilon:g}'}"
    text = json.dumps(job)
    done = folder / "peer.json"
    if not (done.exists() and (folder / "job.json").read_text() == text):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.json").write_text(text)
        np.savez(folder / "train.npz", x=x, y=y)
        script = str(PEERS_FOLDER / "opacus_cnn.py")
        subprocess.run([str(_python(work)), script, str(folder)], check=True)
        (folder / "train.npz").unlink()
    with np.load(folder / "network.npz") as state:
        model = network()
        model.load_state_dict({name: torch.from_numpy(state[name]) for name in state.files})
    flat = nn.Sequential(nn.Unflatten(1, (1, 28, 28)), model)
    return flat.eval(), {**job, **json.loads(done.read_text())}


def _python(work: Path) -> Path:
    """The peer's own environment, made if it is not there."""
    python = work / "opacus" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(work / "opacus")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *INSTALL], check=True)
    return python
