"""The papers' benchmark: public schemas, summaries, and a page that the result files make."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import create_autospec

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

papers_data = pytest.importorskip("papers_data")  # pandas and scikit-learn
import papers  # noqa: E402
import papers_images  # noqa: E402
import papers_summary  # noqa: E402
import results_page  # noqa: E402

from dpgist.evaluate.table import class_names  # noqa: E402
from dpgist.schema import Schema  # noqa: E402

SCHEMAS = sorted((ROOT / "benchmarks" / "schemas").glob("*.toml"))


def run_of(value, *, column="1", seed=0, metric="roc_hard", why=None):
    score = {metric: value} | ({"why": why} if why else {})
    return {
        "column": column,
        "seed": seed,
        "rows": {"train": 90, "test": 10},
        "class_shares": {"test": {">50K": 0.25, "<=50K": 0.75}},
        "scores": {"LR": score, "GNB": score},
    }


def test_there_is_a_public_schema_for_each_of_the_ten_data_sets():
    wanted = {*papers_data.DATA, "mnist", "fashion_mnist"}
    assert {path.stem for path in SCHEMAS} == wanted
    assert len(wanted) == 10


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_a_schema_file_loads_and_says_where_it_comes_from(path):
    assert Schema.load(path).name == path.stem
    assert "Public schema" in path.read_text()


@pytest.mark.parametrize("data", papers_data.DATA.values(), ids=lambda data: data.name)
def test_the_positive_class_is_the_one_the_evaluator_takes(data):
    names = class_names(data.schema())
    assert data.under_sampled in names
    if data.positive is None:
        assert len(names) > 2
    else:
        assert names == (data.under_sampled, data.positive)


def test_the_page_is_the_one_the_result_files_make():
    assert results_page.PAGE.read_text() == results_page.page()


def test_a_value_is_the_mean_over_classifiers_then_over_runs():
    runs = [run_of(0.6), run_of(0.8, seed=1)]
    value = papers_summary.column_value("adult", runs, "roc_hard")
    assert value.mean == pytest.approx(0.7)
    assert value.std == pytest.approx(0.1 * 2**0.5)
    assert value.text() == "0.700 ± 0.141"


def test_runs_with_fewer_classifiers_do_not_shift_the_mean_of_all():
    full, few = run_of(0.9, metric="accuracy"), run_of(0.7, seed=1, metric="accuracy")
    full["scores"]["SVM"] = {"accuracy": 0.2}
    value = papers_summary.column_value("mnist", [full, few], "accuracy")
    assert value.mean == pytest.approx((0.8 + 0.8 + 0.2) / 3)
    assert value.std == pytest.approx(0.1 * 2**0.5)


def test_a_classifier_that_saw_one_class_counts_as_chance():
    runs = [run_of(None, why="column 'income': the fitted rows hold one class only")]
    assert papers_summary.column_value("adult", runs, "roc_hard").mean == 0.5
    assert papers_summary.column_value("adult", runs, "pr_hard").mean == 0.25
    assert papers_summary.one_class_runs(runs) == 1


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((0.70, 0.72), "past"), ((0.63, 0.66), "within"), ((0.60, 0.61), "MISS"), ((), "to come")],
)
def test_a_miss_is_more_than_one_standard_deviation_below_the_paper(values, verdict):
    runs = [run_of(value, seed=seed) for seed, value in enumerate(values)]
    assert results_page._verdict("adult", "1", runs) == verdict


def test_partial_and_rebuilt_data_are_not_counted():
    counted = [name for name in results_page.NAMES if results_page.is_counted(name)]
    assert len(counted) == 8
    assert not {"isolet", "epileptic"} & set(counted)


@pytest.mark.parametrize("file", ["mnist", "pearl-adult", "pearl-mnist"])
def test_a_task_hands_over_what_its_part_takes(monkeypatch, file):
    """An autospec refuses whatever the real function would."""
    for module, name in ((papers.images, "run_images"), (papers.pearl, "run_pearl")):
        monkeypatch.setattr(module, name, create_autospec(getattr(module, name), return_value={}))
    more = {"critic": "on"} if file in papers.PEARL else {}
    task = papers.Task(file=file, column="1", seed=0, quick=True, samples=None, more=more)
    assert task.run() == {}


def test_a_model_of_another_method_is_not_scored_under_a_name_not_its_own():
    model = SimpleNamespace(gist_header={"method": "merf"})
    papers_images.refuse_other_method(model, "merf")
    with pytest.raises(ValueError, match="made by method merf, not by hermite"):
        papers_images.refuse_other_method(model, "hermite")


@pytest.mark.data
def test_a_quick_run_goes_through_and_is_skipped_the_second_time(tmp_path):
    folder = Path(os.environ.get("DPGIST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the real data sets are not here; DPGIST_DATA names their folder")
    command = [sys.executable, "benchmarks/papers.py", "--quick", "--only", "cervical", "grid"]
    environment = os.environ | {"TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    first, second = (
        subprocess.run(
            command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        ).stdout
        for _ in range(2)
    )
    assert first.startswith("8 runs to do")
    assert second.startswith("0 runs to do")
