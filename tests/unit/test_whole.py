"""Fourier features in whole numbers: the Gaussian kernel, exact phases, norm at most 1."""

import math

import numpy as np
import pytest
import torch

from dpgist.features import whole
from dpgist.features.whole import LARGEST, WholeFourierMap, draw_whole_frequencies, suits

PIXELS = 784


def drawn(n=500, scales=(0.4, 0.8), seed=0, n_pixels=PIXELS):
    rng = np.random.Generator(np.random.Philox(seed))
    return draw_whole_frequencies(n_pixels, n_frequencies=n, length_scales=scales, rng=rng)


def pictures(n, seed=0, n_pixels=PIXELS):
    return np.random.default_rng(seed).integers(0, 256, (n, n_pixels))


def looked_up(row_map, images):
    found = row_map(torch.from_numpy(images / 255))
    return found.pairs[found.places.long()].transpose(1, 2).flatten(1)


@pytest.mark.parametrize("scale", [0.05, 0.4, 2.0])
def test_frequencies_have_the_variance_of_their_length_scale(scale):
    frequencies = WholeFourierMap(drawn(300, (scale,))).frequencies
    length = scale * math.sqrt(PIXELS / 6)
    assert float(frequencies.std()) * length == pytest.approx(1, rel=0.005)
    assert float(frequencies.mean()) * length == pytest.approx(0, abs=0.01)


def test_the_law_of_whole_frequencies_has_the_gaussian_kernel_to_eight_digits():
    """The exact law, not a draw: the characteristic function of a rounded and clipped Gaussian."""
    whole_numbers = np.arange(-LARGEST, LARGEST + 1)
    edges = np.concatenate([[-np.inf], whole_numbers[:-1] + 0.5, [np.inf]]) / whole._STD
    masses = np.diff([0.5 * (1 + math.erf(edge / math.sqrt(2))) for edge in edges])
    one, other = pictures(2) / 255
    for mix in (0.01, 0.1, 0.3, 1.0):
        difference = mix * (one - other)
        unit, length = whole._unit(PIXELS, 0.35), 0.35 * math.sqrt(PIXELS / 6)
        waves = np.cos(unit * np.outer(difference, whole_numbers)) @ masses
        gaussian = math.exp(-(difference @ difference) / (2 * length**2))
        assert np.prod(waves) == pytest.approx(gaussian, abs=3e-9)


def test_features_of_images_have_the_gaussian_kernel_as_inner_product():
    n = 20_000
    one, other = pictures(2)
    images = np.stack([one, (0.8 * one + 0.2 * other).round().astype(np.int64), other])
    features = looked_up(WholeFourierMap(drawn(n, (0.4,))), images).double()
    squared = ((images[:, None] - images[None]) ** 2).sum(axis=2) / 255**2
    kernel = np.exp(-squared / (2 * 0.4**2 * PIXELS / 6))
    found = (features @ features.T).numpy()
    assert 0.1 < kernel[0, 1] < 0.95
    np.testing.assert_allclose(found, kernel, atol=5 / math.sqrt(2 * n))


def test_training_sees_the_same_features_as_the_private_pass():
    row_map, images = WholeFourierMap(drawn()), pictures(50)
    smooth = row_map.smooth()(torch.from_numpy(images / 255))
    gap = (looked_up(row_map, images) - smooth).abs().max() * math.sqrt(500)
    assert gap < math.pi / whole._STEPS + 2e-5
    torch.testing.assert_close(smooth.norm(dim=1), torch.ones(50))


def test_a_gradient_flows_through_the_smooth_map():
    row = torch.rand(1, PIXELS, requires_grad=True)
    WholeFourierMap(drawn(10)).smooth()(row).sum().backward()
    assert float(row.grad.abs().min()) > 0


def test_phases_are_the_exact_whole_products():
    frequencies = drawn(40)
    row_map, images = WholeFourierMap(frequencies), pictures(9)
    images[0], images[1] = 255, 0
    products = images @ frequencies.whole.astype(np.int64).T
    turned = products.astype(np.float32) * row_map.steps.numpy()
    expected = np.rint(turned).astype(np.int64) % whole._STEPS
    assert row_map(torch.from_numpy(images / 255)).places.tolist() == expected.tolist()


def test_without_byte_products_the_integers_are_the_same(monkeypatch):
    row_map, rows = WholeFourierMap(drawn(60)), torch.from_numpy(pictures(20) / 255)
    places = row_map(rows).places
    monkeypatch.setattr(whole, "_multiplies_bytes", lambda: False)
    assert torch.equal(row_map(rows).places, places)


@pytest.mark.parametrize("n", [1, 7, 64, 5000, 36_000])
def test_no_pair_of_the_table_is_longer_than_its_share(n):
    pairs = torch.from_numpy(whole._turn(n)).double()
    norms = pairs.square().sum(dim=1) * n
    assert float(norms.max()) <= 1
    assert float(norms.min()) > 1 - 1e-6


def test_frequencies_stay_where_pairs_of_products_fit_sixteen_bits():
    assert 2 * 255 * LARGEST < 2**15
    assert np.abs(drawn(2000).whole).max() <= LARGEST


@pytest.mark.parametrize(
    ("n_pixels", "scale", "suited"),
    [(784, 0.4, True), (784, 0.001, True), (784, 1e-5, False), (150_000, 1.0, False)],
)
def test_phases_that_could_leave_32_bits_are_not_suited(n_pixels, scale, suited):
    assert suits(n_pixels, (1.0, scale)) is suited
