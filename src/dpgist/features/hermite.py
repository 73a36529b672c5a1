"""Hermite features: Mehler's expansion of the Gaussian kernel, of columns and of groups of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dpgist.encode import Slot
from dpgist.features.subsets import Subset, halves_of

HIGHEST_ORDER = 200
Categories = Literal["indicators", "codes"]


@dataclass(frozen=True, kw_only=True)
class Expansion:
    r"""Mehler's expansion of a Gaussian kernel on one coordinate x of [0, 1].

    .. math:: e^{-(x-y)^2 / 2\ell^2} = \sum_{c=0}^{\infty} \phi_c(t_x)\,\phi_c(t_y), \qquad
              t_x = s\,(x - x_0), \qquad \frac{\rho}{1-\rho^2} = \frac{1}{2 s^2 \ell^2}

    Symbols: ``order`` is C, the last term kept; ``rho`` says how fast terms fall off (like
    :math:`\rho^c`); ``stretch`` is s, ``centre`` is :math:`x_0`. The kernel depends on
    :math:`s\ell` alone, so for one :math:`\ell` any rho can be had: a larger s has faster
    terms but must reach further out, where low orders vanish.

    Privacy: public settings.
    """

    order: int
    rho: float
    stretch: float = 1.0
    centre: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.order <= HIGHEST_ORDER:
            raise ValueError(f"order must lie from 0 to {HIGHEST_ORDER}, got {self.order}")
        if not 0 < self.rho < 1:
            raise ValueError(f"rho must lie strictly between 0 and 1, got {self.rho}")
        if not (0 < self.stretch < math.inf and math.isfinite(self.centre)):
            raise ValueError("stretch must be finite and above 0, centre finite")

    @property
    def length_scale(self) -> float:
        """The kernel's length scale, as a share of the column's range."""
        return math.sqrt((1 - self.rho**2) / (2 * self.rho)) / self.stretch


def rho_of(length_scale: float) -> float:
    """The rho of a kernel on an unstretched coordinate (DP-HP, footnote 4).

    Privacy: arithmetic on a public number.
    """
    squared = length_scale**2
    return 1.0 / (squared + math.sqrt(squared**2 + 1.0))


def centred(length_scale: float, order: int) -> Expansion:
    r"""The expansion of a kernel that loses least on [0, 1] when it ends at ``order``.

    Around the middle of the range, with the rho whose kept part :math:`\sum_{c \le C} \phi_c^2`
    is largest where it is smallest; to seven digits, so that the choice is the same everywhere.

    Privacy: a rule of public numbers only.
    """
    places = np.linspace(0.0, 0.5, 26)
    best = (-1.0, 0.5)
    for rho in np.arange(0.02, 1.0, 0.02).tolist():
        stretch = at_length_scale(length_scale, order, rho=rho).stretch
        rhos = torch.tensor([rho], dtype=torch.float64)
        features = mehler(torch.tensor(places[:, None] * stretch), rhos, order)
        best = max(best, (round(float(features.square().sum(dim=2).min()), 7), rho))
    return at_length_scale(length_scale, order, rho=best[1])


def at_length_scale(length_scale: float, order: int, *, rho: float) -> Expansion:
    """The expansion of a kernel around the middle of the range, with a rho of one's own.

    Privacy: arithmetic on public numbers.
    """
    stretch = math.sqrt((1 - rho**2) / (2 * rho)) / length_scale
    return Expansion(order=order, rho=rho, stretch=stretch, centre=0.5)


def for_spread(length_scale: float, order: int, *, spread: float) -> Expansion:
    r"""The expansion whose terms fall off fastest on average over N(0, spread^2).

    .. math:: \rho = \frac{b}{a + b + \sqrt{a^2 + 2ab}}, \qquad
              a = \frac{1}{4 \tau^2},\; b = \frac{1}{2 \ell^2}

    Symbols: :math:`\tau` is ``spread``. Reference: Rasmussen and Williams 2006, section 4.3.1.

    Privacy: arithmetic on public numbers.
    """
    a, b = 1.0 / (4.0 * spread**2), 1.0 / (2.0 * length_scale**2)
    rho = b / (a + b + math.sqrt(a**2 + 2.0 * a * b))
    return at_length_scale(length_scale, order, rho=rho)


def mehler(points: Tensor, rho: Tensor, order: int) -> Tensor:
    r"""Hermite features of points (n, d), one rho for each of d coordinates: (n, d, order + 1).

    .. math:: \phi_0 = (1-\rho^2)^{1/4} e^{-\rho t^2 / (1+\rho)}, \qquad
              \phi_{c+1} = \sqrt{\tfrac{2\rho}{c+1}}\, t\, \phi_c
                           - \rho \sqrt{\tfrac{c}{c+1}}\, \phi_{c-1}

    *Norm.* By Mehler's formula with y = x, :math:`\sum_{c=0}^{\infty} \phi_c(t)^2 = e^0 = 1`.
    Every term is a square, so any part of the sum is at most 1: whatever the order, and whichever
    orders are left out, :math:`\|\phi(t)\|_2 \le 1`.

    Always in float64, where :math:`\phi_0` is above 0 for :math:`|t| < 37`: orders up to 200 live
    within :math:`|t| < 21`. No term can overflow, as each is at most 1. Differentiable: the
    derivative is :math:`\phi_c' = \sqrt{2\rho c}\,\phi_{c-1} - \frac{2\rho}{1+\rho} t \phi_c`.

    Reference: DP-HP, Vinaroz, Charusaie, Harder, Adamczewski and Park 2022, eq. 5 and 6, and
    appendix E; the bound is its eq. 94 and 95.

    Privacy: none by itself; a pure map of the rows it is given.
    """
    features: Tensor = _Recursion.apply(  # type: ignore[no-untyped-call]
        points.double(), rho.double(), order
    )
    return features.to(points.dtype)


class _Recursion(torch.autograd.Function):
    """The recursion, and its derivative in closed form: no graph of a hundred steps."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, rho: Tensor, order: int) -> Tensor:
        features = points.new_empty(*points.shape, order + 1)
        first = (1.0 - rho.square()).pow(0.25) * torch.exp(-rho / (1.0 + rho) * points.square())
        features[..., 0] = first
        for c in range(order):
            later = (2.0 * rho / (c + 1)).sqrt() * points * features[..., c]
            if c:
                later -= rho * math.sqrt(c / (c + 1)) * features[..., c - 1]
            features[..., c + 1] = later
        ctx.save_for_backward(points, rho, features)
        return features

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        points, rho, features = ctx.saved_tensors
        (gradient,) = gradients
        order = features.shape[-1] - 1
        orders = torch.arange(1, order + 1, dtype=rho.dtype, device=rho.device)
        rising = (gradient[..., 1:] * orders.sqrt() * features[..., :-1]).sum(dim=-1)
        falling = (gradient * features).sum(dim=-1)
        total = (2.0 * rho).sqrt() * rising - 2.0 * rho / (1.0 + rho) * points * falling
        return total, None, None


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one column becomes features of norm at most 1.

    An interval is expanded; if nullable, "present" multiplies that and null is one feature more. A
    choice is its one-hot itself (``expansion`` None: the kernel is 1 for equal options, else 0),
    or its option's place in the list, from 0 to 1, expanded like a number.

    Privacy: public; follows from schema and settings.
    """

    start: int
    width: int
    expansion: Expansion | None = None
    gate: int | None = None

    @property
    def size(self) -> int:
        """How many features the column has."""
        if self.expansion is None:
            return self.width
        return self.expansion.order + 1 + (self.gate is not None)


def columns_of(
    slots: Sequence[Slot],
    expansion_of: Callable[[str], Expansion],
    *,
    categories: Categories = "indicators",
) -> tuple[Column, ...]:
    """Every column of an encoded row, each pixel of an image by itself.

    ``expansion_of`` gives a column's own order and rho by its name.

    Privacy: public facts only.
    """
    columns: list[Column] = []
    gates = {slot.gate for slot in slots}
    for slot in slots:
        expansion = expansion_of(slot.column)
        if slot.kind == "image":
            pixels = range(slot.start, slot.start + slot.width)
            columns += [Column(start=at, width=1, expansion=expansion) for at in pixels]
        elif slot.kind == "interval":
            column = Column(start=slot.start, width=1, expansion=expansion, gate=slot.gate)
            columns.append(column)
        elif slot.start not in gates:
            expanded = expansion if categories == "codes" else None
            columns.append(Column(start=slot.start, width=slot.width, expansion=expanded))
    return tuple(columns)


class ColumnFeatures(nn.Module):
    """The features of all columns side by side, (B, length); ``slices`` says where each stands.

    Privacy: none by itself; a pure map of the rows it is given.
    """

    rho: Tensor
    stretch: Tensor
    centre: Tensor
    coordinates: Tensor
    places: Tensor

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        self.columns = tuple(columns)
        ends = np.cumsum([column.size for column in columns]).tolist()
        self.slices = [slice(e - c.size, e) for c, e in zip(columns, ends, strict=True)]
        expanded = [c for c in columns if c.expansion is not None]
        self._expansions = [c.expansion for c in expanded if c.expansion is not None]
        self.order = max((own.order for own in self._expansions), default=0)
        self._codes = [(at, c) for at, c in enumerate(expanded) if c.width > 1]
        self._gates = [(at, c.gate) for at, c in enumerate(expanded) if c.gate is not None]
        for name in ("rho", "stretch", "centre"):
            values = [getattr(own, name) for own in self._expansions]
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        self.register_buffer("coordinates", torch.tensor([c.start for c in expanded]).long())
        self.register_buffer("places", torch.tensor(self._places(), dtype=torch.int64))

    @property
    def length(self) -> int:
        """How many numbers a row is mapped to."""
        return len(self.places)

    def forward(self, rows: Tensor) -> Tensor:
        positions = rows.index_select(1, self.coordinates)
        for at, column in self._codes:
            positions[:, at] = _place_in_list(rows, column)
        points = (positions.clamp(0.0, 1.0) - self.centre) * self.stretch
        features = mehler(points, self.rho, self.order).to(rows.dtype)
        if self._gates:
            gates = torch.ones_like(positions)
            for at, gate in self._gates:
                gates[:, at] = rows[:, gate]
            features = features * gates[:, :, None]
        return torch.cat([features.flatten(1), rows], dim=1).index_select(1, self.places)

    def _places(self) -> list[int]:
        """Where each feature lies among all orders of all expansions, followed by the row."""
        each, places, at = self.order + 1, [], 0
        beyond = each * len(self._expansions)
        for column in self.columns:
            if column.expansion is None:
                places += [beyond + column.start + i for i in range(column.width)]
                continue
            places += [at * each + c for c in range(column.expansion.order + 1)]
            if column.gate is not None:
                places.append(beyond + column.gate + 1)
            at += 1
        return places


def _place_in_list(rows: Tensor, column: Column) -> Tensor:
    """Where the option stands in its list, from 0 to 1."""
    steps = torch.arange(column.width, dtype=rows.dtype, device=rows.device)
    options = rows[:, column.start : column.start + column.width]
    return (options * (steps / (column.width - 1))).sum(dim=1)


class SumMap(nn.Module):
    r"""The sum kernel: all columns' features over the root of their number, so of norm at most 1.

    .. math:: h_s(x) = D^{-1/2} [\phi(x_1), \dots, \phi(x_D)], \qquad
              \|h_s\|^2 = \tfrac{1}{D} \sum_d \|\phi(x_d)\|^2 \le 1

    Its mean holds every column's own distribution. Reference: DP-HP, eq. 10.

    Privacy: none by itself; a pure map of the rows it is given.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        self.features = ColumnFeatures(columns)
        self.scale = 1.0 / math.sqrt(max(len(columns), 1))

    @property
    def length(self) -> int:
        """How many numbers a row is mapped to."""
        return self.features.length

    def forward(self, rows: Tensor) -> Tensor:
        features: Tensor = self.features(rows)
        return features * self.scale


