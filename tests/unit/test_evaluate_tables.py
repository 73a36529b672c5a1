"""A whole evaluation: it tells good rows from bad, says what it cannot, and leaves a line."""

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dpgist as dg
from dpgist import scoring
from dpgist.demo.patients import SCHEMA, simulate
from dpgist.evaluate.groups import make_groups
from dpgist.evaluate.scores import METRICS, STAMP, Evaluation, Score
from dpgist.evaluate.table import read_rows
from dpgist.evaluate.tables import fidelity_scores
from dpgist.references import independent_rows, noise_gist, noise_rows

BUDGET = dg.Budget(epsilon=2.0, delta=1e-6)
N_TRAIN, N_TEST = 1500, 1500


def shuffled(table, names, seed=0):
    rng = np.random.default_rng(seed)
    for name in names:
        at = table.column_names.index(name)
        table = table.set_column(at, name, table[name].take(rng.permutation(len(table))))
    return table


@pytest.fixture(scope="module")
def tables():
    table = simulate(2 * N_TRAIN + N_TEST, rng=np.random.default_rng(0))
    parts = {
        "real": table.slice(0, N_TRAIN),
        "again": table.slice(N_TRAIN, N_TRAIN),
        "test": table.slice(2 * N_TRAIN),
    }
    parts["independent"] = shuffled(parts["real"], [column.name for column in SCHEMA.columns])
    parts["constant"] = pa.concat_tables([parts["real"].slice(3, 1)] * N_TRAIN)
    return parts


def evaluated(tables, synthetic, **options):
    return dg.evaluate(tables["test"], synthetic, SCHEMA, **options)


@pytest.fixture(scope="module")
def gist(tables):
    ledger = dg.Ledger.in_memory(name=SCHEMA.name, budget=BUDGET, max_rows_per_person=1)
    method = dg.Merf(joint_frequencies=50, pair_frequencies=100)
    return dg.release(tables["real"], SCHEMA, method, BUDGET, ledger=ledger)


@pytest.fixture(scope="module")
def full(tables, gist):
    """Good rows with every reference and with groups."""
    seen = []
    found = evaluated(
        tables,
        tables["again"],
        train=tables["real"],
        gist=gist,
        groups=("sex", "age"),
        progress=lambda *step: seen.append(step),
    )
    return found, seen


# --- each metric can tell -------------------------------------------------------------------


@pytest.fixture(scope="module")
def likeness(tables):
    """Every score of likeness, by what was compared with the test rows."""
    test = read_rows(tables["test"], SCHEMA)
    return {
        name: {
            score.metric: score.value
            for score in fidelity_scores(
                name, read_rows(table, SCHEMA), test, groups=(), rng=np.random.default_rng(1)
            )
        }
        for name, table in tables.items()
    }


@pytest.mark.parametrize("metric", ["tv1", "tv2", "tv3", "tv4", "tv2_l1", "range_queries", "mmd"])
def test_real_rows_beat_independent_columns_which_beat_a_constant(likeness, metric):
    values = [likeness[name][metric] for name in ("real", "independent", "constant")]
    if metric == "tv1":  # one column at a time, independent columns are real
        assert values[1] == pytest.approx(values[0])
        assert values[1] < values[2]
    else:
        assert values[0] < values[1] < values[2]


@pytest.mark.parametrize("metric", ["correlation", "cramers_v"])
def test_only_real_rows_keep_what_hangs_together(likeness, metric):
    assert likeness["real"][metric] < 0.6 * likeness["independent"][metric]
    assert likeness["real"][metric] < 0.6 * likeness["constant"][metric]


def test_a_copy_of_the_real_rows_has_no_error(likeness):
    for metric in ("tv1", "tv2", "tv3", "tv4", "tv2_l1", "range_queries"):
        assert likeness["test"][metric] == 0.0, metric
    for metric in ("correlation", "cramers_v"):
        assert likeness["test"][metric] == pytest.approx(0.0, abs=1e-12), metric
    assert likeness["test"]["mmd"] < 1e-3


def test_the_l1_distance_of_pairs_is_twice_their_total_variation(likeness):
    assert likeness["real"]["tv2_l1"] == pytest.approx(2 * likeness["real"]["tv2"])


