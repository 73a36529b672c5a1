"""Every verb on a tiny table: results, exit status, manners."""

import json
import pickle

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.made_gists import stripe_images

from dpgist.generators.model import read_model
from dpgist.privacy.ledger import Ledger
from dpgist.version import __version__

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
VERBS = [
    ("demo",), ("plan",), ("schema", "check"), ("ledger", "create"), ("ledger", "show"),
    ("release",), ("show",), ("train",), ("sample",), ("synthesize",), ("evaluate",),
    ("report",),
]  # fmt: skip


def nothing_charged(path):
    return len(Ledger.open(path).entries()) == 1


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_explains_itself(dpgist, verb):
    outcome = dpgist(*verb, "--help")
    assert outcome.status == 0
    assert "Example" in outcome.out or verb == ("demo",)


def test_no_verb_prints_the_help(dpgist):
    assert "release" in dpgist("--help").out


@pytest.mark.parametrize("missing", ["--epsilon", "--delta"])
def test_epsilon_and_delta_have_no_default(dpgist, people, missing):
    given = [part for part in zip(BUDGET[::2], BUDGET[1::2], strict=True) if part[0] != missing]
    outcome = dpgist("plan", "--schema", "people.toml", *given[0])
    assert outcome.status == 2
    assert missing in outcome.err


def test_the_version_can_be_asked_for(dpgist):
    outcome = dpgist("--version")
    assert (outcome.status, outcome.out) == (0, f"dpgist {__version__}\n")


def test_a_ledger_needs_a_name(dpgist, people):
    outcome = dpgist("ledger", "create", "new.ledger", "--name", " ", *BUDGET)
    assert outcome.status == 2
    assert "--name must be the name of a table" in outcome.err
    assert not (people / "new.ledger").exists()


def test_a_ledger_is_never_overwritten(dpgist, ledger):
    before = ledger.read_bytes()
    outcome = dpgist("ledger", "create", "people.ledger", "--name", "people", *BUDGET)
    assert outcome.status == 2
    assert ledger.read_bytes() == before


def test_a_dry_run_checks_the_header_and_charges_nothing(dpgist, ledger, people):
    arguments = ["release", "people.csv", "--schema", "people.toml", *BUDGET, "--dry-run"]
    assert dpgist(*arguments).status == 0
    assert nothing_charged(ledger)
    text = (people / "people.csv").read_text().replace("height", "width", 1)
    (people / "people.csv").write_text(text)
    outcome = dpgist(*arguments)
    assert outcome.status == 2
    assert "height" in outcome.err


def test_a_release_speaks_of_the_budget_on_stderr_and_of_the_result_on_stdout(release, ledger):
    outcome = release()
    assert outcome.status == 0
    assert outcome.out == "people.gist\n"
    assert "spending epsilon 0.5, delta 1e-06 (add_remove)" in outcome.err
    assert "300" not in outcome.err
    assert len(Ledger.open(ledger).entries()) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": "inf"}, "epsilon"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": "lots"}, "epsilon"),
        ({"delta": "0"}, "delta"),
        ({"delta": "1"}, "delta"),
        ({"delta": "1e-5"}, "delta"),
        ({"ledger": "nowhere.ledger"}, "nowhere.ledger"),
        ({"ledger": "people.toml"}, "people.toml"),
        ({"ledger": "other.ledger"}, "other"),
        ({"relation": "replace_one"}, "relation"),
        ({"method": "magic"}, "merf"),
        ({"schema": "nowhere.toml"}, "nowhere.toml"),
        ({"out": "there.gist"}, "there.gist"),
        ({"out": "no/such/folder.gist"}, "no/such"),
        ({"data": "nowhere.csv"}, "nowhere.csv"),
        ({"data": "people.toml"}, "people.toml"),
        ({"data": "twice.csv"}, "age"),
        ({"seed": "-1"}, "seed"),
        ({"seed": "1.5"}, "seed"),
    ],
    ids=str,
)
def test_misuse_is_refused_in_one_line_before_anything_is_charged(
    dpgist, release, ledger, people, changes, words
):
    (people / "there.gist").write_text("precious")
    (people / "twice.csv").write_text("age,age,height,smoker\n1,1,1,1\n")
    dpgist("ledger", "create", "other.ledger", "--name", "other", *BUDGET)
    before = sorted(people.iterdir())
    outcome = release(**changes)
    assert outcome.status == 2
    assert words in outcome.err
    assert outcome.out == ""
    assert nothing_charged(ledger)
    assert sorted(people.iterdir()) == before
    assert (people / "there.gist").read_text() == "precious"