class ProductMap(nn.Module):
    r"""Product kernels over some subsets of columns, side by side, of norm at most 1.

    .. math:: h_p(x) = M^{-1/2} [\,\phi(x_{j_1}) \otimes \dots \otimes \phi(x_{j_k})\,]_{
              (j_1, \dots, j_k)}, \qquad
              \|\phi \otimes \phi'\| = \|\phi\|\,\|\phi'\| \le 1

    Symbols: M subsets, drawn before the release. Subsets whose first half is the same lie in
    one matrix, features of that half by features of the others, one after the other. They are
    computed one matrix at a time. Reference: DP-HP, eq. 8.

    Privacy: none by itself; a pure map of the rows it is given, its subsets are public.
    """

    def __init__(self, columns: Sequence[Column], subsets: Sequence[Subset]) -> None:
        super().__init__()
        self.features = ColumnFeatures(columns)
        self.halves = halves_of(subsets)
        self.scale = 1.0 / math.sqrt(max(len(subsets), 1))
        self.length = sum(product_size(columns, subset) for subset in subsets)

    def forward(self, rows: Tensor) -> Tensor:
        features: Tensor = self.features(rows)
        if torch.is_grad_enabled():
            return torch.cat(list(self._parts(features)), dim=1) * self.scale
        products, start = features.new_empty(len(rows), self.length), 0
        for part in self._parts(features):
            products[:, start : start + part.shape[1]] = part
            start += part.shape[1]
        return products.mul_(self.scale)

    def _parts(self, features: Tensor) -> Iterator[Tensor]:
        slices = self.features.slices
        for first, seconds in self.halves.items():
            left = outer([features[:, slices[j]] for j in first])
            rights = [outer([features[:, slices[j]] for j in second]) for second in seconds]
            yield outer([left, torch.cat(rights, dim=1)])