def test_classifiers_trained_on_real_rows_beat_independent_columns(tables):
    found = evaluated(tables, tables["independent"], train=tables["real"])
    for metric in ("roc_auc", "pr_auc", "roc_hard", "f1_weighted"):
        assert found.mean(metric, "real") > found.mean(metric) + 0.05, metric
    assert found.find("roc_auc", source="real").low > found.find("roc_auc").high


def test_a_shuffled_label_drops_roc_to_a_half(tables):
    shuffled_test = shuffled(tables["test"], ["readmitted"])
    found = dg.evaluate(shuffled_test, tables["real"], SCHEMA)
    assert found.mean("roc_auc") == pytest.approx(0.5, abs=0.04)
    score = found.find("roc_auc")
    assert score.low < 0.5 < score.high
    trained = evaluated(tables, shuffled(tables["real"], ["readmitted"]))
    assert trained.mean("roc_auc") == pytest.approx(0.5, abs=0.12)


def test_rows_whose_columns_say_nothing_are_worth_a_guess(tables):
    names = [column.name for column in SCHEMA.columns if column.name != "readmitted"]
    empty = tables["real"].select(["readmitted"])
    for name in names:
        empty = empty.append_column(name, tables["constant"][name])
    found = evaluated(tables, empty)
    share = pc.mean(pc.equal(tables["test"]["readmitted"], "yes")).as_py()
    for model in ("forest", "boosting"):  # where there is nothing to split on, all rows tie
        assert found.find("roc_auc", model=model).value == pytest.approx(0.5)
        assert found.find("pr_auc", model=model).value == pytest.approx(share)


# --- what an evaluation holds ---------------------------------------------------------------


def test_every_reference_and_classifier_has_a_score_with_an_interval(full):
    found, _ = full
    assert found.sources == ("synthetic", "real", "independent", "noise")
    assert found.models == ("logistic", "forest", "boosting")
    for source in ("synthetic", "real"):  # noise may have drawn one class only
        for model in (None, *found.models):
            score = found.find("roc_auc", source=source, model=model)
            assert score.low < score.value < score.high
    for source in found.sources:
        assert found.find("tv4", source=source).value > 0
    means = [found.find("roc_auc", model=model).value for model in found.models]
    assert found.mean("roc_auc") == pytest.approx(np.mean(means))


def test_likeness_orders_the_references(full):
    found, _ = full
    for metric in ("tv1", "tv2", "tv3", "range_queries", "mmd"):
        real, noise = found.mean(metric, "real"), found.mean(metric, "noise")
        assert real < found.mean(metric, "independent") < noise, metric


def test_groups_are_scored_and_the_worst_is_named(full, tables):
    found, _ = full
    assert {"class=yes", "class=no", "sex=female", "sex=male"} <= set(found.groups)
    assert sum(group.startswith("age") for group in found.groups) == 4
    for metric in ("roc_auc", "accuracy", "tv2", "mmd"):
        values = {
            score.group: score.value
            for score in found.scores
            if (score.metric, score.source, score.model) == (metric, "synthetic", None)
            and score.group is not None
        }
        pick = min if METRICS[metric].better == "high" else max
        assert found.worst_group(metric).group == pick(values, key=values.get)
        assert len(values) >= 6
    recalls = [found.find("accuracy", group=f"class={name}").value for name in ("no", "yes")]
    share = pc.mean(pc.equal(tables["test"]["readmitted"], "yes")).as_py()
    whole = recalls[0] * (1 - share) + recalls[1] * share
    assert found.mean("accuracy") == pytest.approx(whole)


def test_the_text_shows_stamp_sources_metrics_classifiers_and_groups(full):
    text = full[0].table()
    assert text.startswith("OUTSIDE THE GUARANTEE")
    for word in ("synthetic", "real training rows", "independent columns", "pure noise"):
        assert word in text
    for word in ("ROC AUC", "TV 3", "MMD²", "boosting", "WORST GROUPS", "NO privacy measure"):
        assert word.lower() in text.lower()


def test_the_json_twin_holds_every_score(full):
    found, _ = full
    twin = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert twin["stamp"] == STAMP
    assert len(twin["scores"]) == len(found.scores)
    assert Score(**twin["scores"][0]) == found.scores[0]
    assert "NO privacy measure" in twin["metrics"]["nearest_record"]["means"]


def test_progress_counts_to_the_end(full):
    _, seen = full
    done, total, _ = seen[-1]
    assert done == total
    assert [step[0] for step in seen] == sorted(step[0] for step in seen)


