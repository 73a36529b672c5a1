"""The benchmark's measure of explanations: exact where it must be, and low for a wrong one."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.test_explain import made_maps

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import attributions as ours  # noqa: E402 - a benchmark, not part of the package
import hospital_data  # noqa: E402

from dpgist.classify.explain import explain  # noqa: E402

SEED = 0


@pytest.fixture
def images():
    rng = np.random.default_rng(SEED)
    return rng.random((6, 784)) * (rng.random((6, 784)) < 0.3)


def score(scores, x, attribution, classes):
    masks = ours.patches(x, rng=np.random.default_rng(SEED))
    return ours.deletion_score(ours.changes(scores, x, masks), masks, attribution, classes)[0]


def test_the_contributions_of_a_linear_model_foretell_every_deletion(images):
    maps = made_maps(784, n_maps=1)
    found = explain(maps, images)
    places = np.arange(6), found.predicted
    assert score(maps.scores, images, found.contributions[places], found.predicted) == 1.0
    assert score(maps.scores, images, -found.contributions[places], found.predicted) == -1.0


def test_an_explanation_of_something_else_foretells_little(images):
    maps = made_maps(784, n_maps=1)
    other = np.random.default_rng(SEED).normal(size=images.shape) * images
    assert abs(score(maps.scores, images, other, maps.scores(images).argmax(axis=1))) < 0.3


def test_integrated_gradients_add_up_to_the_difference_of_scores(images):
    network = torch.nn.Sequential(torch.nn.Linear(784, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    classes = np.array([0, 1, 2, 0, 1, 2])
    found = (ours.integrated_gradients(network, images, classes) * images).sum(axis=1)
    scores = ours.network_scores(network)
    difference = (scores(images) - scores(0 * images))[np.arange(6), classes]
    np.testing.assert_allclose(found, difference, atol=1e-3)


def test_patches_are_squares_with_ink(images):
    masks = ours.patches(images, rng=np.random.default_rng(SEED))
    assert masks.shape == (6, 64, 784)
    assert (masks.sum(axis=2) == 49).all()
    assert ((masks * images[:, None]).sum(axis=2) > 0).all()


def test_simulated_records_are_mostly_within_the_declared_ranges_and_all_of_kept_classes():
    schema = hospital_data.schema()
    rows = hospital_data.records(2000, rng=np.random.default_rng(SEED))
    assert len(schema.columns) == 63
    assert set(rows["condition"]) == set(hospital_data.KEPT)
    for column in schema.columns[:-1]:
        assert rows[column.name].between(column.min, column.max).mean() > 0.95, column.name
