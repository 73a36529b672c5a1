"""Ways to break the wall from outside. Each must be caught by the T-test it belongs to.

A plant replaces one function of the wall by a wrong one for the length of a with block; the wall
itself has no switch for any of this.
"""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import dp_accounting
import numpy as np
import torch

import dpgist as dg
from dpgist import artefact, gist, workflow
from dpgist.encode import Encoder
from dpgist.features.marked import Marked
from dpgist.privacy import copies, curator, lattice, ledger, noise, rowmap, sensitivity, sgd
from dpgist.privacy.inputs import Inputs
from dpgist.privacy.plan import COUNTS, HEALTH


@dataclass(frozen=True)
class Plant:
    """A sabotage: where, what instead, and which test notices."""

    name: str
    where: object
    attribute: str
    instead: Callable
    caught_by: str

    @contextmanager
    def planted(self) -> Iterator[None]:
        with patch.object(self.where, self.attribute, self.instead):
            yield


_add = noise.add_rounded_gaussian
_to_grid = lattice.to_grid
_class_sums = lattice.class_sums
_distance = sensitivity._squared_distance
_stds = sensitivity.grid_noise_stds
_release_plan = curator.release_plan
_release = dg.release
_encode = Encoder.encode
_look = curator._look


def scaled_noise(factor):
    return lambda values, *, noise_std: _add(values, noise_std=factor * noise_std)


def no_noise(values, *, noise_std):
    return values


def float_noise(values, *, noise_std):
    return values + np.random.default_rng().normal(scale=noise_std, size=np.shape(values))


def coarse_noise(values, *, noise_std):
    return values + 2 * (_add(np.zeros_like(values), noise_std=noise_std / 2))


def counts_in_clear(values, *, noise_std):
    """The counts block is the only one of length 1 per class."""
    return (
        values
        if np.shape(values)[-1] in (1, 3) and noise_std < 1e4
        else _add(values, noise_std=noise_std)
    )


def seeded_noise(values, *, noise_std):
    draws = np.random.normal(scale=noise_std, size=np.shape(values))  # noqa: NPY002
    return values + np.rint(draws).astype(np.int64)


class OneKey(noise.SystemBits):
    """The same key every time."""

    def __init__(self):
        with patch("os.urandom", lambda n: bytes(n)):
            super().__init__()


def no_clip(features, block):
    return torch.nan_to_num(features.double()).mul(2.0**block.bits).trunc()


def no_finite_check(features, block):
    norm = features.double().norm(dim=1, keepdim=True).clamp(min=1.0)
    return (features.double() / norm * 2.0**block.bits).trunc()


def float32_norm_and_rint(features, block):
    single = features.float()
    unit = single / single.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return (unit.double() * 2.0**block.bits).round()


def trusted_sign(features, block):
    """Believes the declaration that a block is never negative."""
    return _to_grid(features, replace(block, non_negative=False))


def trusted_marks(features, block):
    """Believes that a row is in a cell once."""
    return features.places if isinstance(features, Marked) else _to_grid(features, block)


def every_class(grid, codes, n_classes):
    """DP-HP's product kernel: each row enters all classes' columns."""
    return _class_sums(grid, torch.zeros_like(codes), 1).repeat(n_classes, 1)


def one_for_two(block, relation, *, same_label):
    return min(_distance(block, relation, same_label=same_label), block.bound_squared)


def health_forgotten(block, relation, *, same_label):
    return 0 if block.name == HEALTH else _distance(block, relation, same_label=same_label)


def counts_forgotten(block, relation, *, same_label):
    return 0 if block.name == COUNTS else _distance(block, relation, same_label=same_label)


def second_moment_halved(block, relation, *, same_label):
    """DP-MEPF: 'divided by two because it is positive'."""
    distance = _distance(block, relation, same_label=same_label)
    return distance / 4 if block.non_negative and block.name == "second" else distance


def one_row_per_person(blocks, relation, rows_per_person, *, mu_squared_units):
    return _stds(blocks, relation, 1, mu_squared_units=mu_squared_units)


def largest_charge(lines):
    return max([line.body["units"] for line in lines if line.body["kind"] == "charge"], default=0)


def open_ended(units, spent, cap, epsilon, delta):
    return None