def test_the_same_seed_gives_the_same_scores(tables):
    first, second = (evaluated(tables, tables["again"], seed=5) for _ in range(2))
    assert first.scores == second.scores


def test_several_classes_are_scored_one_against_the_rest(tables):
    schema = dg.Schema(name="stays", columns=SCHEMA.columns, label="severity")
    found = dg.evaluate(tables["test"], tables["real"], schema)
    assert set(found.metrics) >= {"roc_auc", "pr_auc", "f1_weighted", "accuracy"}
    assert "roc_hard" not in found.metrics
    assert 0.6 < found.mean("roc_auc") < 1.0
    each = [
        found.find("roc_auc", group=f"class={name}").value
        for name in ("mild", "moderate", "severe", "critical")
    ]
    assert found.mean("roc_auc") == pytest.approx(np.mean(each))


# --- references -----------------------------------------------------------------------------


def test_independent_columns_keep_each_column_and_nothing_else(tables):
    rng = np.random.default_rng(0)
    table = independent_rows(tables["real"], SCHEMA, BUDGET, 4000, rng=rng)
    assert table.column_names == [column.name for column in SCHEMA.columns]
    real, own = (read_rows(rows, SCHEMA) for rows in (tables["real"], table))
    scores = fidelity_scores("independent", own, real, groups=(), rng=rng)
    values = {score.metric: score.value for score in scores}
    assert values["tv1"] < 0.15
    assert values["tv1"] < values["tv2"] / 1.5
    share = pc.mean(pc.equal(tables["real"]["readmitted"], "yes")).as_py()
    assert pc.mean(pc.equal(table["readmitted"], "yes")).as_py() == pytest.approx(share, abs=0.05)


def test_the_noise_reference_is_released_of_no_rows(gist):
    noise = noise_gist(gist)
    assert noise.schema == gist.schema
    assert abs(noise.released.last["counts"].sums().sum()) < 300
    table = noise_rows(gist, 50, rng=np.random.default_rng(0))
    assert len(table) == 50


# --- bad input ------------------------------------------------------------------------------


def test_a_column_that_one_table_lacks_is_left_out_and_named(tables):
    found = evaluated(tables, tables["again"].drop_columns(["age", "crp"]))
    assert any("'age' is missing from the synthetic rows" in note for note in found.notes)
    assert any("'crp'" in note for note in found.notes)
    assert found.mean("roc_auc") > 0.6
    assert found.mean("tv2") > 0


def test_training_rows_that_lack_a_column_cost_one_reference_alone(tables, gist):
    lacking = tables["real"].drop_columns(["crp"])
    seen = []
    found = evaluated(
        tables, tables["again"], train=lacking, gist=gist, progress=lambda *s: seen.append(s)
    )
    assert found.sources == ("synthetic", "real", "noise")
    assert any("independent columns could not be made" in note for note in found.notes)
    assert seen[-1][0] == seen[-1][1]


def test_without_training_rows_independent_columns_come_from_the_test_rows(tables, gist):
    extra = tables["test"].append_column("more", pa.array([1] * N_TEST))
    found = dg.evaluate(extra, tables["again"], SCHEMA, gist=gist)
    assert found.sources == ("synthetic", "independent", "noise")
    assert any("made from the test rows" in note for note in found.notes)


def test_a_missing_label_leaves_likeness_to_be_scored(tables):
    found = evaluated(tables, tables["again"].drop_columns(["readmitted"]))
    score = found.find("roc_auc")
    assert score.value is None
    assert "label" in score.why
    assert found.mean("tv2") > 0


def test_columns_the_schema_does_not_know_are_not_read_nor_named(tables):
    extra = tables["again"].append_column("secret-name", pa.array(["x"] * N_TRAIN))
    found = evaluated(tables, extra)
    assert any("a column that the schema does not know" in note for note in found.notes)
    assert "secret-name" not in found.table() + json.dumps(found.to_dict())


def test_tables_with_nothing_in_common_are_refused(tables):
    with pytest.raises(dg.DataError, match="synthetic rows have none of the schema's columns"):
        evaluated(tables, pa.table({"x": [1.0]}))


