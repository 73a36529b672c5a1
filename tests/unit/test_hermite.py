"""Hermite features: Mehler's formula, norms at most 1, closed forms, and the method around them."""

import json
import math

import numpy as np
import pytest
import torch
from tests.made_gists import GRID, MIXED, STRIPES, gist_of, grid_table, mixed_table

import dpgist as dg
from dpgist.encode import Encoder
from dpgist.errors import DataError
from dpgist.evaluate.mixtures import GRID as GRID_MIXTURE
from dpgist.evaluate.mixtures import count_modes
from dpgist.features.compose import SideBySide
from dpgist.features.expected import expected_means
from dpgist.features.hermite import (
    Column,
    ColumnFeatures,
    Expansion,
    ProductMap,
    ProjectionMap,
    SumMap,
    at_length_scale,
    centred,
    columns_of,
    draw_directions,
    for_spread,
    mehler,
    rho_of,
)
from dpgist.features.subsets import draw_subsets
from dpgist.features.support import column_supports
from dpgist.generators.mixture import MixtureGenerator
from dpgist.methods import METHODS, Hermite, method_from, settings
from dpgist.methods.hermite import PRESETS
from dpgist.privacy.plan import Budget
from dpgist.report.inside import noisy_choices
from dpgist.training.loop import Training, train_generator

BUDGET = Budget(epsilon=1.0, delta=1e-5)
SMALL = Hermite(sum_order=6, product_order=3, directions=10)


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


def rng(seed=0):
    return np.random.Generator(np.random.Philox(seed))


def features_of(points, rho, order):
    return mehler(doubles(*points)[:, None], doubles(rho), order)[:, 0]


def query_of(schema, method=SMALL, feature_seed=0):
    return method.plan(schema, budget=BUDGET, feature_seed=feature_seed).stages[0].query(())


def rows_of(schema, n=200, seed=0):
    """Encoded rows that the schema could hold, by a generator that knows nothing."""
    encoder = Encoder(schema)
    drawn = MixtureGenerator(
        column_supports(encoder),
        n_classes=encoder.n_classes,
        n_components=5,
        generator=torch.Generator().manual_seed(seed),
    ).sample(np.zeros(n, dtype=np.int64), rng=rng(seed))
    return torch.tensor(drawn)


# --- the expansion ---------------------------------------------------------------------------


@pytest.mark.parametrize(("length_scale", "order"), [(0.4, 200), (1.0, 80), (7.0, 40)])
def test_mehlers_identity_holds_to_ten_digits(length_scale, order):
    points = np.linspace(-1.0, 1.0, 41)
    features = features_of(points, rho_of(length_scale), order)
    kernel = np.exp(-((points[:, None] - points) ** 2) / (2 * length_scale**2))
    assert float((features @ features.T - torch.tensor(kernel)).abs().max()) < 1e-10


