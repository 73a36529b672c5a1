"""Locally linear maps: the fitted function, as plain arrays, and its file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
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
Codes = npt.NDArray[np.int64]


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
    inputs themselves. ``views`` (copies, inputs) name for each coordinate of each public copy T_a x
    of an input the coordinate it is taken from, -1 for 0; scores are then the mean of f_k(T_a x)
    over the copies, and None is the input alone. ``facts`` holds public JSON that travels with the
    maps: ``schema`` and ``card``. Reference: Harder, Bauer and Park, "Interpretable and
    Differentially Private Predictions" (AAAI 2020), eq. 1 to 3.

    Privacy: a fitted classifier is already released; using it costs nothing.
    """

    weights: Floats
    biases: Floats
    temperature: float
    classes: tuple[str, ...]
    projection: Floats | None = None
    views: Codes | None = None
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
        """The maps' values g of inputs (n, inputs) as they are, as (n, classes, maps).

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
        """How much each map counts within its class, s, for inputs as they are: (n, classes, maps).

        Privacy: row-wise; post-processing of a released classifier.
        """
        return _attention(self.responses(x), self.temperature)

    def scores(self, x: npt.ArrayLike) -> Floats:
        """The classes' scores f, or their mean over the views, as (n, classes).

        Privacy: row-wise; post-processing of a released classifier.
        """
        found: Floats = np.mean([self._score(copy) for copy in self.copies(x)], axis=0)
        return found

    def _score(self, rows: Floats) -> Floats:
        responses = self.responses(rows)
        found: Floats = (_attention(responses, self.temperature) * responses).sum(axis=2)
        return found

    @property
    def n_copies(self) -> int:
        """Over how many copies of an input scores are averaged. Privacy: public."""
        return 1 if self.views is None else len(self.views)

    def copies(self, x: npt.ArrayLike) -> Iterator[Floats]:
        """The copies T_a x of inputs (n, inputs), one after the other.

        Privacy: row-wise; as confidential as the inputs.
        """
        rows = np.asarray(x, np.float64)
        if self.views is None:
            yield rows
            return
        for places in self.views:
            yield np.where(places >= 0, rows[:, places], 0.0)

    def moved_back(self, filters: Floats, copy: int) -> Floats:
        """Filters (..., inputs) of a copy as filters of the input itself, T_a' w.

        Privacy: as the filters.
        """
        if self.views is None:
            return filters
        places, back = self.views[copy], np.zeros_like(filters)
        back[..., places[places >= 0]] = filters[..., places >= 0]
        return back

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
        tensors: dict[str, npt.NDArray[Any]] = {"weights": self.weights, "biases": self.biases}
        if self.projection is not None:
            tensors["projection"] = self.projection
        if self.views is not None:
            tensors["views"] = self.views
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
                views=tensors.get("views"),
                facts=dict(payload["facts"]),
            )
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            DpgistError,
        ) as error:
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
    if maps.views is not None:
        _check_views(maps.views, maps.inputs)
    _ = maps.schema  # a schema that cannot be read raises here, not at the first explanation


def _check_views(views: Codes, inputs: int) -> None:
    """Refuse copies that are not made of the input's coordinates, each at most once."""
    if views.ndim != 2 or not len(views) or views.shape[1] != inputs or views.dtype.kind != "i":
        raise ValueError("views must be (copies, inputs) whole numbers")
    for places in views:
        counts = np.bincount(places[(places >= 0) & (places < inputs)], minlength=inputs)
        if (places < -1).any() or (places >= inputs).any() or (counts > 1).any():
            raise ValueError("a view must name coordinates of the input, each at most once, or -1")
