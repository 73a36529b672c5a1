"""How to train: everything that is not in the gist."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from dpgist.encode import Encoder
from dpgist.generators.build import KINDS, default_sizes, kind_for


@dataclass(frozen=True, kw_only=True)
class Training:
    """How to fit a generator; None takes a default by the schema.

    Attributes:
        steps: how many steps of Adam, or fewer where the noise's own size ends them.
        batch: rows drawn per step, both halves together, for networks.
        learning_rate: of the first step; it falls to 0 along a cosine.
        generator: "mixture" or "network" for tables, "residual", "conv" or "upsampling" for
            images; "auto" is the mixture for tables, whose loss has a closed form, and "residual"
            for images.
        components: of the mixture.
        channels: of an image generator.
        critic: whether a critic re-weighs the frequencies of a characteristic function, between
            steps of the generator; None has one wherever there is such a function.

    Privacy: public; nothing here touches a release, let alone a row.
    """

    steps: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    generator: str = "auto"
    components: int | None = None
    channels: int | None = None
    critic: bool | None = None

    def __post_init__(self) -> None:
        for field in ("steps", "batch", "components", "channels"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} must be at least 1, got {value}")
        rate = self.learning_rate
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            raise ValueError(f"learning_rate must be above 0, got {rate}")
        if self.generator not in ("auto", *KINDS):
            known = ", ".join(("auto", *KINDS))
            raise ValueError(f"generator must be one of {known}, got {self.generator!r}")

    def resolved(
        self, encoder: Encoder, device: torch.device, *, binned: bool = False, scales: int = 2
    ) -> Training:
        """The same with every None that matters replaced.

        ``binned`` is for a mixture over released bins, whose steps are quick and end by themselves.
        ``scales`` says at how many length scales images were released: finer detail takes longer to
        learn, and each narrower scale doubles the steps.

        Privacy: public facts only.
        """
        kind = kind_for(encoder, self.generator)
        chosen = replace(self, generator=kind)
        if kind == "mixture":
            sizes = default_sizes(kind, encoder) | chosen.sizes()
            usual_steps = 1500 if binned else 400 if len(encoder.columns) <= 3 else 800
            steps = self.steps or usual_steps
            rate = self.learning_rate or 0.1
            return Training(
                steps=steps,
                learning_rate=rate,
                generator=kind,
                components=sizes["components"],
                critic=self.critic,
            )
        laptop = kind == "residual" and device.type == "cpu"
        # A processor has time for few steps, so that they are long: see images_laptop.py.
        usual = {"network": 2000, "residual": 700 if laptop else 1500 * 2 ** (scales - 1)}
        usual_rate = 3e-3 if kind == "upsampling" else 1.6e-2 if laptop else 1e-3
        return replace(
            chosen,
            steps=self.steps or usual.get(kind, 4000),
            batch=self.batch or (200 if laptop else 1000),
            learning_rate=self.learning_rate or usual_rate,
            components=None,
            channels=self.channels or (64 if laptop else None),
        )

    def sizes(self) -> dict[str, int]:
        """The sizes of the generator that were asked for. Privacy: public facts only."""
        name = "components" if self.generator == "mixture" else "channels"
        asked = getattr(self, name)
        return {} if asked is None or self.generator == "network" else {name: asked}
