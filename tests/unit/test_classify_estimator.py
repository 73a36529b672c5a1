"""LocallyLinearMaps as scikit-learn, tables and images see it."""

import math
from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from dpgist.classify.descent import Descent
from dpgist.classify.estimator import LocallyLinearMaps
from dpgist.classify.maps import Maps
from dpgist.classify.setup import Setup
from dpgist.classify.statement import statement, statement_text
from dpgist.classify.tables import array_schema, as_array
from dpgist.errors import ArtefactError, BudgetExceeded, DataError, PrivacyError
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget
from dpgist.schema import BooleanColumn, CategoryColumn, NumberColumn, Schema

BUDGET = Budget(epsilon=8.0, delta=1e-5)
QUICK = {"steps": 2, "rate": 0.5, "rows": 100, "maps": 2, "budget": BUDGET}
NOISY = "the fit is noisy and cannot be seeded: two fits differ, a few rows are not learnt"
PUBLIC = "classes are declared, never read from y, and labels are never examined"
SILENT = "nothing about a cell or the number of rows may raise, because an error is a release"
SCHEMA_ONLY = "anything but numbers is described by a schema and passed as a table"
NOT_APPLICABLE = {
    "check_classifiers_one_label": NOISY,
    "check_classifiers_train": NOISY,
    "check_fit_idempotent": NOISY,
    "check_classifier_data_not_an_array": NOISY,
    "check_classifiers_classes": PUBLIC,
    "check_classifiers_regression_target": PUBLIC,
    "check_decision_proba_consistency": PUBLIC,
    "check_supervised_y_2d": PUBLIC,
    "check_supervised_y_no_nan": SILENT,
    "check_estimators_nan_inf": SILENT,
    "check_estimators_empty_data_messages": SILENT,
    "check_dtype_object": SCHEMA_ONLY,
}


def checks():
    estimator = LocallyLinearMaps(classes=[0, 1, 2], **QUICK)
    for made, check in estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        yield pytest.param(made, check, id=name), name


@pytest.mark.parametrize(
    ("estimator", "check"), [param for param, name in checks() if name not in NOT_APPLICABLE]
)
def test_scikit_learn_checks_that_apply_pass(estimator, check):
    check(estimator)


def test_the_checks_that_do_not_apply_exist():
    assert set(NOT_APPLICABLE) <= {name for _, name in checks()}


BAD_SETTINGS = [
    ("temperature", math.inf),
    ("sharpness", 0),
    ("scale", math.inf),
    ("initial", math.nan),
    ("rows", 0),
    ("rows", 10**400),
    ("descent", "x"),
    ("projection", np.full((2, 2), math.nan)),
    ("rate", 2.0),
    ("clip", math.nan),
    ("steps", 1.5),
    ("random_state", -1),
    ("maps", 0),
    ("max_rows_per_person", 0),
    ("low", math.nan),
]


@pytest.mark.parametrize(("name", "value"), BAD_SETTINGS)
def test_a_senseless_setting_is_refused_by_name_before_the_charge(name, value):
    ledger = Ledger.in_memory(name="arrays", budget=BUDGET, max_rows_per_person=1)
    model = LocallyLinearMaps(classes=[0, 1], **(QUICK | {name: value}))
    with pytest.raises((ValueError, TypeError), match=name):
        model.fit(np.zeros((4, 2)), [0, 1, 0, 1], ledger=ledger)
    assert ledger.spent_units() == 0


def test_numbers_of_any_library_are_settings():
    numbers = {"steps": np.int64(4), "maps": 2.0, "rate": np.float32(0.5), "clip": np.float64(1)}
    model = LocallyLinearMaps(classes=[0, 1], **(QUICK | numbers))
    model.fit(np.zeros((4, 2)), [0, 1, 0, 1])
    assert model.n_iter_ == 4
    assert model.maps_.weights.shape[1] == 2


def test_a_table_in_the_place_of_a_setting_is_not_shown():
    with pytest.raises(TypeError, match="rows must be a number, got DataFrame"):
        LocallyLinearMaps(classes=[0, 1], **(QUICK | {"rows": visits(3)})).fit(
            np.zeros((4, 2)), [0, 1, 0, 1]
        )


