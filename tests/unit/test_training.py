"""Training: repeatable, resumable, unbreakable, and good at problems with a known answer."""

import numpy as np
import pytest
from tests.made_gists import GRID, MIXED, gist_of, grid_table, mixed_table

from dpgist.artefact import read_artefact, write_artefact
from dpgist.errors import ArtefactError
from dpgist.methods import Merf
from dpgist.schema import CategoryColumn, IntegerColumn, Schema
from dpgist.training.loop import Training, train_generator

SMALL = Merf(joint_frequencies=60, pair_frequencies=200)


def fit(gist, method=SMALL, *, steps=30, seed=0, components=20, **options):
    return train_generator(
        gist,
        method,
        Training(steps=steps, components=components),
        rng=np.random.default_rng(seed),
        device="cpu",
        **options,
    )


@pytest.fixture(scope="module")
def small_gist():
    return gist_of(mixed_table(2000), MIXED, SMALL)


def weights(model):
    return [w.detach().numpy().copy() for w in model.generator.parameters()]


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))


def test_the_same_seed_gives_the_same_bits_and_another_does_not(small_gist):
    model = fit(small_gist)
    assert same(model, fit(small_gist))
    assert not same(model, fit(small_gist, seed=1))


def test_the_loss_falls_and_progress_sees_every_step(small_gist):
    seen = []
    model = fit(small_gist, progress=lambda *step: seen.append(step))
    assert [step for step, _, _ in seen] == list(range(1, 31))
    assert {steps for _, steps, _ in seen} == {30}
    assert tuple(loss for _, _, loss in seen) == model.losses
    assert model.losses[-1] < model.losses[0] / 5


def stop_at(step):
    def progress(now, steps, loss):
        if now == step:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("step", [1, 17])
def test_an_interrupted_run_goes_on_to_the_same_bits(small_gist, tmp_path, step):
    file = tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(small_gist, checkpoint=file, progress=stop_at(step))
    assert file.exists()
    seen = []
    resumed = fit(small_gist, checkpoint=file, progress=lambda now, *_: seen.append(now))
    assert seen[0] <= step + 1
    assert step < 10 or seen[0] > 1
    assert same(resumed, fit(small_gist))
    assert resumed.losses == fit(small_gist).losses
    assert not file.exists()


def test_a_checkpoint_of_another_run_is_refused(small_gist, tmp_path):
    file = tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(small_gist, checkpoint=file, progress=stop_at(3))
    with pytest.raises(ArtefactError, match="another training run"):
        fit(small_gist, checkpoint=file, seed=1)


def test_a_checkpoint_with_other_contents_is_refused(small_gist, tmp_path):
    file = tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(small_gist, checkpoint=file, progress=stop_at(3))
    payload, arrays = read_artefact(file, "checkpoint")
    renamed = {name.replace("adam:mean", "exp_avg:mean"): kept for name, kept in arrays.items()}
    assert renamed.keys() != arrays.keys()
    own = {name: payload[name] for name in ("identity", "losses")}
    write_artefact(file, "checkpoint", own, renamed, force=True)
    with pytest.raises(ArtefactError, match="another training run"):
        fit(small_gist, checkpoint=file)


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_table_of_almost_no_rows_still_trains_and_samples(rows, relation):
    gist = gist_of(mixed_table(rows), MIXED, SMALL, relation=relation)
    table = fit(gist, steps=2).sample(10, seed=0)
    assert list(table.columns) == [column.name for column in MIXED.columns]
    assert len(table) == 10


@pytest.mark.parametrize("label", [None, "b"])
def test_tables_of_one_column_work_with_and_without_a_label(label):
    schema = Schema(
        name="t",
        columns=(
            IntegerColumn(name="a", min=3, max=3),
            CategoryColumn(name="b", values=("x", "y")),
        ),
        label=label,
    )
    rng = np.random.default_rng(0)
    table = mixed_table(3000)[[]].assign(a=3, b=rng.choice(["x", "y"], 3000, p=[0.8, 0.2]))
    sampled = fit(gist_of(table, schema, SMALL), steps=60).sample(5000, seed=0)
    assert set(sampled["a"]) == {3}
    assert (sampled["b"] == "x").mean() == pytest.approx(0.8, abs=0.08)


def test_a_mixed_table_keeps_its_margins_and_dependencies_at_epsilon_one():
    table = mixed_table(20_000)
    model = fit(gist_of(table, MIXED, Merf()), Merf(), steps=400, components=80)
    sampled = model.sample(20_000, seed=0)
    assert sampled["ill"].mean() == pytest.approx(table["ill"].mean(), abs=0.03)
    assert sampled["dose"].isna().mean() == pytest.approx(0.25, abs=0.03)
    assert (sampled["gain"] < 1).mean() == pytest.approx(0.9, abs=0.05)
    assert sampled["ward"].isna().mean() == pytest.approx(0.1, abs=0.03)
    assert set(sampled["stage"]) == {"i", "ii", "iii", "later"}
    for column, other in (("age", "dose"), ("age", "ill")):
        true = table[column].corr(table[other].astype(float))
        made = sampled[column].corr(sampled[other].astype(float))
        assert made * np.sign(true) > 0.7 * abs(true)


def log_likelihood(points):
    """Under the true mixture of 25, and the nearest of its modes."""
    centres = np.stack(np.meshgrid(np.arange(5), np.arange(5), indexing="ij"), -1).reshape(-1, 2)
    squares = ((points[:, None] - centres) ** 2).sum(axis=2) / 0.04
    density = np.exp(-squares / 2).mean(axis=1) / (2 * np.pi * 0.04)
    return np.log(density + 1e-300).mean(), squares.argmin(axis=1)


def test_the_grid_of_gaussians_is_found_at_epsilon_one():
    gist = gist_of(grid_table(45_000), GRID, Merf())
    model = train_generator(
        gist, Merf(), Training(steps=250), rng=np.random.default_rng(0), device="cpu"
    )
    sampled = model.sample(20_000, seed=0)
    made, modes = log_likelihood(sampled[["x", "y"]].to_numpy())
    true, _ = log_likelihood(grid_table(20_000, seed=1)[["x", "y"]].to_numpy())
    assert abs(true - made) < 0.5
    assert np.bincount(modes, minlength=25).min() > 20_000 / 25 / 2
    right = (modes // 5 + 2 * (modes % 5)) % 5 == sampled["kind"].astype(int)
    assert right.mean() > 0.9


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"batch": 0},
        {"components": 0},
        {"learning_rate": -1.0},
        {"generator": "magic"},
    ],
)
def test_senseless_training_is_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        Training(**wrong)
