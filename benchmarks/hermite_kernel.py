"""How well Hermite features stand for a Gaussian kernel, and what gamma and subset size change.

    python benchmarks/hermite_kernel.py [--quick]

Draws ``docs/images/hermite.png`` and writes ``benchmarks/results/hermite_kernel.json``: the error
of the kernel by number of features (figure 1 of the DP-HP paper) and over length scales (figure 5),
the bounds of its appendix B beside the measured error, and sweeps of gamma and of the number of
columns in a product (its tables G.2 and G.5). The sweeps are on simulated patients, nobody's data,
so that nothing is tuned on a real table.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from functools import cache
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from machine import ROOT, write_result

import dpgist as dg
from dpgist.demo.patients import SCHEMA, simulate
from dpgist.evaluate.marginals import mean_variation, quantile_bins, subsets
from dpgist.evaluate.table import read_rows
from dpgist.features.hermite import Expansion, centred, mehler, rho_of
from dpgist.training.loop import train_generator

FIGURE = ROOT / "docs" / "images" / "hermite.png"
ORDERS = (1, 2, 5, 10, 20, 50, 100, 200)
LENGTH_SCALES = (0.71, 1.0, 2.0, 7.07)
NARROW = (0.3, 0.1, 0.05, 0.02)
GAMMAS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3)
SIZES = (2, 3, 4, 5)
DRAWS = 40

Points = npt.NDArray[np.float64]


def hermite_error(expansion: Expansion, points: Points) -> tuple[float, float]:
    """Mean and largest absolute error of the kernel on all pairs of points."""
    scaled = torch.tensor((points[:, None] - expansion.centre) * expansion.stretch)
    rho = torch.tensor([expansion.rho], dtype=torch.float64)
    features = mehler(scaled, rho, expansion.order)[:, 0].numpy()
    return _error(features, points, expansion.length_scale)


def fourier_error(
    n_features: int, points: Points, length_scale: float, *, rng: np.random.Generator
) -> tuple[float, float]:
    """The same of random Fourier features, averaged over draws of the frequencies."""
    errors = []
    for _ in range(DRAWS):
        phases = np.outer(points, rng.standard_normal(max(n_features // 2, 1)) / length_scale)
        features = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
        errors.append(_error(features / math.sqrt(phases.shape[1]), points, length_scale))
    mean, largest = np.mean(errors, axis=0)
    return float(mean), float(largest)


def _error(features: Points, points: Points, length_scale: float) -> tuple[float, float]:
    kernel = np.exp(-((points[:, None] - points) ** 2) / (2 * length_scale**2))
    gaps = np.abs(features @ features.T - kernel)
    return float(gaps.mean()), float(gaps.max())


def kernel_curves(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Errors on standard normal points, at the length scales of figure 5 and at the median."""
    points = rng.standard_normal(120)
    median = float(np.median(np.abs(points[:, None] - points)[np.triu_indices(len(points), 1)]))
    curves = []
    for scale in (median, *LENGTH_SCALES):
        for order in ORDERS:
            own = hermite_error(Expansion(order=order, rho=rho_of(scale)), points)
            other = fourier_error(order + 1, points, scale, rng=rng)
            curves.append(
                {
                    "length_scale": scale,
                    "median": scale == median,
                    "features": order + 1,
                    "hermite": own,
                    "fourier": other,
                }
            )
    return curves


def appendix_b(rng: np.random.Generator) -> list[dict[str, float]]:
    """Mean errors at rho = 1/3 over pairs of standard normals, and the proposition's bounds.

    C counts Hermite orders, 0 to C, in one bound and random features in the other.
    """
    points, length_scale = rng.standard_normal(500), math.sqrt(4 / 3)
    rows = []
    for order in (2, 4, 6, 8, 12, 16, 20):
        expansion = Expansion(order=order, rho=1 / 3)
        rows.append(
            {
                "C": order,
                "hermite": hermite_error(expansion, points)[0],
                "hermite_bound": 3.0**-order / (3 * math.sqrt(2)),
                "fourier": fourier_error(order, points[:120], length_scale, rng=rng)[0],
                "fourier_bound": 1 / (8 * order),
            }
        )
    return rows


def stretched_curves() -> list[dict[str, Any]]:
    """Largest error on [0, 1], where encoded columns lie: the paper's expansion and the centred."""
    points = np.linspace(0.0, 1.0, 101)
    return [
        {
            "length_scale": scale,
            "order": order,
            "plain": hermite_error(Expansion(order=order, rho=rho_of(scale)), points)[1],
            "centred": hermite_error(centred(scale, order), points)[1],
        }
        for scale in NARROW
        for order in ORDERS[1:]
    ]


