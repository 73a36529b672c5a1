"""What can be said from a gist, a model and synthetic rows: all of it inside the guarantee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from torch import nn

from dpgist.encode import Encoder, Slot
from dpgist.features.characteristic import CharacteristicMap
from dpgist.features.compose import ChoiceMap, SideBySide
from dpgist.features.hermite import SumMap
from dpgist.features.marginal import LeafMap, MarginalMap
from dpgist.features.stretch import Stretch
from dpgist.generators.model import Model
from dpgist.gist import Gist
from dpgist.methods import method_from
from dpgist.methods.hermite import SUM, Hermite
from dpgist.methods.histogram import LEAVES
from dpgist.methods.marginal import Marginal as MarginalMethod
from dpgist.methods.merf import CHOICES
from dpgist.methods.scattering import Scattering
from dpgist.plots import column_edges, column_histogram, column_options, column_shares
from dpgist.schema import BooleanColumn, CategoryColumn, ImageColumn, type_name
from dpgist.training.matching import target_from
from dpgist.training.whitened import n_coordinates

MOST_POINTS = 400
SHOWN_ROWS = 8

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ClassShare:
    """One class of the label: its noisy count, its noisy share, and its share of the rows drawn."""

    name: str
    count: float
    count_std: float
    noisy: float
    noisy_std: float
    synthetic: float | None


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """One column's shares: of the rows drawn and, where the gist holds them, the noisy ones.

    ``names`` are the options of a choice, ``edges`` the bins of an interval and
    ``ends`` its declared bounds. For a choice ``gap``
    is the total variation between the two, and ``chance_gap`` what it would be on average if the
    generator were perfect: the noise, and drawing finitely many rows.
    ``null`` and ``noisy_null`` are the shares of null among an interval's cells.
    """

    column: str
    kind: str
    names: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    ends: tuple[str, str] = ("", "")
    synthetic: tuple[float, ...] | None = None
    noisy: tuple[float, ...] | None = None
    noisy_std: float | None = None
    gap: float | None = None
    chance_gap: float | None = None
    null: float | None = None
    noisy_null: float | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Sizes of the training loss at some steps, and the loss that the noise alone would leave.

    ``last`` is the mean over the last twentieth of the steps. ``floor`` is what the true
    distribution itself would score on average against the noisy target.
    """

    steps: tuple[int, ...]
    losses: tuple[float, ...]
    n_steps: int
    last: float
    floor: float


@dataclass(frozen=True, kw_only=True)
class Inside:
    """Everything a report says without a real row.

    Privacy: post-processing of a release.
    """

    classes: tuple[ClassShare, ...]
    marginals: tuple[Marginal, ...]
    curve: Curve | None
    n_synthetic: int | None
    shown_columns: tuple[str, ...]
    shown_rows: tuple[tuple[str, ...], ...]


def look_inside(gist: Gist, model: Model | None, rows: pa.Table | None) -> Inside:
    """Gather what gist, model and synthetic rows tell; the last two may be missing.

    Privacy: post-processing of a release; touches no private row.
    """
    columns, shown = _first_rows(rows) if rows is not None else ((), ())
    return Inside(
        classes=_classes(gist, rows),
        marginals=_marginals(gist, rows),
        curve=_curve(gist, model) if model is not None and model.losses else None,
        n_synthetic=None if rows is None else rows.num_rows,
        shown_columns=columns,
        shown_rows=shown,
    )


def loss_floor(gist: Gist) -> float:
    r"""What the noise alone adds to the training loss on average, in the loss's own units.

    .. math:: \sum_b \lambda_b \sum_c w_c\, D_b\, \sigma_b^2 / \tilde m_c^2

    Symbols as in :func:`dpgist.training.matching.matching_loss`: :math:`D_b` is the length of
    block b, :math:`\sigma_b` its noise, :math:`\tilde m_c` the noisy count of class c. A noisy mean
    that training pulls back into the unit ball has less noise than that, so its norm caps the term.

    Of marginals, whose loss is in units of the noise, it is the number of coordinates.

    Privacy: post-processing of a release.
    """
    allowed = Encoder(gist.schema).class_allowed
    if gist.method == MarginalMethod.name:
        return float(n_coordinates(gist.released, class_allowed=allowed))
    row_map = _row_map(gist) if gist.method == Hermite.name else None
    factors = row_map.loss_factors if isinstance(row_map, SideBySide) else ()
    in_ball = gist.method != Scattering.name
    target = target_from(
        gist.released, class_allowed=allowed, loss_factors=factors, in_ball=in_ball
    )
    return target.noise


