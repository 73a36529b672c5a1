"""Networks emit rows that the schema allows, from the noise they are given and nothing else."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from tests.made_gists import GRID, MIXED

from dpgist.encode import Encoder
from dpgist.generators.build import build_generator, default_sizes, kind_for
from dpgist.generators.image import _Enlarged, convolution_images, upsampling_images
from dpgist.generators.network import initialise
from dpgist.schema import CategoryColumn, ImageColumn, Schema

PICTURES = Schema(
    name="pictures",
    columns=(
        ImageColumn(name="image", height=8, width=12, channels=3),
        CategoryColumn(name="what", values=("cat", "dog")),
    ),
    label="what",
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def made(schema, kind, seed=0):
    encoder = Encoder(schema)
    return build_generator(kind, encoder, default_sizes(kind, encoder), generator=seeded(seed))


def rows_of(network, n=500, seed=3):
    noise = torch.randn(n, network.n_noise, generator=seeded(seed))
    classes = torch.eye(network.n_classes)[torch.arange(n) % network.n_classes]
    return network(noise, classes)


@pytest.mark.parametrize("training", [True, False])
def test_rows_of_a_table_are_such_as_the_schema_allows(training):
    network = made(MIXED, "network").train(training)
    rows = rows_of(network).detach().numpy()
    assert rows.shape == (500, Encoder(MIXED).width)
    for slot in network.slots:
        part = rows[:, slot.start : slot.start + slot.width]
        if slot.kind == "choice":
            np.testing.assert_allclose(np.sort(part, axis=1)[:, -1], 1, atol=1e-6)
            np.testing.assert_allclose(part.sum(axis=1), 1, atol=1e-6)
            assert np.abs(part[:, ~np.array(slot.allowed)]).max(initial=0) < 1e-6
        else:
            assert (part >= 0).all()
            assert (part <= 1).all()
        if slot.gate is not None:
            null = rows[:, slot.gate] < 0.5
            assert null.any()
            assert not null.all()
            assert np.abs(part[null]).max() < 1e-6


@pytest.mark.parametrize("kind", ["conv", "upsampling", "residual"])
def test_samples_reach_black_and_white(kind):
    network = made(PICTURES, kind).eval()
    last = [layer for layer in network.layers if hasattr(layer, "bias")][-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([-4.0, 4.0, 0.0]))
    rows = network.sample(np.zeros(5, np.int64), rng=np.random.default_rng(0))
    wanted = np.array([0.0, 1.0, 0.5]).repeat(8 * 12)
    np.testing.assert_allclose(rows, np.tile(wanted, (5, 1)), atol=1e-6)


def test_every_output_that_may_be_emitted_can_learn():
    network = made(MIXED, "network").train()
    towards = torch.randn(Encoder(MIXED).width, generator=seeded(1))
    (rows_of(network) @ towards).sum().backward()
    last = network.layers[-1].bias.grad
    barred = torch.isinf(network.barred)
    assert barred.any()
    assert (last[~barred] != 0).all()
    assert (last[barred] == 0).all()


def test_options_are_drawn_with_the_softmax_of_their_scores():
    network = made(MIXED, "network").eval()
    last = network.layers[-1]
    slot = next(slot for slot in network.slots if slot.column == "stage")
    place = slice(slot.start, slot.start + slot.width)
    with torch.no_grad():
        last.weight.zero_()
        last.bias[place] = torch.tensor([0.0, 1.0, -2.0, 0.5])
        counts = rows_of(network, n=40_000).sum(dim=0)[place]
        expected = torch.softmax(last.bias[place].double(), dim=0) * 40_000
    assert chisquare(counts.double().numpy(), expected.numpy()).pvalue > 1e-6


@pytest.mark.parametrize(
    ("schema", "kind"),
    [(MIXED, "network"), (PICTURES, "residual"), (PICTURES, "conv"), (PICTURES, "upsampling")],
)
def test_first_weights_come_from_the_generator_and_leave_torch_alone(schema, kind):
    before = torch.random.get_rng_state()
    one, same, other = made(schema, kind), made(schema, kind), made(schema, kind, seed=1)
    assert torch.equal(before, torch.random.get_rng_state())
    for name, weights in one.state_dict().items():
        assert torch.equal(weights, same.state_dict()[name])
    assert not torch.equal(one.layers[0].weight, other.layers[0].weight)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [(GRID, "network"), (PICTURES, "residual"), (PICTURES, "conv"), (PICTURES, "upsampling")],
)
def test_a_sampled_row_depends_on_its_own_noise_alone(schema, kind):
    network = made(schema, kind).train()
    classes = np.arange(3000) % network.n_classes
    many = network.sample(classes, rng=np.random.default_rng(0))
    few = network.sample(classes[:7], rng=np.random.default_rng(0))
    np.testing.assert_allclose(many[:7], few, atol=1e-5)
    assert many.shape == (3000, Encoder(schema).width)
    assert len(np.unique(many.round(6), axis=0)) > 2900
    assert network.sample(classes[:0], rng=np.random.default_rng(0)).shape == (0, many.shape[1])


def test_the_upsampling_generator_is_the_papers():
    network = upsampling_images(
        (1, 28, 28), n_classes=10, latent=5, hidden=200, channels=16, generator=seeded()
    )
    assert sum(weights.numel() for weights in network.parameters()) == 166_161


@pytest.mark.parametrize("make", [upsampling_images, convolution_images])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 8, 20)])
def test_images_of_any_size_divisible_by_four_lie_in_the_unit_cube(make, shape):
    network = make(shape, n_classes=2, latent=3, hidden=20, channels=6, generator=seeded())
    rows = rows_of(network, n=8)
    assert rows.shape == (8, np.prod(shape))
    assert ((rows > 0) & (rows < 1)).all()


def test_weights_start_as_large_as_their_layers_are_wide():
    layer = torch.nn.Linear(400, 300)
    initialise(layer, seeded())
    assert float(layer.weight.detach().abs().max()) == pytest.approx(0.05, rel=0.01)
    assert float(layer.bias.detach().abs().max()) == pytest.approx(0.05, rel=0.1)


def test_a_generator_must_suit_the_schema():
    assert kind_for(Encoder(MIXED)) == "mixture"
    assert kind_for(Encoder(PICTURES)) == "residual"
    with pytest.raises(ValueError, match="mixture or network"):
        kind_for(Encoder(MIXED), "conv")
    with pytest.raises(ValueError, match="conv or upsampling"):
        kind_for(Encoder(PICTURES), "mixture")
    odd = Schema(name="odd", columns=(ImageColumn(name="i", height=8, width=7),))
    with pytest.raises(ValueError, match="divisible by 4"):
        kind_for(Encoder(odd))


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"components": 3},
        {"latent": 3, "hidden": 4},
        {"latent": 3, "hidden": 4, "depth": 10**6},
        {"latent": 3, "hidden": 4.0, "depth": 1},
        {"latent": True, "hidden": 4, "depth": 1},
    ],
)
def test_senseless_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match=r"sizes|must be"):
        build_generator("network", Encoder(MIXED), sizes, generator=seeded())


def test_doubling_an_image_keeps_its_pixels_and_its_precision():
    images = torch.randn(2, 3, 4, 5, generator=seeded()).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        doubled = _Enlarged()(images)
    assert doubled.dtype == torch.bfloat16
    assert torch.equal(doubled, images.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3))
