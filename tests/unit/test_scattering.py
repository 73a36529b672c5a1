"""Scattering: the wavelets of the literature, and a method that chooses its scales by the noise."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.made_gists import MIXED

import dpgist as dg
from dpgist.errors import DataError
from dpgist.features import scattering
from dpgist.features.scattering import ScatteringMap, scattered_length
from dpgist.methods.scattering import scales_for
from dpgist.training.objectives import _parts, thinning_for


def pictures(side=28, channels=1, rows_about=60_000):
    return dg.Schema(
        name="pictures",
        columns=(
            dg.ImageColumn(name="image", height=side, width=side, channels=channels),
            dg.CategoryColumn(name="label", values=tuple("0123456789")),
        ),
        label="label",
        rows_about=rows_about,
    )


def budget(epsilon, relation="add_remove"):
    return dg.Budget(epsilon=epsilon, delta=1e-5, relation=relation)


SMALL = dg.Scattering(frequencies=30, pixel_frequencies=12)

# Values of kymatio 0.3.0 (channel: two of its 8 x 8 pixels) for the waves below, which fill its
# padded square so that no rule for edges matters.
KYMATIO = {
    0: (0.387519, 0.405803),
    3: (0.0138361, 0.0136613),
    12: (0.00305694, 0.00330127),
    20: (0.000213095, 0.000636592),
    80: (0.00216122, 0.00167714),
}


def waves(side):
    y, x = np.mgrid[:side, :side] / side
    return (
        0.5
        + 0.25 * np.sin(2 * np.pi * (3 * x + y))
        + 0.25 * np.cos(2 * np.pi * (7 * x - 2 * y)) * x
    )


def test_coefficients_are_those_of_kymatio(monkeypatch):
    monkeypatch.setattr(scattering, "_SMOOTH", 0.0)
    square = torch.tensor(waves(32))[None, None]
    found = ScatteringMap((1, 28, 28)).double()._scatter(square)[0, 0].reshape(81, 8, 8)
    for channel, (one, other) in KYMATIO.items():
        assert float(found[channel, 1, 2]) == pytest.approx(one, rel=0.01, abs=2e-5), channel
        assert float(found[channel, 5, 6]) == pytest.approx(other, rel=0.01, abs=2e-5), channel


def test_dense_matrices_and_fourier_transforms_agree(monkeypatch):
    rows = torch.from_numpy(np.random.default_rng(0).random((3, 28 * 28)))
    dense = ScatteringMap((1, 28, 28))
    monkeypatch.setattr(scattering, "_LARGEST_MATRIX", 0)
    fast = ScatteringMap((1, 28, 28))
    assert dense.first[0].matrix is not None
    assert fast.first[0].matrix is None
    assert torch.allclose(dense.double()(rows), fast.double()(rows), atol=1e-7)


@pytest.mark.parametrize(("shape", "length"), [((1, 28, 28), 81 * 64), ((3, 32, 32), 3 * 81 * 81)])
def test_the_length_is_told_before_a_row_is_seen(shape, length):
    mapped = ScatteringMap(shape)(torch.rand(2, int(np.prod(shape))))
    assert mapped.shape == (2, length)
    assert scattered_length(shape) == length


@pytest.mark.parametrize(
    ("shape", "frequencies", "pixels"),
    [
        ((1, 28, 28), 12_000, 6_000),
        ((3, 32, 32), 12_000, 6_000),
        ((1, 64, 64), 12_000, 6_000),
        ((3, 64, 64), 5_090, 6_000),
        ((3, 256, 256), 378, 1_365),
    ],
)
def test_the_matrices_of_large_images_stay_within_a_gigabyte(shape, frequencies, pixels):
    settled = dg.Scattering().settled(pictures(shape[1], shape[0]), budget(1.0))
    assert (settled.frequencies, settled.pixel_frequencies) == (frequencies, pixels)
    assert 4 * frequencies * scattered_length(shape) <= 2**30
    assert 4 * pixels * np.prod(shape) <= 2**30


def test_a_plan_counts_the_matrix_in_memory_and_time():
    large, small = (dg.plan(pictures(), budget(1.0), method) for method in (None, SMALL))
    assert large.memory_bytes > small.memory_bytes + 4 * 12_000 * scattered_length((1, 28, 28))
    assert large.seconds > 3 * small.seconds


def test_large_images_take_three_octaves_and_no_huge_matrix():
    map_64 = ScatteringMap((1, 64, 64))
    assert map_64.first[0].matrix is None
    assert map_64(torch.rand(2, 64 * 64)).shape == (2, 217 * 81)


def test_a_shift_moves_pixels_more_than_coefficients():
    image = torch.zeros(28, 28)
    image[8:20, 13:15] = 1.0
    moved = torch.roll(image, 1, dims=1)
    other = image.T.contiguous()
    pixels = [(image - other).norm(), (image - moved).norm()]
    a, b, c = ScatteringMap((1, 28, 28))(torch.stack([image, moved, other]).flatten(1))
    assert (a - b).norm() / (a - c).norm() < 0.5 * pixels[1] / pixels[0]


def test_training_can_pass_through_a_black_image():
    rows = torch.zeros(2, 28 * 28, requires_grad=True)
    ScatteringMap((1, 28, 28))(rows).sum().backward()
    assert torch.isfinite(rows.grad).all()


def test_narrow_scales_go_as_the_noise_grows_and_the_widest_stays():
    narrowest = [
        scales_for(pictures(rows_about=rows), budget(epsilon))[0][0]
        for rows, epsilon in [(60_000, 1.0), (60_000, 0.2), (5_000, 0.2), (100, 0.01)]
    ]
    assert narrowest == [1.0, 2.0, 4.0, 4.0]
    assert scales_for(pictures(), budget(0.2)) == ((2.0, 4.0), (0.7, 1.4))


def test_what_the_gist_stores_says_which_scales_were_released():
    settled = SMALL.settled(pictures(), budget(0.2))
    plan = SMALL.plan(pictures(), budget=budget(0.2), feature_seed=0)
    names = [block.name for block in plan.stages[0].query(()).blocks]
    assert names == ["scattering 2", "scattering 4", "pixels 0.7", "pixels 1.4"]
    assert settled.scales == (2.0, 4.0)
    assert settled.settled(pictures(), budget(10.0)) == settled
    with pytest.raises(ValueError, match="not settled"):
        SMALL.row_map(pictures(), feature_seed=0)


def test_the_mean_over_thin_parts_is_the_whole_distance():
    settled = SMALL.settled(pictures(), budget(1.0))
    row_map = settled.row_map(pictures(), feature_seed=0)
    rng = np.random.default_rng(1)
    rows = torch.from_numpy(rng.random((5, 28 * 28)))
    means = [torch.from_numpy(rng.normal(0, 0.1, (5, part.length))) for part in row_map.fouriers]
    whole = [((a - m) ** 2).sum() for a, m in zip(row_map(rows), means, strict=True)]
    parts = [
        [((a - m) ** 2).sum() for a, m in zip(part(rows), cut, strict=True)]
        for part, cut in _parts(row_map, means, 2)
    ]
    assert np.allclose(np.mean(parts, axis=0), whole, rtol=1e-5)


def test_a_processor_thins_what_a_graphics_card_takes_whole():
    settled = dataclasses.replace(SMALL, frequencies=12_000).settled(pictures(16), budget(1.0))
    row_map = settled.row_map(pictures(16), feature_seed=0)
    assert thinning_for(row_map, torch.device("cpu")) == 4
    assert thinning_for(row_map, torch.device("cuda")) == 1


def test_images_take_scattering_and_what_it_cannot_do_is_refused_before_a_charge():
    assert dg.plan(pictures(8), budget(1.0)).method == "scattering"
    assert dg.plan(pictures(4), budget(1.0)).method == "merf"
    with pytest.raises(DataError, match="at least 8 pixels"):
        dg.plan(pictures(4), budget(1.0), SMALL)
    with pytest.raises(DataError, match="is for images"):
        dg.plan(MIXED, budget(1.0), SMALL)


@pytest.mark.parametrize(
    "wrong",
    [
        {"frequencies": 0},
        {"scales": ()},
        {"scales": (1, 1)},
        {"pixel_scales": (-1,)},
        {"pixel_weight": 0},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        dg.Scattering(**wrong)