def ranges_are_released(gist: Gist) -> bool:
    """Whether a first stage has found where rows lie between the declared bounds.

    Privacy: post-processing of a release.
    """
    return gist.released.stages[0].blocks[0].block.name == LEAVES


def noisy_choices(gist: Gist) -> dict[str, tuple[Vector, float]]:
    """One-way noisy shares of every choice but the label, and the noise on one share.

    Empty where the method released no block of one-hot sums. Shares are as released: they may
    leave [0, 1] and need not add up to 1.

    Privacy: post-processing of a release.
    """
    encoder = Encoder(gist.schema)
    choices = [slot for slot in encoder.slots if slot.kind == "choice"]
    if ranges_are_released(gist):
        return _leaf_choices(gist, choices)
    if gist.method == Hermite.name:
        return _sum_choices(gist, choices)
    released = [block for block in gist.released.last.blocks if block.block.name == CHOICES]
    if not released or released[0].block.length != sum(slot.width for slot in choices):
        return {}
    block, scale = released[0], float(ChoiceMap(encoder.slots).scale) * gist.rows
    shares = block.sums().sum(axis=0) / scale
    std = block.noise_std * math.sqrt(len(block.values)) / scale
    ends = np.cumsum([slot.width for slot in choices])
    return {
        slot.column: (part, std)
        for slot, part in zip(choices, np.split(shares, ends[:-1]), strict=True)
    }


def _leaf_choices(gist: Gist, slots: Sequence[Slot]) -> dict[str, tuple[Vector, float]]:
    """The same from a first stage that counts every column's options and nulls."""
    row_map = _row_map(gist)
    cut = row_map.stretch if isinstance(row_map, CharacteristicMap) else row_map
    assert isinstance(cut, MarginalMap | Stretch)  # made from such a stage
    block = gist.released.stages[0].blocks[0]
    counts = LeafMap(cut.leaves).by_column(block.sums()[0] / gist.rows)
    found = {}
    for leaves, levels in zip(cut.leaves, counts, strict=True):
        slot = next((slot for slot in slots if slot.column == leaves.column), None)
        if slot is not None and leaves.numeric:
            found[slot.column] = np.array([1.0 - levels[0][-1], levels[0][-1]])
        elif slot is not None:
            found[slot.column] = np.zeros(slot.width)
            found[slot.column][list(leaves.options)] = levels[0]
    return {name: (shares, block.noise_std / gist.rows) for name, shares in found.items()}


def _sum_choices(gist: Gist, slots: Sequence[Slot]) -> dict[str, tuple[Vector, float]]:
    """The same from a sum kernel, where options and nulls are features of their own."""
    sums = _row_map(gist).get_submodule("maps.0")
    assert isinstance(sums, SumMap)  # what this method makes
    block, scale = gist.released.last[SUM], sums.scale * gist.rows
    shares = block.sums().sum(axis=0) / scale
    found: dict[int, Vector] = {}
    for column, place in zip(sums.features.columns, sums.features.slices, strict=True):
        if column.expansion is None:
            found[column.start] = shares[place]
        elif column.gate is not None:
            null = shares[place][-1]
            found[column.gate] = np.array([1.0 - null, null])
    std = block.noise_std * math.sqrt(len(block.values)) / scale
    return {slot.column: (found[slot.start], std) for slot in slots if slot.start in found}


def _row_map(gist: Gist) -> nn.Module:
    method = method_from(gist.method, gist.settings)
    return method.row_map(
        gist.schema, feature_seed=gist.feature_seed, released=gist.released.stages[:-1]
    )


def _classes(gist: Gist, rows: pa.Table | None) -> tuple[ClassShare, ...]:
    """Noisy class counts as the card has them, each with its share of all."""
    label = gist.schema.label
    if label is None:
        return ()
    counts = gist.card_dict()["class_counts"]
    drawn = _drawn_shares(gist, rows[label] if rows is not None else None, len(counts))
    return tuple(
        ClassShare(
            name=entry["class"],
            count=entry["count"],
            count_std=entry["std"],
            noisy=entry["count"] / gist.rows,
            noisy_std=entry["std"] / gist.rows,
            synthetic=None if share is None else float(share),
        )
        for entry, share in zip(counts, drawn, strict=True)
    )