def looking_first(private, plan, budget, ledger, *, schema):
    """A curator that reads the rows before it asks the ledger."""
    stage = curator._PreparedStage(plan.stages[0].query(()), plan, 0, budget, schema)
    curator._look(curator.opened(private), stage)
    return _release_plan(private, plan, budget, ledger, schema=schema)


def slot_dependent(self, rows):
    with torch.no_grad():
        features = self._map(rows)
    drift = torch.arange(len(rows), dtype=torch.float64)[:, None] * 2.0**-19
    return [
        _to_grid(part.double() + drift, block)
        for part, block in zip(features, self._blocks, strict=True)
    ]


def classical_noise(epsilon, delta):
    """The textbook formula, which does not hold above epsilon 1."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def float32_sums(grid, codes, n_classes):
    """Sums that depend on the order of rows."""
    membership = torch.nn.functional.one_hot(codes, n_classes).float()
    return (membership.T @ (grid / 3).float() * 3).to(torch.int64)


def row_count_in_the_schema(table, schema, method, budget, **more):
    return _release(table, replace(schema, rows_about=len(table) or None), method, budget, **more)


def complaining(self, cells):
    encoded = _encode(self, cells)
    if encoded.broken.any():
        raise ValueError("a cell breaks the schema")
    return encoded


def talkative(self, cells):
    logging.getLogger("dpgist").debug("cells: %s", {k: v.to_pylist() for k, v in cells.items()})
    return _encode(self, cells)


def counting_aloud(source, stage):
    sums = _look(source, stage)
    print(f"{int(sums[-2].sum())} rows read")  # noqa: T201
    return sums


class ShuffledBatches:
    """What most training loops do: shuffle, then cut batches of one size, epoch after epoch."""

    def __init__(self, rate):
        self.rate, self._left = rate, np.zeros(0, np.int64)

    def draw(self, n_rows):
        size = max(1, round(self.rate * n_rows))
        if len(self._left) < size:
            self._left = np.random.default_rng().permutation(n_rows)
        batch, self._left = self._left[:size], self._left[size:]
        return np.sort(batch)


_take_step = sgd.take_step
_clipped_sum = sgd.clipped_sum


def over_the_realised_batch(prepared, held, batch, rows, follower):
    """Divides by the size of this batch instead of the expected one."""
    size = max(len(batch), 1) / prepared.run.rate
    return _take_step(prepared, held, batch, size, follower)


def clipped_after_the_sum(prepared, held, batch, parameters):
    """Clips the sum of raw gradients instead of every row's."""
    query = prepared.query
    copies = query.space.copies
    real = held.rows[batch].flatten(0, 1).double() / query.space.levels
    labels = held.labels[batch].repeat_interleave(copies)
    raw = query.model.at(parameters, torch.float64)(real, labels).double() / copies
    constant = torch.full((len(real), 1), query.space.real_constant, dtype=torch.float64)
    total = raw.T @ torch.cat([real, constant], dim=1)
    total *= min(1.0, query.clip / max(float(total.norm()), 1e-300))
    scale = query.space.grid_bound(1.0)
    return (total * scale).to(torch.int64).numpy()


_copied = Inputs.__call__
_sizes = copies._sizes


def without_cross_terms(coefficients, products):
    """The norm as if copies were orthogonal."""
    return _sizes(coefficients, torch.diag_embed(products.diagonal(dim1=1, dim2=2)))


def each_copy_clipped_alone(coefficients, products, *, bound, **_):
    """Every copy to the whole bound, instead of all of them together."""
    norms = coefficients.norm(dim=2) * products.diagonal(dim1=1, dim2=2).sqrt()
    return torch.trunc(coefficients * (bound / norms).clamp(max=1.0)[..., None]).nan_to_num()


def without_a_check(coefficients, products, *, bound, spare, most):
    """Trusts the norm in float64 of what may have cancelled."""
    squared, _ = _sizes(coefficients, products)
    scale = ((bound - spare) / squared.clamp(min=0).sqrt()).clamp(max=1.0)
    return torch.trunc(coefficients * scale[:, None, None]).nan_to_num()


def views_by_the_batch(self, rows):
    """Shifts every copy by a number of all rows together."""
    found = _copied(self, rows)
    return np.roll(found, int(rows.sum() * 7), axis=2)