def test_a_column_of_the_wrong_type_is_refused_by_name(tables):
    wrong = tables["again"].set_column(0, "age", pa.array(["old"] * N_TRAIN))
    with pytest.raises(dg.DataError, match=r"the synthetic rows: column 'age'.*stored as string"):
        evaluated(tables, wrong)


@pytest.mark.parametrize("side", ["synthetic", "real test"])
def test_a_label_of_one_class_gives_no_roc_but_a_reason(tables, side):
    one = tables["real"].filter(pc.equal(tables["real"]["readmitted"], "no"))
    given = (tables["test"], one) if side == "synthetic" else (one, tables["again"])
    found = dg.evaluate(*given, SCHEMA)
    score = found.find("roc_auc")
    assert score.value is None
    assert score.why == f"column 'readmitted': the {side} rows hold one class only"
    assert score.why in found.table()
    assert found.mean("tv1") > 0


@pytest.mark.parametrize("side", ["synthetic", "real test"])
def test_no_rows_give_no_scores_but_a_reason(tables, side):
    none = tables["test"].slice(0, 0)
    given = (tables["test"], none) if side == "synthetic" else (none, tables["again"])
    found = dg.evaluate(*given, SCHEMA, groups=("sex",))
    for metric in ("roc_auc", "tv1", "mmd", "correlation"):
        assert found.find(metric).value is None
        assert found.find(metric).why == f"there are no {side} rows"
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.table()


def test_rows_with_a_null_label_take_no_part_and_are_counted(tables):
    labels = tables["again"]["readmitted"].to_pylist()
    labels[:7] = [None] * 7
    table = tables["again"].set_column(9, "readmitted", pa.array(labels))
    found = evaluated(tables, table)
    assert found.mean("roc_auc") > 0.6
    assert any("7 rows have no declared label" in note for note in found.notes)
    all_null = tables["again"].set_column(9, "readmitted", pa.nulls(N_TRAIN, pa.string()))
    found = evaluated(tables, all_null)
    assert found.find("roc_auc").why == (
        "column 'readmitted': no synthetic row has a declared label"
    )


def test_cells_that_break_the_schema_are_counted_by_column(tables):
    ages = tables["again"]["age"].to_pylist()
    ages[0] = 4242
    found = evaluated(tables, tables["again"].set_column(0, "age", pa.array(ages)))
    (said,) = [note for note in found.notes if "'age'" in note]
    assert "1 cell" in said
    assert "4242" not in found.table() + json.dumps(found.to_dict())
    ages[1] = 4242
    found = evaluated(tables, tables["again"].set_column(0, "age", pa.array(ages)))
    assert any(note.endswith("2 cells break the schema, corrected") for note in found.notes)


def test_a_schema_without_a_label_is_scored_by_likeness_alone(tables):
    schema = dg.Schema(name="plain", columns=SCHEMA.columns)
    found = dg.evaluate(tables["test"], tables["again"], schema)
    assert found.find("roc_auc").why == "there is no label to predict"
    assert found.mean("correlation") < 0.2


def test_a_group_that_the_rows_lack_is_as_far_off_as_can_be(tables):
    women = tables["again"].filter(pc.equal(tables["again"]["sex"], "female"))
    found = evaluated(tables, women, groups=("sex",))
    worst = found.worst_group("tv2")
    assert (worst.group, worst.value) == ("sex=male", 1.0)
    assert "no synthetic rows" in worst.why
    boxes = found.worst_group("range_queries")
    assert boxes.group == "sex=male"
    assert 0 < boxes.value < 1


def test_a_group_that_the_rows_lack_is_named_worst_where_it_has_no_score_too(tables):
    women = tables["again"].filter(pc.equal(tables["again"]["sex"], "female"))
    found = evaluated(tables, women, groups=("sex",))
    for metric in ("mmd", "correlation", "cramers_v"):
        worst = found.worst_group(metric)
        assert (worst.group, worst.value) == ("sex=male", None)
    lines = [line.split() for line in found.table().splitlines()]
    assert any(line[:3] == ["MMD²", "↓", "sex=male"] and "no" in line for line in lines)


def group_sizes(column, values):
    schema = dg.Schema(name="numbers", columns=(column,))
    rows = read_rows(pa.table({column.name: values}), schema)
    return {group.name: int(group.of(rows).sum()) for group in make_groups(rows, [column.name])}


