"""A small network that turns noise and a class into encoded rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dpgist.encode import Slot

_NEVER = -1e9
_ATOMS = (0.0, 1.0)
_SMALLEST = 1e-20


class TabularGenerator(nn.Module):
    """Noise and a class -> one encoded row, with a head for each slot.

    An interval is a mixture of a free value and atoms at its two ends, because a declared bound
    is where real columns pile up (no gain, no visit, full score). A choice is drawn from a
    softmax; options that may not be emitted have probability 0. Discrete draws are hard in the
    forward pass and soft (Gumbel-softmax) in the backward pass, so training sees the rows that
    sampling will emit.

    Privacy: none needed; sees released statistics only.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        *,
        n_classes: int,
        noise_width: int,
        hidden: Sequence[int],
        temperature: float = 1.0,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.slots = tuple(slots)
        self.n_classes = n_classes
        self.noise_width = noise_width
        self.temperature = temperature
        widths = [noise_width + n_classes, *hidden]
        self.body = nn.Sequential(
            *(layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.SiLU()))
        )
        self.head = nn.Linear(widths[-1], sum(_head_width(slot) for slot in self.slots))
        _initialise(self, generator)

    @property
    def width(self) -> int:
        """How many coordinates an encoded row has."""
        return sum(slot.width for slot in self.slots)

    def forward(self, classes: Tensor, *, generator: torch.Generator) -> Tensor:
        noise = torch.randn(
            len(classes), self.noise_width, generator=generator, device=classes.device
        )
        one_hot = nn.functional.one_hot(classes, self.n_classes).to(noise.dtype)
        outputs = self.head(self.body(torch.cat([noise, one_hot], dim=1)))
        uniform = torch.rand(outputs.shape, generator=generator, device=classes.device)
        gumbel = -torch.log(-torch.log(uniform.clamp(_SMALLEST, 1 - 1e-7)))
        return self._rows(outputs, gumbel)

    def _rows(self, outputs: Tensor, gumbel: Tensor) -> Tensor:
        pieces: dict[int, Tensor] = {}
        widths = [_head_width(slot) for slot in self.slots]
        heads = zip(outputs.split(widths, dim=1), gumbel.split(widths, dim=1), strict=True)
        for slot, (logits, noise) in zip(self.slots, heads, strict=True):
            draw = self._choice if slot.kind == "choice" else self._interval
            pieces[slot.start] = draw(slot, logits, noise)
        for slot in self.slots:
            if slot.gate is not None:
                pieces[slot.start] = pieces[slot.start] * _coordinate(self.slots, pieces, slot.gate)
        return torch.cat([pieces[slot.start] for slot in self.slots], dim=1)

    def _choice(self, slot: Slot, logits: Tensor, noise: Tensor) -> Tensor:
        if slot.allowed and not all(slot.allowed):
            allowed = torch.tensor(slot.allowed, device=logits.device)
            logits = logits.masked_fill(~allowed, _NEVER)
        return _hard_draw(logits, noise, temperature=self.temperature)

    def _interval(self, slot: Slot, logits: Tensor, noise: Tensor) -> Tensor:
        mixture = _hard_draw(logits[:, 1:], noise[:, 1:], temperature=self.temperature)
        atoms = torch.tensor(_ATOMS, device=logits.device)
        value = torch.sigmoid(logits[:, :1])
        return mixture[:, :1] * value + (mixture[:, 1:] * atoms).sum(dim=1, keepdim=True)


def _head_width(slot: Slot) -> int:
    """A choice needs a logit per option; an interval its value, and a logit for it and each atom."""
    return slot.width if slot.kind == "choice" else 2 + len(_ATOMS)


def _hard_draw(logits: Tensor, gumbel: Tensor, *, temperature: float) -> Tensor:
    """A one-hot draw from softmax(logits) whose gradient is that of the relaxed draw."""
    soft = torch.softmax((logits + gumbel) / temperature, dim=1)
    hard = nn.functional.one_hot(soft.argmax(dim=1), soft.shape[1]).to(soft.dtype)
    return hard + (soft - soft.detach())


def _coordinate(slots: Sequence[Slot], pieces: dict[int, Tensor], coordinate: int) -> Tensor:
    """One column of the row under construction."""
    slot = next(s for s in slots if s.start <= coordinate < s.start + s.width)
    return pieces[slot.start][:, coordinate - slot.start : coordinate - slot.start + 1]


def _initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Uniform fan-in weights from the given generator, zero biases; never torch's global state."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, a=1.0, generator=generator)
            nn.init.zeros_(layer.bias)
