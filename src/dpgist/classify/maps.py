"""Locally linear maps: the fitted function, as plain arrays, and its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from dpgist.artefact import read_artefact, write_artefact
from dpgist.errors import ArtefactError, DpgistError
from dpgist.schema import Schema

KIND = "classifier"
"""What the file of a classifier calls itself."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Maps:
    r"""Each class has M linear maps and believes the ones that respond most.

    .. math::
        g_{mk}(x) = w_{mk}^\top R_m^\top x + b_{mk}, \qquad
        s_{mk} = \mathrm{softmax}_m(\beta g_{mk}), \qquad
        f_k(x) = \sum_m s_{mk}(x)\, g_{mk}(x)

    Symbols: ``weights`` is w (classes, maps, features); ``biases`` is b (classes, maps);
    ``temperature`` is beta, the inverse temperature; ``projection`` is R, public: one for all maps
    (inputs, features), one for each (maps, inputs, features), or None where the maps act on the
    inputs themselves. ``facts`` holds public JSON that travels with the maps: ``schema`` and
    ``card``. Reference: Harder, Bauer and Park, "Interpretable and Differentially Private
    Predictions" (AAAI 2020), eq. 1 to 3.

    Privacy: a fitted classifier is already released; using it costs nothing.
    """

    weights: Floats
    biases: Floats
    temperature: float
    classes: tuple[str, ...]
    projection: Floats | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("weights", "biases", "projection"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, np.asarray(array, np.float64))
        object.__setattr__(self, "classes", tuple(self.classes))
        _check(self)

    @property
    def inputs(self) -> int:
        """Coordinates of an input. Privacy: public."""
        return int(self.weights.shape[2] if self.projection is None else self.projection.shape[-2])

    @property
    def schema(self) -> Schema | None:
        """The schema whose encoder makes the inputs, if one does. Privacy: public."""
        known = self.facts.get("schema")
        return None if known is None else Schema.from_dict(known)

    def responses(self, x: npt.ArrayLike) -> Floats:
        """The maps' values g of inputs (n, inputs), as (n, classes, maps).

        Privacy: row-wise; post-processing of a released classifier.
        """
        rows = np.asarray(x, np.float64)
        n_classes, n_maps, features = self.weights.shape
        if self.projection is not None and self.projection.ndim == 2:
            rows = rows @ self.projection
            flat = self.weights.reshape(-1, features)
        else:
            flat = self.filters().reshape(n_classes * n_maps, -1)
        found: Floats = (rows @ flat.T).reshape(-1, n_classes, n_maps) + self.biases
        return found

    def attention(self, x: npt.ArrayLike) -> Floats:
        """How much each map counts within its class, s, as (n, classes, maps).

        Privacy: row-wise; post-processing of a released classifier.
        """
        return _attention(self.responses(x), self.temperature)

    def scores(self, x: npt.ArrayLike) -> Floats:
        """The classes' scores f, as (n, classes).

        Privacy: row-wise; post-processing of a released classifier.
        """
        responses = self.responses(x)
        found: Floats = (_attention(responses, self.temperature) * responses).sum(axis=2)
        return found

    def probabilities(self, x: npt.ArrayLike) -> Floats:
        """The softmax of the scores, as (n, classes).

        Privacy: row-wise; post-processing of a released classifier.
        """
        found: Floats = softmax(self.scores(x), axis=1)
        return found

    def filters(self) -> Floats:
        """The maps in the space of the inputs, R w, as (classes, maps, inputs).

        Privacy: post-processing of a released classifier.
        """
        if self.projection is None:
            return self.weights
        if self.projection.ndim == 2:
            return self.weights @ self.projection.T
        found: Floats = np.einsum("mif,kmf->kmi", self.projection, self.weights, optimize=True)
        return found

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write one safetensors file; an existing file stays unless ``force``.

        Privacy: writes what is already released.
        """
        tensors = {"weights": self.weights, "biases": self.biases}
        if self.projection is not None:
            tensors["projection"] = self.projection
        payload = {
            "temperature": self.temperature,
            "classes": list(self.classes),
            "facts": dict(self.facts),
        }
        write_artefact(path, KIND, payload, tensors, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Maps:
        """Read a classifier, or raise :class:`ArtefactError` if the file is not one.

        Privacy: reads an artefact, which is already released.
        """
        payload, tensors = read_artefact(path, KIND)
        try:
            return cls(
                weights=tensors["weights"],
                biases=tensors["biases"],
                temperature=float(payload["temperature"]),
                classes=tuple(map(str, payload["classes"])),
                projection=tensors.get("projection"),
                facts=dict(payload["facts"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, DpgistError) as error:
            raise ArtefactError(f"{path}: not a classifier of this format ({error})") from error


def _attention(responses: Floats, temperature: float) -> Floats:
    found: Floats = softmax(temperature * responses, axis=2)
    return found


def _check(maps: Maps) -> None:
    """Refuse arrays that do not fit together or are not finite."""
    if maps.weights.ndim != 3 or maps.biases.shape != maps.weights.shape[:2]:
        raise ValueError("weights must be (classes, maps, features) and biases (classes, maps)")
    if len(maps.classes) != len(maps.weights):
        raise ValueError("there must be one name for each class")
    projection, (_, n_maps, features) = maps.projection, maps.weights.shape
    if projection is not None:
        fits = projection.ndim in (2, 3) and projection.shape[-1] == features
        if not fits or (projection.ndim == 3 and len(projection) != n_maps):
            raise ValueError("projection must be (inputs, features) or (maps, inputs, features)")
    arrays = [maps.weights, maps.biases, *([] if projection is None else [projection])]
    if not (all(np.isfinite(array).all() for array in arrays) and np.isfinite(maps.temperature)):
        raise ValueError("weights, biases, projection and temperature must be finite")
    _ = maps.schema  # a schema that cannot be read raises here, not at the first explanation
