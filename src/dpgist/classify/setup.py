"""From a classifier's settings to the public query of its training, and back to fitted maps."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from dpgist.classify.descent import Descent
from dpgist.classify.maps import Maps
from dpgist.classify.model import LocallyLinearModel
from dpgist.classify.projections import FINE, STEPS, low_frequencies, random_projections, whole
from dpgist.classify.shifts import shifts
from dpgist.encode import Encoder
from dpgist.privacy.accounting import mu_of
from dpgist.privacy.inputs import Inputs
from dpgist.privacy.outer import Space
from dpgist.privacy.plan import Budget
from dpgist.privacy.sgd import GradientQuery
from dpgist.schema import Schema

if TYPE_CHECKING:
    from dpgist.classify.estimator import LocallyLinearMaps

_USUAL_ROWS = 30_000  # where the count is not declared, for the length of the way only


@dataclass(frozen=True, kw_only=True)
class Usual:
    """Settings that are not asked for; images' were searched on digits, tables' were not.

    The way to go gets shorter by the power ``shorter`` of how quiet the noise is.

    Privacy: public.
    """

    temperature: float
    sharpness: float
    shorter: float


IMAGES = Usual(temperature=0.2, sharpness=2.0, shorter=0.25)
TABLES = Usual(temperature=0.4, sharpness=1.0, shorter=0.5)

FREQUENCIES = 100
"""How many of an image's cosine frequencies are used, of each channel."""

SMALLEST_RATE = 1e-6
"""Below it a batch of millions of rows is empty, and its cost takes long to compute."""

_MOST_PROJECTED = 2**27

LEVELS = 4095
"""Integers that an input is rounded to, on either side of 0."""

Floats = npt.NDArray[np.float64]


class Setup:
    """Everything public that a fit needs, made from settings and schema before any row is read."""

    def __init__(self, settings: LocallyLinearMaps, schema: Schema, budget: Budget) -> None:
        self.settings, self.encoder = _checked(settings), Encoder(schema)
        self.usual = TABLES if schema.image is None else IMAGES
        named = enumerate(zip(self.encoder.class_names, self.encoder.class_allowed, strict=True))
        classes = [(code, name) for code, (name, allowed) in named if allowed and name is not None]
        if len(classes) < 2:
            raise ValueError("a classifier needs at least two classes; one class is declared")
        self.codes, self.names = zip(*classes, strict=True)
        rng = np.random.Generator(np.random.Philox(self.settings.random_state))
        self.centre, self.scale = self._centre(), self._scale()
        self.projected: npt.NDArray[np.int64] | None = None
        if isinstance(settings.projection, int | np.integer):
            shape = self.settings.maps, self.encoder.width, int(settings.projection)
            if not 0 < math.prod(shape) <= _MOST_PROJECTED:
                raise ValueError(
                    f"a random projection has at least 1 and at most {_MOST_PROJECTED:,} numbers "
                    f"(maps x inputs x features), this one {math.prod(shape):,}"
                )
            self.projected = random_projections(*shape, rng=rng)
        self.views = self._views()
        self.inputs = self._inputs()
        self.space = self._space()
        self.start = torch.from_numpy(self._start(rng))
        self.query = self._query(schema)
        self.descent = settings.descent or self._descent(budget)

    def _centre(self) -> Floats:
        if self.settings.centre is not None:
            return np.full(self.encoder.width, float(self.settings.centre))
        centre = np.zeros(self.encoder.width)
        for slot in self.encoder.slots:
            if slot.kind == "interval":
                centre[slot.start] = 0.5
        return centre

    def _scale(self) -> float:
        """1 over a root-mean-square norm that can be guessed without data."""
        if self.settings.scale is not None:
            return float(self.settings.scale)
        slots = self.encoder.slots
        expected = sum(
            {"image": slot.width / 9, "choice": 1.0}.get(slot.kind, 1 / 8) for slot in slots
        )
        return 1 / math.sqrt(expected)

    def _inputs(self) -> Inputs:
        width = self.encoder.width
        if self.projected is not None:
            return Inputs(width=width, levels=255, centre=self.centre)
        mixing = self._mixing()
        steps, fine = (FINE, 255) if mixing is not None else (1, LEVELS)
        return Inputs(
            width=width,
            levels=LEVELS,
            centre=self.centre,
            fine=fine,
            mixing=mixing,
            gain=self.scale * LEVELS / (fine * steps),
            views=self.views,
        )

    def _mixing(self) -> npt.NDArray[np.int64] | None:
        projection = self.settings.projection
        if isinstance(projection, np.ndarray):
            return whole(projection)
        if projection is None:
            return None
        if projection != "auto":
            raise ValueError('projection must be "auto", None, a number of features or a matrix')
        shape = self.encoder.slots[0].shape
        if shape is None:
            return None
        return whole(low_frequencies(*shape, features=FREQUENCIES * shape[0]))

    def _views(self) -> npt.NDArray[np.int64] | None:
        """Where the pixels of each copy come from; None where there is one copy, the row."""
        if self.settings.copies == 1:
            return None
        shape = self.encoder.slots[0].shape
        if shape is None:
            raise ValueError("copies are moved images; a table has none, so copies must be 1")
        if self.projected is not None:
            raise ValueError(
                "copies cannot be combined with a random projection for each map; use "
                'projection="auto", None or one matrix for all'
            )
        return shifts(*shape, copies=self.settings.copies)

    @property
    def temperature(self) -> float:
        """The inverse temperature, asked for or usual. Privacy: public."""
        asked = self.settings.temperature
        return self.usual.temperature if asked is None else float(asked)

    @property
    def sharpness(self) -> float:
        """What parameters are multiplied by, asked for or usual. Privacy: public."""
        asked = self.settings.sharpness
        return self.usual.sharpness if asked is None else float(asked)

    def _space(self) -> Space:
        outputs = self.settings.maps * len(self.codes)
        return Space(
            outputs=outputs,
            inputs=self.inputs.outputs,
            levels=self.inputs.levels,
            constant=self.settings.constant,
            projection=self.projected,
            projection_scale=STEPS / self.scale if self.projected is not None else 1.0,
            copies=self.inputs.copies,
        )

    def _real_projection(self) -> Floats | None:
        """The random projections as the model and the maps multiply by them."""
        if self.projected is None:
            return None
        return self.projected.astype(np.float64) * (self.scale / STEPS)

    def _start(self, rng: np.random.Generator) -> Floats:
        shape = (self.space.outputs, self.space.features + 1)
        start = np.asarray(rng.standard_normal(shape) * self.settings.initial, np.float64)
        start[:, :-1] /= math.sqrt(self.space.features)
        start[:, -1] = 0.0
        return start

    def _descent(self, budget: Budget) -> Descent:
        """Adam with a falling rate; a shorter way where noise is large beside so many rows."""
        rows = self.query.rows or _USUAL_ROWS
        quiet = min(1.0, mu_of(budget.epsilon, budget.delta) * rows / 30_000)
        return Descent(learning_rate=40 * quiet**self.usual.shorter / self.settings.steps)

    def _query(self, schema: Schema) -> GradientQuery:
        settings = self.settings
        clip = 1.5 / math.sqrt(settings.maps) if settings.clip is None else settings.clip
        return GradientQuery(
            encoder=self.encoder,
            inputs=self.inputs,
            space=self.space,
            model=LocallyLinearModel(
                n_classes=len(self.codes),
                maps=settings.maps,
                temperature=self.temperature,
                constant=self.space.real_constant,
                sharpness=self.sharpness,
                projection=self._real_projection(),
            ),
            classes=self.codes,
            clip=clip,
            rate=settings.rate,
            steps=settings.steps,
            rows=schema.rows_about if settings.rows is None else settings.rows,
            recipe={
                "method": "locally linear maps",
                "schema": schema.to_dict(),
                "maps": settings.maps,
                "temperature": self.temperature,
                "sharpness": self.sharpness,
                "copies": self.inputs.copies,
                "clip": clip,
                "rate": settings.rate,
                "steps": settings.steps,
            },
        )

    def maps(self, parameters: Floats, facts: dict[str, Any]) -> Maps:
        """The fitted function of encoded rows: centre and scale go into biases and projection."""
        sharp = parameters * self.sharpness
        shaped = sharp.reshape(self.settings.maps, len(self.codes), -1).swapaxes(0, 1)
        weights, biases = shaped[:, :, :-1], shaped[:, :, -1] * self.space.real_constant
        projection = self._real_projection()
        if projection is None and self.inputs.mixing is not None:
            projection = self.inputs.matrix
        if projection is None:
            weights = weights * self.scale
        made = Maps(
            weights=weights,
            biases=biases,
            temperature=self.temperature,
            classes=self.names,
            projection=projection,
            views=self.views,
            facts=facts,
        )
        shift: Floats = made.filters() @ self.centre
        return replace(made, biases=biases - shift)


