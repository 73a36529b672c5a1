"""Images are scored by what the schema says of them, and what breaks it is counted."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from tests.images import file_of
from tests.made_gists import STRIPES, stripe_images

import dpgist as dg


def test_images_are_read_by_the_schema_and_scored_by_the_names_of_their_classes():
    stripes, mixed_up = stripe_images(200), stripe_images(200)
    mixed_up["y"] = np.random.default_rng(0).permutation(mixed_up["y"])
    found = dg.evaluate(stripe_images(200, seed=1), mixed_up, STRIPES, train=stripes)
    right = {(s.source, s.model): s.value for s in found.scores if s.group is None}
    assert right["real", "LR"] > 0.95
    assert right["synthetic", "LR"] < 0.8
    groups = {score.group for score in found.scores if score.group is not None}
    assert groups == {f"class={name}" for name in STRIPES.column("way").values}


def stripe_files(n_wrong, n_undeclared):
    """Images of STRIPES as PNG files, some of another size and some of another class."""
    stripes = stripe_images(60)
    images = [file_of(image) for image in stripes["x"]]
    images[:n_wrong] = [file_of(np.full((4, 4), 99, np.uint8))] * n_wrong
    ways = stripes["y"].tolist()
    ways[-n_undeclared:] = ["aslant"] * n_undeclared
    return pa.table({"image": images, "way": ways})


def test_images_that_break_the_schema_are_counted_in_the_notes():
    found = dg.evaluate(stripe_images(60, seed=1), stripe_files(3, 2), STRIPES)
    assert found.notes == (
        "column 'image' of the synthetic images: 3 cells break the schema, scored as black",
        "synthetic images left out, as their 'way' is not a declared one: 2",
    )
    found = dg.evaluate(stripe_files(1, 1), stripe_images(60, seed=1), STRIPES)
    assert found.notes == (
        "column 'image' of the real test images: 1 cell breaks the schema, scored as black",
        "real test images left out, as their 'way' is not a declared one: 1",
    )
    assert dg.evaluate(stripe_images(60), stripe_images(60, seed=1), STRIPES).notes == ()


def test_an_undeclared_label_that_becomes_the_default_is_noted_as_corrected():
    way = replace(STRIPES.column("way"), default="down")
    schema = replace(STRIPES, columns=(STRIPES.columns[0], way))
    found = dg.evaluate(stripe_images(60, seed=1), stripe_files(1, 2), schema)
    assert (
        "column 'way' of the synthetic images: 2 cells break the schema, corrected" in found.notes
    )
    assert not any("left out" in note for note in found.notes)
