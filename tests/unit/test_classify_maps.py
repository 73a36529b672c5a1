"""Locally linear maps: the formulas, the way back to the inputs, and the file."""

import numpy as np
import pytest

from dpgist.artefact import write_artefact
from dpgist.classify.maps import KIND, Maps
from dpgist.errors import ArtefactError
from dpgist.schema import CategoryColumn, NumberColumn, Schema

SCHEMA = Schema(
    name="t",
    columns=(NumberColumn(name="x", min=0.0, max=1.0), CategoryColumn(name="y", values=("a", "b"))),
    label="y",
)


def maps_of(projection=None, *, n_maps=4, inputs=5, features=5, **more):
    rng = np.random.default_rng(0)
    return Maps(
        weights=rng.normal(size=(3, n_maps, features)),
        biases=rng.normal(size=(3, n_maps)),
        temperature=0.7,
        classes=("a", "b", "c"),
        projection=projection,
        **more,
    )


ROWS = np.random.default_rng(1).normal(size=(6, 5))


def test_the_formulas_are_those_of_the_paper():
    maps = maps_of()
    for row, scores in zip(ROWS, maps.scores(ROWS), strict=True):
        for k in range(3):
            g = [maps.weights[k, m] @ row + maps.biases[k, m] for m in range(4)]
            s = np.exp(np.multiply(0.7, g)) / np.exp(np.multiply(0.7, g)).sum()
            assert scores[k] == pytest.approx(s @ g, rel=1e-12)
    assert maps.probabilities(ROWS).sum(axis=1) == pytest.approx(np.ones(6))


@pytest.mark.parametrize("shape", [(5, 2), (4, 5, 2)])
def test_filters_are_the_maps_in_the_space_of_the_inputs(shape):
    maps = maps_of(np.random.default_rng(2).normal(size=shape), features=2)
    assert maps.filters().shape == (3, 4, 5)
    assert maps.inputs == 5
    in_inputs = np.einsum("kmi,ni->nkm", maps.filters(), ROWS) + maps.biases
    assert np.allclose(maps.responses(ROWS), in_inputs, rtol=1e-12)


@pytest.mark.parametrize("shape", [None, (5, 2), (4, 5, 2)])
def test_a_file_gives_the_same_maps_back(tmp_path, shape):
    projection = None if shape is None else np.random.default_rng(2).normal(size=shape)
    facts = {"schema": SCHEMA.to_dict(), "card": {"epsilon": 1.0}}
    maps = maps_of(projection, features=5 if shape is None else 2, facts=facts)
    maps.save(tmp_path / "c")
    again = Maps.load(tmp_path / "c")
    assert np.array_equal(again.scores(ROWS), maps.scores(ROWS))
    assert again.schema == SCHEMA
    assert again.facts == facts
    with pytest.raises(FileExistsError):
        maps.save(tmp_path / "c")


VIEWS = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, -1], [4, -1, -1, 0, 2]])


def test_scores_are_the_mean_over_public_copies_of_the_input():
    maps, plain = maps_of(views=VIEWS), maps_of()
    copies = [[row[at] if at >= 0 else 0.0 for at in view] for view in VIEWS for row in ROWS]
    expected = plain.scores(copies).reshape(3, 6, 3).mean(axis=0)
    np.testing.assert_allclose(maps.scores(ROWS), expected, rtol=1e-12)
    assert not np.allclose(expected, plain.scores(ROWS))


def test_a_file_keeps_the_views(tmp_path):
    maps = maps_of(views=VIEWS)
    maps.save(tmp_path / "c")
    assert np.array_equal(Maps.load(tmp_path / "c").scores(ROWS), maps.scores(ROWS))


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.zeros((3, 4))},
        {"biases": np.zeros((3, 3))},
        {"weights": np.full((3, 4, 5), np.nan)},
        {"projection": np.zeros((5, 4))},
        {"projection": np.zeros((3, 5, 5))},
        {"views": VIEWS[0]},
        {"views": VIEWS[:, :4]},
        {"views": VIEWS + 1},
        {"views": VIEWS - 1},
        {"views": np.zeros((1, 5), np.int64)},
        {"views": VIEWS.astype(float)},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(tmp_path, change):
    good = maps_of()
    tensors = {"weights": good.weights, "biases": good.biases} | change
    payload = {"temperature": 1.0, "classes": ["a", "b", "c"], "facts": {}}
    write_artefact(tmp_path / "c", KIND, payload, tensors)
    with pytest.raises(ArtefactError):
        Maps.load(tmp_path / "c")