def test_a_full_ledger_refuses_with_status_1_and_writes_nothing(release, ledger, people):
    assert release(epsilon="0.9").status == 0
    before = ledger.read_bytes()
    outcome = release(epsilon="0.9", out="second.gist")
    assert outcome.status == 1
    assert "epsilon" in outcome.err
    assert ledger.read_bytes() == before
    assert not (people / "second.gist").exists()


def test_force_overwrites(release, people):
    (people / "people.gist").write_text("old")
    assert release().status == 2
    assert (people / "people.gist").read_text() == "old"


def test_from_gist_to_rows_in_a_folder_without_the_data(dpgist, release, people):
    assert release().status == 0
    for name in ("people.csv", "people.toml", "people.ledger"):
        (people / name).unlink()
    card = dpgist("show", "people.gist")
    assert "GUARANTEE" in card.out
    assert "smoker: " in card.out
    trained = dpgist("train", "people.gist", "--out", "people.model", "--steps", "20")
    assert (trained.status, trained.out) == (0, "people.model\n")
    assert not (people / "people.model.checkpoint").exists()
    shown = dpgist("show", "people.model")
    assert "MODEL" in shown.out
    assert "declared 1, not checked" in shown.out
    json.loads(dpgist("show", "people.model", "--json").out)

    sampled = dpgist("sample", "people.model", "--rows", "50", "--out", "rows.parquet")
    assert (sampled.status, sampled.out) == (0, "rows.parquet\n")
    rows = pyarrow.parquet.read_table(people / "rows.parquet")
    assert rows.num_rows == 50
    assert rows.column_names == ["age", "height", "smoker"]
    arguments = ["sample", "people.model", "--rows", "9", "--where", "smoker=true"]
    assert dpgist(*arguments, "--out", "rows.csv").status == 0
    assert set(pyarrow.csv.read_csv(people / "rows.csv")["smoker"].to_pylist()) == {True}
    arguments += ["--where", "age=30..40", "--where", "height=", "--out", "few.parquet"]
    assert dpgist(*arguments).status == 0
    few = pyarrow.parquet.read_table(people / "few.parquet")
    assert set(few["smoker"].to_pylist()) == {True}
    assert all(30 <= age <= 40 for age in few["age"].to_pylist())
    assert few["height"].null_count == few.num_rows == 9
    arguments = ["sample", "people.model", "--rows", "10", "--balanced", "--out", "even.parquet"]
    assert dpgist(*arguments).status == 0
    even = pyarrow.parquet.read_table(people / "even.parquet")
    assert sorted(even["smoker"].to_pylist()) == [False] * 5 + [True] * 5


def test_the_same_seed_gives_the_same_model_and_rows(dpgist, release, people):
    assert release().status == 0
    for name in ("one", "two"):
        dpgist("train", "people.gist", "--out", f"{name}.model", "--steps", "5", "--seed", "4")
        dpgist("sample", f"{name}.model", "--rows", "20", "--out", f"{name}.csv", "--seed", "5")
    assert (people / "one.model").read_bytes() == (people / "two.model").read_bytes()
    assert (people / "one.csv").read_bytes() == (people / "two.csv").read_bytes()


