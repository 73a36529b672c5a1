"""A trained generator, with everything needed to sample from it and to know where it came from."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from dpgist.arguments import whole_number
from dpgist.artefact import read_artefact, write_artefact
from dpgist.encode import Encoder
from dpgist.errors import ArtefactError, DpgistError
from dpgist.generators.binned import BinnedMixture, binned_from
from dpgist.generators.build import Generator, build_generator
from dpgist.generators.conditions import (
    kept_within,
    label_code,
    parts_of,
    ranges_of,
    refuse_unknown,
)
from dpgist.generators.drawing import quotas
from dpgist.generators.mixture import MixtureGenerator
from dpgist.generators.origin import checked_header
from dpgist.pixels import image_arrays
from dpgist.schema import Schema

_CHUNK_ROWS = 100_000
_CHUNK_CELLS = 2**25
_KINDS = ("pandas", "polars", "pyarrow", "arrays")
_ARRAYS = ("arrays", "npz", "idx", "folder")
_NO_MODEL = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    RuntimeError,
    ArithmeticError,  # of a noise that is zero or infinite
)


class _Draw(Protocol):
    """From class codes to encoded rows."""

    def __call__(
        self, classes: npt.NDArray[np.int64], *, rng: np.random.Generator
    ) -> npt.NDArray[np.float64]: ...


@dataclass(frozen=True, kw_only=True)
class Model:
    """A generator trained from a gist; sampling costs no privacy.

    ``gist_header`` is the gist's public header, card included. ``class_codes`` are the classes it
    emits and ``class_weights`` their noisy shares.

    Privacy: post-processing of a release.
    """

    generator: Generator
    gist_header: dict[str, Any]
    class_codes: tuple[int, ...]
    class_weights: tuple[float, ...]
    training: dict[str, Any]
    losses: tuple[float, ...]

    @property
    def schema(self) -> Schema:
        """The schema of the rows. Privacy: public facts only."""
        return Schema.from_dict(self.gist_header["schema"])

    def sample(
        self,
        n: int,
        *,
        seed: int,
        where: Mapping[str, Any] | None = None,
        balanced: bool = False,
        kind: str | None = None,
    ) -> Any:
        """Draw ``n`` synthetic rows, as the kind of table that was released.

        Args:
            n: how many rows.
            seed: same seed, same rows.
            where: columns and the value that every row shall have; a number or date may be asked
                for by a range, ``"30..40"`` or ``(30, 40)``, both ends included, and null by None.
                Rows come as the mixture has them under all these conditions; a network knows the
                label only.
            balanced: equally many rows of each class, instead of the noisy shares.
            kind: "pandas", "polars" or "pyarrow", or "arrays" for images, a dict of ``x`` and
                ``y``; None takes the kind that was released, and for files pandas where it is
                installed, or arrays if they hold images.

        Privacy: post-processing of a release; costs nothing.
        """
        if kind is not None and kind not in _KINDS:
            raise ValueError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
        chosen = kind or str(self.gist_header["table_kind"])
        table = pa.concat_tables(self.chunks(n, seed=seed, where=where, balanced=balanced))
        if chosen in _ARRAYS:
            return image_arrays(table, self.schema)
        return _as_kind(table, chosen)

    def chunks(
        self,
        n: int,
        *,
        seed: int,
        where: Mapping[str, Any] | None = None,
        balanced: bool = False,
    ) -> Iterator[pa.Table]:
        """Draw ``n`` rows piece by piece, so that memory does not grow with ``n``.

        Every class comes up its expected number of times, give or take one.

        Privacy: post-processing of a release; costs nothing.
        """
        n = whole_number(n, "the number of rows", at_least=0)
        seed = whole_number(seed, "seed", at_least=0)
        encoder = Encoder(self.schema)
        asked = dict(where or {})
        weights, draw = self._asked(encoder, dict(asked), balanced=balanced)
        ranges = ranges_of(encoder.schema, asked)
        rng = np.random.Generator(np.random.Philox(seed))
        step = min(_CHUNK_ROWS, max(_CHUNK_CELLS // max(encoder.width, 1), 1))
        for start in range(0, max(n, 1), step):
            codes = quotas(weights, min(step, n - start), rng=rng)
            yield kept_within(encoder.decode(draw(codes, rng=rng), codes), ranges)

    def _asked(
        self, encoder: Encoder, where: dict[str, Any], *, balanced: bool
    ) -> tuple[npt.NDArray[np.float64], _Draw]:
        """The share of each class code among the rows asked for, and what draws them."""
        label = encoder.schema.label
        refuse_unknown(encoder.schema, where)
        weights = np.zeros(encoder.n_classes)
        if label is not None and label in where:
            weights[label_code(encoder, where.pop(label))] = 1.0
        else:
            weights[list(self.class_codes)] = self.class_weights
        if not where:
            return self._shares(weights, balanced=balanced), self.generator.sample
        if not isinstance(self.generator, MixtureGenerator | BinnedMixture):
            allowed = f"the label {label!r} only" if label else "no column, as there is no label"
            raise ValueError(
                f"a network can be asked for rows by {allowed}; train with generator mixture"
            )
        products = self.generator.products()
        supports = {support.column: support for support in products.supports}
        parts = parts_of(encoder.schema, supports, where)
        products, in_class = products.given(parts)
        weights *= in_class
        if not weights.sum() > 0:
            raise ValueError("the model gives no probability to such rows; ask for fewer columns")
        shares = self._shares(weights, balanced=balanced)
        return shares, functools.partial(products.draw, parts=parts)

    def _shares(
        self, weights: npt.NDArray[np.float64], *, balanced: bool
    ) -> npt.NDArray[np.float64]:
        if balanced and self.schema.label is None:
            raise ValueError("without a label there are no classes to balance")
        kept = (weights > 0).astype(np.float64) if balanced else weights
        return np.asarray(kept / kept.sum())

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write one safetensors file; an existing file stays unless ``force``.

        Privacy: post-processing of a release.
        """
        payload = {
            "gist": self.gist_header,
            "generator": {"kind": self.generator.kind, "sizes": self.generator.sizes},
            "class_codes": list(self.class_codes),
            "class_weights": list(self.class_weights),
            "training": self.training,
            "losses": list(self.losses),
        }
        weights = self.generator.state_dict()
        tensors = {name: tensor.cpu().numpy() for name, tensor in weights.items()}
        write_artefact(path, "model", payload, tensors, force=force)


