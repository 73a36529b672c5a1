"""Training networks: repeatable, resumable, averaged, and good at problems with known answers."""

import numpy as np
import pytest
import torch
from tests.made_gists import GRID, MIXED, STRIPES, gist_of, grid_table, mixed_table, stripe_images
from torch import nn

from dpgist.artefact import read_artefact
from dpgist.encode import Encoder
from dpgist.features.compose import SideBySide
from dpgist.generators.build import build_generator
from dpgist.methods import Merf
from dpgist.training import checkpoint
from dpgist.training.loop import Training, train_generator
from dpgist.training.matching import Target, target_from
from dpgist.training.objectives import TwoHalves

SMALL = Merf(joint_frequencies=50, pair_frequencies=100, image_frequencies=200)


def fit(gist, *, kind, steps=30, batch=100, seed=0, rate=None, **options):
    return train_generator(
        gist,
        SMALL,
        Training(steps=steps, batch=batch, generator=kind, learning_rate=rate),
        rng=np.random.default_rng(seed),
        device="cpu",
        **options,
    )


@pytest.fixture(scope="module")
def table_gist():
    return gist_of(mixed_table(2000), MIXED, SMALL)


@pytest.fixture(scope="module")
def image_gist():
    return gist_of(stripe_images(4000), STRIPES, SMALL, relation="replace_one")


def same(first, second):
    one, other = first.generator.state_dict(), second.generator.state_dict()
    return all(torch.equal(one[name], other[name]) for name in one)


def stop_at(step):
    def progress(now, steps, loss):
        if now == step:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("kind", ["network", "residual", "conv", "upsampling"])
def test_a_stopped_run_goes_on_to_the_same_bits(table_gist, image_gist, tmp_path, kind):
    gist, file = table_gist if kind == "network" else image_gist, tmp_path / "run.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(gist, kind=kind, checkpoint=file, progress=stop_at(17))
    seen = []
    resumed = fit(gist, kind=kind, checkpoint=file, progress=lambda now, *_: seen.append(now))
    whole = fit(gist, kind=kind)
    assert seen[0] == 11
    assert same(resumed, whole)
    assert resumed.losses == whole.losses
    assert not file.exists()
    assert not same(whole, fit(gist, kind=kind, seed=1))


