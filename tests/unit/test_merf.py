"""DP-MERF's plan: public, repeatable, bounded; settings round-trip."""

import json

import numpy as np
import pytest
import torch
from tests.made_gists import GRID, MIXED, STRIPES

from dpgist.errors import DataError
from dpgist.methods import METHODS, Merf, method_from, settings
from dpgist.privacy.plan import Budget
from dpgist.schema import CategoryColumn, ImageColumn, IntegerColumn, Schema

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def query_of(schema, method=None, feature_seed=0):
    plan = (method or Merf()).plan(schema, budget=BUDGET, feature_seed=feature_seed)
    assert len(plan.stages) == 1
    return plan.stages[0].query(())


def test_the_declared_blocks_are_what_the_map_fills():
    for schema in (MIXED, GRID):
        query = query_of(schema)
        features = query.row_map(torch.rand(5, query.encoder.width))
        assert [f.shape for f in features] == [(5, block.length) for block in query.blocks]
        assert all(block.labelled and block.bound_squared == 1 for block in query.blocks)


def test_a_table_without_choices_has_no_category_block():
    assert [b.name for b in query_of(MIXED).blocks] == ["fourier", "pairs", "categories"]
    assert [b.name for b in query_of(GRID).blocks] == ["fourier", "pairs"]


def test_images_have_one_block_of_ten_thousand_features():
    (block,) = query_of(STRIPES).blocks
    assert (block.name, block.length, block.labelled) == ("fourier", 10_000, True)


def test_length_scales_of_images_are_multiples_of_a_public_distance():
    image = ImageColumn(name="image", height=28, width=28)
    label = CategoryColumn(name="digit", values=tuple("0123456789"))
    schema = Schema(name="digits", columns=(image, label), label="digit")
    row_map = Merf(image_frequencies=400, image_scales=(0.5, 2.0)).row_map(schema, feature_seed=0)
    frequencies = row_map.maps[0].frequencies
    assert frequencies.dtype == torch.float32
    typical = (784 / 6) ** 0.5
    for first, scale in enumerate((0.5, 2.0)):
        std = float(frequencies[first::2].std())
        assert std == pytest.approx(1 / (scale * typical), rel=0.02)


def test_blocks_are_unlabelled_without_a_label():
    schema = Schema(name="t", columns=(IntegerColumn(name="a", min=0, max=9),))
    assert not any(block.labelled for block in query_of(schema).blocks)


@pytest.mark.parametrize(
    ("schema", "law"), [(MIXED, "whole"), (STRIPES, "real")], ids=["table", "images"]
)
def test_training_gets_the_very_map_that_was_released(schema, law):
    method = Merf(image_law=law)
    released = query_of(schema, method, feature_seed=9).row_map.state_dict()
    again = method.row_map(schema, feature_seed=9).state_dict()
    other = method.row_map(schema, feature_seed=10).state_dict()
    assert all(torch.equal(released[name], again[name]) for name in released)
    assert not torch.equal(released["maps.0.frequencies"], other["maps.0.frequencies"])


def test_training_on_images_gets_a_smooth_twin_of_the_map_that_was_released():
    (exact,) = query_of(STRIPES, feature_seed=9).row_map.maps
    (smooth,) = Merf().row_map(STRIPES, feature_seed=9).maps
    assert torch.equal(exact.frequencies, smooth.frequencies)
    assert not torch.equal(
        smooth.frequencies, Merf().row_map(STRIPES, feature_seed=8).maps[0].frequencies
    )


def test_settings_without_a_law_of_frequencies_keep_the_one_they_were_written_under():
    written = {k: v for k, v in settings(Merf(image_frequencies=7)).items() if k != "image_law"}
    again = method_from("merf", json.loads(json.dumps(written)))
    assert again == Merf(image_frequencies=7, image_law="real")
    drawn = again.row_map(STRIPES, feature_seed=0).maps[0].frequencies
    rng = np.random.Generator(np.random.Philox(0))
    width = drawn.shape[1]
    normals = rng.standard_normal((7, width), dtype=np.float32)
    lengths = np.resize([0.4, 0.8], 7) * (width / 6) ** 0.5
    assert torch.allclose(drawn, torch.from_numpy(normals / lengths[:, None]).float())


def test_many_rows_get_the_finer_grid():
    assert {b.bits for b in query_of(MIXED).blocks} == {20}
    large = Schema(name="t", columns=MIXED.columns, label="ill", rows_about=10**7)
    assert {b.bits for b in query_of(large).blocks} == {26}


def test_settings_survive_json_and_rebuild_the_method():
    method = Merf(joint_frequencies=7, pair_scales=(0.5,), category_weight=2.0)
    stored = json.loads(json.dumps(settings(method)))
    assert method_from("merf", stored) == method
    assert json.dumps(query_of(MIXED, method).recipe)
    assert METHODS["merf"] is Merf


@pytest.mark.parametrize(
    "wrong",
    [
        {"joint_frequencies": 0},
        {"pair_frequencies": 0},
        {"joint_scales": ()},
        {"pair_scales": (1.0, -1.0)},
        {"image_scales": (0.0,)},
        {"image_frequencies": 0},
        {"pair_weight": 0.0},
        {"joint_weight": float("nan")},
        {"image_law": "odd"},
    ],
)
def test_senseless_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        Merf(**wrong)


def test_an_artefact_with_unknown_method_or_settings_is_refused():
    with pytest.raises(DataError, match="unknown method"):
        method_from("murf", {})
    with pytest.raises(DataError, match="unknown settings"):
        method_from("merf", {"colour": 1})
    with pytest.raises(DataError, match="merf"):
        method_from("merf", {"joint_scales": 3})
