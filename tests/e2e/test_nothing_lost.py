"""No budget is spent by accident, and nothing that was paid for is lost."""

import shlex

import pyarrow.parquet
import pytest

from dpgist.methods import Marginal
from dpgist.privacy.ledger import Ledger

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
SYNTHESIZE = ["synthesize", "people.csv", "--schema", "people.toml", "--delta", "1e-6"]


def nothing_charged(path):
    return len(Ledger.open(path).entries()) == 1


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("out", ["people.csv", "people.toml", "people.ledger", "other.ledger"])
def test_a_forced_release_overwrites_neither_its_inputs_nor_a_ledger(dpgist, ledger, people, out):
    assert dpgist("ledger", "create", "other.ledger", "--name", "x", *BUDGET).status == 0
    before = contents(people)
    release = ["release", "people.csv", "--schema", "people.toml", *BUDGET]
    outcome = dpgist(*release, "--ledger", "people.ledger", "--out", out, "--force")
    assert outcome.status == 2
    assert out in outcome.err
    assert contents(people) == before


def test_a_forced_synthesize_overwrites_none_of_its_inputs(dpgist, ledger, people):
    (people / "all").mkdir()
    (people / "people.toml").rename(people / "all/card.txt")
    before = contents(people)
    paths = ["--schema", "all/card.txt", "--ledger", "people.ledger", "--out", "all"]
    assert dpgist("synthesize", "people.csv", *BUDGET, *paths, "--force").status == 2
    assert contents(people) == before


def test_a_forced_train_or_sample_overwrites_no_artefact_that_it_reads(dpgist, release, people):
    assert release().status == 0
    assert dpgist("train", "people.gist", "--out", "model.csv", "--steps", "2").status == 0
    (people / "model.csv").rename(people / "model.csv")
    before = contents(people)
    assert dpgist("train", "people.gist", "--out", "people.gist", "--force").status == 2
    sample = ["sample", "model.csv", "--rows", "3", "--out", "model.csv", "--force"]
    assert dpgist(*sample).status == 2
    assert contents(people) == before


@pytest.mark.parametrize("device", ["abacus", "cuda"])
def test_a_device_that_is_not_there_is_refused_before_the_charge(
    dpgist, ledger, people, monkeypatch, device
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    more = ["--epsilon", "1", "--ledger", "people.ledger", "--out", "all", "--device", device]
    outcome = dpgist(*SYNTHESIZE, *more)
    assert outcome.status == 2
    assert "device" in outcome.err
    assert nothing_charged(ledger)
    assert not (people / "all").exists()


def test_a_refused_synthesize_leaves_no_ledger_in_the_way_of_the_corrected_one(dpgist, people):
    refused = dpgist(*SYNTHESIZE, "--epsilon", "1", "--out", "all", "--method", "scattering")
    assert refused.status == 2
    assert not (people / "all").exists()
    assert "spending" not in refused.err
    corrected = dpgist(*SYNTHESIZE, "--epsilon", "2", "--out", "all", "--steps", "2")
    assert corrected.status == 0


def refuse(*_, **__):
    raise ValueError("refused")


def charge_and_fail(*_, ledger, **__):
    ledger.charge(1, what={})
    raise ValueError("failed")


@pytest.mark.parametrize(
    ("verb", "inner"),
    [
        (["synthesize"], "dpgist.workflow.release_planned"),
        (["classify", "fit"], "dpgist.classify.estimator.LocallyLinearMaps.fit"),
    ],
    ids=["synthesize", "fit"],
)
def test_only_a_charge_keeps_the_ledger_of_a_failed_command(
    dpgist, people, monkeypatch, verb, inner
):
    command = [*verb, *SYNTHESIZE[1:], "--epsilon", "1", "--out", "all"]
    monkeypatch.setattr(inner, refuse)
    assert dpgist(*command).status == 2
    assert not (people / "all").exists()
    monkeypatch.setattr(inner, charge_and_fail)
    assert dpgist(*command).status == 2
    assert not nothing_charged(people / "all/ledger.sqlite")


def test_a_refused_command_keeps_a_ledger_that_was_there_before(dpgist, people, monkeypatch):
    (people / "all").mkdir()
    create = ["ledger", "create", "all/ledger.sqlite", "--name", "people", *BUDGET]
    assert dpgist(*create).status == 0
    monkeypatch.setattr("dpgist.workflow.release_planned", refuse)
    assert dpgist(*SYNTHESIZE, "--epsilon", "1", "--out", "all").status == 2
    assert nothing_charged(people / "all/ledger.sqlite")


def commands_in(words):
    lines = [line.strip() for line in words.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("dpgist ")]


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt, 130), (MemoryError, 2), (ValueError, 2)]
)
@pytest.mark.parametrize("force", [[], ["--force"]], ids=["new", "forced"])
def test_a_synthesize_stopped_in_training_tells_how_to_go_on_without_paying_again(
    dpgist, people, monkeypatch, error, status, force
):
    def stop(*_, **__):
        raise error

    monkeypatch.setattr("dpgist.workflow.train", stop)
    arguments = ["--epsilon", "1", "--out", "all of it", "--rows", "20", *force]
    outcome = dpgist(*SYNTHESIZE, *arguments)
    assert outcome.status == status
    assert "paid for and saved in all of it/release.gist" in outcome.err
    monkeypatch.undo()
    monkeypatch.chdir(people)
    train, sample = commands_in(outcome.err)
    assert dpgist(*train, "--steps", "2").status == 0
    assert dpgist(*sample).status == 0
    assert len(Ledger.open(people / "all of it/ledger.sqlite").entries()) == 3
    assert pyarrow.parquet.read_table(people / "all of it/synthetic.parquet").num_rows == 20