def test_a_killed_process_finds_a_recent_checkpoint(table_gist, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SECONDS_BETWEEN_WRITES", 0.0)
    file, lengths = tmp_path / "run.checkpoint", []

    def progress(now, steps, loss):
        if now == 25:
            lengths.append(len(read_artefact(file, "checkpoint")[0]["losses"]))

    fit(table_gist, kind="network", checkpoint=file, progress=progress)
    assert lengths == [20]
    assert not file.exists()


def test_training_leaves_the_global_random_state_alone(table_gist):
    before = torch.random.get_rng_state()
    fit(table_gist, kind="network", steps=3)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("kind", ["residual", "conv", "upsampling"])
def test_stripes_are_learnt_by_class_and_keep_both_places(image_gist, kind):
    model = fit(image_gist, kind=kind, steps=200, batch=120, rate=5e-3)
    arrays = model.sample(600, seed=0)
    lit = arrays["x"].astype(float)
    down = arrays["y"] == "down"
    by_row, by_column = lit.mean(axis=2).std(axis=1), lit.mean(axis=1).std(axis=1)
    assert (by_row[~down] > by_column[~down]).mean() > 0.95
    assert (by_row[down] < by_column[down]).mean() > 0.95
    places = lit[~down].mean(axis=2).argmax(axis=1) < 4
    assert 0.3 < places.mean() < 0.7


def test_a_network_finds_the_grid_of_gaussians():
    gist = gist_of(grid_table(20_000), GRID, SMALL)
    model = fit(gist, kind="network", steps=250, batch=400, rate=5e-3)
    assert np.mean(model.losses[-20:]) < model.losses[0] / 8
    sampled = model.sample(5000, seed=0)
    modes = sampled[["x", "y"]].round().clip(0, 4).astype(int)
    assert len(modes.drop_duplicates()) == 25


def test_a_network_keeps_nulls_and_shares_of_a_mixed_table():
    table = mixed_table(20_000)
    model = fit(gist_of(table, MIXED, SMALL), kind="network", steps=500, batch=300, rate=5e-3)
    sampled = model.sample(5000, seed=0)
    assert sampled["ill"].mean() == pytest.approx(table["ill"].mean(), abs=0.03)
    # Between draws of the privacy noise the two gaps add up to 0.07, give or take 0.015; before
    # training, with every option equally likely, to 0.40.
    gaps = sampled["dose"].isna().mean() - 0.25, sampled["ward"].isna().mean() - 0.1
    assert sum(map(abs, gaps)) < 0.16
    assert sampled["age"].mean() == pytest.approx(table["age"].mean(), abs=5)


@pytest.mark.parametrize("kind", ["network", "conv"])
def test_a_table_of_no_rows_still_trains_and_samples(kind):
    if kind == "network":
        gist = gist_of(mixed_table(0), MIXED, SMALL)
    else:
        gist = gist_of(stripe_images(0), STRIPES, SMALL)
    model = fit(gist, kind=kind, steps=2, batch=1)
    arrays = model.sample(5, seed=0)
    assert len(arrays["ill"] if kind == "network" else arrays["x"]) == 5


class Shifted(nn.Module):
    """One batch-normalised number whose statistics before normalising are known."""

    kind, n_noise, n_classes = "network", 1, 1

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.norm = nn.BatchNorm1d(1)

    def forward(self, noise, classes):
        return self.norm(3.0 * noise + 7.0)


def test_statistics_are_measured_anew_for_the_averaged_weights():
    network = Shifted()
    network.norm.running_mean.fill_(99.0)
    target = Target(
        classes=np.array([0]),
        class_weights=np.ones(1),
        means=(np.zeros((1, 1)),),
        loss_weights=(1.0,),
    )
    objective = TwoHalves(network, SideBySide([nn.Identity()]), target, batch=2000)
    objective.settle(network, torch.Generator().manual_seed(0))
    assert not network.training
    assert network.norm.momentum == 0.1
    assert float(network.norm.running_mean) == pytest.approx(7.0, abs=0.1)
    assert float(network.norm.running_var) == pytest.approx(9.0, abs=0.2)


def test_the_model_is_the_running_average_of_the_weights(table_gist):
    rough = Training(steps=40, batch=20, generator="network", learning_rate=0.05)
    averaged = train_generator(table_gist, SMALL, rough, rng=np.random.default_rng(0), device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TwoHalves, "average_rate", 1.0)
        newest = train_generator(
            table_gist, SMALL, rough, rng=np.random.default_rng(0), device="cpu"
        )
    assert averaged.losses == newest.losses
    assert not same(averaged, newest)


def test_bfloat16_in_the_network_leaves_pixels_and_loss_in_float32(image_gist):
    encoder = Encoder(STRIPES)
    sizes = {"latent": 4, "hidden": 32, "channels": 8}
    network = build_generator("conv", encoder, sizes, generator=torch.Generator().manual_seed(0))
    network.to(memory_format=torch.channels_last)
    target = target_from(image_gist.released, class_allowed=encoder.class_allowed)
    row_map = SMALL.row_map(STRIPES, feature_seed=0)
    objective = TwoHalves(network, row_map, target, batch=200)
    exact = objective.loss(torch.Generator().manual_seed(1))
    objective._half = True
    rough = objective.loss(torch.Generator().manual_seed(1))
    rough.backward()
    assert rough.dtype == torch.float32
    assert float(rough.detach()) == pytest.approx(float(exact.detach()), rel=0.02)
    assert float(rough.detach()) != float(exact.detach())
    assert all(weights.grad.dtype == torch.float32 for weights in network.parameters())
    pixels = objective._rows(network, objective._noise(torch.Generator().manual_seed(1)))
    assert len(torch.unique(pixels)) > 1000  # bfloat16 itself has some 500 values in their range