def test_one_text_is_no_list_of_classes_and_a_projection_has_an_end():
    x, y = np.zeros((4, 2)), [0, 1, 0, 1]
    with pytest.raises(TypeError, match="list of classes"):
        LocallyLinearMaps(classes="ab", **QUICK).fit(x, y)
    with pytest.raises(ValueError, match="random projection"):
        LocallyLinearMaps(classes=[0, 1], projection=10**9, **QUICK).fit(x, y)


def test_a_frame_and_labels_of_other_length_are_refused_without_a_word_of_how_many():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        LocallyLinearMaps(schema=SCHEMA, **QUICK).fit(visits(77).drop(columns="ill"), ["no"] * 7)


@pytest.mark.parametrize("classes", [[0, 1], ["a", "b"], [False, True], [0, "b"], [0.5, 1.5]])
def test_classes_keep_their_type_through_a_file(classes, tmp_path):
    x = pd.DataFrame(np.random.default_rng(0).random((40, 2)), columns=["p", "q"])
    y = np.array(classes, dtype=object)[np.arange(40) % 2]
    model = LocallyLinearMaps(classes=classes, **QUICK).fit(x, y)
    model.save(tmp_path / "c")
    again = LocallyLinearMaps.load(tmp_path / "c")
    assert model.classes_.tolist() == again.classes_.tolist() == classes
    assert set(again.predict(x)) <= set(classes)


UNWRITTEN = {
    "dates": [date(2020, 1, 1), date(2020, 1, 2)],
    "bytes": [b"a", b"b"],
    "decimals": [Decimal("0.1"), Decimal("0.2")],
    "tuples": [("a", 1), ("b", 2)],
}


@pytest.mark.parametrize("classes", UNWRITTEN.values(), ids=UNWRITTEN)
def test_classes_that_no_file_can_hold_come_back_by_name(classes, tmp_path):
    x, y = np.random.default_rng(0).random((40, 2)), np.empty(40, object)
    y[:] = [classes[row % 2] for row in range(40)]
    LocallyLinearMaps(classes=classes, **QUICK).fit(x, y).save(tmp_path / "c")
    again = LocallyLinearMaps.load(tmp_path / "c")
    assert again.classes_.tolist() == list(again.maps_.classes)
    assert set(again.predict(x)) <= set(again.maps_.classes)


def test_classes_of_single_precision_are_those_of_the_labels(tmp_path):
    classes = np.array([0.1, 0.2], np.float32)
    x, y = np.repeat(np.eye(2), 2000, axis=0), np.repeat(classes, 2000)
    model = LocallyLinearMaps(classes=classes, **(QUICK | {"steps": 40})).fit(x, y)
    model.save(tmp_path / "c")
    for one in (model, LocallyLinearMaps.load(tmp_path / "c")):
        assert np.mean(one.predict(x) == y) > 0.9


def test_maps_whose_schema_names_no_label_are_refused():
    maps = fitted(visits(100)).maps_
    without = replace(maps.schema, label=None).to_dict()
    with pytest.raises(ArtefactError, match="names no label"):
        LocallyLinearMaps.from_maps(replace(maps, facts={**maps.facts, "schema": without}))


def test_a_boolean_label_is_predicted_as_booleans():
    schema = replace(SCHEMA, columns=(SCHEMA.columns[0], BooleanColumn(name="ill")))
    table = pd.DataFrame({"age": np.arange(60) % 100, "ill": np.arange(60) % 2 == 0})
    model = LocallyLinearMaps(schema=schema, **QUICK).fit(table)
    assert 0 <= model.score(table.drop(columns="ill"), table["ill"]) <= 1


MAD = [None, "n/a", 10**30, float("nan"), True, 1 + 2j, [1], "0.5"]


def test_no_cell_of_a_list_raises_or_moves_other_rows():
    rows = [[0.25, 0.5], [True, 1]]
    for cell in MAD:
        more = [*rows, [cell, 0.5]]
        assert np.array_equal(as_array(more)[:2], as_array(rows))
        LocallyLinearMaps(classes=[0, 1], **QUICK).fit(more, [0, 1, cell])


@pytest.mark.parametrize("cell", [0, 0.5, None, "n/a", 1j])
def test_lists_of_images_are_refused_whatever_they_hold(cell):
    images = [[[1, 0], [0, cell]]] * 8
    with pytest.raises(TypeError, match="as a numpy array"):
        LocallyLinearMaps(classes=[0, 1], **QUICK).fit(images, [0, 1] * 4)


