"""Models sample what they learnt, as the table kind that went in, and survive their file."""

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from scipy.stats import chisquare
from tests.made_gists import MIXED, STRIPES, gist_of, mixed_table, stripe_images

from dpgist.artefact import read_artefact, write_artefact
from dpgist.errors import ArtefactError
from dpgist.generators.drawing import draw_spread
from dpgist.generators.model import read_model
from dpgist.methods import Merf
from dpgist.training.loop import Training, train_generator

SMALL = Merf(joint_frequencies=20, pair_frequencies=40)


@pytest.fixture(scope="module")
def model():
    gist = gist_of(mixed_table(3000), MIXED, SMALL)
    training = Training(steps=5, components=10)
    return train_generator(gist, SMALL, training, rng=np.random.default_rng(0), device="cpu")


def test_the_same_seed_samples_the_same_rows_and_another_does_not(model):
    assert model.sample(50, seed=1).equals(model.sample(50, seed=1))
    assert not model.sample(50, seed=1).equals(model.sample(50, seed=2))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(None, pd.DataFrame), ("polars", polars.DataFrame), ("pyarrow", pa.Table)],
)
def test_a_table_kind_can_be_asked_for(model, kind, expected):
    table = model.sample(7, seed=1, kind=kind)
    assert isinstance(table, expected)
    assert len(table) == 7


def test_an_unknown_table_kind_is_refused(model):
    with pytest.raises(ValueError, match="pandas, polars, pyarrow"):
        model.sample(7, seed=1, kind="excel")


def test_no_rows_are_a_table_too_and_fewer_are_refused(model):
    empty = model.sample(0, seed=1)
    assert len(empty) == 0
    assert list(empty.columns) == [column.name for column in MIXED.columns]
    with pytest.raises(ValueError, match="at least 0"):
        model.sample(-1, seed=1)


def test_every_cell_keeps_to_the_schema(model):
    table = model.sample(3000, seed=3)
    assert table["age"].between(0, 100).all()
    assert table["gain"].between(0, 1000).all()
    assert set(table["ward"].dropna()) <= {"a", "b", "c"}
    assert set(table["stage"]) <= {"i", "ii", "iii", "later"}


def test_rows_can_be_asked_for_by_label(model):
    assert model.sample(40, seed=1, where={"ill": "true"})["ill"].all()
    assert not model.sample(40, seed=1, where={"ill": False})["ill"].any()