_WHOLE = ("maps", "steps", "copies", "rows", "max_rows_per_person", "random_state")
_POSITIVE = ("clip", "rate", "sharpness", "scale", *_WHOLE[:-1])
_NOT_NEGATIVE = ("temperature", "initial", "random_state")


def _checked(settings: LocallyLinearMaps) -> LocallyLinearMaps:
    """The settings in plain numbers, of whatever library they were; None asks for the usual.

    What no fit could make sense of is refused here, while nothing is charged.
    """
    settings = copy.copy(settings)
    for name in (*_POSITIVE, *_NOT_NEGATIVE, "centre", "constant"):
        value = getattr(settings, name)
        if value is not None:
            setattr(settings, name, plain_number(name, value))
    if not SMALLEST_RATE <= settings.rate <= 1:
        raise ValueError(f"rate must lie in [{SMALLEST_RATE:g}, 1], got {settings.rate!r}")
    if settings.descent is not None and not isinstance(settings.descent, Descent):
        raise TypeError("descent must be a Descent, or None for the usual one")
    if isinstance(settings.projection, np.ndarray) and not np.isfinite(settings.projection).all():
        raise ValueError("the projection must hold finite numbers")
    return settings


def plain_number(name: str, value: Any) -> int | float:
    """A setting as a plain number, or a refusal that names it. Privacy: public settings only."""
    if not isinstance(value, int | float | np.integer | np.floating):  # it could be a table
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {number}")
    if (name in _POSITIVE and number <= 0) or (name in _NOT_NEGATIVE and number < 0):
        above = "above 0" if name in _POSITIVE else "at least 0"
        raise ValueError(f"{name} must be {above}, got {number:g}")
    if name not in _WHOLE:
        return number
    if not number.is_integer():
        raise ValueError(f"{name} must be a whole number, got {number:g}")
    return int(value)
