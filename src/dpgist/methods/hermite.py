"""DP-HP: mean embeddings with Hermite features of columns and of subsets of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpgist.encode import Encoder
from dpgist.errors import DataError
from dpgist.features.compose import SideBySide
from dpgist.features.hermite import (
    Column,
    Expansion,
    ProductMap,
    ProjectionMap,
    SumMap,
    at_length_scale,
    centred,
    columns_of,
    draw_directions,
    for_spread,
    product_size,
    rho_of,
)
from dpgist.features.subsets import draw_subsets
from dpgist.methods.stages import recipe_of
from dpgist.privacy.lattice import grid_bits
from dpgist.privacy.plan import Block, Budget, Plan, Query, Stage
from dpgist.privacy.released import ReleasedStage
from dpgist.schema import Schema

SUM, PRODUCT = "sum", "product"
_ORDERS = (24, 20, 16, 12, 10, 8, 6, 5, 4, 3, 2, 1)
_ALL_FEATURES = 800_000  # a block of 128 rows of so many numbers is 0.8 GB
_IMAGES: Mapping[str, Any] = {
    "sum_order": 4,
    "sum_scale": 0.3,
    "sum_weight": 1.0,
    "product_order": 5,
    "product_scale": 0.6,
}
_centred = lru_cache(maxsize=256)(centred)


@dataclass(frozen=True, kw_only=True)
class Hermite:
    r"""Release the mean embedding of each class under a sum kernel and product kernels.

    .. math:: k(x, y) = \tfrac{1}{D} \sum_d e^{-(x_d - y_d)^2 / 2\ell_s^2}
              + \tfrac{1}{M} \sum_m \prod_{d \in J_m} e^{-(x_d - y_d)^2 / 2\ell_p^2}

    Two blocks in one joint Gaussian, with the class counts. ``sum``: Hermite features of each
    column, which hold its own distribution. ``product``: their products over M subsets of columns,
    all drawn before the release and released together: what re-drawing them in every epoch would
    learn, without a second look at the rows. A row enters its own class's sums only.

    Symbols: ``*_order`` is the last order kept and ``*_scale`` the length scale :math:`\ell`, as a
    share of a column's range; left out, they are chosen by the number of columns
    (:meth:`settled`), as is ``sum_weight``. ``orders`` and ``rhos`` set order and rho of single
    columns by name. ``subset_size`` columns make a product, of which there are all or about
    ``subsets``; the order left out is the highest whose products have about ``most_features``
    features together. ``sum_weight`` and ``product_weight`` share the noise, ``gamma`` multiplies
    the product's part of the loss, which is free to change after the release. ``categories`` are
    compared as equal or not ("indicators"), or by their places in the list ("codes").
    ``expansion`` is "centred", stretched so that the order reaches furthest, or "plain" as in the
    paper.

    Images have a sum over pixels, and products over ``directions`` pairs of random directions in
    place of columns (:class:`~dpgist.features.hermite.ProjectionMap`), their scale a multiple of
    :math:`\sqrt{d/6}` for d pixels; with ``directions=0`` over subsets of pixels, as in the paper.

    Reference: DP-HP, Vinaroz, Charusaie, Harder, Adamczewski and Park 2022, section 3. The paper's
    own settings are :data:`PRESETS`.

    Privacy: settings are public; the curator bounds every block and pays for the release.
    """

    name: ClassVar[str] = "hermite"

    sum_order: int | None = None
    sum_scale: float | None = None
    product_order: int | None = None
    product_scale: float | None = None
    subset_size: int = 2
    subsets: int = 300
    directions: int = 500
    most_features: int = 24_000
    sum_weight: float | None = None
    product_weight: float = 1.0
    gamma: float = 1.0
    categories: str = "indicators"
    expansion: str = "centred"
    orders: Mapping[str, int] = field(default_factory=dict)
    rhos: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min(self.subset_size - 1, self.subsets, self.directions + 1, self.most_features) < 1:
            raise ValueError("subset_size must be at least 2, subsets and most_features 1")
        for scale in (self.sum_scale, self.product_scale):
            if scale is not None and not 0 < scale < math.inf:
                raise ValueError(f"length scales must be finite and above 0, got {scale}")
        for weight in (self.sum_weight, self.product_weight, self.gamma):
            if weight is not None and not 0 < weight < math.inf:
                raise ValueError("weights and gamma must be finite and above 0")
        if self.categories not in ("indicators", "codes"):
            raise ValueError(f"categories must be indicators or codes, got {self.categories!r}")
        if self.expansion not in ("centred", "plain"):
            raise ValueError(f"expansion must be centred or plain, got {self.expansion!r}")
        orders = (self.sum_order, self.product_order, *self.orders.values())
        for order in (order for order in orders if order is not None):
            Expansion(order=order, rho=0.5)
        for rho in self.rhos.values():
            Expansion(order=0, rho=rho)

    def settled(self, schema: Schema, budget: Budget) -> Hermite:
        """The same with every order, scale and weight chosen; the budget has no say in it."""
        del budget
        _refuse_unknown(schema, (*self.orders, *self.rhos))
        usual = _IMAGES if schema.image is not None else self._usual(Encoder(schema))
        missing = {name: value for name, value in usual.items() if getattr(self, name) is None}
        return replace(self, **missing)

    def _usual(self, encoder: Encoder) -> Mapping[str, Any]:
        """What is chosen for a table by its number of columns.

        A product tells its columns' own distributions too, but the more products share the noise
        the less, so that the sum gets more weight.
        """
        n_columns = len(self._columns(encoder, 0, 1.0))
        if not n_columns:
            raise DataError(f"schema {encoder.schema.name!r} has no column beside its label")
        size = min(self.subset_size, n_columns)
        n_subsets = min(self.subsets, math.comb(n_columns, size))
        order = self.product_order
        if order is None:
            order = self._affordable_order(encoder, n_subsets, size)
        return {
            "sum_order": 100,
            "sum_scale": 0.01,
            "sum_weight": 0.3 * n_subsets ** (1 / 3),
            "product_order": order,
            "product_scale": _product_scale(order),
        }

    def plan(self, schema: Schema, *, budget: Budget, feature_seed: int) -> Plan:
        """Both blocks in one joint release."""
        query = self.settled(schema, budget)._query(Encoder(schema), feature_seed)
        return Plan(stages=(Stage(share=Fraction(1), query=lambda released: query),))

    def row_map(
        self, schema: Schema, *, feature_seed: int, released: tuple[ReleasedStage, ...] = ()
    ) -> SideBySide:
        """The map of the only stage; orders and scales must be settled."""
        del released
        if self.sum_order is None or self.product_order is None:
            raise ValueError("the orders are not settled; call settled(schema, budget) first")
        encoder = Encoder(schema)
        rng = np.random.Generator(np.random.Philox(feature_seed))
        sums = SumMap(self._columns(encoder, self.sum_order, self.sum_scale or 1.0))
        product = self._product_map(encoder, rng)
        maps = [sums] if product is None else [sums, product]
        return SideBySide(maps, (1.0, self.gamma)[: len(maps)], ends_at_noise=True)

    def _product_map(
        self, encoder: Encoder, rng: np.random.Generator
    ) -> ProductMap | ProjectionMap | None:
        order, scale = self.product_order or 0, self.product_scale or 1.0
        if encoder.schema.image is not None and self.directions:
            # An image of independent uniform pixels is sqrt(d / 12) from mid-grey.
            unit = math.sqrt(encoder.width / 6.0)
            expansion = for_spread(scale * unit, order, spread=unit / math.sqrt(2.0))
            return ProjectionMap(draw_directions(self.directions, encoder.width, rng), expansion)
        columns = self._columns(encoder, order, scale)
        subsets = draw_subsets(len(columns), self.subset_size, most=self.subsets, rng=rng)
        features = sum(product_size(columns, subset) for subset in subsets)
        if features > _ALL_FEATURES:
            raise ValueError(
                f"these products have {features:,} features, more than {_ALL_FEATURES:,}; take "
                "fewer subsets, smaller ones or a lower product_order"
            )
        return ProductMap(columns, subsets) if subsets else None

    def _columns(self, encoder: Encoder, order: int, scale: float) -> tuple[Column, ...]:
        def own(name: str) -> Expansion:
            highest = self.orders.get(name, order)
            if name in self.rhos:
                return at_length_scale(scale, highest, rho=self.rhos[name])
            if self.expansion == "plain":
                return Expansion(order=highest, rho=rho_of(scale))
            return _centred(scale, highest)

        codes = self.categories == "codes"
        return columns_of(encoder.slots, own, categories="codes" if codes else "indicators")

    def _affordable_order(self, encoder: Encoder, n_subsets: int, size: int) -> int:
        """The highest order whose products have about ``most_features`` features together."""
        for order in _ORDERS:
            sizes = [column.size for column in self._columns(encoder, order, 1.0)]
            if n_subsets * float(np.mean(sizes)) ** size <= self.most_features:
                return order
        return _ORDERS[-1]

    def _query(self, encoder: Encoder, feature_seed: int) -> Query:
        schema = encoder.schema
        row_map = self.row_map(schema, feature_seed=feature_seed)
        named = ((SUM, self.sum_weight or 1.0), (PRODUCT, self.product_weight))
        blocks = tuple(
            _block(name, feature_map, weight=weight, schema=schema)
            for (name, weight), feature_map in zip(named, row_map.maps, strict=False)
        )
        return Query(
            encoder=encoder,
            row_map=row_map,
            blocks=blocks,
            batched=True,
            recipe=recipe_of(self, schema, feature_seed),
        )


def _block(name: str, feature_map: Any, *, weight: float, schema: Schema) -> Block:
    return Block(
        name=name,
        length=feature_map.length,
        weight=weight,
        bits=grid_bits(schema.rows_about, feature_map.length),
        labelled=schema.label is not None,
    )


def _product_scale(order: int) -> float:
    """About the narrowest kernel that an order carries over a whole range."""
    return max(0.05, 0.8 / (order + 1))


def _refuse_unknown(schema: Schema, names: tuple[str, ...]) -> None:
    unknown = sorted(set(names) - {column.name for column in schema.columns})
    if unknown:
        raise DataError(f"schema {schema.name!r} has no column {', '.join(map(repr, unknown))}")


def _paper(
    orders: tuple[int, int], size: int, subsets: int, gamma: float, *, scale: float = 0.3
) -> Hermite:
    """Orders of sum and product, columns of a product, subsets, and gamma, as published."""
    return Hermite(
        sum_order=orders[0],
        product_order=orders[1],
        sum_scale=scale,
        product_scale=scale,
        subset_size=size,
        subsets=subsets,
        directions=0,
        gamma=gamma,
        sum_weight=1.0,
        categories="codes",
        expansion="plain",
    )


PRESETS: Mapping[str, Hermite] = {
    "adult": _paper((100, 5), 5, 20, 0.1),
    "census": _paper((100, 5), 5, 50, 0.1),
    "cervical": _paper((20, 13), 5, 1, 1.0),
    "credit": _paper((20, 7), 5, 18, 1.0),
    "epileptic": _paper((20, 5), 7, 2, 0.1),
    "isolet": _paper((150, 13), 5, 1, 1.0),
    "covertype": _paper((10, 7), 2, 200, 1.0),
    "intrusion": _paper((7, 5), 5, 77, 1.0),
    "adult-discrete-0.3": _paper((100, 10), 5, 3, 1.0),
    "adult-discrete-0.1": _paper((100, 5), 7, 2, 1.0),
    "census-discrete": _paper((100, 5), 7, 2, 0.1),
    "mnist": _paper((100, 20), 2, 10, 1 / 20, scale=math.sqrt(0.005)),
    "fashion_mnist": _paper((100, 20), 2, 10, 1 / 10, scale=math.sqrt(0.15)),
    "grid": replace(_paper((25, 25), 2, 1, 1.0), product_scale=0.12, sum_scale=0.53),
}
"""The paper's settings (Tables 4 and 6, section 6.1 and the authors' scripts), by data set.

As many subsets as the authors re-draw over all epochs, or as fit into 600,000 features (more if
columns are nullable). Length scales, which the authors take from private rows, are the typical
distance of two uniform numbers; for images the hand-picked ones. The image script puts its gamma on
the sum, so here is the inverse. The grid's are the script's variances 0.5 and 10 over its range.
"""