def outer(factors: Sequence[Tensor]) -> Tensor:
    """Row by row the outer product of some factors (B, m), flattened: (B, product of all m).

    Privacy: none by itself; row-wise.
    """
    product = factors[0]
    for factor in factors[1:]:
        product = (product[:, :, None] * factor[:, None, :]).flatten(1)
    return product


def draw_directions(
    n_pairs: int, n_pixels: int, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Normal directions (2 n_pairs, pixels), with a quarter of their share of mean brightness.

    Images differ more in how bright they are than in anything else; left as it is, that one
    direction would take up most of every expansion's reach.

    Privacy: none needed; public randomness alone.
    """
    directions = rng.standard_normal((2 * n_pairs, n_pixels), dtype=np.float32)
    directions -= 0.75 * directions.mean(axis=1, keepdims=True)
    return directions


def product_size(columns: Sequence[Column], subset: Subset) -> int:
    """How many features the product of a subset's columns has. Privacy: public facts only."""
    return math.prod(columns[j].size for j in subset)


class ProjectionMap(nn.Module):
    r"""Product kernels over random directions instead of columns, of norm at most 1.

    .. math:: h(x) = M^{-1/2} [\,\phi(u_m^\top x) \otimes \phi(v_m^\top x)\,]_m, \qquad
              h(x)^\top h(y) \approx \left(1 + \|x - y\|^2 / \ell^2\right)^{-1}
              \text{ for } u, v \sim N(0, I)

    Symbols: ``directions`` (2 M, d) hold u and v in turn; :math:`\ell` is the expansion's length
    scale. The mean over directions of a Gaussian kernel of two projections is that rational
    kernel of all pixels at once: many length scales in one, never flat. A pixel of an image says
    little, and so do two; a direction sees them all.

    Privacy: none by itself; a pure map of the rows it is given, its directions are public.
    """

    directions: Tensor
    rho: Tensor

    def __init__(self, directions: npt.NDArray[np.floating[Any]], expansion: Expansion) -> None:
        super().__init__()
        self.expansion = expansion
        self.register_buffer("directions", torch.as_tensor(directions, dtype=torch.float32))
        self.register_buffer("rho", torch.tensor([expansion.rho], dtype=torch.float64))

    @property
    def n_products(self) -> int:
        """How many pairs of directions there are."""
        return len(self.directions) // 2

    @property
    def length(self) -> int:
        """How many numbers a row is mapped to."""
        return self.n_products * (self.expansion.order + 1) ** 2

    def forward(self, rows: Tensor) -> Tensor:
        centred_rows = rows.to(self.directions.dtype) - self.expansion.centre
        points = centred_rows @ self.directions.T * self.expansion.stretch
        features = mehler(points, self.rho, self.expansion.order)
        pairs = features.reshape(-1, 2, self.expansion.order + 1)
        products = outer(pairs.unbind(dim=1)).reshape(len(rows), -1)
        return products * (1.0 / math.sqrt(self.n_products))
