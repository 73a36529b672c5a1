"""Figures: any name can be drawn as it is written, and no column takes all the room."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.test_explain import made_maps

import dpgist as dg
from dpgist import plots
from dpgist.classify import plots as classifier_plots
from dpgist.encode import Encoder

NAMES = [r"$\frac$", "$_$", "a $ b", r"\$^$", "年齢", "🙂", "اسم"]


def prices(name):
    column = dg.CategoryColumn(name=name, values=(f"{name} low", name, f"{name}$"), nullable=True)
    number = dg.NumberColumn(name=f"{name}'s", min=0.0, max=1.0, nullable=True)
    return dg.Schema(name=name, columns=(column, number), label=name)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_drawn_and_nothing_is_said_about_its_letters(name, tmp_path, recwarn):
    cells = pa.table({name: [name, f"{name}$", None], f"{name}'s": [0.5, None, 0.2]})
    kept = plots.Comparison(name=name, truth=1.0, synthetic=1.0, good=True)
    images = np.zeros((1, 2, 2), np.uint8)
    curve = {name: ([1, 2], np.array([0.1, 0.2]), np.array([0.1, 0.1]))}
    for figure in (
        plots.columns_figure(prices(name), cells, real=cells, title=name),
        plots.images_figure(images, np.array([name]), title=name),
        plots.comparison_figure([kept], title=name),
        plots.size_curves_figure(curve, title=name),
    ):
        plots.write_png(figure, tmp_path / "figure.png", force=True)
    assert not recwarn.list


@pytest.mark.parametrize("name", NAMES)
def test_a_classifier_of_any_names_can_be_drawn(name, tmp_path):
    label = dg.CategoryColumn(name="is", values=(name, "$$", "rest"))
    columns = (dg.NumberColumn(name=name, min=0.0, max=1.0), label)
    schema = dg.Schema(name=name, columns=columns, label="is")
    maps = replace(made_maps(Encoder(schema).width), classes=label.values)
    plots.write_png(classifier_plots.bank_figure(maps, schema), tmp_path / "bank.png")


def test_names_are_drawn_with_their_dollars():
    cells = pa.table({"$a$": ["$a$"], "$a$'s": [0.5]})
    figure = plots.columns_figure(prices("$a$"), cells, title="")
    # Matplotlib takes the strokes away.
    assert [axis.get_title(loc="left") for axis in figure.axes] == [r"\$a\$", r"\$a\$'s"]


def test_the_largest_of_many_options_are_drawn_and_the_others_counted():
    values = tuple(f"v{at:04}" for at in range(2_000))
    column = dg.CategoryColumn(name="code", values=values)
    schema = dg.Schema(name="codes", columns=(column,))
    cells = [value for at, value in enumerate(values[:40]) for _ in range(at + 1)]
    (axis,) = plots.columns_figure(schema, pa.table({"code": cells}), title="codes").axes
    assert len(axis.patches) == plots.MOST_OPTIONS
    assert [tick.get_text() for tick in axis.get_xticklabels()] == list(values[10:40])
    assert axis.get_xlabel() == "and 1,970 more"
