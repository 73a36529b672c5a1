"""The maps of the comparison of explanations, kept in a folder for the next time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from explanations_networks import DELTA
from plain import plain_maps

import dpgist as dg
from dpgist.classify.estimator import LocallyLinearMaps
from dpgist.classify.maps import Maps

SETTINGS = {"maps": 5, "features": 300, "temperature": 0.4, "steps": 60}
"""Fewer maps and steps than the library's own, for time; 300 random features, or none."""

PROJECTION_SEED = 1

SCHEMA = dg.Schema(
    name="mnist",
    label="digit",
    rows_about=60_000,
    columns=(
        dg.ImageColumn(name="image", height=28, width=28),
        dg.CategoryColumn(name="digit", values=tuple("0123456789")),
    ),
)


def trained_maps(
    work: Path, x: np.ndarray, y: np.ndarray, *, epsilon: float | None, projected: bool
) -> Maps:
    """Maps of images (bytes) by digit; projections are multiplied out, so scoring is quick."""
    budget = "plain" if epsilon is None else f"{epsilon:g}"
    path = work / f"maps-{budget}-{'projected' if projected else 'pixels'}.maps"
    if not path.exists():
        found = _plain(x, y) if epsilon is None else _private(x, y, epsilon, projected)
        found.save(path)
    maps = Maps.load(path)
    return Maps(
        weights=maps.filters(),
        biases=maps.biases,
        temperature=maps.temperature,
        classes=maps.classes,
        facts=maps.facts,
    )


def _private(x: np.ndarray, y: np.ndarray, epsilon: float, projected: bool) -> Maps:
    model = LocallyLinearMaps(
        schema=SCHEMA,
        maps=int(SETTINGS["maps"]),
        temperature=SETTINGS["temperature"],
        sharpness=1.0,
        steps=int(SETTINGS["steps"]),
        projection=_projection() if projected else None,
    )
    model.fit((x, y.astype(str)), budget=dg.Budget(epsilon=epsilon, delta=DELTA))
    return model.maps_


def _projection() -> np.ndarray:
    """Public random directions, scaled so that a projected image keeps its length on average."""
    features = int(SETTINGS["features"])
    normal = np.random.default_rng(PROJECTION_SEED).normal(size=(28 * 28, features))
    return normal / np.sqrt(features)


def _plain(x: np.ndarray, y: np.ndarray) -> Maps:
    return plain_maps(
        x.reshape(len(x), -1) / 255.0,
        y.astype(np.int64),
        tuple("0123456789"),
        maps=int(SETTINGS["maps"]),
        temperature=SETTINGS["temperature"],
        seed=0,
        epochs=5,
        scaled=False,
    )
