"""T-TAMPER: an altered, truncated, foreign or forged file is refused, and runs nothing."""

import io
import json
import pickle
import resource
import zipfile

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save

import dpgist as dg
from dpgist.artefact import read_artefact, write_artefact
from dpgist.classify.folder import read_classifier
from dpgist.classify.statement import statement, statement_text
from dpgist.outputs import model_card
from dpgist.privacy.ledger import Ledger

SCHEMA = dg.Schema(
    name="t",
    columns=(dg.NumberColumn(name="x", min=0.0, max=1.0), dg.BooleanColumn(name="y")),
    label="y",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    budget = dg.Budget(epsilon=1.0, delta=1e-5)
    ledger = Ledger.in_memory(name="t", budget=budget, max_rows_per_person=1)
    table = pd.DataFrame({"x": np.linspace(0, 1, 50), "y": [True, False] * 25})
    method = dg.Merf(joint_frequencies=20, pair_frequencies=20)
    gist = dg.release(table, SCHEMA, method, budget, ledger=ledger)
    gist.save(folder / "good.gist")
    dg.train(gist, dg.Training(steps=2)).save(folder / "good.model")
    return folder


READERS = {"good.gist": dg.read_gist, "good.model": dg.read_model}


def refused(reader, path, content):
    path.write_bytes(content)
    with pytest.raises(dg.ArtefactError):
        reader(path)


@pytest.mark.parametrize("name", READERS)
def test_the_untouched_file_is_read(files, name):
    READERS[name](files / name)


@pytest.mark.parametrize("name", READERS)
def test_each_of_200_flipped_bytes_is_noticed(files, name, tmp_path):
    content = bytearray((files / name).read_bytes())
    rng = np.random.default_rng(9)
    for place in rng.choice(len(content), 200, replace=False):
        flipped = bytearray(content)
        flipped[place] ^= int(rng.integers(1, 256))
        refused(READERS[name], tmp_path / "f", bytes(flipped))


@pytest.mark.parametrize("name", READERS)
def test_truncated_and_padded_files_are_refused(files, name, tmp_path):
    content = (files / name).read_bytes()
    for cut in (0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1):
        refused(READERS[name], tmp_path / "f", content[:cut])
    refused(READERS[name], tmp_path / "f", content + b"\0")


class Trap:
    """Leaves a mark if anybody unpickles it."""

    def __reduce__(self):
        return open, ("sprung", "w")


def zipped(n):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../data.pkl", bytes(n))
    return buffer.getvalue()


@pytest.mark.parametrize("reader", READERS.values())
def test_foreign_files_are_refused_without_running_or_swallowing_memory(
    reader, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    huge = (2**62).to_bytes(8, "little") + b"{}"
    long_header = (2**31).to_bytes(8, "little") + b"{" * 100
    claims = json.dumps({"w": {"dtype": "I64", "shape": [2**40], "data_offsets": [0, 2**43]}})
    liar = len(claims).to_bytes(8, "little") + claims.encode()
    for content in (
        pickle.dumps(Trap()), zipped(10**7), huge, long_header, liar, b"", b"hello", bytes(10**5),
        save({"x": np.zeros(3)}), save({"../x": np.zeros(3)}, metadata={"dpgist": "{}"}),
        save({"x": np.zeros(3)}, metadata={"dpgist": "[" * 10**5}),
    ):  # fmt: skip
        refused(reader, tmp_path / "f", content)
    assert not (tmp_path / "sprung").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


def test_a_gist_is_no_model_and_a_model_no_gist(files):
    with pytest.raises(dg.ArtefactError, match="model"):
        dg.read_gist(files / "good.model")
    with pytest.raises(dg.ArtefactError, match="gist"):
        dg.read_model(files / "good.gist")


def forged(files, path, change):
    """The gist with an altered header and a checksum that fits again."""
    payload, tensors = read_artefact(files / "good.gist", "gist")
    change(payload["released"], tensors)
    write_artefact(path, "gist", payload, tensors, force=True)
    return path


def claim_more_privacy(released, _):
    released["budget"]["epsilon"] = 0.1


def claim_less_spent(released, _):
    released["mu_squared_units"] //= 2


def claim_less_noise(released, _):
    for entry in released["stages"][0]["blocks"]:
        entry["grid_noise_std"] *= 0.5


def claim_another_relation(released, _):
    released["budget"]["relation"] = "replace_one"


def claim_more_rows_per_person(released, _):
    released["max_rows_per_person"] = 5


def lose_a_tensor(_, tensors):
    tensors.pop("stage0.counts")


def add_a_tensor(_, tensors):
    tensors["stage0.extra"] = np.zeros(3, np.int8)


def reshape_a_tensor(_, tensors):
    tensors["stage0.counts"] = tensors["stage0.counts"].ravel()


def put_floats(_, tensors):
    tensors["stage0.counts"] = tensors["stage0.counts"].astype(np.float64)


def claim_no_noise(released, _):
    released["stages"][0]["blocks"][0]["grid_noise_std"] = 0


def claim_endless_noise(released, _):
    released["stages"][0]["blocks"][0]["grid_noise_std"] = 10**400


def claim_a_grid_beyond_all_memory(released, _):
    released["stages"][0]["blocks"][0]["block"]["bits"] = 10**10


def claim_endless_rows_per_person(released, _):
    released["max_rows_per_person"] = float("inf")


@pytest.mark.parametrize(
    "change",
    [
        claim_no_noise, claim_endless_noise, claim_a_grid_beyond_all_memory,
        claim_endless_rows_per_person,
        claim_more_privacy, claim_less_spent, claim_less_noise, claim_another_relation,
        claim_more_rows_per_person, lose_a_tensor, add_a_tensor, reshape_a_tensor, put_floats,
    ],
)  # fmt: skip
def test_a_forged_gist_with_a_fitting_checksum_contradicts_itself(files, tmp_path, change):
    with pytest.raises(dg.ArtefactError):
        dg.read_gist(forged(files, tmp_path / "forged.gist", change))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    path = tmp_path_factory.mktemp("classifier") / "good.maps"
    budget = dg.Budget(epsilon=1.0, delta=1e-5)
    table = pd.DataFrame({"x": np.linspace(0, 1, 50), "y": [True, False] * 25})
    model = dg.LocallyLinearMaps(schema=SCHEMA, rows=50, steps=2, maps=1, budget=budget)
    model.fit(table).save(path)
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: payload["facts"]["card"].update(epsilon=0.001),
        lambda payload: payload["facts"]["card"].update(epsilon=10**400),
        lambda payload: payload["facts"].update(card=None),
        lambda payload: payload.update(temperature=10**400),
    ],
)
def test_a_forged_classifier_contradicts_itself(classifier, tmp_path, change):
    payload, tensors = read_artefact(classifier, "classifier")
    change(payload)
    write_artefact(tmp_path / "forged.maps", "classifier", payload, tensors)
    with pytest.raises(dg.ArtefactError):
        statement_text(statement(*read_classifier(tmp_path / "forged.maps")))


