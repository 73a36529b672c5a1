"""Fit a generator to a gist."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from dpgist.encode import Encoder
from dpgist.features.characteristic import CharacteristicMap
from dpgist.features.compose import SideBySide
from dpgist.features.marginal import MarginalMap
from dpgist.features.scattering import ScatteredFourier
from dpgist.features.stretch import Stretch
from dpgist.generators.binned import BinnedMixture
from dpgist.generators.build import Generator, build_generator, default_sizes
from dpgist.generators.mixture import MixtureGenerator
from dpgist.generators.model import Model
from dpgist.gist import Gist
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema
from dpgist.training.adam import Adam
from dpgist.training.checkpoint import Checkpoint
from dpgist.training.critic import EVERY, Critic
from dpgist.training.matching import Target, target_from
from dpgist.training.objectives import (
    HALF_KINDS,
    ClosedForm,
    Objective,
    TwoHalves,
    fast_arithmetic,
    thinning_for,
)
from dpgist.training.settings import Training
from dpgist.training.whitened import Whitened, marginals_from

__all__ = [
    "Progress",
    "Training",
    "one_thread",
    "refuse_critic",
    "refuse_network",
    "train_generator",
]

Progress = Callable[[int, int, float], None]

_SNAPSHOT_EVERY = 10
_LAST_STEPS = 40
"""So many more at least once the loss is small enough, ever smaller ones, to come to rest."""


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

    ``progress`` is called with step, steps and loss. On Ctrl-C, and every minute, the state goes
    to ``checkpoint``, from which the same call goes on later, on a CPU to the same bits; it is
    deleted once training is done. The model is the running average of the weights.

    Privacy: post-processing of the gist; costs nothing.
    """
    encoder = Encoder(gist.schema)
    where = _device(device)
    row_map = method.row_map(
        gist.schema, feature_seed=gist.feature_seed, released=gist.released.stages[:-1]
    )
    training = training.resolved(encoder, where, **_facts(row_map))
    training = replace(training, critic=_has_critic(row_map, training))
    fit = _prepare(gist, row_map, training, encoder=encoder, rng=rng, device=where)
    saved = _checkpoint(checkpoint, gist, training, fit)
    fit.losses.extend(saved.restore() if saved else [])
    try:
        with fast_arithmetic(fit.device):
            _descend(fit, training, saved=saved, progress=progress)
            fit.objective.settle(fit.averaged, fit.step_rng(len(fit.losses)))
    except KeyboardInterrupt:
        if saved:
            saved.write()
        raise
    if saved:
        saved.delete()
    return Model(
        generator=fit.averaged.cpu(),
        gist_header=gist.header(),
        class_codes=tuple(int(code) for code in fit.target.classes),
        class_weights=tuple(float(weight) for weight in fit.target.class_weights),
        training=asdict(training),
        losses=tuple(fit.losses),
    )


def _facts(row_map: nn.Module) -> dict[str, Any]:
    """What the default settings need to know of a row map."""
    if isinstance(row_map, ScatteredFourier):
        return {"scales": len(row_map.tops)}
    return {"binned": isinstance(row_map, MarginalMap)}


