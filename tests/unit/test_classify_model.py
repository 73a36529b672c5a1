"""The closed form against automatic differentiation, and DP-SGD against plain SGD."""

import numpy as np
import pytest
import torch
from tests.trust.sgd_worlds import ledger_of
from tests.trust.worlds import budget_of, schema_of, table_of

from dpgist.classify.model import LocallyLinearModel
from dpgist.classify.projections import low_frequencies, random_projections
from dpgist.classify.shifts import shifts
from dpgist.encode import Encoder
from dpgist.privacy import sgd
from dpgist.privacy.inputs import Inputs
from dpgist.privacy.outer import Space
from dpgist.privacy.private import Private
from dpgist.privacy.sgd import GradientQuery
from dpgist.sources import open_source

MAPS, INPUTS, CONSTANT, SCALE, SHARPNESS = 3, 4, 0.2, 8.0, 1.5
RNG = np.random.default_rng(3)
PROJECTION = random_projections(MAPS, INPUTS, 2, rng=np.random.default_rng(0))


def model_of(projected):
    real = PROJECTION / SCALE if projected else None
    return LocallyLinearModel(
        n_classes=2,
        maps=MAPS,
        temperature=0.7,
        constant=CONSTANT,
        sharpness=SHARPNESS,
        projection=real,
    )


def space_of(projected):
    return Space(
        outputs=2 * MAPS,
        inputs=INPUTS,
        levels=255,
        constant=CONSTANT,
        projection=PROJECTION if projected else None,
        projection_scale=SCALE if projected else 1.0,
    )


def loss(parameters, row, label, projected):
    """The loss of one row, written as the paper does, for autograd."""
    x = torch.as_tensor(row, dtype=torch.float64)
    seen = [x] * MAPS
    if projected:
        seen = [x @ torch.from_numpy(part / SCALE) for part in PROJECTION]
    grouped = SHARPNESS * parameters.reshape(MAPS, 2, -1)
    g = torch.stack(
        [grouped[m, :, :-1] @ seen[m] + CONSTANT * grouped[m, :, -1] for m in range(MAPS)]
    )
    f = (torch.softmax(0.7 * g, dim=0) * g).sum(dim=0)
    return torch.nn.functional.cross_entropy(f[None], torch.tensor([label]))


def gradient(parameters, row, label, projected):
    parameters = parameters.clone().requires_grad_(True)
    (found,) = torch.autograd.grad(loss(parameters, row, label, projected), parameters)
    return found


@pytest.mark.parametrize("projected", [False, True])
def test_closed_form_norms_and_gradients_equal_autograds(projected):
    space = space_of(projected)
    parameters = torch.from_numpy(RNG.normal(size=(2 * MAPS, space.features + 1)))
    whole = torch.from_numpy(RNG.integers(-255, 256, (20, INPUTS)))
    labels = torch.from_numpy(RNG.integers(0, 2, 20))
    rows = whole.double() / 255
    a = model_of(projected).at(parameters, torch.float64)(rows, labels)
    grouped = a.reshape(20, space.groups, -1)
    norms = space._norm(grouped, space.gains(whole[:, None])) / space.unit
    for at in range(20):
        exact = gradient(parameters, rows[at], int(labels[at]), projected)
        assert float(norms[at]) == pytest.approx(float(exact.norm()), rel=1e-12)
        if not projected:
            with_constant = torch.cat([rows[at], torch.tensor([CONSTANT], dtype=torch.float64)])
            assert torch.allclose(torch.outer(a[at], with_constant), exact, rtol=1e-10, atol=1e-13)


class PlainSgd:
    """parameters -= rate * gradient."""

    def __init__(self, start, rate):
        self.parameters, self.rate = start.clone(), rate

    def step(self, gradient):
        self.parameters = self.parameters - self.rate * gradient


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.float64, 1e-7)])
def test_without_noise_and_clipping_it_is_plain_sgd(monkeypatch, projected, dtype, tolerance):
    monkeypatch.setattr(sgd, "add_rounded_gaussian", lambda values, noise_std: values)
    monkeypatch.setattr(sgd.Prepared, "check_slots", lambda self, _: setattr(self, "dtype", dtype))
    schema, n_rows, steps = schema_of(INPUTS), 30, 5
    cells = RNG.integers(0, 256, (n_rows, INPUTS)) / 255
    labels = RNG.integers(0, 2, n_rows)
    space = space_of(projected)
    inputs = Inputs(width=INPUTS, levels=255, centre=np.zeros(INPUTS))
    query = GradientQuery(
        encoder=Encoder(schema), inputs=inputs, space=space, model=model_of(projected),
        classes=(0, 1), clip=100.0, rate=1.0, steps=steps, rows=n_rows, recipe={},
    )  # fmt: skip
    start = torch.from_numpy(RNG.normal(size=(2 * MAPS, space.features + 1)))
    follower, budget = PlainSgd(start, 0.5), budget_of(1.0)
    source = Private(open_source(table_of(cells.tolist(), ["ab"[label] for label in labels])))
    sgd.release_gradients(
        source, query, budget, ledger_of(budget, schema), schema=schema, follower=follower
    )

    plain = start.clone()
    for _ in range(steps):
        each = [
            gradient(plain, row, int(label), projected)
            for row, label in zip(cells, labels, strict=True)
        ]
        plain = plain - 0.5 * torch.stack(each).mean(dim=0)
    assert float((follower.parameters - plain).abs().max()) < tolerance
    assert float((plain - start).abs().max()) > 0.05


def test_low_frequencies_are_orthonormal_but_for_the_constant():
    matrix = low_frequencies(2, 6, 5, features=20)
    assert matrix.shape == (60, 20)
    gram = matrix.T @ matrix
    expected = np.eye(20)
    expected[0, 0] = expected[10, 10] = 0.09
    assert np.allclose(gram, expected, atol=1e-12)
    assert np.allclose(matrix[:30, 0], 0.3 / np.sqrt(30))


def test_copies_are_the_image_moved_by_a_pixel_with_nothing_beyond_the_edge():
    image = np.arange(1.0, 25).reshape(2, 3, 4)
    views = shifts(2, 3, 4, copies=9)
    copies = np.where(views >= 0, image.ravel()[views], 0.0).reshape(9, 2, 3, 4)
    np.testing.assert_array_equal(copies[0], image)
    np.testing.assert_array_equal(copies[1][:, :, :-1], image[:, :, 1:])
    np.testing.assert_array_equal(copies[4][:, 1:], image[:, :-1])
    np.testing.assert_array_equal(copies[8][:, 1:, 1:], image[:, :-1, :-1])
    assert (copies[1][:, :, -1] == 0).all()
    assert (copies[4][:, 0] == 0).all()
    assert len({copy.tobytes() for copy in copies}) == 9
    np.testing.assert_array_equal(shifts(2, 3, 4, copies=5), views[:5])