def test_rows_of_several_lengths_are_refused_without_a_word_of_how_many():
    with pytest.raises(ValueError, match="each row as long as the others") as caught:
        LocallyLinearMaps(classes=[0, 1], **QUICK).fit([[1.0, 2.0]] * 77 + [[1.0]], [0] * 78)
    assert "7" not in str(caught.value)


SCHEMA = Schema(
    name="visits",
    columns=(
        NumberColumn(name="age", min=0.0, max=100.0),
        CategoryColumn(name="ward", values=("north", "south"), nullable=True),
        CategoryColumn(name="ill", values=("no", "yes")),
    ),
    label="ill",
    rows_about=3000,
)


def visits(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    age, ward = rng.uniform(0, 100, n_rows), rng.choice(["north", "south"], n_rows)
    ill = np.where((age > 50) == (ward == "north"), "yes", "no")
    return pd.DataFrame({"age": age, "ward": ward, "ill": ill})


def fitted(table=None, **more):
    model = LocallyLinearMaps(schema=SCHEMA, **QUICK | {"rows": None} | more)
    return model.fit(visits() if table is None else table)


def test_a_rule_that_no_single_linear_map_can_say_is_learnt_from_a_table():
    test, settings = visits(seed=1), {"rate": 0.3, "steps": 60, "temperature": 1.0}
    assert (fitted(maps=6, **settings).predict(test) == test["ill"]).mean() > 0.9
    assert (fitted(maps=1, **settings).predict(test) == test["ill"]).mean() < 0.8


def test_a_file_predicts_as_the_fit_did(tmp_path):
    model = fitted()
    model.save(tmp_path / "c")
    again = LocallyLinearMaps.load(tmp_path / "c")
    test = visits(50, seed=2)
    assert np.array_equal(again.predict_proba(test), model.predict_proba(test.drop(columns="ill")))
    assert list(again.classes_) == ["no", "yes"]
    card = Maps.load(tmp_path / "c").facts["card"]
    assert card["epsilon"] == 8.0
    assert card["training"]["steps"] == 2
    assert card["training"]["epsilon_alone"] <= 8.0


def test_bad_cells_and_labels_never_raise():
    table = visits(200).astype(object)
    table.loc[:3, "age"] = ["x", None, float("nan"), 1e308]
    table.loc[4:6, "ill"] = ["maybe", None, 7]
    table.loc[7, "ward"] = "west"
    model = fitted(table)
    assert np.isfinite(model.predict_proba(table)).all()


@pytest.mark.parametrize("shape", [(30, 4, 4), (30, 4, 4, 3)])
@pytest.mark.parametrize("projection", ["auto", None, 3])
def test_images_are_learnt_from_arrays(shape, projection):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, shape, dtype=np.uint8), rng.integers(0, 2, 30)
    model = LocallyLinearMaps(classes=[0, 1], projection=projection, **QUICK).fit(x, y)
    assert model.predict(x).shape == (30,)
    assert model.maps_.filters().shape == (2, 2, 16 * (3 if len(shape) == 4 else 1))


