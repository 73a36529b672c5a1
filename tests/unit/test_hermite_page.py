"""The page of DP-HP's results is the one that the result files make."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

pytest.importorskip("papers_data")  # pandas and scikit-learn
import hermite_page


def test_the_page_is_the_one_the_result_files_make():
    assert hermite_page.PAGE.read_text() == hermite_page.page()


def test_a_mean_below_the_paper_by_more_than_its_spread_is_a_miss():
    value = hermite_page.Value
    assert hermite_page._verdict(value(mean=0.70, std=0.01, n_runs=3), 0.69) == "past"
    assert hermite_page._verdict(value(mean=0.685, std=0.01, n_runs=3), 0.69) == "within one std"
    assert hermite_page._verdict(value(mean=0.67, std=0.01, n_runs=3), 0.69) == "miss"
    assert hermite_page._verdict(None, 0.69) == "to come"
