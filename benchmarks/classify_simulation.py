"""Private training of locally linear maps, simulated in float32: many runs at once, on any device.

For choosing settings, never for a release: noise and coins come from torch, sums are rounded as
float32 rounds them, and nothing is charged. Sampling, clipping, noise multipliers, the model and
the rule that follows the gradients are those of the library, but for what a variant changes.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

VALIDATION, CLASSES, SIDE = 12_000, 10, 28
Key = tuple[Any, ...]
Views = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
SHIFTS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to train; the defaults are the library's at the time of the search.

    ``shifts`` copies of every row, moved by a pixel, are in the row's own gradient, or ``drawn`` of
    them at every step; the gradient is clipped as a whole, or copy by copy (``each``). ``tilt``
    weights frequencies by (1 + f)^tilt, ``flat`` the constant one. The clip bound falls linearly to
    ``fading`` times itself. ``sheared`` sets digits upright
    by their own moments. ``readout`` is where the path ends or its average; ``predicted`` shifts
    are averaged over when a row is predicted.
    """

    maps: int = 10
    beta: float = 0.4
    basis: str = "cosine"
    features: int = 196
    tilt: float = 0.0
    flat: float = 0.3
    normalised: str = "no"
    sheared: bool = False
    shifts: int = 1
    drawn: int = 0
    each: bool = False
    clip: float = 1.5
    fading: float = 1.0
    rate: float = 0.1
    steps: int = 240
    way: float = 1.0
    shorter: float = 0.5
    rule: str = "adam"
    floor: float = 1.0
    momentum: float = 0.9
    second: float = 0.99
    schedule: str = "linear"
    initial: float = 0.3
    constant: float = 0.1
    smoothing: float = 0.0
    margin: float = 0.0
    sharpness: float = 1.0
    readout: str = "end"
    predicted: int = 1


class Images:
    """Training rows of one data set on a device: the last 12,000 of them are for validation."""

    def __init__(self, path: Path, device: str, rows: int | None = None) -> None:
        labels = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
        pixels = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16)
        whole = torch.from_numpy(pixels.copy()).to(device).reshape(-1, SIDE, SIDE).float() / 255
        codes = np.frombuffer(gzip.decompress(labels.read_bytes()), np.uint8, offset=8)
        targets = torch.from_numpy(codes.astype(np.int64)).to(device)
        n_rows = len(whole) - VALIDATION
        kept = slice(0, n_rows if rows is None else rows)
        self.train, self.labels = whole[:n_rows][kept], targets[:n_rows][kept]
        self.held_out, self.held_out_labels = whole[n_rows:], targets[n_rows:]
        self.device = device
        self._views: dict[tuple[Key, int], Views] = {}

    def views(self, key: Key, copies: int) -> Views:
        """Training rows' copies, their Gram matrices, held-out rows' copies."""
        if (key, copies) not in self._views:
            made = Features(key, self.device)
            train = made(self.train, copies)
            self._views[key, copies] = (train, train @ train.mT, made(self.held_out, len(SHIFTS)))
            for old in list(self._views)[:-3]:
                del self._views[old]
        return self._views[key, copies]