@contextmanager
def one_thread() -> Iterator[None]:
    """Train on one thread: the matrices are small, so that more threads mostly wait for another.

    It also keeps the order of sums, and with it the model's bits, on any number of cores.

    Privacy: touches no data.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """What one training run holds; ``losses`` and the tensors change while it runs."""

    generator: Generator
    averaged: Generator
    objective: Objective
    target: Target
    critic: Critic | None
    optimiser: Adam
    seed: int
    device: torch.device
    losses: list[float]

    def step_rng(self, step: int) -> torch.Generator:
        """The noise of one step; it depends on nothing before, so a run can go on anywhere."""
        state = np.random.SeedSequence([self.seed, step]).generate_state(1, np.uint64)
        return torch.Generator(self.device).manual_seed(int(state[0] >> 1))


def _prepare(
    gist: Gist,
    row_map: nn.Module,
    training: Training,
    *,
    encoder: Encoder,
    rng: np.random.Generator,
    device: torch.device,
) -> _Fit:
    sizes = default_sizes(training.generator, encoder) | training.sizes()
    first = torch.Generator().manual_seed(int(rng.integers(2**63)))
    if isinstance(row_map, MarginalMap):
        refuse_network(training)
    cut = row_map.stretch if isinstance(row_map, CharacteristicMap) else row_map
    if isinstance(cut, MarginalMap | Stretch) and training.generator == "mixture":
        generator: Generator = BinnedMixture.of(
            cut, encoder, n_components=sizes["components"], generator=first
        ).to(device)
    else:
        generator = build_generator(training.generator, encoder, sizes, generator=first).to(device)
    if generator.kind in HALF_KINDS and device.type == "cuda":
        generator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    critic = None
    if isinstance(row_map, CharacteristicMap) and training.critic:
        critic = Critic(row_map).to(device)
    target, objective = _aim(gist, row_map, generator, training, encoder, critic)
    return _Fit(
        generator=generator,
        averaged=copy.deepcopy(generator),
        objective=objective,
        target=target,
        critic=critic,
        optimiser=Adam(generator, betas=objective.betas, smallest_moment=objective.smallest_moment),
        seed=int(rng.integers(2**63)),
        device=device,
        losses=[],
    )


def _has_critic(row_map: nn.Module, training: Training) -> bool | None:
    """Whether there will be a critic; None where there is nothing to re-weigh."""
    if isinstance(row_map, CharacteristicMap):
        return training.critic is not False
    refuse_critic(training)
    return None


def refuse_critic(training: Training) -> None:
    """Refuse a critic where it has nothing to re-weigh. Privacy: public settings only."""
    if training.critic:
        raise ValueError("a critic needs a characteristic function; release with method pearl")


def refuse_network(training: Training) -> None:
    """Refuse to fit a network to marginals. Privacy: public settings only."""
    if training.generator != "mixture":
        raise ValueError(
            "method marginal releases indicators, which have no gradient for a network; train "
            "with generator mixture, or release with method merf"
        )


def _aim(
    gist: Gist,
    row_map: nn.Module,
    generator: Generator,
    training: Training,
    encoder: Encoder,
    critic: Critic | None,
) -> tuple[Target, Objective]:
    allowed, weigh = encoder.class_allowed, critic or torch.sum
    if isinstance(generator, BinnedMixture) and isinstance(row_map, MarginalMap):
        marginals = marginals_from(gist.released, row_map, class_allowed=allowed)
        return marginals.target(), Whitened(generator, row_map, marginals)
    factors = row_map.loss_factors if isinstance(row_map, SideBySide) else ()
    scattered = isinstance(row_map, ScatteredFourier)
    target = target_from(
        gist.released, class_allowed=allowed, loss_factors=factors, in_ball=not scattered
    )
    if isinstance(generator, MixtureGenerator | BinnedMixture):
        return target, ClosedForm(generator, row_map, target, weigh=weigh)
    return target, TwoHalves(
        generator,
        row_map,
        target,
        batch=training.batch or 1,
        thinning=thinning_for(row_map, next(generator.parameters()).device),
        ends_at_noise=scattered,
        weigh=weigh,
    )


def _descend(
    fit: _Fit, training: Training, *, saved: Checkpoint | None, progress: Progress | None
) -> None:
    """Adam from step ``len(fit.losses)`` on; a step counts once its loss is noted."""
    steps, rate = training.steps or 1, training.learning_rate or 0.0
    schedule = _Fade(steps, fit.objective)
    for step in range(len(fit.losses), steps):
        fade = schedule.after(fit.losses)
        if fade <= 0:
            if progress is not None:
                progress(steps, steps, fit.losses[-1])
            return
        if saved and step % _SNAPSHOT_EVERY == 0:
            saved.snapshot(fit.losses)
        loss = fit.objective.loss(fit.step_rng(step))
        loss.backward()  # type: ignore[no-untyped-call]
        fit.optimiser.step(rate * fade)
        _average(fit, step)
        if fit.critic is not None and (step + 1) % EVERY == 0:
            fit.critic.ascend()
        fit.losses.append(float(loss.detach()))
        if progress is not None:
            progress(step + 1, steps, fit.losses[-1])


class _Fade:
    """What is left of the learning rate: a cosine, cut short once the loss is small enough.

    It depends on the losses so far alone, so that a run which goes on from a file ends alike.
    """

    def __init__(self, steps: int, objective: Objective) -> None:
        self._steps, self._objective = steps, objective
        self._seen, self._reached = 0, math.inf

    def after(self, losses: Sequence[float]) -> float:
        """The fade of the next step."""
        while self._seen < min(len(losses), self._reached):
            self._seen += 1
            self._look(losses[max(self._seen - self._objective.window, 0) : self._seen])
        taken = len(losses)
        fade = self._cosine(taken)
        if taken <= self._reached:
            return fade
        rest = max(_LAST_STEPS, self._objective.rest * self._reached)
        return min(fade, self._cosine(self._reached) * (1 - (taken - self._reached) / rest))

    def _look(self, latest: Sequence[float]) -> None:
        window, enough = self._objective.window, self._objective.enough
        if len(latest) == window and sum(latest) / window <= enough:
            self._reached = self._seen - 1

    def _cosine(self, taken: float) -> float:
        return (1 + math.cos(math.pi * taken / self._steps)) / 2


@torch.no_grad()
def _average(fit: _Fit, step: int) -> None:
    """Move the averaged weights towards the newest; at first a plain mean, to forget the start."""
    rate = max(fit.objective.average_rate, 1.0 / (step + 1))
    averaged: list[Tensor] = list(fit.averaged.parameters())
    newest: list[Tensor] = list(fit.generator.parameters())
    torch._foreach_lerp_(averaged, newest, rate)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _checkpoint(path: Path | None, gist: Gist, training: Training, fit: _Fit) -> Checkpoint | None:
    """Bound to all that decides a run, so that no other run goes on from its file."""
    if path is None:
        return None
    digest = hashlib.sha256()
    public = {"gist": gist.header(), "training": asdict(training), "seed": fit.seed}
    digest.update(json.dumps(public, sort_keys=True).encode())
    for weights in fit.generator.parameters():
        digest.update(weights.detach().cpu().numpy().tobytes())
    critic = {} if fit.critic is None else {"critic": fit.critic}
    return Checkpoint(
        path,
        identity=digest.hexdigest(),
        modules={
            "weights": fit.generator,
            "averaged": fit.averaged,
            "adam": fit.optimiser,
            **critic,
        },
    )
