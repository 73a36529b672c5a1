"""Each metric by itself: small cases worked out by hand, and scikit-learn where it has the same."""

import math

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from dpgist.evaluate import marginals
from dpgist.evaluate.compare import compare_tables
from dpgist.evaluate.dependence import (
    correlation_error,
    correlations,
    cramers_v,
    mmd_squared,
    nearest_record,
)
from dpgist.evaluate.marginals import (
    Bins,
    RangeQuery,
    mean_variation,
    quantile_bins,
    range_error,
    range_queries,
    subsets,
    total_variation,
)
from dpgist.evaluate.ranking import interval, label_scores, ranked_scores, resamples
from dpgist.evaluate.table import class_names, option_names, read_rows
from dpgist.schema import BooleanColumn, CategoryColumn, DateColumn, NumberColumn, Schema

TWO = Schema(
    name="two",
    columns=(
        CategoryColumn(name="colour", values=("red", "blue")),
        CategoryColumn(name="size", values=("s", "l"), nullable=True),
    ),
)
NUMBERS = Schema(
    name="numbers",
    columns=(
        NumberColumn(name="x", min=0.0, max=10.0, nullable=True),
        NumberColumn(name="y", min=-10.0, max=10.0),
        BooleanColumn(name="good"),
    ),
    label="good",
)


def rows_of(schema, **columns):
    return read_rows(pa.table(columns), schema)


def ones(n):
    return np.ones((1, n), np.float32)


# --- predictions ----------------------------------------------------------------------------


@pytest.mark.parametrize("distinct", [2, 5, 10_000])
def test_roc_and_average_precision_agree_with_scikit_learn_for_ties_and_weights(distinct):
    rng = np.random.default_rng(1)
    truth, scores = rng.random(300) < 0.3, rng.integers(0, distinct, 300).astype(float)
    weights = np.vstack([np.ones(300), rng.poisson(1.0, 300)]).astype(np.float32)
    roc, precision = ranked_scores(truth, scores, weights)
    for at, weight in enumerate(weights):
        wanted = roc_auc_score(truth, scores, sample_weight=weight)
        assert roc[at] == pytest.approx(wanted, abs=1e-9)
        wanted = average_precision_score(truth, scores, sample_weight=weight)
        assert precision[at] == pytest.approx(wanted, abs=1e-9)


def test_roc_counts_pairs_in_the_right_order():
    truth = np.array([True, False, True, False])
    roc, _ = ranked_scores(truth, np.array([0.9, 0.8, 0.7, 0.7]), ones(4))
    assert roc[0] == pytest.approx((2 + 0 + 0.5) / 4)  # 0.9 beats both; 0.7 ties with one of two


def test_scores_without_a_positive_row_are_not_a_number():
    roc, precision = ranked_scores(np.zeros(3, bool), np.arange(3.0), ones(3))
    assert np.isnan(roc[0])
    assert np.isnan(precision[0])


def test_label_scores_agree_with_scikit_learn():
    rng = np.random.default_rng(2)
    truth, predicted = rng.integers(0, 4, 200), rng.integers(0, 3, 200)
    accuracy, weighted, recall, f1 = label_scores(truth, predicted, 4, ones(200))
    assert accuracy[0] == pytest.approx((truth == predicted).mean())
    options = {"zero_division": 0.0}
    assert weighted[0] == pytest.approx(f1_score(truth, predicted, average="weighted", **options))
    assert f1[0] == pytest.approx(f1_score(truth, predicted, average=None, **options))
    assert recall[0, 3] == 0.0


def test_the_interval_holds_the_truth_and_shrinks_with_more_rows():
    rng = np.random.default_rng(3)
    widths = []
    for n in (200, 5000):
        truth = rng.random(n) < 0.5
        scores = truth + rng.normal(size=n)
        roc, _ = ranked_scores(truth, scores, resamples(n, rng=rng))
        low, high = interval(roc[1:])
        assert low < 0.760 < high  # P(N(1, 2) > 0)
        widths.append(high - low)
    assert widths[1] < widths[0] / 3