def _projections() -> Any:
    """The library's projections by their file: they need numpy alone, the library needs more."""
    path = Path(__file__).parents[1] / "src" / "dpgist" / "classify" / "projections.py"
    spec = importlib.util.spec_from_file_location("projections", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not there")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Features:
    """Public functions of one image: set upright, shift, project, normalise, add the constant."""

    def __init__(self, key: Key, device: str) -> None:
        self.basis, self.features, self.tilt, self.flat, *rest = key
        self.normalised, self.sheared, self.constant = rest
        self.matrix = torch.from_numpy(self._matrix()).float().to(device)

    @staticmethod
    def key(variant: Variant) -> Key:
        """What of a variant the features depend on."""
        names = ("basis", "features", "tilt", "flat", "normalised", "sheared", "constant")
        return tuple(getattr(variant, name) for name in names)

    def __call__(self, images: torch.Tensor, copies: int) -> torch.Tensor:
        """Features (rows, copies, features + 1)."""
        images = upright(images) if self.sheared else images
        padded = torch.nn.functional.pad(images, (1, 1, 1, 1))
        moved = [
            padded[:, 1 + down : 1 + down + SIDE, 1 + across : 1 + across + SIDE].flatten(1)
            for down, across in SHIFTS[:copies]
        ]
        return torch.stack([self._one(view) for view in moved], dim=1)

    def _one(self, pixels: torch.Tensor) -> torch.Tensor:
        if self.normalised == "contrast":
            pixels = pixels - pixels.mean(dim=1, keepdim=True)
        if self.normalised in ("contrast", "before"):
            pixels = pixels / (pixels.norm(dim=1, keepdim=True) + 1e-6) * (SIDE / 3)
        found = pixels @ self.matrix * (3 / SIDE)
        if self.normalised in ("after", "half"):
            power = 1.0 if self.normalised == "after" else 0.5
            found = found / (found.norm(dim=1, keepdim=True) + 1e-6) ** power
        return torch.cat([found, torch.full_like(found[:, :1], self.constant)], dim=1)

    def _matrix(self) -> np.ndarray:
        if self.basis == "pixels":
            return np.eye(SIDE**2)
        if self.basis == "cosine":
            cosines = _projections().low_frequencies
            return self._tilted(cosines(1, SIDE, SIDE, features=self.features))
        if self.basis == "blur":
            return _orthonormal(_bumps(round(math.sqrt(self.features))))
        return _principal(_strokes(4000), self.features, self.tilt)

    def _tilted(self, planes: np.ndarray) -> np.ndarray:
        """Frequencies weighted by (1 + f)^tilt; rows with a 1/f spectrum keep their size."""
        u, v = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
        f = np.sort(np.hypot(u, v).ravel())[: planes.shape[1]]
        weight = (1 + f) ** self.tilt
        weight *= math.sqrt(((1 + f) ** -2.0).sum() / ((weight / (1 + f)) ** 2).sum())
        weight[0] = self.flat / 0.3
        return planes * weight


def upright(images: torch.Tensor) -> torch.Tensor:
    """Shear every image so that its second moments are uncorrelated, as handwriting is set."""
    place = torch.linspace(-1, 1, SIDE, device=images.device)
    mass = images.sum(dim=(1, 2)) + 1e-6
    down = (images.sum(dim=2) * place).sum(dim=1) / mass
    across = (images.sum(dim=1) * place).sum(dim=1) / mass
    y, x = place[None, :, None] - down[:, None, None], place[None, None] - across[:, None, None]
    slant = (images * x * y).sum(dim=(1, 2)) / ((images * y * y).sum(dim=(1, 2)) + 1e-6)
    slant = slant.clamp(-1, 1)
    turn = torch.zeros(len(images), 2, 3, device=images.device)
    turn[:, 0, 0], turn[:, 0, 1], turn[:, 0, 2] = 1, slant, -slant * down
    turn[:, 1, 1] = 1
    grid = torch.nn.functional.affine_grid(turn, [len(images), 1, SIDE, SIDE], align_corners=True)
    return torch.nn.functional.grid_sample(images[:, None], grid, align_corners=True)[:, 0]


def _bumps(n: int, width: float = 1.3) -> np.ndarray:
    """Gaussian bumps on an n x n grid of centres, one a column."""
    centres, places = np.linspace(1, SIDE - 2, n), np.arange(SIDE)
    one = np.exp(-((places[:, None] - centres) ** 2) / (2 * width**2))
    return np.kron(one, one)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """The nearest matrix with orthonormal columns: as local as the columns were."""
    left, _, right = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left @ right)


def _strokes(n: int) -> np.ndarray:
    """Random pictures of two pen strokes each, (n, pixels): public, made of nothing private."""
    rng = np.random.Generator(np.random.Philox(8))
    t = np.linspace(0, 1, 30)[:, None]
    weights = np.concatenate([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], 1)
    corners = np.clip(13.5 + 5.5 * rng.standard_normal((n, 2, 4, 2)), 4, 23)
    points = np.einsum("tc,nscd->nstd", weights, corners).reshape(n, -1, 2)
    lines = np.exp(-((points[..., None] - np.arange(SIDE)) ** 2) / 1.6)
    return np.minimum(np.matmul(lines[:, :, 0].transpose(0, 2, 1), lines[:, :, 1]), 1).reshape(
        n, -1
    )