def test_many_rows_are_sampled_piece_by_piece(dpgist, release, people, monkeypatch):
    release()
    dpgist("train", "people.gist", "--out", "people.model", "--steps", "2")
    monkeypatch.setattr("dpgist.generators.model._CHUNK_ROWS", 7)
    wanted = read_model("people.model").sample(30, seed=5, kind="pyarrow")
    for name in ("rows.csv", "rows.parquet"):
        sample = ["sample", "people.model", "--rows", "30", "--out", name, "--seed", "5"]
        assert dpgist(*sample).status == 0
    assert pyarrow.parquet.read_table(people / "rows.parquet").equals(wanted)
    assert pyarrow.csv.read_csv(people / "rows.csv").to_pylist() == wanted.to_pylist()


def test_sampling_refuses_what_it_cannot_do(dpgist, release, people):
    release()
    dpgist("train", "people.gist", "--out", "people.model", "--steps", "2")
    sample = ["sample", "people.model", "--rows", "5"]
    for arguments, words in [
        (["--out", "rows.xlsx"], ".parquet or .csv"),
        (["--out", "rows.csv", "--where", "weight=4"], "smoker"),
        (["--out", "rows.csv", "--where", "age=200"], "between 0 and 110"),
        (["--out", "rows.csv", "--where", "age=40..30"], "swap the ends"),
        (["--out", "rows.csv", "--where", "age=old"], "a number"),
        (["--out", "rows.csv", "--where", "smoker=maybe"], "true"),
        (["--out", "rows.csv", "--where", "smoker"], "column=value"),
        (["--out", "people.gist.csv/rows.csv"], "people.gist.csv"),
    ]:
        outcome = dpgist(*sample, *arguments)
        assert outcome.status == 2, arguments
        assert words in outcome.err, arguments
        assert not (people / "rows.csv").exists()
    outcome = dpgist("train", "people.gist", "--out", "new.model", "--device", "abacus")
    assert outcome.status == 2
    assert "auto, cpu or cuda" in outcome.err
    assert dpgist("sample", "people.gist", "--rows", "1", "--out", "x.csv").status == 2


def test_broken_artefacts_are_named_and_nothing_runs(dpgist, release, people):
    release()
    good = (people / "people.gist").read_bytes()
    (people / "cut.gist").write_bytes(good[:-1])
    (people / "bent.gist").write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
    (people / "pickle.gist").write_bytes(pickle.dumps({"a": 1}))
    for name in ("cut.gist", "bent.gist", "pickle.gist", "missing.gist"):
        for verb in (["show", name], ["train", name, "--out", "x.model"]):
            outcome = dpgist(*verb)
            assert outcome.status == 2
            assert name in outcome.err
            assert not (people / "x.model").exists()


