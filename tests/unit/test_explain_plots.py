"""Figures of a classifier: what is drawn is what was computed."""

import numpy as np
import pytest
from tests.unit.test_explain import PEOPLE, ROWS, made_maps

import dpgist as dg
from dpgist.classify import plots
from dpgist.classify.effects import effects
from dpgist.classify.explain import contrasts, explain
from dpgist.encode import Encoder
from dpgist.plots import write_png

DIGITS = dg.Schema(
    name="digits",
    label="digit",
    columns=(
        dg.ImageColumn(name="image", height=4, width=5),
        dg.CategoryColumn(name="digit", values=("no", "maybe", "yes")),
    ),
)


@pytest.mark.parametrize("schema", [PEOPLE, DIGITS], ids=["table", "images"])
def test_a_bank_is_drawn_and_written(schema, tmp_path):
    maps = made_maps(Encoder(schema).width)
    write_png(plots.bank_figure(maps, schema), tmp_path / "bank.png")
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")


def test_a_filter_is_drawn_in_colours_symmetric_about_zero():
    maps = made_maps(20)
    figure = plots.bank_figure(maps, DIGITS)
    drawn = [axis.images[0] for axis in figure.axes]
    assert len(drawn) == 3 * 5
    for image, filter_ in zip(drawn, contrasts(maps).reshape(15, 4, 5), strict=True):
        np.testing.assert_array_equal(image.get_array(), filter_)
        assert image.norm.vmin == -image.norm.vmax


def test_bars_are_the_largest_sizes_with_their_sign():
    maps = made_maps(13)
    figure = plots.bank_figure(maps, PEOPLE)
    bars = [bar.get_width() for bar in figure.axes[0].patches]
    sizes = [s for e in effects(contrasts(maps)[0, 0], PEOPLE) for _, s in e.bars()]
    assert bars == sorted(sizes, key=abs, reverse=True)[: plots.MOST_BARS]
    assert figure.axes[0].get_title(loc="left") == "no, map 1 of 5"


def test_an_input_stands_beside_its_active_filters_with_their_attention():
    maps = made_maps(20)
    found = explain(maps, np.random.default_rng(0).random((2, 20)))
    figure = plots.local_figure(maps, found, DIGITS)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    place = int(found.predicted[0])
    assert titles[:2] == [maps.classes[place], f"{found.attention[0, place, 0]:.2f}"]
    assert len(figure.axes) == 2 * 4


def test_rows_are_drawn_with_their_cells():
    maps = made_maps(13)
    figure = plots.local_figure(maps, explain(maps, Encoder(PEOPLE).encode(ROWS).rows), PEOPLE)
    labels = {tick.get_text() for tick in figure.axes[0].get_yticklabels()}
    assert {"age = 20", "town = A", "weight = 40"} <= labels