def test_groups_of_numbers_are_named_by_the_values_they_hold():
    whole = dg.IntegerColumn(name="n", min=0, max=9, nullable=True)
    found = group_sizes(whole, [0] * 4 + [1, 2, 3, 4, 5, None])
    assert found == {"n=0": 4, "n=1..2": 2, "n>=3": 3, "n=(null)": 1}
    steps = dg.NumberColumn(name="x", min=0.0, max=2.0, decimals=1)
    tenths = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    assert list(group_sizes(steps, tenths)) == ["x<0.2", "x=0.2..0.3", "x=0.4..0.5", "x>=0.6"]
    free = dg.NumberColumn(name="x", min=0.0, max=2.0)
    assert list(group_sizes(free, tenths)) == ["x<0.2", "x=0.2..<0.4", "x=0.4..<0.6", "x>=0.6"]
    days = dg.DateColumn(name="day", min="2024-01-01", max="2024-12-31")
    dates = [f"2024-01-{day:02}" for day in range(1, 9)]
    assert "day=2024-01-02..2024-01-03" in group_sizes(days, dates)


def test_the_l1_distance_claims_all_pairs_only_where_it_takes_them():
    assert "all pairs" not in METRICS["tv2_l1"].means


@pytest.mark.parametrize("groups", [("height",), ("readmitted",), ("sex", "sex")])
def test_columns_that_cannot_be_grouped_by_are_refused(tables, groups):
    with pytest.raises(dg.DataError, match=r"group by|label"):
        evaluated(tables, tables["again"], groups=groups)


def test_an_unknown_set_of_classifiers_is_refused(tables):
    with pytest.raises(ValueError, match="three or twelve"):
        evaluated(tables, tables["again"], classifiers="seven")


def test_a_gist_of_another_schema_is_refused(tables, gist):
    other = dg.Schema(name="other", columns=SCHEMA.columns, label="readmitted")
    with pytest.raises(dg.DataError, match="another schema"):
        dg.evaluate(tables["test"], tables["again"], other, gist=gist)


def test_a_classifier_that_is_not_installed_has_no_score_but_a_reason(tables, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    small = {name: table.slice(0, 200) for name, table in tables.items()}
    found = evaluated(small, small["again"], classifiers="twelve")
    assert len(found.models) == 12
    score = found.find("roc_hard", model="XGB")
    assert score.value is None
    assert "pip install 'dpgist[evaluate]'" in score.why
    assert found.find("roc_hard").why.startswith("the mean is without XGB")
    values = [found.find("roc_hard", model=name).value for name in found.models if name != "XGB"]
    assert found.mean("roc_hard") == pytest.approx(np.mean(values))


def test_the_look_is_in_the_ledger_before_the_first_row_is_read(tables, tmp_path, monkeypatch):
    path = tmp_path / "l.ledger"
    dg.Ledger.create(path, name=SCHEMA.name, epsilon=1, delta=1e-6, relation="add_remove")
    seen = []

    def reading(*_, **__):
        seen.append(dg.Ledger.open(path).entries()[-1].body)
        raise KeyboardInterrupt

    monkeypatch.setattr(scoring, "read_rows", reading)
    with pytest.raises(KeyboardInterrupt):
        evaluated(tables, tables["again"], ledger=path)
    (line,) = seen
    assert line["kind"] == "unprotected look"
    assert "evaluate" in line["what"]
    assert dg.Ledger.open(path).spent_units() == 0


def test_a_refused_evaluation_leaves_no_line(tables, tmp_path):
    path = tmp_path / "l.ledger"
    dg.Ledger.create(path, name=SCHEMA.name, epsilon=1, delta=1e-6, relation="add_remove")
    with pytest.raises(dg.DataError):
        evaluated(tables, pa.table({"x": [1.0]}), ledger=path)
    assert len(dg.Ledger.open(path).entries()) == 1


def test_the_ledger_of_another_table_is_refused(tables, tmp_path):
    path = tmp_path / "l.ledger"
    dg.Ledger.create(path, name="other", epsilon=1, delta=1e-6, relation="add_remove")
    with pytest.raises(dg.PrivacyError, match="made for 'other'"):
        evaluated(tables, tables["again"], ledger=path)


def test_a_mean_that_is_not_there_is_not_a_number():
    assert np.isnan(Evaluation(scores=()).mean("roc_auc"))
    assert Evaluation(scores=()).worst_group("roc_auc") is None


# --- images ---------------------------------------------------------------------------------