def test_asking_by_another_column_or_value_says_what_is_possible(model):
    for where, words in [
        ({"weight": 3}, "'age', 'gain', 'dose'"),
        ({"ill": "perhaps"}, "'false', 'true'"),
        ({"ward": "d"}, "'a', 'b', 'c', null"),
        ({"age": 101}, "between 0 and 100"),
        ({"age": (40, 30)}, "swap the ends"),
        ({"age": (1, 2, 3)}, "between 0 and 100"),
        ({"age": "old"}, "a number"),
        ({"age": None}, "no null"),
        ({"seen": "yesterday"}, "YYYY-MM-DD"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.sample(1, seed=1, where=where)


def test_rows_can_be_asked_for_by_any_columns_at_once(model):
    where = {"age": "30..40", "dose": None, "ward": "b", "seen": ("2020-02-01", "2020-02-09")}
    rows = model.sample(500, seed=1, where={**where, "ill": True})
    assert rows["age"].between(30, 40).all()
    assert rows["dose"].isna().all()
    assert set(rows["ward"]) == {"b"}
    assert rows["ill"].all()
    seen = pd.to_datetime(rows["seen"])
    assert seen.between("2020-02-01", "2020-02-09").all()
    assert set(model.sample(20, seed=1, where={"gain": 0.0})["gain"]) == {0.0}
    assert set(model.sample(20, seed=1, where={"gain": 123.25})["gain"]) == {123.25}
    assert set(model.sample(20, seed=1, where={"age": 7})["age"]) == {7}


def test_a_condition_gives_the_rows_that_waiting_for_it_would(model):
    everyone = model.sample(200_000, seed=3)
    waited = everyone[everyone["age"].between(60, 80) & (everyone["ward"] == "a")]
    asked = model.sample(50_000, seed=4, where={"age": "60..80", "ward": "a"})
    assert len(waited) > 3_000
    for column in ("stage", "ill", "age"):
        apart = (
            asked[column]
            .value_counts(normalize=True)
            .sub(waited[column].value_counts(normalize=True), fill_value=0.0)
        )
        assert apart.abs().max() < 0.03, column
    assert abs(asked["dose"].mean() - waited["dose"].mean()) < 0.15


def test_classes_come_in_their_shares_or_in_equal_numbers(model):
    share = dict(zip(model.class_codes, model.class_weights, strict=True))[1]
    assert abs(model.sample(1001, seed=1)["ill"].sum() - 1001 * share) <= 1
    assert model.sample(1000, seed=1, balanced=True)["ill"].sum() == 500
    assert model.sample(1000, seed=1, balanced=True, where={"age": "20..40"})["ill"].sum() == 500


def test_a_network_can_be_asked_for_rows_by_its_label_only(network_model):
    assert network_model.sample(10, seed=1, where={"ill": True})["ill"].all()
    with pytest.raises(ValueError, match="label 'ill' only"):
        network_model.sample(1, seed=1, where={"age": 3})


def test_chunks_of_rows_make_the_whole(model):
    sizes = [chunk.num_rows for chunk in model.chunks(250_000, seed=1)]
    assert sizes == [100_000, 100_000, 50_000]


def test_a_saved_model_samples_the_same_rows(model, tmp_path):
    model.save(tmp_path / "a.model")
    read = read_model(tmp_path / "a.model")
    assert read.sample(50, seed=1).equals(model.sample(50, seed=1))
    assert (read.training, read.losses) == (model.training, model.losses)
    assert read.gist_header == model.gist_header


@pytest.fixture(scope="module")
def network_model():
    gist = gist_of(mixed_table(3000), MIXED, SMALL)
    training = Training(steps=3, batch=40, generator="network")
    return train_generator(gist, SMALL, training, rng=np.random.default_rng(0), device="cpu")


@pytest.fixture(scope="module", params=["residual", "conv", "upsampling"])
def image_model(request):
    method = Merf(image_frequencies=30)
    training = Training(steps=3, batch=40, generator=request.param)
    gist = gist_of(stripe_images(500), STRIPES, method)
    return train_generator(gist, method, training, rng=np.random.default_rng(0), device="cpu")


def test_a_saved_network_samples_the_same_rows(network_model, tmp_path):
    network_model.save(tmp_path / "a.model")
    read = read_model(tmp_path / "a.model")
    assert read.sample(50, seed=1).equals(network_model.sample(50, seed=1))
    assert read.generator.sizes == network_model.generator.sizes


def test_images_come_out_as_arrays_and_survive_the_file(image_model, tmp_path):
    image_model.save(tmp_path / "a.model")
    read = read_model(tmp_path / "a.model")
    arrays, again = image_model.sample(60, seed=1), read.sample(60, seed=1)
    assert (arrays["x"].shape, arrays["x"].dtype) == ((60, 8, 8), np.uint8)
    assert set(arrays["y"]) == {"across", "down"}
    assert np.array_equal(arrays["x"], again["x"])
    assert read.generator.kind == image_model.generator.kind
    assert set(image_model.sample(9, seed=1, where={"way": "down"})["y"]) == {"down"}


def test_arrays_are_for_images_only(model):
    with pytest.raises(ValueError, match="image"):
        model.sample(3, seed=1, kind="arrays")


def spoilt(payload, tensors, how):
    last = max(name for name in tensors if name.endswith("running_var"))
    if how == "kind":
        payload["generator"]["kind"] = "mixture"
    elif how == "image kind":
        payload["generator"]["kind"] = "conv"
    elif how == "unknown kind":
        payload["generator"]["kind"] = "magic"
    elif how == "auto":
        payload["generator"]["kind"] = "auto"
    elif how == "size":
        payload["generator"]["sizes"]["hidden"] += 1
    elif how == "missing size":
        del payload["generator"]["sizes"]["depth"]
    elif how == "no generator":
        del payload["generator"]
    elif how == "missing buffer":
        del tensors[last]
    elif how == "buffer dtype":
        tensors[last] = tensors[last].astype(np.float64)
    elif how == "buffer not finite":
        tensors[last] = np.full_like(tensors[last], np.inf)


@pytest.mark.parametrize(
    "how",
    [
        "kind",
        "image kind",
        "unknown kind",
        "auto",
        "size",
        "missing size",
        "no generator",
        "missing buffer",
        "buffer dtype",
        "buffer not finite",
    ],
)
def test_a_network_that_contradicts_its_file_is_refused(network_model, tmp_path, how):
    network_model.save(tmp_path / "a.model")
    payload, tensors = read_artefact(tmp_path / "a.model", "model")
    spoilt(payload, tensors, how)
    write_artefact(tmp_path / "b.model", "model", payload, tensors)
    with pytest.raises(ArtefactError):
        read_model(tmp_path / "b.model")


def broken(payload, tensors, how):
    if how == "missing tensor":
        del tensors["cells.0"]
    elif how == "extra tensor":
        tensors["more"] = np.zeros(3, np.float32)
    elif how == "shape":
        tensors["cells.0"] = tensors["cells.0"][:-1].copy()
    elif how == "dtype":
        tensors["cells.0"] = tensors["cells.0"].astype(np.float64)
    elif how == "not finite":
        tensors["cells.0"] = np.full_like(tensors["cells.0"], np.nan)
    elif how == "no components":
        del tensors["components"]
    elif how == "class":
        payload["class_codes"][0] = 99
    elif how == "weight":
        payload["class_weights"][0] = -1.0
    elif how == "schema":
        payload["gist"]["schema"] = {"table": {}}
    elif how == "no losses":
        del payload["losses"]


@pytest.mark.parametrize(
    "how",
    [
        "missing tensor",
        "extra tensor",
        "shape",
        "dtype",
        "not finite",
        "no components",
        "class",
        "weight",
        "schema",
        "no losses",
    ],
)
def test_a_file_that_contradicts_itself_is_refused(model, tmp_path, how):
    model.save(tmp_path / "a.model")
    payload, tensors = read_artefact(tmp_path / "a.model", "model")
    broken(payload, tensors, how)
    write_artefact(tmp_path / "b.model", "model", payload, tensors)
    with pytest.raises(ArtefactError):
        read_model(tmp_path / "b.model")


def test_cells_are_drawn_with_their_probabilities():
    probabilities = np.array([[0.5, 0.0, 0.5, 0.0], [0.1, 0.2, 0.3, 0.4]])
    given = np.repeat([0, 1], 50_000)
    drawn = draw_spread(probabilities, given, rng=np.random.default_rng(0))
    assert set(drawn[:50_000]) == {0, 2}
    counts = np.bincount(drawn[50_000:], minlength=4)
    assert chisquare(counts, 50_000 * probabilities[1]).pvalue > 1e-6
