"""Which generators there are, which suits a schema, and how one is made from its sizes."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dpgist.encode import Encoder, Slot
from dpgist.features.support import column_supports
from dpgist.generators.image import (
    ImageNetwork,
    Shape,
    convolution_images,
    upsampling_images,
)
from dpgist.generators.mixture import MixtureGenerator
from dpgist.generators.tabular import TabularNetwork

Network = TabularNetwork | ImageNetwork
Generator = MixtureGenerator | Network

KINDS = ("mixture", "network", "conv", "upsampling")
"""The generators by name: the first two make tables, the others images."""

_LARGEST = 2**16


def kind_for(encoder: Encoder, wanted: str = "auto") -> str:
    """The generator's kind; "auto" takes the mixture for tables and "conv" for images.

    Privacy: public facts only.
    """
    fitting = KINDS[2:] if _image(encoder) else KINDS[:2]
    chosen = ("conv" if _image(encoder) else "mixture") if wanted == "auto" else wanted
    if chosen not in fitting:
        what = "images are" if _image(encoder) else "a table is"
        raise ValueError(f"{what} made by generator {' or '.join(fitting)}, not by {chosen!r}")
    return chosen


def default_sizes(kind: str, encoder: Encoder, *, components: int | None = None) -> dict[str, int]:
    """Sizes that suit a schema; ``components`` is for the mixture alone.

    Privacy: public facts only.
    """
    if kind == "mixture":
        return {"components": components or (100 if len(encoder.columns) <= 3 else 300)}
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
    if kind_for(encoder, kind) == "mixture" and set(sizes) == {"components"}:
        supports, n_components = column_supports(encoder), _checked(sizes, "components")
        return MixtureGenerator(
            supports,
            n_classes=encoder.n_classes,
            n_components=n_components,
            generator=generator,
        )
    names = ("latent", "hidden", "depth" if kind == "network" else "channels")
    if set(sizes) != set(names):
        raise ValueError(f"generator {kind!r} has no such sizes")
    first, second, third = (_checked(sizes, name) for name in names)
    known = {"n_classes": encoder.n_classes, "latent": first, "hidden": second}
    if kind == "network":
        return TabularNetwork(encoder.slots, **known, depth=third, generator=generator)
    make = convolution_images if kind == "conv" else upsampling_images
    return make(_shape(encoder), **known, channels=third, generator=generator)


def _checked(sizes: Mapping[str, int], name: str) -> int:
    size = sizes[name]
    if type(size) is not int or not 1 <= size <= _LARGEST:
        raise ValueError(f"{name} must be an integer from 1 to {_LARGEST}")
    return size


def _image(encoder: Encoder) -> Slot | None:
    return next((slot for slot in encoder.slots if slot.kind == "image"), None)


def _shape(encoder: Encoder) -> Shape:
    slot = _image(encoder)
    if slot is None or slot.shape is None:
        raise ValueError("the schema has no image column")
    return slot.shape