PLANTS = [
    Plant("noise / sqrt 2", curator, "add_rounded_gaussian", scaled_noise(2**-0.5), "T-AUDIT"),
    Plant("noise x 0.9", curator, "add_rounded_gaussian", scaled_noise(0.9), "T-AUDIT"),
    Plant("noise x 0.995", noise, "add_rounded_gaussian", scaled_noise(0.995), "T-NOISE"),
    Plant("counts un-noised", curator, "add_rounded_gaussian", counts_in_clear, "T-AUDIT"),
    Plant("float noise", curator, "add_rounded_gaussian", float_noise, "T-GRID"),
    Plant("noise on even numbers", curator, "add_rounded_gaussian", coarse_noise, "T-GRID"),
    Plant("noise from a seed", curator, "add_rounded_gaussian", seeded_noise, "T-NOSEED"),
    Plant("the same key twice", noise, "SystemBits", OneKey, "T-FRESH"),
    Plant("no clip", rowmap, "to_grid", no_clip, "T-SENS"),
    Plant("no finite check", rowmap, "to_grid", no_finite_check, "T-SENS"),
    Plant("float32 norm and rint", rowmap, "to_grid", float32_norm_and_rint, "T-SENS"),
    Plant("trusted sign", rowmap, "to_grid", trusted_sign, "T-SENS"),
    Plant("trusted marks", rowmap, "to_grid", trusted_marks, "T-SENS"),
    Plant("row in every class", curator, "class_sums", every_class, "T-SENS"),
    Plant("sensitivity 1 for 2", sensitivity, "_squared_distance", one_for_two, "T-SENS"),
    Plant("health forgotten", sensitivity, "_squared_distance", health_forgotten, "T-SENS"),
    Plant("counts forgotten", sensitivity, "_squared_distance", counts_forgotten, "T-AUDIT"),
    Plant("second moment / 2", sensitivity, "_squared_distance", second_moment_halved, "T-SENS"),
    Plant("rows per person", curator, "grid_noise_stds", one_row_per_person, "T-AUDIT"),
    Plant("largest, not sum", ledger, "_spent", largest_charge, "T-LEDGER"),
    Plant("no cap", ledger, "_check_room", open_ended, "T-LEDGER"),
    Plant("looks first", curator, "release_plan", looking_first, "T-LEDGER"),
    Plant("classical noise", dp_accounting, "get_sigma_gaussian", classical_noise, "T-CAL"),
    Plant("float32 sums", curator, "class_sums", float32_sums, "T-ORDER"),
    Plant("one relation for both", sensitivity, "_squared_distance", one_for_two, "T-ADJ"),
    Plant("row count as a setting", dg, "release", row_count_in_the_schema, "T-SCHEMA"),
    Plant("errors from cells", Encoder, "encode", complaining, "T-FUZZ"),
    Plant("cells in the log", Encoder, "encode", talkative, "T-LOG"),
    Plant("rows counted aloud", curator, "_look", counting_aloud, "T-LOG"),
    Plant("charges last", workflow, "release_plan", looking_first, "T-KILL"),
    Plant("forgets other charges", ledger, "_spent", largest_charge, "T-RACE"),
    Plant("no checksum", artefact, "_digest_matches", lambda *_: True, "T-TAMPER"),
    Plant("claims unchecked", gist, "check_claim", lambda _: None, "T-TAMPER"),
    Plant("shuffled batches", sgd, "PoissonSampler", ShuffledBatches, "T-POISSON"),
    Plant("realised batch size", sgd, "take_step", over_the_realised_batch, "T-POISSON"),
    Plant("clip after the sum", sgd, "clipped_sum", clipped_after_the_sum, "T-POISSON"),
    Plant("gradients without noise", sgd, "add_rounded_gaussian", no_noise, "T-POISSON"),
    Plant("gradient noise x 0.7", sgd, "add_rounded_gaussian", scaled_noise(0.7), "T-POISSON"),
    Plant("copies as if orthogonal", copies, "_sizes", without_cross_terms, "T-COPIES"),
    Plant("each copy clipped alone", copies, "clipped", each_copy_clipped_alone, "T-COPIES"),
    Plant("cancelled norms trusted", copies, "clipped", without_a_check, "T-COPIES"),
    Plant("copies clipped after the sum", sgd, "clipped_sum", clipped_after_the_sum, "T-COPIES"),
    Plant("views by the batch", Inputs, "__call__", views_by_the_batch, "T-COPIES"),
    Plant("slots differ", rowmap.PreparedMap, "__call__", slot_dependent, "T-ROWWISE"),
]