# --- marginals ------------------------------------------------------------------------------


def test_total_variation_of_a_small_case():
    real = rows_of(TWO, colour=["red", "red", "blue", "blue"], size=["s", "s", "l", None])
    other = rows_of(TWO, colour=["red", "red", "red", "blue"], size=["s", "l", "l", "l"])
    bins = quantile_bins(real)
    codes = bins.codes(real), bins.codes(other)
    assert total_variation(*codes, ("colour",), bins) == pytest.approx(0.25)
    assert total_variation(*codes, ("size",), bins) == pytest.approx(0.5)
    # red-s .5 / .25, red-l 0 / .5, blue-l .25 / .25, blue-null .25 / 0
    assert total_variation(*codes, ("colour", "size"), bins) == pytest.approx(0.5)


@pytest.mark.parametrize(("alpha", "count"), [(1, 15), (2, 105), (3, 455), (4, 1365)])
def test_alpha_columns_are_really_alpha_columns(alpha, count):
    rng = np.random.default_rng(0)
    chosen = subsets(tuple("abcdefghijklmno"), alpha, most=2000, rng=rng)
    assert len(chosen) == len(set(chosen)) == count == math.comb(15, alpha)
    assert {len(set(subset)) for subset in chosen} == {alpha}


def test_too_many_subsets_are_sampled_without_repeats():
    chosen = subsets(range(40), 4, most=100, rng=np.random.default_rng(0))
    assert len(set(chosen)) == 100
    assert {len(set(subset)) for subset in chosen} == {4}


def test_wide_marginals_are_the_same_by_sorting_as_by_counting(monkeypatch):
    rng = np.random.default_rng(5)
    bins = Bins(edges={}, sizes={"a": 9, "b": 9, "c": 9}, ordered={})
    real, other = ({n: rng.integers(0, 9, 500) for n in "abc"} for _ in range(2))
    dense = mean_variation(real, other, [("a", "b", "c")], bins)
    monkeypatch.setattr(marginals, "_DENSE_CELLS", 1)
    assert mean_variation(real, other, [("a", "b", "c")], bins) == pytest.approx(dense)


def test_numbers_fall_into_twenty_bins_of_equal_share_and_nulls_into_their_own():
    x = [*np.linspace(0.0, 10.0, 2000).tolist(), None]
    rows = rows_of(NUMBERS, x=x, y=[0.0] * 2001, good=[True] * 2001)
    bins = quantile_bins(rows)
    counts = np.bincount(bins.codes(rows)["x"], minlength=bins.sizes["x"])
    assert len(counts) == 21
    assert set(counts[:20]) <= {99, 100, 101}
    assert counts[20] == 1
    assert len(np.unique(bins.codes(rows)["y"])) == 1


def test_range_error_of_a_small_case():
    real = {"a": np.array([0, 1, 2, 3]), "b": np.array([0, 0, 1, 1])}
    other = {"a": np.array([0, 0, 0, 3]), "b": np.array([0, 1, 1, 1])}
    low_a = ("a", np.array([True, True, False, False]))
    first_b = ("b", np.array([True, False]))
    queries = [RangeQuery(inside=(low_a,)), RangeQuery(inside=(low_a, first_b))]
    assert queries[0].share(real) == 0.5
    assert queries[1].share(other) == 0.25
    assert range_error(real, other, queries) == pytest.approx((0.25 + 0.25) / 2)


def test_range_queries_are_boxes_over_three_columns_without_nulls():
    bins = Bins(
        edges={},
        sizes={"a": 6, "b": 4, "c": 5, "d": 3},
        ordered={"a": 5, "b": 3, "c": 0, "d": 2},
    )
    queries = range_queries(bins, rng=np.random.default_rng(0))
    assert len(queries) == 1000
    for query in queries:
        assert len({name for name, _ in query.inside}) == 3
        for name, inside in query.inside:
            if bins.ordered[name]:
                chosen = np.flatnonzero(inside)
                assert len(chosen) == chosen[-1] - chosen[0] + 1
                assert chosen[-1] < bins.ordered[name]