@pytest.mark.parametrize("classes", [5, "ab", [0, 1], ["true", "false"]])
def test_classes_that_contradict_the_maps_are_refused(classifier, tmp_path, classes):
    payload, tensors = read_artefact(classifier, "classifier")
    payload["facts"]["classes"] = classes
    write_artefact(tmp_path / "forged.maps", "classifier", payload, tensors)
    with pytest.raises(dg.ArtefactError, match="classes"):
        dg.LocallyLinearMaps.load(tmp_path / "forged.maps")


def test_a_classifier_says_its_promise_in_our_words(classifier, tmp_path):
    payload, tensors = read_artefact(classifier, "classifier")
    payload["facts"]["card"]["guarantee"] = "FORGED"
    write_artefact(tmp_path / "forged.maps", "classifier", payload, tensors)
    text = statement_text(statement(*read_classifier(tmp_path / "forged.maps")))
    assert "FORGED" not in text
    assert "(1, 1e-05)-differential privacy: whatever is done with this classifier" in text


def forged_model(files, path, change):
    """The model with an altered copy of its gist's header and a checksum that fits again."""
    payload, tensors = read_artefact(files / "good.model", "model")
    change(payload["gist"])
    write_artefact(path, "model", payload, tensors, force=True)
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.01), ("delta", 1e-30), ("relation", "replace_one"), ("rehearsal", True),
        ("max_rows_per_person", 99),
    ],
)  # fmt: skip
def test_a_card_that_contradicts_its_own_model_is_refused(files, tmp_path, name, value):
    def change(gist):
        gist["card"][name] = value

    with pytest.raises(dg.ArtefactError, match=f"contradict each other in {name}"):
        dg.read_model(forged_model(files, tmp_path / "forged.model", change))


