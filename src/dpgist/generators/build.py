"""Which generators there are, which suits a schema, and how one is made from its sizes."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dpgist.encode import Encoder
from dpgist.features.support import column_supports
from dpgist.generators.binned import BinnedMixture
from dpgist.generators.image import (
    ImageNetwork,
    Shape,
    convolution_images,
    doublings,
    residual_images,
    upsampling_images,
)
from dpgist.generators.mixture import MixtureGenerator
from dpgist.generators.tabular import TabularNetwork

Network = TabularNetwork | ImageNetwork
Generator = MixtureGenerator | BinnedMixture | Network

KINDS = ("mixture", "network", "residual", "conv", "upsampling")
"""The generators by name: the first two make tables, the others images."""

_LARGEST = {"components": 2**16, "latent": 4096, "hidden": 4096, "depth": 16, "channels": 1024}


def kind_for(encoder: Encoder, wanted: str = "auto") -> str:
    """The generator's kind; "auto" takes the mixture for tables and "residual" for images.

    Raises :class:`ValueError` if no such generator can make rows of this schema.

    Privacy: public facts only.
    """
    shape = _shape(encoder)
    fitting = KINDS[2:] if shape else KINDS[:2]
    chosen = ("residual" if shape else "mixture") if wanted == "auto" else wanted
    if chosen not in fitting:
        what = "images are" if shape else "a table is"
        raise ValueError(f"{what} made by generator {' or '.join(fitting)}, not by {chosen!r}")
    if shape:
        _refuse_odd_sides(shape, chosen)
    return chosen


def _refuse_odd_sides(shape: Shape, kind: str) -> None:
    step = 2 ** (doublings(shape) if kind == "residual" else 2)
    if shape[1] % step or shape[2] % step:
        size = f"{shape[1]} x {shape[2]}"
        raise ValueError(f"image generators need height and width divisible by {step}, got {size}")


def default_sizes(kind: str, encoder: Encoder) -> dict[str, int]:
    """Sizes that suit a schema.

    Privacy: public facts only.
    """
    if kind == "mixture":
        return {"components": 100 if len(encoder.columns) <= 3 else 300}
    if kind == "residual":
        return {"latent": 64, "channels": 128}
    if kind == "conv":
        return {"latent": 32, "hidden": 512, "channels": 64}
    if kind == "upsampling":
        return {"latent": 5, "hidden": 200, "channels": 16}
    plain = all(slot.kind == "interval" and slot.gate is None for slot in encoder.slots)
    return {"latent": 8 if plain else 32, "hidden": 128 if plain else 256, "depth": 3}


def build_generator(
    kind: str, encoder: Encoder, sizes: Mapping[str, int], *, generator: torch.Generator
) -> Generator:
    """Make a generator with first weights from ``generator``.

    Privacy: public facts and public randomness alone.
    """
    names = set(default_sizes(kind_for(encoder, kind), encoder))
    if kind not in KINDS or set(sizes) != names:
        raise ValueError(f"a generator {kind!r} has other sizes")
    known = {"n_classes": encoder.n_classes, **{name: _checked(sizes, name) for name in names}}
    shape = _shape(encoder)
    if kind == "mixture":
        known["n_components"] = known.pop("components")
        return MixtureGenerator(column_supports(encoder), **known, generator=generator)
    if shape is None:
        return TabularNetwork(encoder.slots, **known, generator=generator)
    if kind == "residual":
        return residual_images(shape, **known, generator=generator)
    make = convolution_images if kind == "conv" else upsampling_images
    return make(shape, **known, generator=generator)


def _checked(sizes: Mapping[str, int], name: str) -> int:
    """One size, small enough that an altered file cannot ask for all the memory there is."""
    size = sizes[name]
    if type(size) is not int or not 1 <= size <= _LARGEST[name]:
        raise ValueError(f"{name} must be an integer from 1 to {_LARGEST[name]}")
    return size


def _shape(encoder: Encoder) -> Shape | None:
    """Channels, height and width of the image column, if there is one."""
    return next((slot.shape for slot in encoder.slots if slot.kind == "image"), None)