def test_no_range_of_ordered_values_holds_null_or_what_is_undeclared():
    stage = CategoryColumn(
        name="stage", values=("i", "ii"), ordered=True, nullable=True, other="later"
    )
    schema = Schema(name="stages", columns=(stage, *TWO.columns))
    rows = rows_of(schema, stage=["i", "ii", None], colour=["red"] * 3, size=["s"] * 3)
    bins = quantile_bins(rows)
    queries = range_queries(bins, n_queries=50, rng=np.random.default_rng(0))
    masks = [inside for query in queries for name, inside in query.inside if name == "stage"]
    assert option_names(stage)[2:] == ("(null)", "later")
    assert not any(mask[2:].any() for mask in masks)
    assert all(mask.any() for mask in masks)


# --- dependence -----------------------------------------------------------------------------


def test_cramers_v_of_a_small_case():
    first = np.array([0] * 50 + [1] * 50)
    second = np.array([0] * 40 + [1] * 10 + [0] * 10 + [1] * 40)
    # chi squared 36, phi squared .36; less 1/99; over min(r~, k~) - 1 = 1 - 1/99
    wanted = math.sqrt((0.36 - 1 / 99) / (1 - 1 / 99))
    assert cramers_v(first, second, (2, 2)) == pytest.approx(wanted)
    assert cramers_v(first, first, (2, 2)) == pytest.approx(1.0)
    assert cramers_v(first, np.zeros(100, np.int64), (2, 2)) == 0.0


def test_cramers_v_of_independent_columns_is_small_however_many_values_they_have():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 20, 2000), rng.integers(0, 40, 2000)
    assert cramers_v(first, second, (20, 40)) < 0.05  # without the correction 0.14


def test_correlations_use_the_rows_where_both_are_known():
    x, y = [0.0, 1.0, 2.0, 9.0, None], [0.0, 2.0, 1.0, -4.0, 10.0]
    rows = rows_of(NUMBERS, x=x, y=y, good=[True, False, True, False, True])
    known = np.array(x[:4]), np.array(y[:4])
    assert correlations(rows)[0, 1] == pytest.approx(np.corrcoef(*known)[0, 1])
    assert correlations(rows)[1, 2] == pytest.approx(np.corrcoef(y, [1, 0, 1, 0, 1])[0, 1])


def test_correlation_error_of_a_column_turned_around():
    up = np.arange(10.0)
    real = rows_of(NUMBERS, x=up, y=up, good=[True] * 10)
    other = rows_of(NUMBERS, x=up, y=-up, good=[True] * 10)
    # x-y: from 1 to -1; the label has no spread and correlates with nothing
    assert correlation_error(real, other) == pytest.approx(2 / 3)


def test_mmd_is_about_zero_for_the_same_kind_of_rows_and_not_for_others():
    rng = np.random.default_rng(4)

    def drawn(centre):
        x = np.clip(rng.normal(centre, 1.0, 800), 0, 10)
        return rows_of(NUMBERS, x=x, y=rng.normal(size=800), good=rng.random(800) < 0.5)

    real = drawn(4.0)
    same = mmd_squared(real, drawn(4.0), rng=rng, most=1000)
    far = mmd_squared(real, drawn(6.0), rng=rng, most=1000)
    assert abs(same) < 2e-3
    assert far > 0.01


