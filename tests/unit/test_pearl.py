"""PEARL: a paid scale, a characteristic function, and a critic that re-weighs its frequencies."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy.stats import norm
from tests.made_gists import MIXED, STRIPES, gist_of, mixed_table, stripe_images

import dpgist as dg
from dpgist.encode import Encoder
from dpgist.features.characteristic import (
    CharacteristicMap,
    Waves,
    draw_pixel_waves,
    draw_waves,
    effective_share,
    log_ratios,
)
from dpgist.features.expected import expected_means
from dpgist.methods import method_from, settings
from dpgist.methods.scale import above_the_noise
from dpgist.report.inside import noisy_choices
from dpgist.training.critic import Critic
from dpgist.workflow import check_training

SMALL = {"frequencies": 60, "image_frequencies": 40}
SCALINGS = ["distance", "modes"]


def small(scaling="modes", **more):
    return dg.Pearl(**SMALL, scaling=scaling, **more)


def map_of(gist):
    method = method_from(gist.method, gist.settings)
    return method.row_map(
        gist.schema, feature_seed=gist.feature_seed, released=gist.released.stages[:-1]
    )


# --- the release ----------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(("share", "odds"), [(0.1, 1 / 9), (0.5, 1.0)])
def test_the_scale_is_paid_for_by_a_stage_of_its_own(scaling, share, odds):
    assert dg.Pearl().scale_share == 0.1
    gist = gist_of(mixed_table(300), MIXED, small(scaling=scaling, scale_share=share))
    first, second = (stage.mu_squared_units for stage in gist.released.stages)
    assert first / second == pytest.approx(odds, rel=1e-9)
    assert first + second <= gist.released.mu_squared_units
    names = [part.block.name for part in gist.released.last.blocks]
    assert names == ["characteristic", "counts", "health"]


@pytest.mark.parametrize(
    ("schema", "table"), [(MIXED, mixed_table(300)), (STRIPES, stripe_images(200))]
)
@pytest.mark.parametrize("scaling", SCALINGS)
def test_training_gets_the_very_map_that_was_released(schema, table, scaling):
    method = small(scaling=scaling)
    gist = gist_of(table, schema, method, feature_seed=5)
    plan = method.plan(schema, budget=gist.released.budget, feature_seed=5)
    released = plan.stages[1].query(gist.released.stages[:1]).row_map.state_dict()
    again = map_of(gist).state_dict()
    assert released.keys() == again.keys()
    assert all(torch.equal(released[name], again[name]) for name in released)


def test_without_noise_the_block_is_the_characteristic_function_itself():
    rows = torch.rand(50, 3)
    waves = draw_pixel_waves(
        3, n_frequencies=7, length_scales=(0.5, 2.0), rng=np.random.default_rng(0)
    )
    (features,) = CharacteristicMap(waves)(rows)
    found = features.mean(dim=0).numpy() * np.sqrt(7)
    exact = np.exp(1j * rows.numpy() @ waves.frequencies.T).mean(axis=0)
    np.testing.assert_allclose(found, np.concatenate([exact.real, exact.imag]), atol=1e-6)
    np.testing.assert_allclose(features.norm(dim=1), 1.0, atol=1e-6)


def test_histograms_are_paid_for_where_the_declared_rows_are_enough():
    budget = dg.Budget(epsilon=1.0, delta=1e-5)
    found = {}
    for rows in (None, 500, 50_000):
        schema = dg.Schema(name="t", columns=MIXED.columns, label="ill", rows_about=rows)
        found[rows] = dg.Pearl().settled(schema, budget).scaling
        assert dg.Pearl(scaling="modes").settled(schema, budget).scaling == "modes"
    assert found == {None: "distance", 500: "distance", 50_000: "modes"}
    strict = dg.Budget(epsilon=0.001, delta=1e-5)
    assert dg.Pearl().settled(schema, strict).scaling == "distance"
    assert dg.Pearl().settled(STRIPES, budget).scaling == "distance"
    with pytest.raises(ValueError, match="settled"):
        dg.Pearl().row_map(MIXED, feature_seed=0)


def test_narrow_scales_are_left_out_where_they_would_drown():
    every = (1.0, 0.3, 0.1)
    kept = [above_the_noise(every, noise) for noise in (0.0, 1.5e-3, 2e-3, 7e-3, 1.0)]
    assert kept == [(0.1, 0.3, 1.0), (0.1, 0.3, 1.0), (0.3, 1.0), (1.0,), (1.0,)]

    def narrowest(n, epsilon):
        row_map = map_of(gist_of(mixed_table(n), MIXED, small(), epsilon=epsilon))
        return float(row_map.fourier.frequencies.square().sum(dim=1).max())

    assert narrowest(10, 0.3) < narrowest(20_000, 5.0) / 4


def test_settings_survive_json_and_senseless_ones_are_refused():
    method = small(group_sizes=(1, 3), scaling="distance", scale_share=0.5)
    assert method_from("pearl", json.loads(json.dumps(settings(method)))) == method
    wrong = [{"frequencies": 0}, {"group_sizes": ()}, {"scales": (0.0,)}, {"image_scales": (-1.0,)}]
    for one in [*wrong, {"scaling": "free"}, {"scale_share": 1.0}]:
        with pytest.raises(ValueError, match="must"):
            dg.Pearl(**one)


# --- frequencies and the family they are re-weighed in --------------------------------------


def test_waves_say_where_each_frequency_lies_in_its_own_gaussian():
    slots = Encoder(MIXED).slots
    waves = draw_waves(
        slots,
        n_frequencies=6000,
        group_sizes=(1, 2, 99),
        length_scales=(1.0, 0.1),
        rng=np.random.default_rng(1),
    )
    assert waves.frequencies.shape == (6000, Encoder(MIXED).width)
    seen = (waves.sizes > 0).sum(axis=1)
    assert [set(part) for part in np.split(seen, 3)] == [{1}, {2}, {6}]
    assert ((waves.squares > 0) == (waves.sizes > 0)).all()
    chi = waves.squares.sum() / waves.sizes.sum()
    assert abs(chi - 1.0) < 5 * np.sqrt(2 / waves.sizes.sum())
    whole, half = waves, waves.scaled(2.0)
    np.testing.assert_allclose(half.frequencies * 2, whole.frequencies)
    assert half.squares is whole.squares


def test_log_ratios_are_those_of_the_two_gaussian_densities():
    rng = np.random.default_rng(2)
    deviates, scales = rng.normal(size=(9, 4)), np.array([0.5, 1.0, 1.7, 3.0])
    unseen = rng.random((9, 4)) < 0.3
    sizes = torch.tensor(np.where(unseen, 0.0, 1.0))
    squares = torch.tensor(np.where(unseen, 0.0, deviates**2))
    found = log_ratios(squares, sizes, torch.tensor(np.log(scales)))
    exact = norm.logpdf(deviates, scale=scales) - norm.logpdf(deviates)
    np.testing.assert_allclose(found, np.where(unseen, 0.0, exact).sum(axis=1), atol=1e-12)


def test_re_weighted_frequencies_stand_for_the_other_gaussian():
    """Lemma 1: the mean of a function under the re-scaled Gaussian, without drawing from it."""
    rng = np.random.default_rng(3)
    deviates = rng.normal(size=(200_000, 2))
    log_scales = np.array([0.2, -0.4])
    ones = torch.ones(deviates.shape, dtype=torch.float64)
    ratios = log_ratios(torch.tensor(deviates**2), ones, torch.tensor(log_scales))
    weights = torch.softmax(ratios, dim=0).numpy()
    found = weights @ np.cos(deviates @ np.array([1.0, 0.5]))
    exact = np.exp(-0.5 * (np.exp(0.4) + 0.25 * np.exp(-0.8)))
    assert found == pytest.approx(exact, abs=0.01)
    assert abs(np.cos(deviates @ np.array([1.0, 0.5])).mean() - exact) > 0.02


# --- modes ----------------------------------------------------------------------------------

TWO_MODES = dg.Schema(
    name="modes",
    columns=(
        dg.NumberColumn(name="x", min=0.0, max=100.0),
        dg.NumberColumn(name="dose", min=0.0, max=10.0, nullable=True),
        dg.BooleanColumn(name="high"),
    ),
    label="high",
)


def two_modes(n, seed=0):
    """Two narrow modes in a wide range: rows in steps of 0.2 about 5 and about 90."""
    rng = np.random.default_rng(seed)
    high, side = rng.random(n) < 0.4, rng.random(n) < 0.5
    x = np.where(side, 5.0, 90.0) + rng.normal(0, 0.2, n) + np.where(high == side, 0.5, -0.5)
    return pd.DataFrame({"x": x, "dose": np.where(side, np.nan, 3.0), "high": high})


@pytest.fixture(scope="module")
def stretched():
    return gist_of(two_modes(20_000), TWO_MODES, small(), epsilon=2.0)


def encoded(table, schema):
    cells = pa.Table.from_pandas(table)
    found = Encoder(schema).encode({c.name: cells[c.name].combine_chunks() for c in schema.columns})
    return found.rows


def test_each_mode_gets_the_room_of_its_rows_and_null_stays_zero(stretched):
    table = two_modes(5_000, seed=1)
    rows = encoded(table, TWO_MODES)
    out = map_of(stretched).stretch(torch.tensor(rows)).numpy()
    before, after = (np.quantile(v[:, 0], np.linspace(0.02, 0.98, 20)) for v in (rows, out))
    assert np.diff(before).max() > 0.8
    assert np.diff(after).max() < 0.2, "the empty range between the modes still takes the room"
    assert (np.diff(after) > 0).all()
    nulls = np.isnan(table["dose"].to_numpy())
    assert (out[nulls, 1] == 0).all()
    assert (out[~nulls, 1] > 0.1).all()
    np.testing.assert_array_equal(out[:, 2:], rows[:, 2:])


def test_a_stretch_bends_gradients_and_not_only_values(stretched):
    stretch = map_of(stretched).stretch
    rows = torch.full((1, Encoder(TWO_MODES).width), 0.05, requires_grad=True)
    stretch(rows)[0, 0].backward()
    inside = float(rows.grad[0, 0])
    rows = torch.full((1, Encoder(TWO_MODES).width), 0.5, requires_grad=True)
    stretch(rows)[0, 0].backward()
    assert inside > 20 * float(rows.grad[0, 0]) > 0


def test_an_empty_table_and_a_column_of_one_value_still_have_a_stretch():
    columns = (dg.IntegerColumn(name="x", min=3, max=3), dg.NumberColumn(name="y", min=0, max=1))
    schema = dg.Schema(name="modes", columns=columns)
    for rows in ([], [3] * 50):
        table = pd.DataFrame({"x": rows, "y": [0.5] * len(rows)})
        gist = gist_of(table, schema, small(), epsilon=0.2)
        assert torch.isfinite(map_of(gist)(torch.rand(4, 2))[0]).all()


@pytest.mark.parametrize("scaling", SCALINGS)
def test_the_closed_form_is_the_mean_over_drawn_rows(scaling):
    """Through the release's cells and bins, or the schema's own cells."""
    gist = gist_of(two_modes(3_000), TWO_MODES, small(scaling=scaling), epsilon=2.0)
    row_map = map_of(gist)
    mixture = dg.train(gist, dg.Training(steps=2, components=1, critic=False)).generator
    _, cells = mixture()
    if row_map.stretch is not None:
        cells = torch.split(cells, mixture.splits)
    (exact,) = expected_means(row_map, mixture.supports)(torch.ones(1, 1), cells)
    rows = mixture.sample(np.zeros(40_000, np.int64), rng=np.random.default_rng(5))
    found = row_map(torch.tensor(rows))[0].double()
    error = found.std(dim=0) / len(rows) ** 0.5
    assert ((found.mean(dim=0) - exact[0].detach()).abs() < 6 * error + 2e-4).all()


# --- the critic -----------------------------------------------------------------------------


def features_of(rows, frequencies):
    phases = rows @ frequencies.T
    return np.concatenate([np.cos(phases), np.sin(phases)], axis=1)


def shifted(rng, n, d, by):
    rows = rng.normal(size=(n, d))
    rows[:, 0] += by
    return rows


def rejects(first, second, weights, rng, n_flips=99):
    """Whether swapping rows of the two samples hardly ever gives as large a weighted distance."""
    gaps = first - second
    signs = np.vstack([np.ones(len(gaps)), rng.choice([-1.0, 1.0], (n_flips, len(gaps)))])
    distances = np.square(signs @ gaps / len(gaps)) @ np.tile(weights, 2)
    return bool(np.mean(distances >= distances[0]) <= 0.05)


def test_re_weighting_raises_the_power_of_a_two_sample_test():
    """Appendix C: of twenty frequencies only one sees the axis on which the samples differ."""
    rng, d, n = np.random.default_rng(6), 4, 1000
    weights = {"as drawn": np.ones(20), "re-weighted": np.eye(20)[0]}
    rejected = dict.fromkeys(weights, 0)
    for _ in range(200):
        frequencies = rng.normal(size=(20, d))
        frequencies[1:, 0] = 0.0
        samples = [features_of(shifted(rng, n, d, by), frequencies) for by in (0.0, 1.0)]
        for name, own in weights.items():
            rejected[name] += rejects(*samples, own, rng)
    assert rejected["re-weighted"] >= rejected["as drawn"] + 20, rejected


def critic_of(deviates):
    squares = np.square(deviates).astype(np.float32)
    waves = Waves(frequencies=deviates, squares=squares, sizes=np.ones_like(squares))
    return Critic(CharacteristicMap(waves))


def taught(frequencies, gaps, steps):
    critic = critic_of(frequencies)
    for _ in range(steps):
        critic(torch.tensor(gaps, dtype=torch.float32))
        critic.ascend()
    return critic


def test_the_critic_itself_raises_the_power_on_samples_that_it_has_not_seen():
    rng, d, n = np.random.default_rng(7), 8, 400
    rejected = {"as drawn": 0, "critic": 0}
    for _ in range(100):
        frequencies = rng.normal(size=(20, d))
        seen = [features_of(shifted(rng, n, d, by), frequencies) for by in (0.0, 1.0)]
        gaps = np.square(seen[0].mean(axis=0) - seen[1].mean(axis=0))
        weights = taught(frequencies, gaps, 40).weights().numpy()
        fresh = [features_of(shifted(rng, n, d, by), frequencies) for by in (0.0, 1.0)]
        rejected["as drawn"] += rejects(*fresh, np.ones(20), rng)
        rejected["critic"] += rejects(*fresh, weights, rng)
    assert rejected["critic"] >= rejected["as drawn"] + 5, rejected


def test_the_critic_climbs_and_keeps_half_of_the_frequencies_in_sight():
    rng = np.random.default_rng(8)
    frequencies = rng.normal(size=(500, 3))
    gaps = np.tile(np.square(frequencies[:, 1]) / 500, 2)  # all that is wrong is far out on axis 1
    critic = critic_of(frequencies)
    assert torch.equal(critic.weights(), torch.ones(500))
    heights = []
    for _ in range(60):
        heights.append(float(critic(torch.tensor(gaps, dtype=torch.float32))))
        critic.ascend()
    assert heights[-1] > 1.2 * heights[0]
    assert critic.log_scales[1] > 0.1 > critic.log_scales[[0, 2]].abs().max()
    assert 0.5 <= float(effective_share(critic.weights())) < 0.6
    assert float(critic.weights().mean()) == pytest.approx(1.0, abs=1e-5)


def test_a_critic_without_a_characteristic_function_is_refused():
    gist = gist_of(mixed_table(100), MIXED, dg.Merf(joint_frequencies=8, pair_frequencies=8))
    with pytest.raises(ValueError, match="method pearl"):
        dg.train(gist, dg.Training(steps=1, critic=True))
    with pytest.raises(ValueError, match="method pearl"):
        check_training(dg.Training(critic=True), MIXED, dg.Merf())
    check_training(dg.Training(critic=True), MIXED, dg.Pearl())


def test_a_report_reads_noisy_shares_of_choices_off_the_paid_histogram():
    found = noisy_choices(gist_of(mixed_table(4_000), MIXED, small(), epsilon=5.0))
    assert set(found) == {"dose", "ward", "stage"}
    shares, std = found["ward"]
    np.testing.assert_allclose(shares[:4], [0.6, 0.3, 0.0, 0.1], atol=6 * std + 0.03)
    assert noisy_choices(gist_of(mixed_table(50), MIXED, small(scaling="distance"))) == {}


@pytest.mark.parametrize("generator", ["mixture", "network"])
def test_both_kinds_of_generator_train_with_and_without_a_critic(generator):
    gist = gist_of(mixed_table(400), MIXED, small())
    models = [
        dg.train(gist, dg.Training(steps=30, batch=60, generator=generator, critic=critic))
        for critic in (None, True, False)
    ]
    assert [model.training["critic"] for model in models] == [True, True, False]
    assert models[0].losses == models[1].losses != models[2].losses
    assert models[0].sample(20, seed=0).equals(models[1].sample(20, seed=0))


def test_a_stopped_run_goes_on_to_the_same_bits_critic_and_all(tmp_path):
    gist = gist_of(mixed_table(300), MIXED, small())
    training = dg.Training(steps=40, components=20)
    whole = dg.train(gist, training, seed=3)

    def stop(step, steps, loss):
        if step == 27:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dg.train(gist, training, seed=3, progress=stop, checkpoint=tmp_path / "c")
    again = dg.train(gist, training, seed=3, checkpoint=tmp_path / "c")
    assert again.losses == whole.losses
    assert again.sample(50, seed=0).equals(whole.sample(50, seed=0))


def test_images_are_made_from_their_characteristic_function():
    gist = gist_of(
        stripe_images(2_000), STRIPES, dg.Pearl(scaling="distance", image_frequencies=200)
    )
    training = dg.Training(steps=60, batch=60, generator="conv", channels=8)
    drawn = dg.train(gist, training, seed=0).sample(200, seed=1)
    assert drawn["x"].shape == (200, 8, 8)


def test_narrow_modes_far_apart_are_found_through_their_stretch(stretched):
    """Without it the empty range between the modes sets the scale, and both are blurred."""
    table = two_modes(5_000, seed=9)
    blurred = gist_of(two_modes(20_000), TWO_MODES, small(scaling="distance"), epsilon=2.0)
    training = dg.Training(steps=200, components=40)
    errors = []
    for gist in (stretched, blurred):
        rows = dg.train(gist, training, seed=0).sample(5_000, seed=0)
        errors.append(np.abs(spread_of(table) - spread_of(rows)).mean())
    assert errors[0] < 0.5 * errors[1], errors


def spread_of(table):
    """Quantiles of both modes about their middles."""
    x, quantiles = table["x"].to_numpy(), np.linspace(0.02, 0.98, 49)
    modes = x[x < 50] - 5.0, x[x >= 50] - 90.0
    return np.concatenate([np.quantile(mode, quantiles) for mode in modes])