def _drawn_shares(gist: Gist, labels: Any, n_classes: int) -> Sequence[float | None]:
    if labels is None:
        return [None] * n_classes
    column = gist.schema.column(str(gist.schema.label))
    names = Encoder(gist.schema).class_names
    allowed = Encoder(gist.schema).class_allowed
    shares = dict(
        zip(column_options(column), column_shares(labels, column_options(column)), strict=True)
    )
    keys = [
        ("null" if ok else None) if name is None else name
        for name, ok in zip(names, allowed, strict=True)
    ]
    return [0.0 if key is None else float(shares[key]) for key in keys]


def _marginals(gist: Gist, rows: pa.Table | None) -> tuple[Marginal, ...]:
    noisy = noisy_choices(gist)
    return tuple(
        _choice(column, noisy.get(column.name), rows)
        if isinstance(column, CategoryColumn | BooleanColumn)
        else _interval(column, noisy.get(column.name), rows)
        for column in gist.schema.columns
        if not isinstance(column, ImageColumn) and column.name != gist.schema.label
    )


def _choice(column: Any, noisy: tuple[Vector, float] | None, rows: pa.Table | None) -> Marginal:
    names = tuple(column_options(column))
    drawn = None if rows is None else column_shares(rows[column.name], list(names))
    shares, std = (None, None) if noisy is None else (_in_order(column, noisy[0]), noisy[1])
    gap, chance = None, None
    if drawn is not None and shares is not None and std is not None and rows is not None:
        gap = 0.5 * float(np.abs(drawn - shares).sum())
        spread = np.sqrt(std**2 + drawn * (1 - drawn) / max(rows.num_rows, 1))
        chance = 0.5 * math.sqrt(2 / math.pi) * float(spread.sum())
    return Marginal(
        column=column.name,
        kind=type_name(column),
        names=names,
        synthetic=None if drawn is None else tuple(map(float, drawn)),
        noisy=None if shares is None else tuple(map(float, shares)),
        noisy_std=std,
        gap=gap,
        chance_gap=chance,
    )


def _in_order(column: Any, shares: Vector) -> Vector:
    """The encoder lists values, null, other; people see values, other, null.

    A bucket that no row may come from is dropped.
    """
    n_values = 2 if isinstance(column, BooleanColumn) else len(column.values)
    null = shares[n_values : n_values + 1] if column.nullable else shares[:0]
    other = shares[-1:] if getattr(column, "other", None) is not None else shares[:0]
    return np.concatenate([shares[:n_values], other, null])


def _interval(column: Any, noisy: tuple[Vector, float] | None, rows: pa.Table | None) -> Marginal:
    edges = column_edges(column)
    cells = None if rows is None else rows[column.name]
    drawn = None if cells is None else column_histogram(cells, column, edges)
    return Marginal(
        column=column.name,
        kind=type_name(column),
        edges=tuple(map(float, edges)),
        ends=(str(column.min), str(column.max)),
        synthetic=None if drawn is None else tuple(map(float, drawn)),
        null=None if cells is None else cells.null_count / max(len(cells), 1),
        noisy_null=None if noisy is None else float(noisy[0][1]),
        noisy_std=None if noisy is None else noisy[1],
    )


def _curve(gist: Gist, model: Model) -> Curve:
    """An unbiased loss may dip below zero, so sizes are kept; long curves are thinned."""
    sizes = np.abs(np.asarray(model.losses, np.float64))
    n = len(sizes)
    places = np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int))
    tail = np.asarray(model.losses, np.float64)[-max(n // 20, 1) :]
    return Curve(
        steps=tuple(int(place) + 1 for place in places),
        losses=tuple(float(sizes[place]) for place in places),
        n_steps=n,
        last=abs(float(tail.mean())),
        floor=loss_floor(gist),
    )


def _first_rows(rows: pa.Table) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    kept = [
        name for name in rows.column_names if not pa.types.is_fixed_size_binary(rows[name].type)
    ]
    head = rows.select(kept).slice(0, SHOWN_ROWS)
    texts = [pc.fill_null(pc.cast(head[name], pa.string()), "").to_pylist() for name in kept]
    return tuple(kept), tuple(zip(*texts, strict=True)) if kept else ()