@pytest.mark.parametrize("projection", ["auto", None, 5, np.eye(16)[:, :3]])
def test_the_maps_are_the_function_that_was_trained(projection):
    """Centre, scale and projection are folded into the maps without changing the responses."""
    rng = np.random.default_rng(0)
    schema = array_schema((0, 4, 4), classes=("0", "1"), low=0, high=1, name="t")
    settings = LocallyLinearMaps(
        classes=[0, 1], projection=projection, centre=0.2, **QUICK | {"maps": 3}
    )
    setup = Setup(settings, schema, BUDGET)
    parameters = rng.normal(size=tuple(setup.start.shape))
    rows = rng.integers(0, 256, (20, 16)) / 255
    whole = setup.inputs(rows)
    seen = whole[:, 0] / setup.inputs.levels
    outputs = np.empty((20, 6))
    for output in range(6):
        part = seen
        if setup.projected is not None:
            part = seen @ (setup.projected[output // 2] / setup.space.projection_scale)
        outputs[:, output] = part @ parameters[output, :-1]
    outputs = setup.sharpness * (outputs + parameters[:, -1] * setup.space.real_constant)
    responses = setup.maps(parameters, {}).responses(rows)
    assert np.allclose(
        responses.swapaxes(1, 2).reshape(20, 6), outputs, atol=0.02 * setup.sharpness
    )


@pytest.mark.parametrize("shape", [(0, 5, 4), (0, 5, 4, 3)])
@pytest.mark.parametrize("copies", [5, 9])
def test_copies_are_predicted_by_the_mean_of_what_was_trained_on(shape, copies):
    rng = np.random.default_rng(0)
    schema = array_schema(shape, classes=("0", "1"), low=0, high=1, name="t")
    settings = LocallyLinearMaps(classes=[0, 1], copies=copies, centre=0.2, **QUICK)
    setup = Setup(settings, schema, BUDGET)
    parameters = rng.normal(size=tuple(setup.start.shape))
    rows = rng.integers(0, 256, (20, int(np.prod(shape[1:])))) / 255
    seen = setup.inputs(rows) / setup.inputs.levels
    g = seen @ parameters[:, :-1].T + parameters[:, -1] * setup.space.real_constant
    g = setup.sharpness * g.reshape(20, copies, 2, 2)
    s = np.exp(setup.temperature * g)
    scores = (s / s.sum(axis=2, keepdims=True) * g).sum(axis=2).mean(axis=1)
    maps = setup.maps(parameters, {})
    assert maps.n_copies == copies
    assert np.allclose(maps.scores(rows), scores, atol=0.03)
    assert np.abs(maps.scores(rows) - maps._score(rows)).max() > 0.1


def test_copies_are_for_images_and_one_projection():
    x, y = np.zeros((5, 4)), np.zeros(5)
    with pytest.raises(ValueError, match="a table has none"):
        LocallyLinearMaps(classes=[0, 1], copies=5, **QUICK).fit(x, y)
    images = x.reshape(5, 2, 2)
    with pytest.raises(ValueError, match="random projection"):
        LocallyLinearMaps(classes=[0, 1], copies=5, projection=3, **QUICK).fit(images, y)
    with pytest.raises(ValueError, match="one of"):
        LocallyLinearMaps(classes=[0, 1], copies=2, **QUICK).fit(images, y)


def test_a_fit_on_copies_is_saved_and_says_so(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (30, 4, 4), dtype=np.uint8), rng.integers(0, 2, 30)
    model = LocallyLinearMaps(classes=[0, 1], copies=5, **QUICK).fit(x, y)
    assert model.descended_.copies == 5
    card = statement_text(statement(model.maps_, model.maps_.schema))
    assert "trained on 5 moved copies of each image" in card
    assert "ledger kept in memory only" in card
    assert "relation replace_one: epsilon 16, delta 0.02982" in card
    model.save(tmp_path / "c")
    again = LocallyLinearMaps.load(tmp_path / "c")
    assert np.array_equal(again.predict_proba(x), model.predict_proba(x))


def test_a_ledger_is_charged_and_refuses_the_second_fit():
    ledger = Ledger.in_memory(name="visits", budget=BUDGET, max_rows_per_person=1)
    model = LocallyLinearMaps(schema=SCHEMA, **QUICK)
    model.fit(visits(50), budget=BUDGET, ledger=ledger)
    assert ledger.spent_units() == ledger.cap_units
    with pytest.raises(BudgetExceeded):
        model.fit(visits(50), budget=BUDGET, ledger=ledger)


def test_nothing_is_fitted_without_budget_or_public_classes():
    x, y = np.zeros((5, 2)), np.zeros(5)
    with pytest.raises(PrivacyError, match="budget"):
        LocallyLinearMaps(classes=[0, 1]).fit(x, y)
    with pytest.raises(PrivacyError, match="classes must be public"):
        LocallyLinearMaps().fit(x, y, budget=BUDGET)
    with pytest.raises(TypeError, match="schema"):
        LocallyLinearMaps(classes=[0, 1]).fit(visits(5), budget=BUDGET)
    with pytest.raises(DataError, match="needs a schema"):
        LocallyLinearMaps(classes=[0, 1]).fit("visits.csv", budget=BUDGET)


def test_public_randomness_is_fixed_and_noise_is_not():
    first, second = (fitted(descent=Descent(learning_rate=1e-9)) for _ in range(2))
    assert np.allclose(first.maps_.weights, second.maps_.weights, atol=1e-6)
    assert not np.array_equal(first.maps_.weights, second.maps_.weights)