def test_a_card_that_names_another_ledger_than_its_model_is_refused(files, tmp_path):
    def change(gist):
        gist["card"]["ledger"]["head"] = "0" * 64

    with pytest.raises(dg.ArtefactError, match="contradict each other in ledger"):
        dg.read_model(forged_model(files, tmp_path / "forged.model", change))


@pytest.mark.parametrize(
    "change",
    [
        claim_more_privacy, claim_less_spent, claim_less_noise, claim_another_relation,
        claim_more_rows_per_person,
    ],
)  # fmt: skip
def test_a_model_whose_noise_does_not_support_its_claim_is_refused(files, tmp_path, change):
    def forge(gist):
        change(gist["released"], None)
        budget = gist["released"]["budget"]
        gist["card"] |= {**budget, "max_rows_per_person": gist["released"]["max_rows_per_person"]}

    with pytest.raises(dg.ArtefactError, match=r"the (noise|stated mu) is"):
        dg.read_model(forged_model(files, tmp_path / "forged.model", forge))


@pytest.mark.parametrize("block", ["counts", "health"])
def test_a_gist_that_lacks_what_every_release_has_is_refused(files, tmp_path, block):
    payload, tensors = read_artefact(files / "good.gist", "gist")
    for stage in payload["released"]["stages"]:
        stage["blocks"] = [b for b in stage["blocks"] if b["block"]["name"] != block]
    kept = {name: values for name, values in tensors.items() if not name.endswith(block)}
    write_artefact(tmp_path / "less.gist", "gist", payload, kept)
    with pytest.raises(dg.ArtefactError, match="not a gist"):
        dg.read_gist(tmp_path / "less.gist")


@pytest.mark.parametrize("value", [0.0, float("inf")])
def test_noise_that_is_no_number_to_divide_by_is_refused(files, tmp_path, value):
    def change(gist):
        gist["released"]["stages"][0]["blocks"][0]["grid_noise_std"] = value

    with pytest.raises(dg.ArtefactError):
        dg.read_model(forged_model(files, tmp_path / "forged.model", change))


@pytest.mark.parametrize(("field", "value"), [("length", 10**12), ("bits", 10**12)])
def test_a_block_of_a_model_cannot_ask_for_endless_work(files, tmp_path, field, value):
    def change(gist):
        gist["released"]["stages"][-1]["blocks"][-1]["block"][field] = value

    with pytest.raises(dg.ArtefactError):
        dg.read_model(forged_model(files, tmp_path / "forged.model", change))


def test_the_promises_on_a_models_card_are_made_again_and_never_copied(files, tmp_path):
    promises = ("guarantee", "caveats", "rows_per_person", "sampler", "noise", "sensitivity")

    def change(gist):
        gist["card"] |= dict.fromkeys(promises, "CANARY")
        gist["card"]["other_relation"]["guarantee"] = "CANARY"
        gist["card"]["membership_inference"] = {"by_epsilon": 0.0, "by_mu": 0.0}
        gist["card"]["epsilon_at"] = [{"delta": 1e-6, "epsilon": 0.001}]

    honest = model_card(dg.read_model(files / "good.model"))
    assert model_card(dg.read_model(forged_model(files, tmp_path / "f.model", change))) == honest


def test_the_card_of_a_model_read_back_is_the_card_of_its_gist(files):
    gist, model = dg.read_gist(files / "good.gist"), dg.read_model(files / "good.model")
    assert model.gist_header == gist.header()
