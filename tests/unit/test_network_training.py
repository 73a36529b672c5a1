"""Training networks: repeatable, resumable, averaged, and good at problems with known answers."""

import numpy as np
import pytest
import torch
from tests.made_gists import (
    GRID,
    MIXED,
    STRIPES,
    gist_of,
    grid_table,
    mixed_table,
    rehearsed,
    stripe_images,
)
from torch import nn

from dpgist.artefact import read_artefact
from dpgist.encode import Encoder
from dpgist.features.compose import SideBySide
from dpgist.generators.build import build_generator
from dpgist.methods import Merf
from dpgist.methods.scattering import Scattering
from dpgist.report.inside import loss_floor
from dpgist.training import checkpoint
from dpgist.training.loop import Training, _Fade, train_generator
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
    return rehearsed(stripe_images(4000), STRIPES, SMALL, relation="replace_one")


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
    gist = rehearsed(grid_table(20_000), GRID, SMALL)
    model = fit(gist, kind="network", steps=250, batch=400, rate=5e-3)
    assert np.mean(model.losses[-20:]) < model.losses[0] / 8
    sampled = model.sample(5000, seed=0)
    modes = sampled[["x", "y"]].round().clip(0, 4).astype(int)
    assert len(modes.drop_duplicates()) == 25


def test_a_network_keeps_nulls_and_shares_of_a_mixed_table():
    table = mixed_table(20_000)
    model = fit(rehearsed(table, MIXED, SMALL), kind="network", steps=500, batch=300, rate=5e-3)
    sampled = model.sample(5000, seed=0)
    assert sampled["ill"].mean() == pytest.approx(table["ill"].mean(), abs=0.03)
    # Under nine other draws of the privacy noise the two gaps add up to 0.05 to 0.14; untrained,
    # with every option equally likely, to 0.40.
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


class Aim:
    enough, window, rest = 1.0, 3, 1.0


def fades(losses):
    """The fade of every one of 1,000 steps that these losses allow."""
    schedule = _Fade(1000, Aim)
    return [schedule.after(losses[:taken]) for taken in range(len(losses) + 1)]


def test_the_rate_comes_to_rest_once_the_mean_loss_is_the_noises():
    high, low = [2.0] * 100, [0.9] * 110
    cosine = [(1 + np.cos(np.pi * taken / 1000)) / 2 for taken in range(211)]
    found = fades([*high, *low])
    np.testing.assert_allclose(found[:103], cosine[:103])  # the third low loss is the 103rd
    assert found[103] < cosine[103]
    assert np.all(np.diff(found[102:]) < 0)
    np.testing.assert_allclose(found[102 + 51], cosine[102] / 2)
    assert found[204] <= 0 < found[203]
    resumed = _Fade(1000, Aim).after([*high, *low][:150])
    assert resumed == found[150]


def test_one_lucky_loss_does_not_end_a_training_and_a_long_rest_never_lifts_the_rate():
    lucky = [2.0] * 50 + [0.5] + [2.0] * 49
    np.testing.assert_array_equal(fades(lucky), fades([2.0] * 100))
    late = fades([2.0] * 900 + [0.9] * 100)
    assert np.all(np.diff(late) < 0)
    assert late[1000] == 0.0


SCATTERED = Scattering(frequencies=300, pixel_frequencies=150, scales=(4.0,), pixel_scales=(1.4,))


def learnt(gist, **settings):
    more = Training(batch=40, channels=8, learning_rate=3e-3, **settings)
    return train_generator(gist, SCATTERED, more, rng=np.random.default_rng(0), device="cpu")


def concentration(images, gist):
    """Squared length of their mean embedding in the first block, by pairs of different images."""
    row_map = SCATTERED.row_map(STRIPES, feature_seed=gist.feature_seed)
    features = row_map(torch.tensor(images, dtype=torch.float32).flatten(1) / 255)[0].detach()
    n, total = len(features), features.sum(dim=0)
    return float((total @ total - features.square().sum()) / (n * (n - 1)))


@pytest.fixture(scope="module")
def noisy_images():
    """So much noise that no mean is left in the unit ball."""
    return rehearsed(stripe_images(2000), STRIPES, SCATTERED, epsilon=0.1, relation="replace_one")


@pytest.fixture(scope="module")
def noisy_model(noisy_images):
    return learnt(noisy_images, steps=600)


def test_scattered_images_are_learnt_until_only_noise_is_left(noisy_images, noisy_model):
    allowed = Encoder(STRIPES).class_allowed
    floor = target_from(noisy_images.released, class_allowed=allowed, in_ball=False).noise
    assert np.mean(noisy_model.losses[:5]) > floor > np.mean(noisy_model.losses[-20:])
    assert len(noisy_model.losses) < 600
    assert loss_floor(noisy_images) == floor  # what a report draws beside the curve
    clear = gist_of(stripe_images(400), STRIPES, SCATTERED, epsilon=1e6)
    assert len(learnt(clear, steps=55).losses) == 55


def test_no_noise_drives_scattered_images_apart(noisy_images, noisy_model):
    real, made = stripe_images(400), noisy_model.sample(300, seed=0, kind="arrays")
    for way in set(made["y"]):
        alike = concentration(real["x"][real["y"] == way], noisy_images)
        assert alike > 0.9
        assert concentration(made["x"][made["y"] == way], noisy_images) > 0.85 * alike