def test_the_recursion_gives_hermite_polynomials():
    rho, points = 0.6, np.linspace(-3, 3, 13)
    found = features_of(points, rho, 12)
    for order in range(13):
        polynomial = np.polynomial.hermite.hermval(points, [0.0] * order + [1.0])
        norm = (1 - rho**2) ** 0.25 * math.sqrt(rho**order / (2.0**order * math.factorial(order)))
        wanted = norm * polynomial * np.exp(-rho / (1 + rho) * points**2)
        np.testing.assert_allclose(found[:, order], wanted, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("rho", [1e-6, 0.1, 0.5, 0.9, 0.995, 1 - 1e-9])
def test_no_order_up_to_200_overflows_or_leaves_the_unit_ball(rho):
    points = np.concatenate([np.linspace(-40, 40, 801), [1e3, -1e8, 1e30, 0.0]])
    features = features_of(points, rho, 200)
    assert bool(torch.isfinite(features).all())
    norms = features.square().cumsum(dim=1)
    assert float(norms.max()) <= 1 + 1e-12


def test_features_at_order_200_still_stand_where_float32_would_have_lost_them():
    """At t = 15 the first feature is below what float32 can hold, and the kernel still is 1."""
    (features,) = features_of([15.0], 0.9, 200)
    assert float(features[0]) < 1e-40
    assert float(features.square().sum()) > 0.99


def test_the_derivative_is_the_one_that_differences_give():
    points = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    rho = doubles(0.3, 0.6, 0.9)
    assert torch.autograd.gradcheck(lambda p: mehler(4 * p - 2, rho, 9), (points,))


@pytest.mark.parametrize("make", [centred, lambda s, n: at_length_scale(s, n, rho=0.7)])
def test_an_expansion_has_the_length_scale_it_was_made_for(make):
    assert make(0.13, 12).length_scale == pytest.approx(0.13)
    assert for_spread(3.0, 5, spread=2.0).length_scale == pytest.approx(3.0)
    assert Expansion(order=5, rho=rho_of(0.2)).length_scale == pytest.approx(0.2)


def test_a_centred_expansion_keeps_more_than_the_papers_at_a_fraction_of_the_order():
    def kept(expansion):
        points = (np.linspace(0, 1, 21) - expansion.centre) * expansion.stretch
        features = features_of(points, expansion.rho, expansion.order)
        return float(features.square().sum(dim=1).min())

    assert kept(centred(0.07, 16)) > 0.9
    assert kept(Expansion(order=100, rho=rho_of(0.07))) < 0.9


@pytest.mark.parametrize(
    "wrong", [{"order": 201}, {"order": -1}, {"rho": 0.0}, {"rho": 1.0}, {"stretch": 0.0}]
)
def test_an_impossible_expansion_is_refused(wrong):
    with pytest.raises(ValueError, match=r"order|rho|stretch"):
        Expansion(**({"order": 3, "rho": 0.5} | wrong))


# --- maps of rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("categories", ["indicators", "codes"])
def test_sum_and_product_features_of_any_row_have_norm_at_most_one(categories):
    columns = columns_of(Encoder(MIXED).slots, lambda _: centred(0.1, 9), categories=categories)
    rows = rows_of(MIXED)
    for size in (2, 3):
        subsets = draw_subsets(len(columns), size, most=4, rng=rng())
        for row_map in (SumMap(columns), ProductMap(columns, subsets)):
            features = row_map(rows)
            assert features.shape == (len(rows), row_map.length)
            norms = features.norm(dim=1)
            assert float(norms.min()) > 0.7
            assert float(norms.max()) <= 1 + 1e-12


def test_inner_products_are_the_sum_kernel_and_the_product_kernel():
    columns = [Column(start=i, width=1, expansion=centred(0.3, 30)) for i in range(3)]
    rows = torch.rand(30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    each = torch.exp(-((rows[:, None] - rows) ** 2) / (2 * 0.3**2))
    sums, products = SumMap(columns)(rows), ProductMap(columns, [(0, 1, 2)])(rows)
    torch.testing.assert_close(sums @ sums.T, each.mean(dim=2), atol=1e-6, rtol=0)
    torch.testing.assert_close(products @ products.T, each.prod(dim=2), atol=1e-6, rtol=0)


def test_a_product_map_computes_the_same_with_and_without_gradients():
    columns = columns_of(Encoder(MIXED).slots, lambda _: centred(0.2, 4))
    row_map = ProductMap(columns, draw_subsets(len(columns), 3, most=3, rng=rng()))
    rows = rows_of(MIXED, 7)
    with torch.no_grad():
        streamed = row_map(rows)
    torch.testing.assert_close(row_map(rows.clone().requires_grad_()), streamed)


def test_each_column_has_its_own_order_and_rho():
    expansions = [Expansion(order=3, rho=0.2), Expansion(order=8, rho=0.9, stretch=2.0)]
    columns = [Column(start=i, width=1, expansion=own) for i, own in enumerate(expansions)]
    both = ColumnFeatures(columns)
    rows = torch.rand(5, 2, dtype=torch.float64)
    assert both.length == 4 + 9
    for i, own in enumerate(expansions):
        alone = mehler(rows[:, i : i + 1] * own.stretch, doubles(own.rho), own.order)[:, 0]
        torch.testing.assert_close(both(rows)[:, both.slices[i]], alone)


def test_null_has_a_feature_of_its_own_and_no_place_in_the_range():
    column = Column(start=0, width=1, expansion=centred(0.1, 5), gate=1)
    present, null = ColumnFeatures([column])(doubles(0.4, 1, 0, 0, 0, 1).reshape(2, 3))
    assert float(present[-1]) == 0
    assert float(present.norm()) > 0.8
    assert null.tolist() == [0.0] * 6 + [1.0]


def test_codes_are_places_in_the_list():
    expansion = centred(0.2, 6)
    coded = ColumnFeatures([Column(start=0, width=3, expansion=expansion)])(
        torch.eye(3, dtype=torch.float64)
    )
    plain = ColumnFeatures([Column(start=0, width=1, expansion=expansion)])
    torch.testing.assert_close(coded, plain(doubles(0.0, 0.5, 1.0)[:, None]))


def test_products_over_directions_are_near_the_rational_kernel():
    n_pixels, scale = 49, 0.5 * math.sqrt(49 / 6)
    directions = rng().standard_normal((4000, n_pixels))
    row_map = ProjectionMap(directions, for_spread(scale, 8, spread=2.0)).double()
    rows = torch.rand(12, n_pixels, dtype=torch.float64)
    features = row_map(rows)
    assert float(features.norm(dim=1).max()) <= 1 + 1e-9
    squared = (rows[:, None] - rows).square().sum(dim=2)
    wanted = 1 / (1 + squared / scale**2)
    torch.testing.assert_close(features @ features.T, wanted, atol=0.05, rtol=0)


def test_directions_hardly_see_brightness():
    directions = draw_directions(200, 100, rng())
    assert directions.std() == pytest.approx(1.0, abs=0.02)
    assert directions.sum(axis=1).std() == pytest.approx(0.25 * 10, rel=0.15)


@pytest.mark.parametrize("categories", ["indicators", "codes"])
@pytest.mark.parametrize("size", [2, 3])
def test_the_closed_form_is_the_mean_over_sampled_rows(size, categories):
    encoder = Encoder(MIXED)
    supports = column_supports(encoder)
    generator = MixtureGenerator(
        supports,
        n_classes=encoder.n_classes,
        n_components=1,
        generator=torch.Generator().manual_seed(0),
    )
    columns = columns_of(encoder.slots, lambda _: centred(0.2, 4), categories=categories)
    subsets = draw_subsets(len(columns), size, most=5, rng=rng())
    row_map = SideBySide([SumMap(columns), ProductMap(columns, subsets)])
    with torch.no_grad():
        components, cells = generator()
        closed = expected_means(row_map, supports)(components[:1], cells)
        rows = torch.tensor(generator.sample(np.zeros(40_000, dtype=np.int64), rng=rng(1)))
        for exact, features in zip(closed, row_map(rows), strict=True):
            limit = 6 * float(features.std(dim=0).max()) / math.sqrt(len(rows))
            assert float((exact[0] - features.mean(dim=0)).abs().max()) < limit


# --- subsets ---------------------------------------------------------------------------------


def test_subsets_are_all_there_are_or_so_many_at_random():
    assert draw_subsets(4, 2, most=6, rng=rng()) == tuple(
        (i, j) for i in range(4) for j in range(i + 1, 4)
    )
    drawn = draw_subsets(20, 5, most=30, rng=rng())
    assert len(set(drawn)) == 30
    assert all(list(s) == sorted(set(s)) and len(s) == 5 for s in drawn)
    assert drawn == draw_subsets(20, 5, most=30, rng=rng())
    assert drawn != draw_subsets(20, 5, most=30, rng=rng(1))
    assert draw_subsets(3, 5, most=9, rng=rng()) == ((0, 1, 2),)
    assert draw_subsets(1, 2, most=9, rng=rng()) == ()


# --- the method ------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [MIXED, GRID, STRIPES], ids=["mixed", "grid", "images"])
def test_the_declared_blocks_are_what_the_map_fills(schema):
    query = query_of(schema)
    features = query.row_map(torch.rand(5, query.encoder.width))
    assert [f.shape for f in features] == [(5, block.length) for block in query.blocks]
    assert [block.name for block in query.blocks] == ["sum", "product"]
    assert all(block.labelled and block.bound_squared == 1 for block in query.blocks)


def test_a_single_column_without_a_label_has_a_sum_only():
    schema = dg.Schema(name="t", columns=(dg.NumberColumn(name="a", min=0.0, max=1.0),))
    (block,) = query_of(schema).blocks
    assert (block.name, block.labelled) == ("sum", False)


def test_the_papers_images_have_products_of_pixels():
    method = Hermite(directions=0, subsets=4, sum_order=2, product_order=3)
    assert query_of(STRIPES, method).blocks[1].length == 4 * 16


def test_the_order_falls_as_columns_multiply():
    def order(n):
        columns = tuple(dg.NumberColumn(name=f"x{i}", min=0.0, max=1.0) for i in range(n))
        return Hermite().settled(dg.Schema(name="t", columns=columns), BUDGET).product_order

    assert order(2) > order(10) > order(100) >= 1


def test_settled_settings_say_all_and_settle_to_themselves():
    settled = Hermite().settled(MIXED, BUDGET)
    assert None not in vars(settled).values()
    assert settled.settled(MIXED, BUDGET) == settled
    with pytest.raises(ValueError, match="settled"):
        Hermite().row_map(MIXED, feature_seed=0)


def test_a_columns_own_order_and_rho_reach_its_features():
    name = GRID.columns[0].name
    method = Hermite(sum_order=6, product_order=3, orders={name: 9}, rhos={name: 0.4})
    first, second = query_of(GRID, method).row_map.maps[0].features.columns
    assert (first.expansion.order, first.expansion.rho) == (9, 0.4)
    assert second.expansion.order == 6
    with pytest.raises(DataError, match="no column 'nowhere'"):
        query_of(GRID, Hermite(orders={"nowhere": 3}))


def test_gamma_is_a_weight_of_the_loss_and_not_of_the_release():
    plain, heavy = (query_of(GRID, Hermite(product_order=3, gamma=g)) for g in (1.0, 7.0))
    assert plain.blocks == heavy.blocks
    assert (plain.row_map.loss_factors, heavy.row_map.loss_factors) == ((1.0, 1.0), (1.0, 7.0))


def test_settings_survive_json_and_rebuild_the_same_map():
    method = Hermite(orders={"x": 9}, gamma=0.3).settled(GRID, BUDGET)
    again = method_from("hermite", json.loads(json.dumps(settings(method))))
    assert again == method
    assert METHODS["hermite"] is Hermite
    one, other = (m.row_map(GRID, feature_seed=4).state_dict() for m in (method, again))
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sum_order": 201},
        {"product_scale": 0.0},
        {"subset_size": 1},
        {"subsets": 0},
        {"gamma": -1.0},
        {"sum_weight": math.inf},
        {"categories": "words"},
        {"expansion": "wide"},
        {"rhos": {"a": 1.5}},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        Hermite(**wrong)


def test_products_too_long_for_one_pass_are_refused_before_any_row():
    columns = tuple(dg.NumberColumn(name=f"x{i}", min=0.0, max=1.0) for i in range(9))
    method = Hermite(product_order=13, subset_size=5, subsets=2)
    with pytest.raises(ValueError, match="fewer subsets"):
        query_of(dg.Schema(name="t", columns=columns), method)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_of_the_paper_fits_into_one_pass(name):
    preset = PRESETS[name]
    each = (preset.product_order + 1) ** preset.subset_size
    assert each * preset.subsets <= 600_000
    assert preset.expansion == "plain"


@pytest.mark.slow
def test_the_paper_settings_release_and_train():
    gist = gist_of(grid_table(3_000), GRID, PRESETS["grid"].settled(GRID, BUDGET))
    model = train_generator(gist, PRESETS["grid"], Training(steps=5), rng=rng(), device="cpu")
    assert np.isfinite(model.losses).all()


def test_the_grid_is_learnt_with_all_its_modes():
    method = Hermite(product_order=16).settled(GRID, BUDGET)
    gist = gist_of(grid_table(20_000), GRID, method)
    model = train_generator(gist, method, Training(steps=150), rng=rng(), device="cpu")
    rows = model.sample(20_000, seed=0, kind="pandas")
    modes = count_modes(
        GRID_MIXTURE, rows.iloc[:, :2].to_numpy(), rows.iloc[:, 2].astype(int).to_numpy()
    )
    assert modes.covered == 25


def test_the_report_reads_noisy_shares_off_the_sum_kernel():
    table = mixed_table(4_000)
    gist = gist_of(table, MIXED, SMALL.settled(MIXED, BUDGET), epsilon=5.0)
    shares, std = noisy_choices(gist)["stage"]
    truth = [(table["stage"] == value).mean() for value in ("i", "ii", "iii", "iv")]
    assert 0 < std < 0.05
    assert shares == pytest.approx(truth, abs=6 * std + 0.02)
    nulls, _ = noisy_choices(gist)["dose"]
    assert nulls[1] == pytest.approx(table["dose"].isna().mean(), abs=6 * std + 0.02)


def test_plan_and_card_name_the_method_and_its_blocks():
    foreseen = dg.plan(MIXED, BUDGET, SMALL, rows_about=1000).text()
    card = gist_of(mixed_table(100), MIXED, SMALL.settled(MIXED, BUDGET)).card()
    for text in (foreseen, card):
        assert "hermite" in text
    assert "sum: 3 x" in foreseen
    assert "product: 3 x" in foreseen


def test_a_fit_ends_where_only_noise_is_left_to_learn():
    method = SMALL.settled(MIXED, BUDGET)
    few, many = (gist_of(mixed_table(2_000), MIXED, method, epsilon=e) for e in (0.1, 50.0))
    training = Training(steps=120, components=20)
    short, long = (
        len(train_generator(gist, method, training, rng=rng(), device="cpu").losses)
        for gist in (few, many)
    )
    assert short < 120
    assert short < long