def test_the_order_of_real_rows_does_not_decide_about_mmd():
    rng = np.random.default_rng(6)

    def drawn(low, high):
        x = np.repeat([low, high], 2000) + rng.normal(0, 0.01, 4000)
        return pa.table({"x": x, "y": np.zeros(4000), "good": np.ones(4000, bool)})

    real, other = drawn(1.0, 9.0), read_rows(drawn(1.2, 8.8), NUMBERS)
    mixed = real.take(rng.permutation(4000))
    found = [
        mmd_squared(read_rows(table, NUMBERS), other, rng=np.random.default_rng(0), most=4000)
        for table in (real, mixed)
    ]
    assert found[0] == pytest.approx(found[1], rel=0.2)


def test_the_nearest_record_of_a_copy_is_the_row_itself():
    rng = np.random.default_rng(5)
    x = rng.random(50) * 10
    rows = rows_of(NUMBERS, x=x, y=x - 5, good=x > 5)
    assert nearest_record(rows, rows, rng=rng, most=100) == pytest.approx(0.0, abs=1e-3)


# --- tables by the schema -------------------------------------------------------------------


def test_cells_become_numbers_codes_and_nulls_by_the_schema():
    schema = Schema(
        name="mixed",
        columns=(
            NumberColumn(name="x", min=0.0, max=1.0, decimals=1, nullable=True),
            DateColumn(name="day", min="1970-01-01", max="1970-12-31"),
            CategoryColumn(name="kind", values=("a", "b"), other="rest", nullable=True),
        ),
        label="kind",
    )
    table = {
        "x": ["0.3", "7", ""],
        "day": ["1970-01-11", "1971-06-01", "1970-01-01"],
        "kind": ["b", "z", None],
    }
    table = pa.table({"x": [0.3, 7.0, None], "day": table["day"], "kind": table["kind"]})
    rows = read_rows(table, schema)
    assert rows.n_rows == 3
    assert rows.numbers["x"][0] == 0.3
    assert np.isnan(rows.numbers["x"][1:]).all()
    assert rows.numbers["day"].tolist() == [10.0, 364.0, 0.0]
    assert option_names(schema.column("kind")) == ("a", "b", "(null)", "rest")
    assert class_names(schema) == ("a", "b", "rest")
    assert rows.classes().tolist() == [1, 2, -1]
    assert rows.broken == {"x": 1, "day": 1, "kind": 0}
    assert "0.3" not in repr(rows)


def test_a_comparison_holds_shares_errors_and_correlations():
    real = pa.table({"x": [1.0, 1.0, 9.0, None], "y": [0.0, 1.0, 2.0, 3.0], "good": [True] * 4})
    other = pa.table({"x": [1.0, 9.0, 9.0, 9.0], "y": [0.0, 1.0, 2.0, 3.0], "good": [False] * 4})
    found = compare_tables(real, other, NUMBERS)
    x, _, good = found.columns
    assert len(x.edges) == len(x.real) + 1 == len(x.synthetic) + 1
    assert (x.real[0], x.real[-1], x.real_null) == (0.5, 0.25, 0.25)
    assert (x.synthetic[0], x.synthetic[-1], x.synthetic_null) == (0.25, 0.75, 0.0)
    assert (good.names, good.real, good.synthetic) == (("false", "true"), (0.0, 1.0), (1.0, 0.0))
    assert found.two_way[1][1] == 0.0
    assert found.two_way[2][2] == found.two_way[1][2] == found.two_way[2][1] == 1.0
    assert found.correlated == ("x", "y", "good")
    assert found.real_correlations[1][1] == pytest.approx(1.0)
    assert found.to_dict()["columns"][0]["name"] == "x"


def test_whole_numbers_are_never_cut_by_a_bar():
    schema = Schema(name="whole", columns=(NumberColumn(name="x", min=0.0, max=500.0, decimals=0),))
    table = pa.table({"x": np.arange(101.0)})
    (x,) = compare_tables(table, table, schema).columns
    assert len(x.real) <= 40
    assert np.allclose(np.diff(x.edges), 3.0)
    assert sum(x.real) == pytest.approx(1.0)
    assert x.edges[0] == -0.5
