"""The two-half estimate is unbiased for any network and row map; one batch is not."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from dpgist.features.compose import SideBySide
from dpgist.features.fourier import FourierMap
from dpgist.training.matching import Target, class_means, two_half_loss
from dpgist.training.objectives import TwoHalves, fast_arithmetic

WEIGHTS = np.array([0.7, 0.3])


class Gaussians(nn.Module):
    """Rows A z + b_c, whose mean Fourier features are known."""

    kind, n_noise, n_classes = "network", 2, 3

    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(torch.tensor([[0.5, 0.1], [0.0, 0.4]]))
        self.register_buffer("middles", torch.tensor([[0.2, 0.1], [9.0, 9.0], [0.8, 0.5]]))

    def forward(self, noise, classes):
        return noise @ self.slopes.T + classes @ self.middles

    def expected(self, frequencies, code):
        omega = torch.tensor(frequencies, dtype=torch.float64)
        spread = torch.exp(-(omega @ self.slopes.double()).square().sum(dim=1) / 2)
        phase = omega @ self.middles[code].double()
        means = torch.cat([phase.cos() * spread, phase.sin() * spread]) / len(omega) ** 0.5
        return means.detach().numpy()


@pytest.fixture(scope="module")
def world():
    """A network, a labelled and an unlabelled block, a target apart from it, and the truth."""
    rng = np.random.default_rng(0)
    frequencies = [rng.normal(0, 3, (20, 2)), rng.normal(0, 1, (10, 2))]
    network = Gaussians()
    means = (rng.normal(0, 0.05, (2, 40)), rng.normal(0, 0.05, (1, 20)))
    target = Target(
        classes=np.array([0, 2]), class_weights=WEIGHTS, means=means, loss_weights=(0.6, 0.4)
    )
    exact = [np.stack([network.expected(part, code) for code in (0, 2)]) for part in frequencies]
    gaps, mixed = exact[0] - means[0], WEIGHTS @ exact[1]
    truth = 0.6 * WEIGHTS @ np.sum(gaps**2, axis=1)
    truth += 0.4 * np.sum((mixed - means[1][0]) ** 2)
    row_map = SideBySide(FourierMap(part) for part in frequencies)
    return network, row_map, target, truth


def losses(objective, n):
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        return np.array([float(objective.loss(rng)) for _ in range(n)])


def test_the_mean_of_many_small_batches_is_the_closed_form(world):
    network, row_map, target, truth = world
    found = losses(TwoHalves(network, row_map, target, batch=12), 3000)
    error = found.std() / len(found) ** 0.5
    assert error < 0.03 * truth
    assert abs(found.mean() - truth) < 5 * error


def test_one_batch_for_both_factors_is_biased_upwards(world, monkeypatch):
    network, row_map, target, truth = world
    objective = TwoHalves(network, row_map, target, batch=12)
    drawn = objective._noise
    kept = []

    def twice(rng):
        kept.append(drawn(rng) if len(kept) % 2 == 0 else kept[-1])
        return kept[-1]

    monkeypatch.setattr(objective, "_noise", twice)
    found = losses(objective, 500)
    assert found.mean() - truth > 20 * found.std() / len(found) ** 0.5


def test_the_gradient_is_unbiased_too(world):
    network, row_map, target, _ = world
    objective = TwoHalves(network, row_map, target, batch=40)
    rng = torch.Generator().manual_seed(2)
    found = []
    for _ in range(600):
        (gradient,) = torch.autograd.grad(objective.loss(rng), network.slopes)
        found.append(gradient.numpy())
    large = TwoHalves(network, row_map, target, batch=400_000)
    (expected,) = torch.autograd.grad(large.loss(rng), network.slopes)
    error = np.std(found, axis=0) / len(found) ** 0.5
    assert (np.abs(np.mean(found, axis=0) - expected.numpy()) < 5 * error + 2e-3).all()


def test_class_means_are_those_of_the_sorted_rows():
    features = torch.arange(12.0).reshape(6, 2)
    torch.testing.assert_close(class_means(features, 2), torch.tensor([[2.0, 3.0], [8.0, 9.0]]))


def test_the_loss_is_the_weighted_product_of_both_gaps():
    first, second = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0], [5.0, 1.0]])
    weights = torch.tensor([0.25, 0.75])
    loss = two_half_loss(
        [first], [second], [torch.zeros(2, 2)], class_weights=weights, loss_weights=(2.0,)
    )
    assert float(loss) == pytest.approx(2 * (0.25 * 3 + 0.75 * 2))
    whole = two_half_loss(
        [first], [second], [torch.zeros(1, 2)], class_weights=weights, loss_weights=(1.0,)
    )
    assert float(whole) == pytest.approx(0.25 * 4.5 + 1.5 * 0.75)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_tiny_batch_still_has_a_row_of_each_class_in_each_half(world, batch):
    network, row_map, target, _ = world
    assert np.isfinite(losses(TwoHalves(network, row_map, target, batch=batch), 3)).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_recorded_step_computes_what_a_plain_one_does(world, monkeypatch):
    network, row_map, target, _ = world
    network = copy.deepcopy(network).cuda()
    recorded = TwoHalves(network, copy.deepcopy(row_map), target, batch=40)
    plain = TwoHalves(network, copy.deepcopy(row_map), target, batch=40)
    monkeypatch.setattr(plain, "_record", lambda: None)
    with fast_arithmetic(torch.device("cuda")):
        found = [gradient(which, network, seed) for which in (recorded, plain) for seed in (1, 2)]
    for (loss, slopes), (expected, expected_slopes) in zip(found[:2], found[2:], strict=True):
        assert loss == pytest.approx(expected, rel=1e-5)
        assert torch.allclose(slopes, expected_slopes, rtol=1e-4)
    assert found[0][0] != found[1][0]


def gradient(objective, network, seed):
    network.zero_grad()
    loss = objective.loss(torch.Generator("cuda").manual_seed(seed))
    loss.backward()
    return float(loss), network.slopes.grad.clone()