def read_model(path: str | os.PathLike[str]) -> Model:
    """Read a model, or raise :class:`ArtefactError` if anything about the file is wrong.

    Privacy: reads an artefact, which is post-processing of a release.
    """
    payload, tensors = read_artefact(path, "model")
    try:
        return _model(payload, tensors)
    except DpgistError as error:
        raise ArtefactError(f"{path}: {error}") from error
    except _NO_MODEL as error:
        raise ArtefactError(f"{path}: not a model of this format") from error


def _model(payload: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> Model:
    encoder = Encoder(Schema.from_dict(payload["gist"]["schema"]))
    model = Model(
        generator=_generator(encoder, payload.get("generator"), tensors),
        gist_header=checked_header(payload["gist"]),
        class_codes=tuple(int(code) for code in payload["class_codes"]),
        class_weights=tuple(float(weight) for weight in payload["class_weights"]),
        training=dict(payload["training"]),
        losses=tuple(float(loss) for loss in payload["losses"]),
    )
    emitted = set(np.flatnonzero(encoder.class_allowed).tolist())
    fair = all(0 < weight < np.inf for weight in model.class_weights)
    same_length = len(model.class_weights) == len(model.class_codes) > 0
    if not (fair and same_length and set(model.class_codes) <= emitted):
        raise ArtefactError("the class weights contradict the schema")
    return model


def _generator(
    encoder: Encoder, made: Mapping[str, Any] | None, tensors: Mapping[str, npt.NDArray[Any]]
) -> Generator:
    """Rebuild the generator; names, shapes, dtypes and finiteness must be the schema's own."""
    if made is None:  # the first files knew no generator but the mixture, and did not name it
        made = {"kind": "mixture", "sizes": {"components": tensors["components"].shape[1]}}
    generator = _empty_generator(encoder, str(made["kind"]), made["sizes"], tensors)
    weights = {name: torch.from_numpy(t.copy()) for name, t in tensors.items()}
    expected = {name: tensor.dtype for name, tensor in generator.state_dict().items()}
    if {name: tensor.dtype for name, tensor in weights.items()} != expected:
        raise ArtefactError("the weights are not those of the generator named")
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise ArtefactError("a weight is not a finite number")
    generator.load_state_dict(weights)
    return generator


def _empty_generator(
    encoder: Encoder,
    kind: str,
    sizes: Mapping[str, int],
    tensors: Mapping[str, npt.NDArray[Any]],
) -> Generator:
    """The generator that a file names, its weights still to be loaded."""
    if kind == BinnedMixture.kind:
        return binned_from(encoder, sizes, tensors)
    first = torch.Generator().manual_seed(0)
    return build_generator(kind, encoder, sizes, generator=first)


def _as_kind(table: pa.Table, kind: str) -> Any:
    """The table as the kind asked for; kinds that are files become pandas if it is installed."""
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    if kind == "pyarrow":
        return table
    try:
        return table.to_pandas()
    except ImportError:
        if kind == "pandas":
            raise
        return table