def test_show_says_which_file_of_a_folder_to_name(dpgist, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    assert "out is a folder; name a .gist, .model or .maps file" in dpgist("show", "out").err
    for name in ("release.gist", "classifier.maps"):
        (folder / name).touch()
    outcome = dpgist("show", "out")
    assert (outcome.status, outcome.out) == (2, "")
    assert "name a file in it: out/release.gist or out/classifier.maps" in outcome.err


def test_synthesize_writes_everything_and_spends_only_once(dpgist, people):
    arguments = ["synthesize", "people.csv", "--schema", "people.toml", *BUDGET, "--out", "all"]
    outcome = dpgist(*arguments, "--steps", "5", "--rows", "40")
    assert (outcome.status, outcome.out) == (0, "all\n")
    files = {str(path.relative_to(people / "all")) for path in (people / "all").rglob("*.*")}
    assert files == {
        "release.gist", "generator.model", "synthetic.parquet", "card.txt", "card.json",
        "ledger.sqlite", "plots/columns.png", "plots/loss.png",
    }  # fmt: skip
    assert pyarrow.parquet.read_table(people / "all/synthetic.parquet").num_rows == 40
    card = json.loads((people / "all/card.json").read_text())
    assert card["epsilon"] == 1.0
    assert (people / "all/card.txt").read_text() == dpgist("show", "all/release.gist").out[:-1]

    contents = {path: path.read_bytes() for path in (people / "all").rglob("*.*")}
    assert dpgist(*arguments).status == 2  # outputs exist
    assert dpgist(*arguments, "--force").status == 1  # the folder's ledger is full
    assert {path: path.read_bytes() for path in (people / "all").rglob("*.*")} == contents


STRIPES_TOML = """
[table]
name = "stripes"
label = "way"
[columns.image]
type = "image"
height = 8
width = 8
[columns.way]
type = "category"
values = ["across", "down"]
"""


def test_images_go_the_same_way_as_tables(dpgist, tmp_path):
    np.savez(tmp_path / "stripes.npz", **stripe_images(200))
    (tmp_path / "stripes.toml").write_text(STRIPES_TOML)
    arguments = ["synthesize", "stripes.npz", "--schema", "stripes.toml", *BUDGET, "--out", "all"]
    outcome = dpgist(*arguments, "--steps", "2", "--rows", "30", "--generator", "upsampling")
    assert (outcome.status, outcome.out) == (0, "all\n")
    files = {str(path.relative_to(tmp_path / "all")) for path in (tmp_path / "all").rglob("*.*")}
    assert files == {
        "release.gist", "generator.model", "synthetic.npz", "card.txt", "card.json",
        "ledger.sqlite", "plots/images.png", "plots/loss.png",
    }  # fmt: skip
    assert np.load(tmp_path / "all/synthetic.npz")["x"].shape == (30, 8, 8)
    sample = ["sample", "all/generator.model", "--rows", "5", "--where", "way=down", "--out"]
    assert dpgist(*sample, "five.npz").status == 0
    assert np.load(tmp_path / "five.npz")["y"].tolist() == ["down"] * 5
    assert dpgist(*sample, "five.csv").status == 2
    assert dpgist(*sample, "five.parquet").status == 0


@pytest.mark.parametrize("method", ["merf", "hermite"])
def test_a_network_can_be_asked_for(dpgist, release, people, method):
    assert release(method=method).status == 0
    arguments = ("people.gist", "--out", "people.model", "--steps", "2", "--generator", "network")
    assert dpgist("train", *arguments).status == 0
    assert "generator=network" in dpgist("show", "people.model").out
    drawn = dpgist("sample", "people.model", "--rows", "20", "--out", "rows.csv")
    assert drawn.status == 0
    assert len((people / "rows.csv").read_text().splitlines()) == 21


@pytest.mark.parametrize("generator", ["magic", "conv", "network"])
def test_a_generator_that_cannot_work_is_refused_before_anything_is_charged(
    dpgist, ledger, people, generator
):
    arguments = ["synthesize", "people.csv", "--schema", "people.toml", *BUDGET]
    more = ["--ledger", "people.ledger", "--out", "all", "--generator", generator]
    outcome = dpgist(*arguments, *more)
    assert outcome.status == 2
    assert "mixture" in outcome.err
    assert nothing_charged(ledger)
    assert not (people / "all").exists()


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"--ledger": "nowhere.ledger"}, 2),
        ({"--ledger": "small.ledger"}, 1),
        ({"--delta": "2"}, 2),
        ({"--schema": "nowhere.toml"}, 2),
    ],
    ids=str,
)
def test_a_refused_synthesize_leaves_no_folder_and_no_charge(dpgist, people, changes, status):
    small = ["ledger", "create", "small.ledger", "--name", "people", "--epsilon", "0.1"]
    assert dpgist(*small, "--delta", "1e-6").status == 0
    options = {
        "--schema": "people.toml", "--epsilon": "1", "--delta": "1e-6", "--out": "all"
    } | changes  # fmt: skip
    flat = [part for pair in options.items() for part in pair]
    assert dpgist("synthesize", "people.csv", *flat).status == status
    assert not (people / "all").exists()
    assert nothing_charged(people / "small.ledger")


