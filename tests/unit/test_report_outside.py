"""A report beside real rows: noted before a row is read, marked, and with advice that fits."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.made_folders import SMALL, write_folder
from tests.made_gists import MIXED, STRIPES, gist_of, mixed_table, stripe_images

from dpgist import Training, train
from dpgist.errors import DataError
from dpgist.evaluate.compare import compare_tables
from dpgist.evaluate.scores import METRICS, Evaluation, Score
from dpgist.methods import Merf
from dpgist.privacy.ledger import Ledger
from dpgist.report import Against, outside, write_report
from dpgist.report.comparison_page import _ends
from dpgist.report.outside import Outside
from dpgist.report.outside_advice import advise_outside
from dpgist.report.outside_page import outside_context
from dpgist.schema import DateColumn, IntegerColumn, NumberColumn, Schema


@pytest.fixture(scope="module")
def mixed():
    gist = gist_of(mixed_table(1_500), MIXED, SMALL, epsilon=2.0)
    model = train(gist, Training(steps=40))
    return gist, model, model.sample(1_000, seed=0, kind="pyarrow")


@pytest.fixture
def folder(mixed, tmp_path):
    """A folder with a ledger of its own, as synthesize leaves it."""
    gist, model, rows = mixed
    path = tmp_path / "out"
    path.mkdir()
    ledger = Ledger.create(
        path / "ledger.sqlite", name="mixed", epsilon=2, delta=1e-5, relation="add_remove"
    )
    own = replace(gist, ledger=replace(gist.ledger, ledger_id=ledger.ledger_id))
    return write_folder(path, own, replace(model, gist_header=own.header()), rows)


def against(**changes):
    return Against(**{"real": mixed_table(600, seed=9), "references": False} | changes)


def looks(folder):
    lines = Ledger.open(folder / "ledger.sqlite").entries()
    return [line for line in lines if line.body["kind"] == "unprotected look"]


def test_the_page_and_its_twin_say_what_is_outside_the_guarantee(folder):
    write_report(folder, against=against(train=mixed_table(600), groups=("stage",)))
    page = (folder / "report.html").read_text()
    twin = json.loads((folder / "report.json").read_text())
    assert "outside the guarantee" in page
    assert page.index("Privacy card") < page.index('id="outside"')
    assert twin["inside_the_guarantee"] is False
    assert "outside the guarantee" in twin["outside"]["evaluation"]["stamp"]
    assert len(twin["outside"]["comparison"]["columns"]) == len(MIXED.columns)
    assert "stage=iii" in page
    for word in ("http://", "https://", "<script"):
        assert word not in page


@pytest.mark.parametrize("train", [None, mixed_table(600)], ids=["without", "with"])
def test_training_rows_are_spoken_of_only_where_they_are_given(folder, train):
    write_report(folder, against=against(train=train))
    page = (folder / "report.html").read_text()
    for words in ("in brackets on real rows", "lost against real</th>"):
        assert (words in page) is (train is not None)


def test_one_look_is_noted_and_it_costs_no_budget(folder):
    before = Ledger.open(folder / "ledger.sqlite").spent_units()
    write_report(folder, against=against())
    assert len(looks(folder)) == 1
    assert Ledger.open(folder / "ledger.sqlite").spent_units() == before
    page = (folder / "report.html").read_text()
    assert f"line {looks(folder)[0].sequence} of the ledger" in page


def test_the_look_is_noted_before_a_row_is_read(folder, monkeypatch):
    def stop(*_, **__):
        assert len(looks(folder)) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("dpgist.scoring.read_rows", stop)
    with pytest.raises(KeyboardInterrupt):
        write_report(folder, against=against())
    assert len(looks(folder)) == 1
    assert not (folder / "report.html").exists()


def test_real_rows_with_the_wrong_header_are_refused_before_the_look(folder):
    wrong = pa.table({"something": [1, 2]})
    with pytest.raises(DataError):
        write_report(folder, against=against(real=wrong))
    assert looks(folder) == []


def test_without_a_ledger_the_page_says_that_the_look_is_noted_nowhere(folder):
    (folder / "ledger.sqlite").unlink()
    content = write_report(folder, against=against())
    assert "noted nowhere" in content.outside.look


def test_no_real_row_is_in_the_report(folder):
    real = mixed_table(600, seed=9)
    real["gain"] = 123.456789
    write_report(folder, against=against(real=real))
    for name in ("report.html", "report.json"):
        assert "123.456789" not in (folder / name).read_text()


def test_a_table_without_rows_and_one_without_a_column_still_make_a_report(folder):
    content = write_report(folder, against=against(real=mixed_table(600).iloc[:0]))
    assert content.outside.comparison is None
    assert "no real rows to compare" in (folder / "report.html").read_text()
    narrow = mixed_table(600).drop(columns=["dose"])
    content = write_report(folder, against=against(real=narrow), force=True)
    assert "dose" not in content.outside.comparison.names
    assert "age" in content.outside.comparison.names


def test_there_is_nothing_to_compare_without_synthetic_rows(folder):
    (folder / "synthetic.parquet").unlink()
    with pytest.raises(DataError, match="no synthetic rows"):
        write_report(folder, against=against())
    assert looks(folder) == []


def test_images_are_compared_by_their_mean_and_no_real_image_is_shown(tmp_path, monkeypatch):
    gist = gist_of(stripe_images(200), STRIPES, Merf(image_frequencies=50))
    model = train(gist, Training(steps=2))
    folder = write_folder(tmp_path / "out", gist, model, model.sample(40, seed=0, kind="pyarrow"))
    real = stripe_images(80, seed=1)
    monkeypatch.setattr(
        outside.workflow, "evaluate", lambda *_, **__: Evaluation(scores=(), notes=("none",))
    )
    content = write_report(folder, against=Against(real=real))
    assert set(content.outside.means) == {"across", "down"}
    expected = np.rint(real["x"][real["y"] == "down"].mean(axis=0))
    assert np.array_equal(content.outside.means["down"][0], expected)
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4  # two classes drawn, two pairs of means


def test_no_mean_is_shown_of_so_few_real_images_that_it_shows_them(tmp_path):
    real, drawn = tmp_path / "real.npz", tmp_path / "drawn.npz"
    images = stripe_images(200)
    np.savez(drawn, **images)
    few = np.flatnonzero(images["y"] == "down")[:1]
    kept = np.sort(np.r_[few, np.flatnonzero(images["y"] == "across")])
    np.savez(real, x=images["x"][kept], y=images["y"][kept])
    assert set(outside._mean_images(real, drawn, STRIPES)) == {"across"}


def test_notes_say_which_classifier_failed_on_which_rows(folder):
    content = write_report(folder, against=against(train=mixed_table(600)))
    missing = Score(
        metric="roc_auc", source="real", model="GNB", value=None, why="it predicts no numbers"
    )
    found = replace(
        content.outside.evaluation, scores=(*content.outside.evaluation.scores, missing)
    )
    page = outside_context(replace(content.outside, evaluation=found), MIXED)
    assert "GNB: real rows: it predicts no numbers" in page["notes"]


@pytest.mark.parametrize(
    ("column", "values", "ends"),
    [
        (NumberColumn(name="x", min=0.0, max=90.0, decimals=1), (2.0, 60.7), ("2.0", "60.7")),
        (IntegerColumn(name="x", min=0, max=1000), (0, 100), ("0", "100")),
        (IntegerColumn(name="x", min=0, max=10**8), (7, 12_345_678), ("7", "12345678")),
        (
            DateColumn(name="x", min="2020-01-01", max="2024-12-31"),
            ("2020-02-01", "2023-03-04"),
            ("2020-02-01", "2023-03-04"),
        ),
        (IntegerColumn(name="x", min=3, max=9, nullable=True), (None, None), ("3", "9")),
    ],
)
def test_the_ends_under_a_column_are_values_that_a_cell_can_have(column, values, ends):
    schema = Schema(name="one", columns=(column,))
    kind = pa.int64() if values[0] is None else None
    table = pa.table({"x": pa.array(values, kind)})
    (shares,) = compare_tables(table, table, schema).columns
    assert _ends(shares, schema) == ends


def test_brackets_that_hold_no_interval_over_test_rows_are_named():
    plain, lenet = (scored(name, synthetic=1.0) for name in ("roc_auc", "lenet_fid"))
    assert outside_context(plain, STRIPES)["interval_words"].endswith("over the real test rows")
    assert "but of LeNet FID the spread" in outside_context(lenet, STRIPES)["interval_words"]
    assert "bootstraps" in METRICS["lenet_fid"].means
    assert "random subsets" in METRICS["lenet_kid"].means


# --- advice ---------------------------------------------------------------------------------


def scored(metric="roc_auc", **values):
    """An evaluation of one metric: a value for each source, or for a group like sex__f."""
    scores = [
        Score(
            metric=metric,
            source=source.partition("__")[0],
            value=value,
            group=source.partition("__")[2] or None,
        )
        for source, value in values.items()
    ]
    return Outside(evaluation=Evaluation(scores=tuple(scores)), comparison=None, means={}, look="")


def titles(found, gist):
    return [piece.title for piece in advise_outside(found, gist)]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"synthetic": 0.55, "noise": 0.56, "real": 0.9}, "no better than noise"),
        ({"synthetic": 0.6, "noise": 0.5, "independent": 0.62}, "hang together was lost"),
        ({"synthetic": 0.8, "noise": 0.5, "independent": 0.6, "real": 0.81}, "Nearly as good"),
        ({"synthetic": 0.7, "noise": 0.5, "real": 0.9}, "lost against real rows: 0.2"),
        ({"synthetic": 0.52, "real": 0.53}, "hard with real rows too"),
        ({"synthetic": 0.8, "real": 0.81, "synthetic__sex=f": 0.5, "real__sex=f": 0.8}, "sex=f"),
    ],
)
def test_each_finding_is_made_from_its_own_numbers(mixed, values, words):
    assert any(words in title for title in titles(scored(**values), mixed[0]))


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({"synthetic": 0.555, "noise": 0.55}, "The synthetic rows are no better than noise"),
        ({"synthetic": 0.61, "independent": 0.6}, "How columns hang together was lost"),
        ({"synthetic": 0.79, "real": 0.8}, "Nearly as good as the real rows"),
    ],
)
def test_scores_that_differ_by_next_to_nothing_count_as_equal(mixed, values, title):
    assert titles(scored(**values), mixed[0]) == [title]


@pytest.mark.parametrize(("half", "title"), [(0.06, "no better than noise"), (0.04, None)])
def test_scores_whose_intervals_overlap_count_as_equal(mixed, half, title):
    found = scored(synthetic=0.6, noise=0.5)
    scores = [replace(s, low=s.value - half, high=s.value + half) for s in found.evaluation.scores]
    found = replace(found, evaluation=Evaluation(scores=tuple(scores)))
    advice = list(advise_outside(found, mixed[0]))
    assert [title in piece.title for piece in advice] == ([True] if title else [])
    assert all("intervals overlap" in piece.why for piece in advice)


def test_small_distances_are_not_equal_because_they_are_small(mixed):
    for better in ("noise", "independent"):
        assert titles(scored("tv2", synthetic=0.03, **{better: 0.045}), mixed[0]) == []


def test_good_scores_get_no_warning(mixed):
    good = {"synthetic": 0.8, "noise": 0.5, "independent": 0.6, "real": 0.81}
    assert titles(scored(**good), mixed[0]) == ["Nearly as good as the real rows"]


def test_for_distances_lower_is_better(mixed):
    assert METRICS["tv2"].better == "low"
    far = scored("tv2", synthetic=0.4, noise=0.3)
    near = scored("tv2", synthetic=0.1, noise=0.3, real=0.09)
    assert titles(far, mixed[0]) == ["The synthetic rows are no better than noise"]
    assert titles(near, mixed[0]) == ["Nearly as good as the real rows"]


def test_columns_that_are_far_off_are_named(folder, mixed):
    real = mixed_table(600, seed=9)
    real["stage"] = "iii"
    content = write_report(folder, against=against(real=real))
    named = [piece.title for piece in content.advice if "far from the real column" in piece.title]
    assert named[0] == "'stage' is far from the real column"