def test_going_on_trains_and_samples_as_was_asked(dpgist, people, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpgist.workflow.train", stop)
    chosen = ["--steps", "3", "--generator", "mixture", "--device", "cpu", "--seed", "4"]
    more = ["--epsilon", "1", "--out", "all", "--rows", "20", "--method", "pearl", "--no-critic"]
    train, sample = commands_in(dpgist(*SYNTHESIZE, *more, *chosen).err)
    assert train == ["train", "all/release.gist", *chosen, "--no-critic", *train[-2:]]
    assert sample[:6] == ["sample", "all/generator.model", "--rows", "20", "--seed", "4"]
    monkeypatch.undo()
    monkeypatch.chdir(people)
    assert dpgist(*train).status == 0
    assert dpgist(*sample).status == 0


def test_a_plan_is_made_once_for_each_release(dpgist, ledger, monkeypatch):
    made, plan = [], Marginal.plan

    def counted(self, *arguments, **settings):
        made.append(self)
        return plan(self, *arguments, **settings)

    monkeypatch.setattr(Marginal, "plan", counted)
    common = ["people.csv", "--schema", "people.toml", "--epsilon", "0.1", "--delta", "1e-6"]
    assert dpgist("release", *common, "--ledger", "people.ledger", "--out", "g").status == 0
    assert len(made) == 1
    assert dpgist("synthesize", *common, "--out", "all", "--steps", "1").status == 0
    assert len(made) == 2


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"--epsilon": "1.5"}, 1),
        ({"--delta": "1e-5"}, 2),
        ({"--relation": "replace_one"}, 2),
        ({"--schema": "others.toml"}, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", ["release", "synthesize", "classify fit"])
def test_nothing_is_said_to_be_spent_that_the_ledger_refuses(
    dpgist, ledger, people, verb, changes, status
):
    others = (people / "people.toml").read_text().replace('"people"', '"others"')
    (people / "others.toml").write_text(others)
    options = {
        "--schema": "people.toml", "--epsilon": "1", "--delta": "1e-6", "--out": "all"
    } | changes  # fmt: skip
    flat = [part for pair in options.items() for part in pair]
    outcome = dpgist(*verb.split(), "people.csv", *flat, "--ledger", "people.ledger")
    assert outcome.status == status
    assert "spending" not in outcome.err
    assert nothing_charged(ledger)


def test_a_ledger_spent_to_its_cap_does_not_look_overdrawn(dpgist, people):
    create = ["ledger", "create", "two.ledger", "--name", "people", "--epsilon", "2"]
    assert dpgist(*create, "--delta", "1e-6").status == 0
    both = ["--epsilon", "2", "--ledger", "two.ledger"]
    assert dpgist("release", *SYNTHESIZE[1:], *both, "--out", "g").status == 0
    shown = dpgist("ledger", "show", "two.ledger").out
    assert "epsilon 2 of 2 spent; room for one release of 0" in shown


def test_a_synthesize_stopped_after_training_names_only_what_is_missing(
    dpgist, people, monkeypatch
):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpgist.outputs.write_table", stop)
    arguments = ["--epsilon", "1", "--steps", "2", "--out"]
    unsampled = dpgist(*SYNTHESIZE, *arguments, "one")
    assert [verb for verb, *_ in commands_in(unsampled.err)] == ["sample"]
    monkeypatch.undo()
    monkeypatch.chdir(people)
    monkeypatch.setattr("dpgist.plots.write_png", stop)
    undrawn = dpgist(*SYNTHESIZE, *arguments, "two")
    assert commands_in(undrawn.err) == []
    assert "only figures are missing" in undrawn.err
