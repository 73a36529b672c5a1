"""Explanations: they add up to the score, and columns come out in their own units."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dpgist as dg
from dpgist.classify.effects import as_images, contributions, effects, middle_row
from dpgist.classify.explain import contrasts, explain, local_contrasts
from dpgist.classify.maps import Maps
from dpgist.encode import Encoder

PEOPLE = dg.Schema(
    name="people",
    label="ill",
    columns=(
        dg.IntegerColumn(name="age", min=20, max=100),
        dg.CategoryColumn(name="town", values=("A", "B", "C"), other="else"),
        dg.NumberColumn(name="weight", min=40.0, max=140.0, nullable=True),
        dg.DateColumn(name="seen", min="2020-01-01", max="2024-01-01"),
        dg.BooleanColumn(name="smoker", nullable=True),
        dg.BooleanColumn(name="ill"),
    ),
)
ROWS = {
    "age": pa.array([20, 100, 60]),
    "town": pa.array(["A", "B", "elsewhere"]),
    "weight": pa.array([40.0, None, 90.0]),
    "seen": pa.array([dt.date(2020, 1, 1), dt.date(2024, 1, 1), dt.date(2022, 1, 1)]),
    "smoker": pa.array([True, None, False]),
    "ill": pa.array([True, False, False]),
}


def made_maps(inputs, *, n_maps=5, projected=False, seed=0, views=None):
    rng, classes = np.random.default_rng(seed), ("no", "maybe", "yes")
    features = 6 if projected else inputs
    return Maps(
        weights=rng.normal(size=(len(classes), n_maps, features)),
        biases=rng.normal(size=(len(classes), n_maps)),
        temperature=0.7,
        classes=classes,
        projection=rng.normal(size=(n_maps, inputs, features)) if projected else None,
        views=views,
    )


VIEWS = np.stack([np.arange(9), np.r_[1:9, -1], np.r_[-1, 0:8], np.arange(9)[::-1]])


@pytest.fixture
def encoded():
    return Encoder(PEOPLE).encode(ROWS).rows


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("views", [None, VIEWS])
def test_contributions_and_offset_add_up_to_the_score(projected, views):
    maps = made_maps(9, projected=projected, views=views)
    found = explain(maps, np.random.default_rng(1).normal(size=(4, 9)))
    total = found.contributions.sum(axis=2) + found.offsets
    np.testing.assert_allclose(total, found.scores, atol=1e-12)


def test_the_top_maps_are_the_most_attended_ones_in_order():
    maps, x = made_maps(9), np.random.default_rng(1).normal(size=(4, 9))
    found, attention = explain(maps, x, top=2), maps.attention(x)
    np.testing.assert_array_equal(found.attention[..., 0], attention.max(axis=2))
    np.testing.assert_array_equal(found.attention[..., 1], np.sort(attention, axis=2)[..., -2])
    np.testing.assert_array_equal(found.filters[3, 1, 0], maps.filters()[1, found.active[3, 1, 0]])


@pytest.mark.parametrize("views", [None, VIEWS])
def test_all_active_filters_by_their_attention_are_the_weighted_filter(views):
    maps, x = made_maps(9, views=views), np.random.default_rng(1).normal(size=(4, 9))
    found = explain(maps, x, top=5)
    total = (found.attention[..., None] * found.filters).sum(axis=2)
    np.testing.assert_allclose(total, found.weighted, atol=1e-12)
    np.testing.assert_allclose(found.attention.sum(axis=2), 1.0)


@pytest.mark.parametrize("views", [None, VIEWS])
def test_a_map_that_nothing_attends_to_has_a_filter_all_the_same(views):
    maps = replace(made_maps(9, views=views), temperature=1e6)
    found = explain(maps, np.random.default_rng(1).normal(size=(4, 9)), top=5)
    assert (found.attention == 0).any()
    assert np.isfinite(found.filters).all()
    assert (found.filters != 0).any(axis=3).all()


def test_more_maps_than_there_are_gives_all_of_them():
    assert explain(made_maps(4, n_maps=2), np.zeros((1, 4))).active.shape == (1, 3, 2)


def test_inputs_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"\(n, 9\)"):
        explain(made_maps(9), np.zeros((2, 8)))


@pytest.mark.parametrize("views", [None, VIEWS])
def test_taking_the_shared_filter_away_changes_no_probability(views):
    maps, x = made_maps(9, views=views), np.random.default_rng(1).normal(size=(4, 9))
    lean = replace(maps, weights=contrasts(maps))
    np.testing.assert_allclose(lean.probabilities(x), maps.probabilities(x), atol=1e-12)
    local = explain(lean, x).weighted
    np.testing.assert_allclose(local_contrasts(maps, explain(maps, x)), local, atol=1e-12)


def test_a_number_is_told_per_unit_of_the_column(encoded):
    filter_ = np.zeros(encoded.shape[1])
    filter_[0] = 2.0  # over the 80 years from 20 to 100
    first = effects(filter_, PEOPLE)[0]
    assert (first.column, first.slope, first.strength) == ("age", 2.0 / 80, 2.0)
    assert first.sizes == (("20", -1.0), ("100", 1.0))
    assert list(first.bars()) == [("age  20 → 100", 2.0)]
    assert first.text() == "+0.25 per 10 (20 to 100: +2)"


def test_a_date_is_told_per_year():
    filter_ = np.zeros(Encoder(PEOPLE).width)
    slot = next(slot for slot in Encoder(PEOPLE).slots if slot.column == "seen")
    filter_[slot.start] = 4.0  # over 1461 days
    first = effects(filter_, PEOPLE)[0]
    assert first.slope == pytest.approx(4.0 / 1461)
    assert first.text() == "+1 per year (2020-01-01 to 2024-01-01: +4)"


def test_a_category_is_one_column_with_a_signed_size_for_each_option():
    filter_ = np.zeros(Encoder(PEOPLE).width)
    filter_[1:5] = [5.0, 1.0, 1.0, 1.0]
    first = effects(filter_, PEOPLE)[0]
    assert first.column == "town"
    assert first.sizes == (("A", 3.0), ("B", -1.0), ("C", -1.0), ("else", -1.0))
    assert first.slope is None


def test_moving_a_one_hot_block_up_changes_no_effect(encoded):
    filter_ = np.random.default_rng(0).normal(size=encoded.shape[1])
    moved = filter_.copy()
    moved[1:5] += 7.0
    for one, other in zip(effects(filter_, PEOPLE), effects(moved, PEOPLE), strict=True):
        assert one.column == other.column
        np.testing.assert_allclose([s for _, s in one.sizes], [s for _, s in other.sizes])


def test_effects_tell_what_changing_one_cell_does_to_the_score(encoded):
    """The definition: a row beside the middle row, column by column, null included."""
    filter_ = np.random.default_rng(0).normal(size=encoded.shape[1])
    found = {effect.column: dict(effect.sizes) for effect in effects(filter_, PEOPLE)}
    first, second, third = (
        {part.column: part.size for part in contributions(filter_, row, PEOPLE)} for row in encoded
    )
    assert first["age"] == pytest.approx(found["age"]["20"])
    assert second["age"] == pytest.approx(found["age"]["100"])
    assert third["age"] == pytest.approx(0.0)
    assert first["weight"] == pytest.approx(found["weight"]["40"])
    assert second["weight"] == pytest.approx(found["weight"]["null"])
    assert third["town"] == pytest.approx(found["town"]["else"])
    assert second["smoker"] == pytest.approx(found["smoker"]["null"])
    assert first["seen"] == pytest.approx(found["seen"]["2020-01-01"])


def test_contributions_add_up_to_the_distance_from_the_middle_row(encoded):
    filter_ = np.random.default_rng(0).normal(size=encoded.shape[1])
    middle = middle_row(Encoder(PEOPLE))
    for row in encoded:
        total = sum(part.size for part in contributions(filter_, row, PEOPLE))
        assert total == pytest.approx(filter_ @ row - filter_ @ middle)


def test_cells_are_named_in_their_own_units(encoded):
    cells = {part.column: part.cell for part in contributions(np.zeros(13), encoded[1], PEOPLE)}
    assert cells == {
        "age": "100",
        "town": "B",
        "weight": "null",
        "seen": "2024-01-01",
        "smoker": "null",
    }


def test_an_undeclared_cell_is_called_so():
    schema = dg.Schema(
        name="t",
        columns=(
            dg.CategoryColumn(name="town", values=("A", "B")),
            dg.IntegerColumn(name="age", min=0, max=4),
        ),
    )
    rows = Encoder(schema).encode({"town": pa.array(["secret"]), "age": pa.array([1])}).rows
    filter_ = np.array([1.0, 3.0, 10.0, 0.0])
    found = contributions(filter_, rows[0], schema)[0]
    assert (found.cell, found.size) == ("(undeclared)", 8.0)
    assert effects(filter_, schema)[0].sizes == (("A", -1.0), ("B", 1.0))


def test_image_filters_keep_their_shape():
    grey = dg.Schema(name="g", columns=(dg.ImageColumn(name="x", height=2, width=3),))
    colour = dg.Schema(name="c", columns=(dg.ImageColumn(name="x", height=2, width=3, channels=3),))
    flat = np.arange(18.0)
    assert as_images(np.stack([flat[:6]] * 4), grey).shape == (4, 2, 3)
    shaped = as_images(flat, colour)
    assert shaped.shape == (2, 3, 3)
    assert shaped[0, 1].tolist() == [1.0, 7.0, 13.0]
    with pytest.raises(ValueError, match="no columns"):
        effects(flat[:6], grey)


def test_a_repr_shows_nothing_of_the_inputs():
    assert "0.123" not in repr(explain(made_maps(4), np.full((1, 4), 0.123)))