def test_ctrl_c_in_the_private_pass_says_that_the_charge_stays(dpgist, release, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpgist.workflow.release_planned", stop)
    outcome = release()
    assert outcome.status == 130
    assert "stays spent" in outcome.err


def test_the_default_number_of_rows_is_never_the_true_one(dpgist, people):
    counts = []
    for run in range(3):
        out = f"run{run}"
        arguments = ["--schema", "people.toml", *BUDGET, "--out", out, "--steps", "2"]
        assert dpgist("synthesize", "people.csv", *arguments).status == 0
        counts.append(pyarrow.parquet.read_table(people / out / "synthetic.parquet").num_rows)
    assert len(set(counts)) > 1  # noisy; equal thrice with probability below 1e-3


def test_bad_cells_change_no_message_and_no_status(release, people, dpgist):
    clean = release()
    header, *rows = (people / "people.csv").read_text().splitlines()
    rows[5] = '17,CANARY-7351,"-inf",perhaps,extra'
    rows[6] = '"'
    (people / "people.csv").write_text("\n".join([header, *rows]))
    (people / "people.gist").unlink()
    dirty = release()
    assert (dirty.status, dirty.out) == (clean.status, clean.out)
    assert "CANARY" not in dirty.err + dpgist("show", "people.gist").out


@pytest.mark.parametrize("n_rows", [0, 1])
def test_empty_and_one_row_tables_release_train_and_sample(dpgist, release, people, n_rows):
    lines = (people / "people.csv").read_text().splitlines()[: n_rows + 1]
    (people / "people.csv").write_text("\n".join(lines) + "\n")
    assert release().status == 0
    assert dpgist("train", "people.gist", "--out", "m", "--steps", "2").status == 0
    assert dpgist("sample", "m", "--rows", "3", "--out", "rows.csv").status == 0


def test_an_unforeseen_error_shows_its_place_but_not_its_message(dpgist, release, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("cell was CANARY-7351")

    monkeypatch.setattr("dpgist.workflow.release_planned", fail)
    outcome = release()
    assert outcome.status == 2
    assert "RuntimeError at test_cli.py" in outcome.err
    assert "CANARY" not in outcome.err


def test_too_little_memory_is_no_internal_error(dpgist, release, monkeypatch):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("dpgist.workflow.release_planned", fail)
    outcome = release()
    assert outcome.status == 2
    assert "not enough memory" in outcome.err
    assert "internal error" not in outcome.err


def test_ctrl_c_while_training_leaves_a_checkpoint_to_go_on_from(
    dpgist, release, people, monkeypatch
):
    release()
    from dpgist.cli import free

    real_bar = free.training_bar

    class Interrupting:
        def __enter__(self):
            self.bar = real_bar()
            update = self.bar.__enter__()

            def interrupt(step, steps, loss):
                update(step, steps, loss)
                if step == 15:
                    raise KeyboardInterrupt

            return interrupt

        def __exit__(self, *error):
            return self.bar.__exit__(*error)

    train = ["train", "people.gist", "--out", "a.model", "--steps", "30"]
    monkeypatch.setattr(free, "training_bar", Interrupting)
    stopped = dpgist(*train)
    assert stopped.status == 130
    assert "goes on from" in stopped.err
    assert (people / "a.model.checkpoint").exists()
    assert not (people / "a.model").exists()
    monkeypatch.undo()
    monkeypatch.chdir(people)
    assert dpgist(*train).status == 0
    assert not (people / "a.model.checkpoint").exists()
    assert dpgist("train", "people.gist", "--out", "b.model", "--steps", "30").status == 0
    assert (people / "a.model").read_bytes() == (people / "b.model").read_bytes()
