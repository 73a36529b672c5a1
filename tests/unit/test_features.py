"""Feature maps have norm 1, come from public seeds, and agree with their closed forms."""

import numpy as np
import pytest
import torch
from tests.made_gists import MIXED

from dpgist.encode import Encoder, Slot
from dpgist.features.compose import ChoiceMap, SideBySide
from dpgist.features.expected import expected_means
from dpgist.features.fourier import FourierMap, draw_frequencies
from dpgist.features.support import Support, column_supports
from dpgist.generators.mixture import MixtureGenerator
from dpgist.schema import IntegerColumn, NumberColumn, Schema


def philox(seed=0):
    return np.random.Generator(np.random.Philox(seed))


def frequencies(group_size=2, n=300, seed=0, scales=(1.0, 0.1)):
    return draw_frequencies(
        Encoder(MIXED).slots,
        n_frequencies=n,
        group_size=group_size,
        length_scales=scales,
        rng=philox(seed),
    )


def test_fourier_features_of_any_row_have_norm_one():
    rows = torch.rand(50, Encoder(MIXED).width, generator=torch.Generator().manual_seed(1))
    features = FourierMap(frequencies())(rows)
    assert features.shape == (50, 600)
    torch.testing.assert_close(features.norm(dim=1), torch.ones(50))


def test_a_map_computes_in_the_precision_of_its_buffers():
    rows = torch.rand(3, Encoder(MIXED).width, dtype=torch.float64)
    assert FourierMap(frequencies())(rows).dtype == torch.float32
    assert FourierMap(frequencies()).double()(rows).dtype == torch.float64
    assert ChoiceMap(Encoder(MIXED).slots).double()(rows).dtype == torch.float64


def test_the_same_seed_draws_the_same_frequencies_and_another_does_not():
    np.testing.assert_array_equal(frequencies(seed=3), frequencies(seed=3))
    assert not np.array_equal(frequencies(seed=3), frequencies(seed=4))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_frequency_sees_exactly_its_group_of_columns(size):
    supports = column_supports(Encoder(MIXED))
    drawn = frequencies(group_size=size)
    seen = [(drawn[:, s.start : s.start + s.width] != 0).any(axis=1) for s in supports]
    assert (np.sum(seen, axis=0) == size).all()
    assert all(column.any() for column in seen)


def test_the_kernel_of_an_interval_is_gaussian_at_the_stated_scale():
    slot = Slot(column="x", kind="interval", start=0, width=1)
    drawn = draw_frequencies(
        [slot], n_frequencies=200_000, group_size=None, length_scales=(0.5,), rng=philox()
    )
    features = FourierMap(drawn)(torch.tensor([[0.2], [0.5]]))
    expected = np.exp(-(0.3**2) / (2 * 0.5**2 / 6))
    assert float(features[0] @ features[1]) == pytest.approx(expected, abs=0.01)


def test_neighbouring_options_of_an_ordered_choice_look_more_alike_than_distant_ones():
    slot = Slot(column="x", kind="choice", start=0, width=6, allowed=(True,) * 6, ordered=True)
    drawn = draw_frequencies(
        [slot], n_frequencies=20_000, group_size=1, length_scales=(1.0,), rng=philox()
    )
    features = FourierMap(drawn)(torch.eye(6))
    kernel = features @ features.T
    assert kernel[0, 1] > kernel[0, 2] > kernel[0, 4]


def test_choices_have_norm_one_and_no_negative_number():
    encoder = Encoder(MIXED)
    rows = sampled_rows(encoder, 200)
    features = ChoiceMap(encoder.slots)(torch.tensor(rows))
    assert (features >= 0).all()
    torch.testing.assert_close(features.norm(dim=1), torch.ones(200))


def sampled_rows(encoder, n, generator=None):
    generator = generator or MixtureGenerator(
        column_supports(encoder),
        n_classes=encoder.n_classes,
        n_components=1,
        generator=torch.Generator().manual_seed(0),
    )
    return generator.sample(np.zeros(n, dtype=np.int64), rng=philox(5))


@pytest.mark.parametrize("group_size", [1, 2, 3, None])
def test_the_closed_form_is_the_mean_over_sampled_rows(group_size):
    encoder = Encoder(MIXED)
    supports = column_supports(encoder)
    generator = MixtureGenerator(
        supports,
        n_classes=encoder.n_classes,
        n_components=1,
        generator=torch.Generator().manual_seed(0),
    )
    row_map = SideBySide([FourierMap(frequencies(group_size, n=40)), ChoiceMap(encoder.slots)])
    with torch.no_grad():
        closed = expected_means(row_map, supports)(torch.ones(1, 1), generator()[1])
    rows = sampled_rows(encoder, 100_000, generator)
    for exact, features in zip(closed, row_map(torch.tensor(rows)), strict=True):
        # a coordinate's standard error is at most scale / sqrt(n); six of them
        limit = 6 * float(features.std(dim=0).max()) / np.sqrt(len(rows))
        assert float((exact[0] - features.mean(dim=0)).abs().max()) < limit


def test_a_map_without_closed_form_is_refused():
    with pytest.raises(TypeError, match="no closed form"):
        expected_means(torch.nn.Linear(2, 2), ())
    with pytest.raises(TypeError, match="no closed form"):
        expected_means(SideBySide([torch.nn.Linear(2, 2)]), ())


def test_few_integers_are_atoms_and_many_are_cells_with_atoms_at_the_bounds():
    schema = Schema(
        name="t",
        columns=(
            IntegerColumn(name="few", min=1, max=5),
            IntegerColumn(name="many", min=0, max=10**6),
            NumberColumn(name="one", min=2.0, max=2.0),
        ),
    )
    few, many, one = column_supports(Encoder(schema))
    np.testing.assert_array_equal(few.points[:, 0], [0, 0.25, 0.5, 0.75, 1])
    assert not few.half_widths.any()
    assert set(many.points[many.half_widths == 0, 0]) == {0.0, 1.0}
    assert one.points.min() >= 0
    assert covered(many) == pytest.approx(1.0)


def covered(support: Support) -> float:
    """The cells' total length, after checking that they do not leave [0, 1]."""
    middles = support.points[:, 0]
    assert (middles - support.half_widths).min() >= 0
    assert (middles + support.half_widths).max() <= 1
    return float(2 * support.half_widths.sum())


def test_a_nullable_number_has_a_null_atom_whose_interval_is_zero():
    support = next(s for s in column_supports(Encoder(MIXED)) if s.column == "dose")
    null = support.points[support.points[:, 2] == 1]
    np.testing.assert_array_equal(null, [[0.0, 0.0, 1.0]])
    assert (support.points[:, 1] + support.points[:, 2] == 1).all()
