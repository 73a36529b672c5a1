"""Fit a generator to a gist."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dpgist.encode import Encoder
from dpgist.features.expected import expected_features
from dpgist.features.support import column_supports
from dpgist.generators.model import Model
from dpgist.generators.mixture import MixtureGenerator
from dpgist.gist import Gist
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema
from dpgist.training.checkpoint import Checkpoint
from dpgist.training.matching import Target, matching_loss, target_from

Progress = Callable[[int, int, float], None]

_BETAS = (0.9, 0.99)
_SNAPSHOT_EVERY = 10
_SMALLEST_MOMENT = 1e-12  # losses end near 1e-5, so Adam's usual 1e-8 would brake the last steps


@dataclass(frozen=True, kw_only=True)
class Training:
    """How to fit a generator; None takes a default by the number of columns.

    Privacy: public; nothing here touches a release, let alone a row.
    """

    steps: int | None = None
    learning_rate: float = 0.1
    components: int | None = None

    def __post_init__(self) -> None:
        for field in ("steps", "components"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} must be at least 1, got {value}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate}")

    def resolved(self, n_columns: int) -> Training:
        """The same with every None replaced. Privacy: public facts only."""
        return Training(
            steps=self.steps or (400 if n_columns <= 3 else 800),
            learning_rate=self.learning_rate,
            components=self.components or (100 if n_columns <= 3 else 300),
        )


class _Mapped(Protocol):
    """The part of a method that training needs."""

    def row_map(
        self, schema: Schema, *, feature_seed: int, released: tuple[ReleasedStage, ...] = ()
    ) -> nn.Module: ...


def train_generator(
    gist: Gist,
    method: _Mapped,
    training: Training,
    *,
    rng: np.random.Generator,
    device: str = "auto",
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> Model:
    """Fit a generator to a gist by Adam with cosine decay on the matching loss.

    ``progress`` is called with step, steps and loss. On Ctrl-C the state goes to ``checkpoint``,
    from which the same call goes on later, to the same bits; it is deleted once training is done.

    Privacy: post-processing of the gist; costs nothing.
    """
    encoder = Encoder(gist.schema)
    training = training.resolved(len(encoder.columns))
    fit = _prepare(gist, method, training, encoder=encoder, rng=rng, device=_device(device))
    saved = _checkpoint(checkpoint, gist, training, fit)
    fit.losses.extend(saved.restore() if saved else [])
    try:
        _descend(fit, training, saved=saved, progress=progress)
    except KeyboardInterrupt:
        if saved:
            saved.write()
        raise
    if saved:
        saved.delete()
    return Model(
        generator=fit.generator.cpu(),
        gist_header=gist.header(),
        class_codes=tuple(int(code) for code in fit.target.classes),
        class_weights=tuple(float(weight) for weight in fit.target.class_weights),
        training=asdict(training),
        losses=tuple(fit.losses),
    )


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """What one training run holds; ``losses`` and the tensors change while it runs."""

    generator: MixtureGenerator
    expected: nn.Module
    target: Target
    means: tuple[Tensor, ...]
    class_weights: Tensor
    optimiser: torch.optim.Adam
    losses: list[float]


def _prepare(
    gist: Gist,
    method: _Mapped,
    training: Training,
    *,
    encoder: Encoder,
    rng: np.random.Generator,
    device: torch.device,
) -> _Fit:
    supports = column_supports(encoder)
    earlier = gist.released.stages[:-1]
    row_map = method.row_map(gist.schema, feature_seed=gist.feature_seed, released=earlier)
    target = target_from(gist.released, class_allowed=encoder.class_allowed)
    generator = MixtureGenerator(
        supports,
        n_classes=encoder.n_classes,
        n_components=training.components or 1,
        generator=torch.Generator().manual_seed(int(rng.integers(2**63))),
    ).to(device)
    return _Fit(
        generator=generator,
        expected=expected_features(row_map, supports).to(device),
        target=target,
        means=tuple(torch.tensor(m, dtype=torch.float32, device=device) for m in target.means),
        class_weights=torch.tensor(target.class_weights, dtype=torch.float32, device=device),
        optimiser=torch.optim.Adam(generator.parameters(), betas=_BETAS, eps=_SMALLEST_MOMENT),
        losses=[],
    )


def _descend(
    fit: _Fit, training: Training, *, saved: Checkpoint | None, progress: Progress | None
) -> None:
    """Adam from step ``len(fit.losses)`` on; a step counts once its loss is noted."""
    steps = training.steps or 1
    classes = torch.tensor(fit.target.classes, device=fit.class_weights.device)
    for step in range(len(fit.losses), steps):
        if saved and step % _SNAPSHOT_EVERY == 0:
            saved.snapshot(fit.losses)
        for group in fit.optimiser.param_groups:
            group["lr"] = training.learning_rate * (1 + math.cos(math.pi * step / steps)) / 2
        components, cells = fit.generator()
        loss = matching_loss(
            fit.expected(cells),
            fit.means,
            components=components[classes],
            class_weights=fit.class_weights,
            loss_weights=fit.target.loss_weights,
        )
        fit.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        fit.optimiser.step()
        fit.losses.append(float(loss.detach()))
        if progress is not None:
            progress(step + 1, steps, fit.losses[-1])


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _checkpoint(path: Path | None, gist: Gist, training: Training, fit: _Fit) -> Checkpoint | None:
    """Bound to all that decides a run, so that no other run goes on from its file."""
    if path is None:
        return None
    digest = hashlib.sha256()
    public = {"gist": gist.header(), "training": asdict(training)}
    digest.update(json.dumps(public, sort_keys=True).encode())
    for weights in fit.generator.parameters():
        digest.update(weights.detach().cpu().numpy().tobytes())
    return Checkpoint(
        path, identity=digest.hexdigest(), network=fit.generator, optimiser=fit.optimiser
    )
