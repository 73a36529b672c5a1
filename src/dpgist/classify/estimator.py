"""LocallyLinearMaps: a scikit-learn classifier that is private and can be read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dpgist.card import guarantee
from dpgist.classify.descent import AdamPath, Descent
from dpgist.classify.maps import Maps
from dpgist.classify.setup import Setup, plain_number
from dpgist.classify.tables import (
    array_schema,
    as_array,
    class_name,
    encoded_rows,
    is_array,
    labelled_source,
)
from dpgist.errors import ArtefactError, DataError, PrivacyError
from dpgist.privacy.accounting import mu_from_units
from dpgist.privacy.ledger import Ledger, LedgerStamp
from dpgist.privacy.plan import Budget
from dpgist.privacy.private import Private
from dpgist.privacy.sgd import Descended, release_gradients
from dpgist.schema import BooleanColumn, Schema
from dpgist.version import __version__

Floats = npt.NDArray[np.float64]


class LocallyLinearMaps(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Locally linear maps, trained privately by DP-SGD.

    Every parameter is public; none may be chosen by looking at private rows.

    Args:
        maps: linear maps for each class, M; 1 is private logistic regression.
        temperature: the inverse temperature beta: how much the strongest map prevails; None is 0.2
            for images and 0.4 for tables.
        sharpness: what parameters are multiplied by, so that steps of one length go further; None
            is 2 for images and 1 for tables.
        projection: "auto" takes low frequencies of images and the inputs themselves of tables;
            None the inputs themselves; a number D draws one random projection to D features for
            each map, as the paper does; a matrix (inputs, features) is a projection of your own.
        copies: 5 or 9 see every image in so many copies, moved by a pixel: all of them are in its
            one clipped gradient, and predictions are averaged over them. 1 sees it as it is.
        schema: the table's public description, with its label; None reads arrays X and y.
        classes: public names of the classes where there is no schema.
        low: smallest declared value of array columns; whatever is below is clipped.
        high: largest declared value of array columns.
        rows: the public row count; None takes the schema's ``rows_about``, else pays for a noisy
            count (under replace_one the count is public anyway).
        clip: bound on the norm of one row's gradient; None is 1.5 / sqrt(maps).
        rate: probability with which a row is in a step.
        steps: noisy steps.
        descent: what is done with the noisy gradients; None is Adam with a falling rate, the
            shorter the noisier.
        constant: size of the constant input that multiplies the biases.
        centre: what is subtracted from the inputs, in [0, 1]; None is 1/2 for numbers, else 0.
        scale: what centred inputs are multiplied by; None brings rows to norms of about 1.
        initial: size of the random initial weights.
        max_rows_per_person: declared, not checked; a schema's own goes first.
        name: of the table, for the ledger; a schema's own goes first.
        budget: what a fit may reveal, if :meth:`fit` is not told.
        random_state: a whole number; fixes public randomness, never the noise.

    Privacy: ``fit`` is (epsilon, delta)-DP and charges a ledger before it reads a row; everything
    after it is post-processing. Every fit costs again, that of each clone in a cross-validation
    too; only a ledger that all of them are given adds them up.
    """

    def __init__(
        self,
        *,
        maps: int = 10,
        temperature: float | None = None,
        sharpness: float | None = None,
        projection: int | Floats | str | None = "auto",
        copies: int = 1,
        schema: Schema | None = None,
        classes: Sequence[Any] | None = None,
        low: float = 0.0,
        high: float = 1.0,
        rows: int | None = None,
        clip: float | None = None,
        rate: float = 0.1,
        steps: int = 240,
        descent: Descent | None = None,
        constant: float = 0.1,
        centre: float | None = None,
        scale: float | None = None,
        initial: float = 0.3,
        max_rows_per_person: int = 1,
        name: str = "arrays",
        budget: Budget | None = None,
        random_state: int = 0,
    ) -> None:
        self.maps = maps
        self.temperature = temperature
        self.sharpness = sharpness
        self.projection = projection
        self.copies = copies
        self.schema = schema
        self.classes = classes
        self.low = low
        self.high = high
        self.rows = rows
        self.clip = clip
        self.rate = rate
        self.steps = steps
        self.descent = descent
        self.constant = constant
        self.centre = centre
        self.scale = scale
        self.initial = initial
        self.max_rows_per_person = max_rows_per_person
        self.name = name
        self.budget = budget
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        budget: Budget | None = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
    ) -> LocallyLinearMaps:
        """Fit privately: one charge, one pass to read, ``steps`` noisy gradients.

        Args:
            X: arrays (rows, columns), images (rows, height, width[, channels]), or with a schema
                any table or file that :func:`dpgist.release` reads.
            y: labels for arrays; None where a table has them in its label column.
            budget: what the fit may reveal; None takes the constructor's.
            ledger: charged first; None keeps one in memory whose cap is this fit.

        Privacy: (epsilon, delta)-DP under the budget's relation; charged before a row is read.
        """
        budget = budget or self.budget
        if budget is None:
            raise PrivacyError(
                "fit needs a budget, e.g. fit(X, y, budget=Budget(epsilon=1.0, delta=1e-5))"
            )
        X = self._plain(X)
        schema = self._schema_for(X)
        source = labelled_source(X, y, schema)
        book = _book(ledger, budget, schema)
        setup = Setup(self, schema, budget)
        path = AdamPath(setup.start, setup.descent, setup.settings.steps)
        descended, stamp = release_gradients(
            Private(source), setup.query, budget, book, schema=schema, follower=path
        )
        self.maps_ = setup.maps(path.found().numpy(), self._facts(schema, descended, stamp))
        self.descended_, self.ledger_ = descended, stamp
        self._remember(X, setup)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row. Privacy: post-processing; costs nothing."""
        scores = self._fitted().scores(self._encoded(X))
        found: npt.NDArray[Any] = self.classes_[scores.argmax(axis=1)]
        return found

    def predict_proba(self, X: Any) -> Floats:
        """The classes' probabilities, (n, classes). Privacy: post-processing; costs nothing."""
        return self._fitted().probabilities(self._encoded(X))

    def decision_function(self, X: Any) -> Floats:
        """The classes' scores, (n, classes); of two classes their difference, (n,).

        Privacy: post-processing; costs nothing.
        """
        scores = self._fitted().scores(self._encoded(X))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the fitted maps with schema and card. Privacy: writes what is released."""
        self._fitted().save(path, force=force)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LocallyLinearMaps:
        """A fitted classifier from a file. Privacy: reads an artefact, already released."""
        return cls.from_maps(Maps.load(path))

    @classmethod
    def from_maps(cls, maps: Maps) -> LocallyLinearMaps:
        """A fitted classifier around maps that carry their schema. Privacy: post-processing."""
        if maps.schema is None:
            raise DataError("these maps carry no schema; predict with Maps.probabilities")
        classes = maps.facts.get("classes")  # where it was fitted to arrays
        if classes is not None and _names(classes) != maps.classes:
            raise ArtefactError("this classifier names its classes in two ways that differ")
        made = cls(
            maps=maps.weights.shape[1],
            temperature=maps.temperature,
            schema=maps.schema if classes is None else None,
            classes=classes,
        )
        if maps.schema.label is None:
            raise ArtefactError("this classifier's schema names no label")
        made.maps_, made.classes_ = maps, _classes(maps.schema, classes, maps.classes)
        made.n_features_in_ = len(maps.schema.columns) - 1
        return made

    def _fitted(self) -> Maps:
        check_is_fitted(self, "maps_")
        maps: Maps = self.maps_
        return maps

    def _encoded(self, X: Any) -> Floats:
        schema = self._fitted().schema
        if schema is None:
            raise DataError("these maps carry no schema")
        return encoded_rows(self._plain(X), schema)

    def _plain(self, X: Any) -> Any:
        """A frame without a schema is read as an array of numbers."""
        return X.to_numpy() if self.schema is None and hasattr(X, "to_numpy") else X

    def _schema_for(self, X: Any) -> Schema:
        if self.schema is not None:
            if self.schema.label is None:
                raise DataError("the schema names no label; a classifier needs one")
            return self.schema
        if self.classes is None:
            raise PrivacyError(
                "the classes must be public: pass classes=[...] or a schema. They are never read "
                "from the data"
            )
        if isinstance(self.classes, str):
            raise TypeError("classes must be a list of classes, not one text")
        if not is_array(X):
            raise DataError("a table needs a schema; without one, pass arrays X and y")
        made = array_schema(
            as_array(X).shape,
            classes=_names(self._array_classes),
            low=plain_number("low", self.low),
            high=plain_number("high", self.high),
            name=self.name,
        )
        per_person = int(plain_number("max_rows_per_person", self.max_rows_per_person))
        return replace(made, max_rows_per_person=per_person)

    def _remember(self, X: Any, setup: Setup) -> None:
        """What scikit-learn looks for in a fitted classifier; public structure only."""
        self.classes_ = _classes(setup.encoder.schema, self._array_classes, setup.names)
        self.n_features_in_ = len(setup.encoder.columns) - 1
        if is_array(X) and as_array(X).ndim == 2:
            self.n_features_in_ = as_array(X).shape[1]
        self.n_iter_ = setup.settings.steps

    @property
    def _array_classes(self) -> list[Any] | None:
        """The classes as the caller names them, where there is no schema to name them."""
        if self.schema is not None or self.classes is None:
            return None
        return [v.item() if isinstance(v, np.generic) else v for v in self.classes]

    def _facts(self, schema: Schema, run: Descended, stamp: LedgerStamp) -> dict[str, Any]:
        promise = guarantee(run.budget, mu_from_units(run.mu_squared_units))
        # What a Gaussian of this mu says about other deltas does not hold for sampled steps.
        kept = ("relation", "epsilon", "delta")
        card = {
            "table": schema.name,
            **{key: promise[key] for key in kept},
            "guarantee": promise["guarantee"].replace("this gist", "this classifier"),
            "max_rows_per_person": run.max_rows_per_person,
            "training": {k: v for k, v in asdict(run).items() if k != "budget"},
            "ledger": asdict(stamp),
            "version": __version__,
        }
        return {"schema": schema.to_dict(), "card": card, **_kept(self._array_classes)}


def _kept(classes: list[Any] | None) -> dict[str, Any]:
    """Classes that a file can hold as they are; of others, such as dates, it holds the names."""
    if classes is None:
        return {}
    try:
        again = json.loads(json.dumps(classes, allow_nan=False))
    except (TypeError, ValueError):
        return {}
    return {"classes": classes} if _names(again) == _names(classes) else {}


def _names(classes: Any) -> tuple[str, ...]:
    return tuple(map(class_name, classes)) if isinstance(classes, list) else ()


def _classes(schema: Schema, given: list[Any] | None, names: Sequence[str]) -> npt.NDArray[Any]:
    """Classes in the type of the labels that they are compared with."""
    if given is not None:
        mixed = len({isinstance(value, str) for value in given}) > 1
        return np.asarray(given, dtype=object if mixed else None)
    label = next(column for column in schema.columns if column.name == schema.label)
    if isinstance(label, BooleanColumn):
        return np.array([name == "true" for name in names])
    return np.array(names)


def _book(ledger: Ledger | str | os.PathLike[str] | None, budget: Budget, schema: Schema) -> Ledger:
    if isinstance(ledger, Ledger):
        return ledger
    if ledger is not None:
        return Ledger.open(ledger)
    return Ledger.in_memory(
        name=schema.name, budget=budget, max_rows_per_person=schema.max_rows_per_person
    )