def _principal(rows: np.ndarray, features: int, tilt: float) -> np.ndarray:
    """Leading eigenvectors, weighted by eigenvalue^(-tilt/2), relative to keep rows' size."""
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    values, vectors = values[::-1][:features], vectors[:, ::-1][:, :features]
    weight = (values / values[1]) ** (-tilt / 2)
    weight[0] *= 0.3
    weight[1:] *= math.sqrt(values[1:].sum() / (values[1:] * weight[1:] ** 2).sum())
    return np.asarray(vectors * weight)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs that are trained side by side: each has a seed, a noise multiplier and its mu."""

    seeds: tuple[int, ...]
    multipliers: tuple[float, ...]
    mus: tuple[float, ...]


@functools.lru_cache(maxsize=4)
def batches(
    seeds: tuple[int, ...], n_rows: int, rate: float, steps: int, device: str
) -> tuple[torch.Tensor, ...]:
    """Poisson batches (runs, largest batch) of every step, padded by -1; made on the host."""
    coins = {seed: np.random.Generator(np.random.Philox([seed, 1])) for seed in seeds}
    made = []
    for _ in range(steps):
        drawn = {s: np.flatnonzero(c.random(n_rows, np.float32) < rate) for s, c in coins.items()}
        padded = np.full((len(seeds), max(map(len, drawn.values()))), -1, np.int32)
        for place, seed in enumerate(seeds):
            padded[place, : len(drawn[seed])] = drawn[seed]
        made.append(torch.from_numpy(padded))
    flat = torch.cat([batch.flatten() for batch in made]).to(device)
    parts = flat.split([batch.numel() for batch in made])
    return tuple(part.reshape(len(seeds), -1) for part in parts)


class Simulation:
    """One variant in several runs at once, from the first step to validation."""

    def __init__(self, variant: Variant, runs: Runs, images: Images) -> None:
        self.v, self.images, self.n_runs = variant, images, len(runs.seeds)
        self.device, n_rows = images.device, len(images.labels)
        views = images.views(Features.key(variant), variant.shifts)
        self.rows, self.gram, self.tests = views
        self.clip = self.first_clip = variant.clip / math.sqrt(variant.maps)
        self.expected = variant.rate * n_rows
        self.sigma = torch.tensor(runs.multipliers, device=self.device)[:, None, None]
        quiet = [min(1.0, mu * n_rows / 30_000) for mu in runs.mus]
        pace = [40 * variant.way * q**variant.shorter / variant.steps for q in quiet]
        self.pace = torch.tensor(pace, device=self.device)[:, None, None]
        self.random = torch.Generator(self.device).manual_seed(8 + sum(runs.seeds))
        self.batches = batches(runs.seeds, n_rows, variant.rate, variant.steps, self.device)
        self.theta = self._start(runs.seeds)
        self.average, self.weight = self.theta.clone(), 0.0
        self.first, self.spread = torch.zeros_like(self.theta), torch.zeros_like(self.theta)

    def _start(self, seeds: tuple[int, ...]) -> torch.Tensor:
        width, v = self.rows.shape[2], self.v
        parts = []
        for seed in seeds:
            rng = np.random.Generator(np.random.Philox(seed))
            start = rng.standard_normal((v.maps * CLASSES, width)) * v.initial
            start[:, :-1] /= math.sqrt(width - 1)
            start[:, -1] = 0.0
            parts.append(start)
        return torch.from_numpy(np.stack(parts)).float().to(self.device)

    def train(self) -> None:
        """Take every step; nothing is read back to the host."""
        for taken, batch in enumerate(self.batches):
            done = taken / self.v.steps
            self.clip = self.first_clip * (1 - done + done * self.v.fading)
            self._follow(self._gradient(batch.long()), taken)

    def _gradient(self, batch: torch.Tensor) -> torch.Tensor:
        real, chosen = (batch >= 0).float(), batch.clamp(min=0)
        x, gram = self._copies(chosen)
        n_copies = x.shape[2]
        c = self._coefficients(x, self.images.labels[chosen])
        scale = self._scales(c, gram) * real[..., None] / n_copies
        c = (c * scale[..., None]).flatten(1, 2)
        clean = c.mT @ x.flatten(1, 2)
        noise = torch.randn(clean.shape, generator=self.random, device=self.device)
        return (clean + self.sigma * self.clip * noise) / self.expected

    def _copies(self, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies (runs, batch, copies, features) of this step, and their Gram matrices."""
        if not self.v.drawn:
            return self.rows[chosen], self.gram[chosen]
        shape = (*chosen.shape, self.v.shifts)
        order = torch.rand(shape, generator=self.random, device=self.device)
        picked = order.topk(self.v.drawn, dim=2).indices
        x = self.rows[chosen[..., None], picked]
        gram = self.gram[chosen[..., None, None], picked[..., :, None], picked[..., None, :]]
        return x, gram

    def _coefficients(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        v = self.v
        g = x.flatten(1, 2) @ self.theta.mT
        g = g.reshape(*x.shape[:3], v.maps, CLASSES)
        s = torch.softmax(v.beta * g, dim=3)
        f = (s * g).sum(dim=3, keepdim=True)
        hot = torch.nn.functional.one_hot(labels, CLASSES)[:, :, None, None].float()
        aim = hot * (1 - v.smoothing) + v.smoothing / CLASSES
        error = torch.softmax(v.sharpness * f + v.margin * (1 - hot), dim=4) - aim
        return (error * s * (1 + v.beta * (g - f)) * v.sharpness).flatten(3)

    def _scales(self, c: torch.Tensor, gram: torch.Tensor) -> torch.Tensor:
        """What copies' coefficients are multiplied by, (runs, batch, copies or 1)."""
        if self.v.each or c.shape[2] == 1:
            size = c.norm(dim=3) * gram.diagonal(dim1=-2, dim2=-1).sqrt()
        else:
            products = c @ c.mT
            size = (products * gram).sum(dim=(2, 3)).clamp(min=0).sqrt()[..., None] / c.shape[2]
        return (self.clip / (size + 1e-12)).clamp(max=1.0)

    def _follow(self, gradient: torch.Tensor, taken: int) -> None:
        v, t = self.v, taken + 1
        self.first.mul_(v.momentum).add_(gradient, alpha=1 - v.momentum)
        self.spread.mul_(v.second).addcmul_(gradient, gradient, value=1 - v.second)
        mean = self.first / (1 - v.momentum**t)
        self.theta -= self.pace * self._factor(taken) * mean / self._size(t)
        self.weight += float(t) ** 4
        self.average.lerp_(self.theta, t**4 / self.weight)

    def _size(self, t: int) -> torch.Tensor:
        """What the mean gradient is divided by; the noise's own size is public."""
        noise = self.sigma * self.clip / self.expected
        if self.v.rule == "sgd":
            return noise
        second = self.spread / (1 - self.v.second**t)
        if self.v.rule == "known":
            second = torch.maximum(second - noise**2, self.v.floor * noise**2)
        if self.v.rule == "shared":
            second = second.mean(dim=(1, 2), keepdim=True)
        return second.sqrt() + 1e-12

    def _factor(self, taken: int) -> float:
        left = 1 - taken / self.v.steps
        return {
            "linear": 2 * left,
            "constant": 1.0,
            "cosine": 1 + math.cos(math.pi * (1 - left)),
            "late": min(4 / 3, 4 * left),
            "square": 3 * left**2,
        }[self.v.schedule]

    def accuracies(self) -> dict[str, list[float]]:
        """Per cent right of the held-out rows, by read-out and number of shifts averaged over."""
        found: dict[str, list[float]] = {}
        for readout, theta in (("end", self.theta), ("average", self.average)):
            scores = [self._scores(theta[run]) for run in range(self.n_runs)]
            for copies in (1, 5, 9):
                best = [one[:, :copies].mean(dim=1).argmax(dim=1) for one in scores]
                right = torch.stack([b == self.images.held_out_labels for b in best])
                found[f"{readout} {copies}"] = (100 * right.float().mean(dim=1)).tolist()
        return found

    def _scores(self, theta: torch.Tensor) -> torch.Tensor:
        g = (self.tests @ theta.T).reshape(*self.tests.shape[:2], self.v.maps, CLASSES)
        return (torch.softmax(self.v.beta * g, dim=2) * g).sum(dim=2)
