"""T-ROWWISE, T-SENS, T-AUDIT over images: a picture is a row like any other."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import torch

import dpgist as dg
from dpgist.encode import Encoder
from dpgist.privacy.accounting import epsilon_of, mu_of
from dpgist.privacy.rowmap import PreparedMap
from tests.trust.auditing import bounds, tiled_release
from tests.trust.worlds import budget_of, exact_sums, signed_plan, weighted_squared_distance

SIZE = 2  # few pixels, so that the adversary has few coordinates to learn
SCHEMA = dg.Schema(
    name="world",
    columns=(
        dg.ImageColumn(name="image", height=SIZE, width=SIZE),
        dg.CategoryColumn(name="y", values=("a", "b")),
    ),
    label="y",
)
METHOD = dg.Merf(image_frequencies=64)
WHITE, BLACK = b"\xff" * SIZE**2, b"\x00" * SIZE**2
BROKEN = [b"", b"short", b"\x89PNG\r\n\x1a\n broken", b"\xff" * (SIZE**2 + 1), None]


def images(cells, labels):
    return pa.table({"image": pa.array(cells, pa.binary()), "y": pa.array(list(labels))})


def noise_images(n, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (n, SIZE**2), dtype=np.uint8)
    return [row.tobytes() for row in pixels]


def merf_plan(law="whole"):
    method = dataclasses.replace(METHOD, image_law=law)
    return method.plan(SCHEMA, budget=budget_of(), feature_seed=0)


def of_side(side):
    image = dg.ImageColumn(name="image", height=side, width=side)
    return dataclasses.replace(SCHEMA, columns=(image, SCHEMA.columns[1]))


def scattering_plan(side=8, **settings):
    schema = of_side(side)
    return schema, dg.Scattering(**settings).plan(schema, budget=budget_of(), feature_seed=0)


@pytest.mark.parametrize(
    ("schema", "plan"),
    [(SCHEMA, merf_plan()), scattering_plan(8), scattering_plan(28, frequencies=600)],
    ids=["merf", "scattering", "scattering of digits"],
)
def test_every_slot_gives_an_image_the_same_integers(schema, plan):
    row_map = PreparedMap(plan.stages[0].query(()))
    rng = np.random.default_rng(1)
    rows = torch.from_numpy(rng.random((row_map.block_rows, Encoder(schema).width)))
    expected = row_map(rows)
    for shift in (1, 5, 16, row_map.block_rows // 2 - 1):
        again = row_map(torch.roll(rows, shift, dims=0))
        for part, moved in zip(expected, again, strict=True):
            assert torch.equal(torch.roll(part, shift, dims=0), moved)


def test_images_sum_to_the_sum_of_each_alone_broken_ones_included():
    cells = [*noise_images(20), *BROKEN, WHITE]
    labels = ["ab"[i % 2] for i in range(len(cells))]
    whole = exact_sums(images(cells, labels), merf_plan(), budget_of(), SCHEMA)[1]
    alone = [
        exact_sums(images([cell], [label]), merf_plan(), budget_of(), SCHEMA)[1]
        for cell, label in zip(cells, labels, strict=True)
    ]
    for total, *parts in zip(whole, *alone, strict=True):
        assert np.array_equal(total, sum(parts))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    "plan",
    [merf_plan(), merf_plan("real"), signed_plan(SCHEMA)],
    ids=["merf", "merf with real frequencies", "signed"],
)
def test_one_image_moves_the_statistic_by_at_most_its_sensitivity(plan, relation):
    budget = budget_of(relation=relation)
    base = noise_images(3, seed=2)
    cells = [WHITE, BLACK, *BROKEN, *noise_images(3, seed=3)]
    neighbours = [(base, "aba")] if relation == "add_remove" else []
    tables = [([cell, *base], label + "aba") for cell in cells for label in "ab"]
    measured = [exact_sums(images(c, y), plan, budget, SCHEMA) for c, y in [*neighbours, *tables]]
    stage, first = measured[0]
    furthest = max(weighted_squared_distance(stage, first, sums) for _, sums in measured[1:])
    assert furthest <= Fraction(stage.sensitivity) ** 2
    assert math.sqrt(furthest) > 0.6 * stage.sensitivity


def noise_of_side(side, n, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (n, side**2), dtype=np.uint8)
    return [row.tobytes() for row in pixels]


def test_scattered_images_sum_to_the_sum_of_each_alone():
    schema, plan = scattering_plan(8, frequencies=30, pixel_frequencies=30)
    cells = [*noise_of_side(8, 6), b"short", None, b"\xff" * 64]
    labels = ["ab"[i % 2] for i in range(len(cells))]
    whole = exact_sums(images(cells, labels), plan, budget_of(), schema)[1]
    alone = [
        exact_sums(images([cell], [label]), plan, budget_of(), schema)[1]
        for cell, label in zip(cells, labels, strict=True)
    ]
    for total, *parts in zip(whole, *alone, strict=True):
        assert np.array_equal(total, sum(parts))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_scattered_image_moves_the_statistic_by_at_most_its_sensitivity(relation):
    schema, plan = scattering_plan(8, frequencies=60, pixel_frequencies=60)
    budget, base = budget_of(relation=relation), noise_of_side(8, 3, seed=2)
    cells = [b"\xff" * 64, b"\x00" * 64, b"short", None, *noise_of_side(8, 3, seed=3)]
    neighbours = [(base, "aba")] if relation == "add_remove" else []
    tables = [([cell, *base], label + "aba") for cell in cells for label in "ab"]
    measured = [exact_sums(images(c, y), plan, budget, schema) for c, y in [*neighbours, *tables]]
    stage, first = measured[0]
    furthest = max(weighted_squared_distance(stage, first, sums) for _, sums in measured[1:])
    assert furthest <= Fraction(stage.sensitivity) ** 2
    assert math.sqrt(furthest) > 0.6 * stage.sensitivity


@pytest.mark.parametrize("worst", [True, False])
def test_what_an_adversary_can_show_about_a_scattered_image_stays_below_the_claim(worst):
    schema, plan = scattering_plan(8, frequencies=3, pixel_frequencies=3)
    base, budget = noise_of_side(8, 2, seed=4), budget_of(1.0)
    one = images([b"\xff" * 64 if worst else b"short", *base], "aab")
    found = bounds(
        tiled_release(one, plan, budget, schema, 500_000),
        tiled_release(images(base, "ab"), plan, budget, schema, 500_000),
    )
    assert max(found) <= mu_of(1.0, 1e-5)
    # Fourier features have norm 1 whatever the image, so that one row more is always the worst.
    assert epsilon_of(max(found), 1e-5) >= 0.85


def test_what_an_adversary_can_show_about_an_image_in_whole_numbers_stays_below_the_claim():
    plan = dg.Merf(image_frequencies=3).plan(SCHEMA, budget=budget_of(), feature_seed=0)
    base, budget = noise_images(2, seed=4), budget_of(1.0)
    found = bounds(
        tiled_release(images([WHITE, *base], "aab"), plan, budget, SCHEMA, 500_000),
        tiled_release(images(base, "ab"), plan, budget, SCHEMA, 500_000),
    )
    assert max(found) <= mu_of(1.0, 1e-5)
    assert epsilon_of(max(found), 1e-5) >= 0.85


PAIRS = {
    "opposite images": ("replace_one", [WHITE], "a", [BLACK], "a", True),
    "one image more": ("add_remove", [WHITE], "a", [], "", True),
    "a broken image": ("add_remove", [BROKEN[2]], "a", [], "", False),
    "broken for good": ("replace_one", [BROKEN[1]], "b", [WHITE], "a", False),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_what_an_adversary_can_show_about_an_image_stays_below_the_claim(pair):
    relation, cells, labels, others, other_labels, worst = PAIRS[pair]
    plan, budget = signed_plan(SCHEMA), budget_of(1.0, relation)
    base = noise_images(2, seed=4)
    found = bounds(
        tiled_release(images([*cells, *base], labels + "ab"), plan, budget, SCHEMA, 500_000),
        tiled_release(images([*others, *base], other_labels + "ab"), plan, budget, SCHEMA, 500_000),
    )
    assert max(found) <= mu_of(1.0, 1e-5)
    assert not worst or epsilon_of(max(found), 1e-5) >= 0.9