class Sweep:
    """Releases of simulated patients, and the error of their marginals."""

    def __init__(self, *, quick: bool) -> None:
        self._rows = 1_000 if quick else 10_000
        self._training = dg.Training(steps=5 if quick else 150, components=40)
        self._real = simulate(self._rows, rng=np.random.default_rng(0))

    @cache  # noqa: B019 (one sweep lives as long as the script)
    def gist(self, method_size: int, epsilon: float) -> tuple[dg.Gist, dg.Hermite]:
        """One release; gamma is free to change after it."""
        budget = dg.Budget(epsilon=epsilon, delta=1e-5, relation="replace_one")
        method = dg.Hermite(
            subset_size=method_size, product_order=3, subsets=10, categories="codes"
        ).settled(SCHEMA, budget)
        ledger = dg.Ledger.in_memory(name=SCHEMA.name, budget=budget, max_rows_per_person=1)
        return dg.release(self._real, SCHEMA, method, budget, ledger=ledger), method

    def errors(self, *, size: int, gamma: float, epsilon: float, seed: int) -> dict[str, float]:
        """Mean total variation of sets of three and of four columns."""
        gist, method = self.gist(size, epsilon)
        rng = np.random.Generator(np.random.Philox(seed))
        own = replace(method, gamma=gamma)
        model = train_generator(gist, own, self._training, rng=rng, device="cpu")
        return self._variation(model.sample(self._rows, seed=seed, kind="pyarrow"))

    def _variation(self, synthetic: pa.Table) -> dict[str, float]:
        real, other = read_rows(self._real, SCHEMA), read_rows(synthetic, SCHEMA)
        bins = quantile_bins(real)
        codes = bins.codes(real), bins.codes(other)
        rng = np.random.default_rng(1)
        return {
            str(alpha): mean_variation(*codes, subsets(bins.columns, alpha, most=60, rng=rng), bins)
            for alpha in (3, 4)
        }


def sweeps(*, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Gamma at epsilon 0.3 and the columns of a product at epsilon 1, as in the paper."""
    sweep, seeds = Sweep(quick=quick), (0,) if quick else (0, 1)
    gammas = [
        {"gamma": g, "seed": s, **sweep.errors(size=5, gamma=g, epsilon=0.3, seed=s)}
        for g in GAMMAS
        for s in seeds
    ]
    sizes = [
        {"size": n, "seed": s, **sweep.errors(size=n, gamma=1.0, epsilon=1.0, seed=s)}
        for n in SIZES
        for s in seeds
    ]
    return {"gamma": gammas, "size": sizes}


def draw(result: dict[str, Any]) -> None:
    """Six small plots in one figure."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), layout="constrained")
    _draw_features(axes[0, 0], result["kernel"])
    _draw_scales(axes[0, 1], result["kernel"])
    _draw_bounds(axes[0, 2], result["appendix_b"])
    _draw_stretched(axes[1, 0], result["stretched"])
    _draw_sweep(axes[1, 1], result["sweeps"]["gamma"], "gamma", "weight of the product in the loss")
    axes[1, 1].set_xscale("log")
    _draw_sweep(axes[1, 2], result["sweeps"]["size"], "size", "columns in a product")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=80)
    print(f"written: {FIGURE.relative_to(ROOT)}")


def _draw_features(axis: plt.Axes, curves: list[dict[str, Any]]) -> None:
    own = [curve for curve in curves if curve["median"]]
    for kind in ("hermite", "fourier"):
        axis.loglog([c["features"] for c in own], [c[kind][0] for c in own], "o-", label=kind)
    axis.set(title="kernel error, median length scale", xlabel="features", ylabel="mean error")
    axis.set_ylim(bottom=1e-17)
    axis.legend()


def _draw_scales(axis: plt.Axes, curves: list[dict[str, Any]]) -> None:
    for colour, scale in enumerate(LENGTH_SCALES):
        own = [c for c in curves if c["length_scale"] == scale and not c["median"]]
        for kind, line in (("hermite", "-"), ("fourier", ":")):
            values = [c[kind][0] for c in own]
            label = f"{scale:g}" if kind == "hermite" else None
            axis.loglog([c["features"] for c in own], values, line, color=f"C{colour}", label=label)
    axis.set(title="over length scales (dotted: Fourier)", xlabel="features")
    axis.set_ylim(bottom=1e-17)
    axis.legend(title="length scale")


def _draw_bounds(axis: plt.Axes, rows: list[dict[str, float]]) -> None:
    orders = [row["C"] for row in rows]
    for colour, kind in enumerate(("hermite", "fourier")):
        axis.semilogy(orders, [r[kind] for r in rows], "o-", color=f"C{colour}", label=kind)
        bound = [r[f"{kind}_bound"] for r in rows]
        side = "upper" if kind == "hermite" else "lower"
        axis.semilogy(orders, bound, "--", color=f"C{colour}", label=f"{side} bound")
    axis.set(title="appendix B: mean error and bounds", xlabel="C")
    axis.legend()


def _draw_stretched(axis: plt.Axes, curves: list[dict[str, Any]]) -> None:
    for colour, scale in enumerate(NARROW):
        own = [c for c in curves if c["length_scale"] == scale]
        orders = [c["order"] for c in own]
        axis.loglog(orders, [c["plain"] for c in own], ":", color=f"C{colour}")
        axis.loglog(orders, [c["centred"] for c in own], color=f"C{colour}", label=f"{scale:g}")
    axis.set(title="on [0, 1]: centred, dotted plain", xlabel="order", ylabel="largest error")
    axis.set_ylim(bottom=1e-12)
    axis.legend(title="length scale")


def _draw_sweep(axis: plt.Axes, rows: list[dict[str, Any]], name: str, label: str) -> None:
    for alpha in ("3", "4"):
        values = sorted({row[name] for row in rows})
        means = [np.mean([row[alpha] for row in rows if row[name] == value]) for value in values]
        axis.plot(values, means, "o-", label=f"{alpha} columns")
    axis.set(title=f"error of marginals by {name}", xlabel=label, ylabel="mean total variation")
    axis.legend()


def main() -> None:
    """Measure, write, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sweeps, nothing is written")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(0)
    result = {
        "seeds": [0, 1],
        "kernel": kernel_curves(rng),
        "appendix_b": appendix_b(rng),
        "stretched": stretched_curves(),
        "sweeps": sweeps(quick=quick),
    }
    if quick:
        print(result["sweeps"])
        return
    write_result("hermite_kernel", result)
    draw(result)


if __name__ == "__main__":
    main()
