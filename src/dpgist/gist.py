"""The gist: what a release published, with everything public that is needed to use it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from dpgist.artefact import read_artefact, smallest_integers, write_artefact
from dpgist.card import card_dict, card_text
from dpgist.encode import Encoder
from dpgist.errors import ArtefactError, DpgistError, PrivacyError
from dpgist.privacy.lattice import check_block
from dpgist.privacy.ledger import LedgerStamp
from dpgist.privacy.noise import LARGEST_STD
from dpgist.privacy.plan import COUNTS, HEALTH, Block, Budget
from dpgist.privacy.released import Released, ReleasedBlock, ReleasedStage
from dpgist.privacy.sensitivity import check_claim
from dpgist.schema import Schema

REHEARSAL_LEDGER = "rehearsal"
"""The ledger id of a rehearsal, which no ledger has: theirs are random hexadecimal digits."""


@dataclass(frozen=True, kw_only=True)
class NoiseError:
    r"""How far the noise is expected to move the matching loss.

    ``expected`` is :math:`E\|n\|^2 = \sum_b C_b D_b \tau_b^2`, with :math:`\tau_b` the noise std on
    the mean: exactly what the noise adds to the squared distance on average (the first term of
    DP-MEPF, Prop. 4.1). ``bound`` is the noise part of DP-MERF, Prop. 3.1, a bound on the expected
    absolute error, with block bounds in place of norm 1. ``feature_term`` is its other part, what
    finitely many Fourier features cost against the kernel itself, noise or not.

    Privacy: a function of released values.
    """

    expected: float
    bound: float
    feature_term: float


@dataclass(frozen=True, kw_only=True)
class Gist:
    """A release and its public circumstances: enough to train, sample and check the claim.

    Privacy: already released; whatever is done with it costs nothing more.
    """

    released: Released
    schema: Schema
    method: str
    settings: dict[str, Any]
    feature_seed: int
    table_kind: str
    ledger: LedgerStamp
    version: str
    rehearsal: bool = False

    def __post_init__(self) -> None:
        check_stamp(rehearsal=self.rehearsal, ledger_id=self.ledger.ledger_id)

    @property
    def rows(self) -> float:
        """The public row count, or the noisy one, at least 1: what sums are divided by."""
        if self.released.n_rows is not None:
            return float(max(self.released.n_rows, 1))
        return float(max(self.released.last[COUNTS].sums().sum(), 1.0))

    def noise_error(self) -> NoiseError:
        """What the noise is expected to add to the matching loss, and the papers' bounds."""
        return noise_error(self.released, self.rows)

    def card_dict(self) -> dict[str, Any]:
        """The card as JSON-able data."""
        return card_dict(self)

    def card(self) -> str:
        """The card for people."""
        return card_text(self.card_dict())

    def header(self) -> dict[str, Any]:
        """Everything but the numbers themselves, JSON-able; models carry it along."""
        return {
            "schema": self.schema.to_dict(),
            "method": self.method,
            "settings": self.settings,
            "feature_seed": self.feature_seed,
            "table_kind": self.table_kind,
            "ledger": asdict(self.ledger),
            "version": self.version,
            "rehearsal": self.rehearsal,
            "released": _released_header(self.released),
            "card": self.card_dict(),
        }

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write one safetensors file; an existing file stays unless ``force``."""
        write_artefact(path, "gist", self.header(), _tensors(self.released), force=force)


def read_gist(path: str | os.PathLike[str]) -> Gist:
    """Read a gist, or raise :class:`ArtefactError` if anything about the file is wrong.

    Privacy: reads an artefact, which is already released.
    """
    payload, tensors = read_artefact(path, "gist")
    try:
        return _gist(payload, tensors)
    except DpgistError as error:
        raise ArtefactError(f"{path}: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ArtefactError(f"{path}: not a gist of this format ({error})") from error


def check_stamp(*, rehearsal: bool, ledger_id: str) -> None:
    """Refuse a gist, or a model's copy of its header, that is both a rehearsal and charged.

    Privacy: keeps a rehearsal from passing for a private release.
    """
    if rehearsal is not (ledger_id == REHEARSAL_LEDGER):
        raise PrivacyError(
            "a gist is either private and charged to a ledger, or a rehearsal and charged to none; "
            "this one contradicts itself"
        )


def noise_error(released: Released, rows: float) -> NoiseError:
    """See :class:`NoiseError`; ``rows`` is public or noisy.

    Privacy: a function of released values.
    """
    blocks = [b for b in released.last.blocks if b.block.name not in (COUNTS, HEALTH)]
    sizes = np.array([b.values.size for b in blocks], dtype=np.float64)
    stds = np.array([b.noise_std / rows for b in blocks])
    bounds = np.array([b.block.bound_squared for b in blocks], dtype=np.float64)
    random = [b.block.length for b in blocks if not b.block.non_negative]
    return expected_noise_error(sizes, stds, bounds, random_lengths=random)


def expected_noise_error(
    sizes: npt.NDArray[np.float64],
    stds: npt.NDArray[np.float64],
    bounds_squared: npt.NDArray[np.float64],
    *,
    random_lengths: list[int],
) -> NoiseError:
    r"""The formulas of :class:`NoiseError` for blocks of given sizes and noise on the mean.

    .. math:: E\big|\|a+n\|^2-\|a\|^2\big| \le E\|n\|^2 + 2\|a\|\,E\|n\|,\qquad
        \|a\| \le 2\sqrt{\textstyle\sum_b B_b^2},\qquad
        E\|n_b\| = \sqrt2\,\tau_b\,\Gamma(\tfrac{D_b+1}2)/\Gamma(\tfrac{D_b}2)

    ``random_lengths`` are those of the random-feature blocks (signed); each costs its own term,
    while one-hot blocks (non-negative) stand for their kernel exactly.

    Reference: DP-MERF, Prop. 3.1 and its proof in supplement B (there one block, B = 1).

    Privacy: arithmetic on public quantities.
    """
    expected = float(np.sum(sizes * stds**2))
    norms = np.sqrt(2.0) * stds * np.exp(gammaln((sizes + 1) / 2) - gammaln(sizes / 2))
    mean_norm = min(float(norms.sum()), expected**0.5)  # triangle inequality, or Jensen
    reach = 2.0 * float(bounds_squared.sum()) ** 0.5
    return NoiseError(
        expected=expected,
        bound=expected + 2.0 * reach * mean_norm,
        feature_term=sum(8.0 * (2.0 * np.pi / length) ** 0.5 for length in random_lengths),
    )


def _released_header(released: Released) -> dict[str, Any]:
    return {
        "budget": {**asdict(released.budget), "relation": released.budget.relation.value},
        "max_rows_per_person": released.max_rows_per_person,
        "sensitivity": released.sensitivity,
        "mu_squared_units": released.mu_squared_units,
        "n_rows": released.n_rows,
        "stages": [
            {
                "mu_squared_units": stage.mu_squared_units,
                "blocks": [
                    {"block": asdict(b.block), "grid_noise_std": b.grid_noise_std}
                    for b in stage.blocks
                ],
            }
            for stage in released.stages
        ],
    }


def _tensors(released: Released) -> dict[str, npt.NDArray[Any]]:
    return {
        _tensor_name(index, block.block.name): smallest_integers(block.values)
        for index, stage in enumerate(released.stages)
        for block in stage.blocks
    }


def _tensor_name(stage: int, block: str) -> str:
    return f"stage{stage}.{block}"


def gist_without_numbers(header: Mapping[str, Any]) -> Gist:
    """The gist that a header describes, with zeros for the numbers that were released.

    Privacy: checks what a file claims; nothing private is in reach.
    """
    n_classes = Encoder(Schema.from_dict(header["schema"])).n_classes
    zeros = {}
    for index, stage in enumerate(header["released"]["stages"]):
        for entry in stage["blocks"]:
            block = entry["block"]
            shape = (n_classes if block["labelled"] else 1, block["length"])
            zeros[_tensor_name(index, block["name"])] = np.broadcast_to(np.int64(0), shape)
    return _gist(header, zeros)


def _gist(payload: Mapping[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> Gist:
    schema = Schema.from_dict(payload["schema"])
    gist = Gist(
        released=_released(payload["released"], tensors, Encoder(schema)),
        schema=schema,
        method=str(payload["method"]),
        settings=dict(payload["settings"]),
        feature_seed=int(payload["feature_seed"]),
        table_kind=str(payload["table_kind"]),
        ledger=LedgerStamp(**payload["ledger"]),
        version=str(payload["version"]),
        rehearsal=bool(payload["rehearsal"]),
    )
    if tensors:
        raise ValueError(f"undeclared tensor {min(tensors)!r:.40}")
    return gist


def _released(
    header: Mapping[str, Any], tensors: dict[str, npt.NDArray[Any]], encoder: Encoder
) -> Released:
    stages = tuple(
        _stage(index, stage, tensors, encoder) for index, stage in enumerate(header["stages"])
    )
    n_rows = header["n_rows"]
    released = Released(
        stages=stages,
        budget=Budget(**header["budget"]),
        max_rows_per_person=int(header["max_rows_per_person"]),
        sensitivity=float(header["sensitivity"]),
        mu_squared_units=int(header["mu_squared_units"]),
        n_rows=None if n_rows is None else int(n_rows),
    )
    if not any(block.block.name == HEALTH for block in released.last.blocks):
        raise ValueError("a release without its health counts")
    check_claim(released)
    return released


def _stage(
    index: int,
    header: Mapping[str, Any],
    tensors: dict[str, npt.NDArray[Any]],
    encoder: Encoder,
) -> ReleasedStage:
    own, blocks = {COUNTS: 1, HEALTH: len(encoder.columns)}, []
    for entry in header["blocks"]:
        block = _block(entry["block"])
        if block.length != own.get(block.name, block.length):
            raise ValueError(f"the {block.name} are not those of the schema")
        values, std = tensors.pop(_tensor_name(index, block.name)), float(entry["grid_noise_std"])
        if not 0 < std <= LARGEST_STD:
            raise ValueError(f"block {block.name!r:.40} has noise that the sampler cannot draw")
        shape = (encoder.n_classes if block.labelled else 1, block.length)
        if values.dtype.kind != "i" or values.shape != shape:
            raise ValueError(f"block {block.name!r:.40} must hold integers of shape {shape}")
        integers = values.astype(np.int64, copy=False)
        blocks.append(ReleasedBlock(block=block, values=integers, grid_noise_std=std))
    if not any(block.block.name == COUNTS for block in blocks):
        raise ValueError("a stage without its counts")
    return ReleasedStage(blocks=tuple(blocks), mu_squared_units=int(header["mu_squared_units"]))


def _block(header: Mapping[str, Any]) -> Block:
    block = Block(**header)
    for field in fields(Block):
        if not isinstance(header[field.name], _FIELD_TYPES[str(field.type)]):
            raise TypeError(f"block field {field.name!r} has the wrong type")
    check_block(block)  # before anything is computed with its numbers
    return block


_FIELD_TYPES: dict[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool}
