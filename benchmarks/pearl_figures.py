"""Figures of docs/pearl.md: histograms of Adult (figures 9 and 10), grids of images.

    python benchmarks/pearl_figures.py adult --rows pearl-adult.1.on.0.parquet --seed 0
    python benchmarks/pearl_figures.py images --data mnist --models 10.model 1.model 0.2.model

The first takes synthetic rows that ``papers.py --only pearl-adult --samples`` has left, the second
models of ``--only pearl-mnist --columns 10 1 0.2`` (or a file of another budget: each says its
own). Both write small PNG files into docs/images.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from machine import ROOT
from papers_data import DATA, load, protocol_split

import dpgist as dg

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = ROOT / "docs" / "images"
NUMBERS = ("age", "fnlwgt", "capital-gain", "capital-loss")
CHOICES = ("marital-status", "relationship", "education", "sex")
REAL, SYNTHETIC = "#444444", "#d95f02"
EACH = 8


def main() -> None:
    """Make one of the two figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    adult = commands.add_parser("adult")
    adult.set_defaults(run=run_adult)
    adult.add_argument("--rows", type=Path, required=True)
    adult.add_argument("--seed", type=int, required=True)
    images = commands.add_parser("images")
    images.set_defaults(run=run_images)
    images.add_argument("--data", required=True)
    images.add_argument("--models", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    options.run(options)


def run_adult(options: argparse.Namespace) -> None:
    """Real training rows of a seed beside synthetic ones, column by column."""
    data = DATA["adult"]
    real, _ = protocol_split(*load(data), data, seed=options.seed)
    rows = pd.read_parquet(options.rows)
    figure, axes = plt.subplots(2, 4, figsize=(11, 4.6), layout="constrained")
    for axis, name in zip(axes[0], NUMBERS, strict=True):
        _numbers(axis, name, real[name], rows[name])
    for axis, name in zip(axes[1], CHOICES, strict=True):
        _choices(axis, name, real[name], rows[name])
    axes[0, 0].legend(fontsize=7, frameon=False)
    figure.savefig(FOLDER / "pearl-adult.png", dpi=80)


def _numbers(axis: Any, name: str, real: pd.Series, rows: pd.Series) -> None:
    edges = np.linspace(real.min(), np.quantile(real, 0.999), 31)
    for values, colour, label in ((real, REAL, "real"), (rows, SYNTHETIC, "synthetic, ε = 1")):
        shares = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
        axis.stairs(shares, edges, color=colour, label=label)
    if name.startswith("capital"):
        axis.set_yscale("log")
    axis.set_title(name, fontsize=8)
    axis.tick_params(labelsize=6)


def _choices(axis: Any, name: str, real: pd.Series, rows: pd.Series) -> None:
    found = real.value_counts(normalize=True)[:8]
    drawn = rows.value_counts(normalize=True).reindex(found.index).fillna(0.0)
    places = np.arange(len(found))
    axis.bar(places - 0.2, found, 0.4, color=REAL)
    axis.bar(places + 0.2, drawn, 0.4, color=SYNTHETIC)
    axis.set_xticks(places, [str(value)[:12] for value in found.index], rotation=60, ha="right")
    axis.set_title(name, fontsize=8)
    axis.tick_params(labelsize=6)


def run_images(options: argparse.Namespace) -> None:
    """A grid for each model, ten classes across."""
    figure, axes = plt.subplots(1, len(options.models), figsize=(3 * len(options.models), 2.7))
    for axis, path in zip(np.atleast_1d(axes), options.models, strict=True):
        model = dg.read_model(path)
        epsilon = model.gist_header["released"]["budget"]["epsilon"]
        drawn = model.sample(10 * EACH, seed=0, balanced=True, kind="arrays")
        order = np.argsort(drawn["y"], kind="stable")
        grid = drawn["x"][order].reshape(10, EACH, 28, 28).transpose(1, 2, 0, 3)
        axis.imshow(grid.reshape(EACH * 28, 280), cmap="gray_r")
        axis.set_title(f"ε = {epsilon:g}", fontsize=9)
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(FOLDER / f"pearl-{options.data}.png", dpi=90)


if __name__ == "__main__":
    main()
