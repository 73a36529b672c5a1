"""Marginals: leaves, bins, pairs, their closed form, and what is learnt from them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from tests.made_gists import GRID, MIXED, gist_of, grid_table, mixed_table

import dpgist as dg
from dpgist.artefact import read_artefact, write_artefact
from dpgist.encode import Encoder
from dpgist.errors import ArtefactError, DataError
from dpgist.features.binning import Resolution, at_valleys, binning, merged, tree_masses
from dpgist.features.expected import ExpectedProducts
from dpgist.features.leaves import column_leaves
from dpgist.features.marginal import LeafMap
from dpgist.features.subsets import choose_pairs
from dpgist.generators.binned import BinnedMixture
from dpgist.generators.model import read_model
from dpgist.report.inside import loss_floor, noisy_choices
from dpgist.training.loop import train_generator

SMALL = dg.Marginal(most_leaves=64, most_bins=8)


def rng(seed=0):
    return np.random.default_rng(seed)


def encoded(table, schema):
    cells = pa.Table.from_pandas(table)
    return Encoder(schema).encode({c.name: cells[c.name].combine_chunks() for c in schema.columns})


def fit(gist, method, *, steps=400, components=100, seed=0):
    training = dg.Training(steps=steps, components=components)
    return train_generator(gist, method, training, rng=rng(seed), device="cpu")


@pytest.fixture(scope="module")
def gist():
    return gist_of(mixed_table(20_000), MIXED, dg.Marginal())


@pytest.fixture(scope="module")
def model(gist):
    return fit(gist, dg.Marginal(), steps=600, components=300)


def wide_schema(n_columns, n_values=None):
    numbers = tuple(dg.NumberColumn(name=f"x{i}", min=0.0, max=1.0) for i in range(n_columns))
    values = tuple(f"v{i}" for i in range(n_values or 0))
    towns = (dg.CategoryColumn(name="town", values=values),) if values else ()
    label = dg.BooleanColumn(name="y")
    return dg.Schema(name="wide", columns=(*numbers, *towns, label), label="y")


# Leaves


LONG = dg.Schema(
    name="long",
    columns=(
        dg.IntegerColumn(name="few", min=-3, max=3),
        dg.IntegerColumn(name="many", min=0, max=5_000_000),
        dg.NumberColumn(name="cents", min=0.0, max=99.0, decimals=2),
        dg.NumberColumn(name="share", min=0.0, max=1.0, nullable=True),
        dg.CategoryColumn(name="town", values=("A", "B")),
    ),
)


def long_table(n=4_000):
    draw = rng(1)
    many = np.concatenate([[0, 1, 2, 5_000_000, 4_999_999], draw.integers(0, 5_000_001, n - 5)])
    share = np.concatenate([[0.0, 1.0, 1e-9], draw.random(n - 3)])
    return pd.DataFrame(
        {
            "few": draw.integers(-3, 4, n),
            "many": many,
            "cents": draw.integers(0, 9_901, n) / 100,
            "share": np.where(np.arange(n) % 9 == 8, np.nan, share),
            "town": np.where(np.arange(n) % 10 == 7, "elsewhere", "B"),
        }
    )


def test_every_value_lies_in_the_cell_of_its_leaf():
    rows = torch.from_numpy(encoded(long_table(), LONG).rows)
    for leaves in column_leaves(Encoder(LONG), most=100):
        support = leaves.support(range(leaves.ordered))
        codes = leaves.codes(rows).numpy()
        known = codes < leaves.count
        part = rows[:, leaves.start : leaves.start + leaves.width].numpy()[known]
        points, reach = support.points[codes[known]], support.half_widths[codes[known]]
        assert (np.abs(part[:, 0] - points[:, 0]) <= reach + 1e-9).all(), leaves.column
        assert (part[:, 1:] == points[:, 1:]).all(), leaves.column
        assert known.all() or leaves.column == "town"


def test_leaves_of_few_steps_are_the_steps_and_bounds_are_leaves_of_their_own():
    few, many, cents, share, town = column_leaves(Encoder(LONG), most=100)
    assert (few.count, town.count) == (7, 2)
    rows = torch.from_numpy(encoded(long_table(), LONG).rows)
    assert many.codes(rows)[:5].tolist() == [0, 1, 1, many.count - 1, many.count - 2]
    assert share.codes(rows)[:3].tolist() == [0, share.ordered - 1, 1]
    assert share.codes(rows)[8] == share.count - 1, "null"
    assert town.codes(rows)[7] == town.count, "an undeclared value is nowhere"
    assert cents.steps == 9_900


def test_a_row_has_one_leaf_and_one_node_of_each_level_per_column():
    leaves = column_leaves(Encoder(LONG), most=300)
    row_map = LeafMap(leaves)
    (marked,) = row_map(torch.from_numpy(encoded(long_table(), LONG).rows))
    marks = marked.dense()
    assert marks.shape[1] == row_map.length == sum(sum(own.levels) for own in leaves)
    assert set(np.unique(marks)) == {0.0, 1.0}
    assert int(marks.sum(dim=1).max()) == row_map.bound_squared
    null_and_nowhere = marks[[8, 7]].sum(dim=1).tolist()
    assert null_and_nowhere == [row_map.bound_squared - 2, row_map.bound_squared - 1]
    for own, levels in zip(leaves, row_map.by_column(marks.sum(dim=0).numpy()), strict=True):
        for level in levels[1:]:
            assert level.sum() == levels[0][: own.ordered].sum()


# Bins


def noisy_levels(masses, std, draw):
    levels = [masses]
    while len(levels[-1]) > 16:
        parents = np.arange(len(levels[-1])) // 8
        levels.append(np.bincount(parents, levels[-1]))
    return [level + draw.normal(0, std, len(level)) for level in levels]


def test_masses_of_a_tree_are_exact_without_noise_and_better_than_leaves_with_it():
    draw = rng(2)
    masses = np.where(draw.random(1000) < 0.1, draw.integers(1, 200, 1000), 0).astype(float)
    total = masses.sum()
    assert np.abs(tree_masses(noisy_levels(masses, 0.0, draw), total) - masses).max() < 1e-2
    levels = noisy_levels(masses, 30.0, draw)
    found = tree_masses(levels, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, rel=1e-3)
    plain = np.maximum(levels[0], 0) * (total / np.maximum(levels[0], 0).sum())
    errors = [np.abs(np.cumsum(m - masses)).max() for m in (found, plain)]
    assert errors[0] < errors[1] / 2


def test_merged_parts_have_equal_mass_and_heavy_cells_stay_alone():
    masses = np.full(100, 1.0)
    masses[40] = 300.0
    parts = merged(masses, most=10, least=0.0)
    weights = np.bincount(parts, masses)
    assert (np.diff(parts) >= 0).all()
    assert (parts == parts[40]).sum() == 1
    rest = np.delete(weights, parts[40])
    assert 8 <= len(rest) <= 11
    assert rest.max() <= 2 * rest.min() + 1
    assert merged(masses, most=10, least=50.0).max() <= 4
    assert merged(np.zeros(5), most=3, least=1.0).tolist() == [0] * 5


def test_cuts_move_into_the_gap_between_two_clusters_and_stay_in_even_ground():
    parts = np.repeat([0, 1, 2], 8)
    densities = np.full(24, 1.0)
    assert at_valleys(parts, densities).tolist() == parts.tolist()
    densities[[6, 14, 17]] = 0.1, 0.4, 0.3
    assert np.flatnonzero(np.diff(at_valleys(parts, densities))).tolist() == [6, 16]


def test_rare_options_share_a_group_and_all_keep_their_shares():
    schema = wide_schema(1, n_values=40)
    town = column_leaves(Encoder(schema), most=100)[1]
    counts = np.concatenate([[900.0, 800.0, 700.0], np.full(37, 3.0)])
    resolution = Resolution(
        cells=64, bins=16, groups=10, least=20.0, least_bin=20.0, least_cell=20.0
    )
    cut = binning(town, [counts], counts.sum(), resolution)
    assert cut.n_bins == 4
    assert len(set(cut.bins[3:])) == 1
    assert cut.bin_shares() == pytest.approx(np.array([900, 800, 700, 111]) / counts.sum())
    assert cut.within()[3:] == pytest.approx(1 / 37)


def test_bins_follow_the_first_stage_and_nothing_else(gist):
    """Whatever rows lie behind a first stage, the same released numbers make the same bins."""
    other = gist_of(mixed_table(20_000, seed=9), MIXED, dg.Marginal())
    maps = [
        dg.Marginal().row_map(MIXED, feature_seed=0, released=released)
        for released in (gist.released.stages[:1], gist.released.stages, other.released.stages[:1])
    ]
    assert maps[0].binnings == maps[1].binnings != maps[2].binnings
    for made, released in ((maps[0], gist), (maps[2], other)):
        lengths = {b.block.name: b.block.length for b in released.released.last.blocks}
        assert (made.pair_length, made.single_length) == (lengths["pairs"], lengths["singles"])


def test_a_release_whose_first_stage_belongs_to_another_is_refused(gist):
    other = gist_of(mixed_table(300), MIXED, dg.Marginal(), epsilon=0.3)
    mixed = (other.released.stages[0], gist.released.last)
    crossed = replace(gist, released=replace(gist.released, stages=mixed))
    with pytest.raises(ArtefactError, match="bins"):
        fit(crossed, dg.Marginal(), steps=1)


# Pairs


@pytest.mark.parametrize(("n_columns", "most"), [(100, 300), (178, 300), (30, 40), (26, 300)])
def test_too_many_pairs_are_thinned_evenly(n_columns, most):
    pairs = choose_pairs(n_columns, most=most, rng=rng())
    assert len(set(pairs)) == len(pairs)
    assert n_columns <= len(pairs) <= max(most, 2 * n_columns)
    degrees = np.bincount(np.ravel(pairs), minlength=n_columns)
    assert degrees.max() - degrees.min() <= 1
    assert pairs == choose_pairs(n_columns, most=most, rng=rng())
    reached = {0}
    for _ in range(n_columns):
        reached |= {b for a, b in pairs if a in reached} | {a for a, b in pairs if b in reached}
    assert reached == set(range(n_columns))


@pytest.mark.parametrize("n_columns", [2, 3, 4, 6, 7, 9])
def test_a_row_at_the_bound_of_its_blocks_is_counted_whole(n_columns):
    """Norms are roots of whole numbers; one that rounds up must not cost a row its last bit."""
    schema = replace(wide_schema(n_columns), name="whole")
    table = pd.DataFrame({f"x{i}": np.full(64, 0.5) for i in range(n_columns)} | {"y": True})
    gist = gist_of(table, schema, dg.Marginal(), epsilon=500.0)
    for stage in gist.released.stages:
        for part in stage.blocks[:-1]:
            largest = part.sums().max()
            assert largest == pytest.approx(64, abs=6 * part.noise_std + 0.01), part.block.name


def test_few_columns_have_all_pairs():
    assert choose_pairs(14, most=300, rng=rng()) == choose_pairs(14, most=91, rng=rng(1))
    assert len(choose_pairs(14, most=91, rng=rng())) == 91
    assert choose_pairs(1, most=300, rng=rng()) == ()


def test_the_closed_form_equals_the_mean_over_drawn_rows(gist):
    row_map = dg.Marginal().row_map(MIXED, feature_seed=0, released=gist.released.stages[:1])
    mixture = BinnedMixture.of(
        row_map, Encoder(MIXED), n_components=5, generator=torch.Generator().manual_seed(1)
    )
    with torch.no_grad():
        mixture.components.normal_(generator=torch.Generator().manual_seed(2))
        components, bins = mixture()
        pairs = ExpectedProducts(row_map.sizes, row_map.halves)(components, bins)
        expected = pairs, components @ bins.T
    n = 40_000
    for code in range(2):
        rows = mixture.sample(np.full(n, code), rng=rng(code))
        marked = row_map(torch.from_numpy(rows))
        found = [part.dense().double().mean(dim=0) for part in marked]
        for mean, part in zip(expected, found, strict=True):
            error = (mean[code].double() - part).abs()
            assert float(error.max()) < 5 * (0.25 / n) ** 0.5
            assert float(mean[code].sum()) == pytest.approx(float(part.sum()), rel=1e-3)


# Size


@pytest.mark.parametrize(
    ("n_columns", "n_values", "most"), [(100, None, 20_000), (3, 1000, 200_000), (40, 300, 5_000)]
)
def test_coordinates_stay_bounded_for_wide_tables_and_many_values(n_columns, n_values, most):
    schema, draw = wide_schema(n_columns, n_values), rng(3)
    table = {f"x{i}": draw.random(400) for i in range(n_columns)}
    if n_values:
        table["town"] = [f"v{i}" for i in draw.integers(0, n_values, 400)]
    table["y"] = draw.random(400) < 0.5
    method = dg.Marginal(most_coordinates=most)
    gist = gist_of(pd.DataFrame(table), schema, method, epsilon=100.0)
    pairs = gist.released.last["pairs"]
    assert pairs.block.length <= most
    assert gist.released.stages[0].blocks[0].block.length <= 2 * most
    model = fit(gist, method, steps=4, components=8)
    assert len(model.sample(50, seed=0)) == 50


def test_one_column_and_no_label_work():
    schema = dg.Schema(name="one", columns=(dg.IntegerColumn(name="age", min=0, max=90),))
    table = pd.DataFrame({"age": np.repeat([20, 60], 3_000)})
    gist = gist_of(table, schema, dg.Marginal())
    assert [b.block.name for b in gist.released.last.blocks] == ["singles", "counts", "health"]
    ages = fit(gist, dg.Marginal(), steps=60).sample(1_000, seed=0)["age"]
    assert ages.isin([20, 60]).mean() > 0.9
    assert 0.4 < (ages == 20).mean() < 0.6


def test_images_are_refused_by_name_and_have_a_method_of_their_own():
    columns = (dg.ImageColumn(name="i", height=8, width=8), dg.BooleanColumn(name="y"))
    schema = dg.Schema(name="other", columns=columns, label="y")
    budget = dg.Budget(epsilon=1.0, delta=1e-5)
    with pytest.raises(DataError, match="marginal is for tables"):
        dg.plan(schema, budget, dg.Marginal())
    assert dg.plan(schema, budget).method == "scattering"
    assert dg.plan(MIXED, budget).method == "marginal"


@pytest.mark.parametrize(
    "settings",
    [
        {"leaf_share": 0.0},
        {"leaf_share": 1.0},
        {"most_bins": 1},
        {"most_pairs": 0},
        {"most_coordinates": 10},
        {"single_weight": 0.0},
    ],
)
def test_senseless_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        dg.Marginal(**settings)


# Learning


def test_the_mixture_learns_mixed_columns_and_what_links_them(model):
    real, rows = mixed_table(20_000, seed=5), model.sample(20_000, seed=1)
    assert [str(kind) for kind in rows.dtypes[["age", "gain"]]] == ["int64", "float64"]
    assert abs(rows["dose"].isna().mean() - 0.25) < 0.03
    assert abs((rows["gain"] == 0).mean() - 0.9) < 0.03
    assert abs(rows["ward"].isna().mean() - 0.1) < 0.03
    assert abs((rows["stage"] == "later").mean() - 0.25) < 0.03
    correlations = [t[["age", "dose"]].dropna().corr().iloc[0, 1] for t in (real, rows)]
    assert correlations[0] < -0.8
    assert correlations[1] < -0.7
    for low, high in ((0, 40), (70, 100)):
        ill = [t.loc[t["age"].between(low, high), "ill"].mean() for t in (real, rows)]
        assert abs(ill[0] - ill[1]) < 0.08
    assert rows["seen"].iloc[0].year == 2020


def test_training_ends_once_only_noise_is_left_to_learn(gist, model):
    assert 45 < len(model.losses) < 600
    coordinates = sum(
        part.values[:2].size for part in gist.released.last.blocks if part.block.labelled
    )
    assert 0.6 * coordinates < model.losses[-1] < coordinates


def test_two_columns_are_cut_finely_enough_for_a_grid_of_gaussians():
    rows = fit(gist_of(grid_table(45_000), GRID, dg.Marginal()), dg.Marginal()).sample(
        20_000, seed=0
    )
    points = rows[["x", "y"]].to_numpy()
    centres = np.rint(points)
    near = np.linalg.norm(points - centres, axis=1) < 0.6
    assert near.mean() > 0.95
    right = (centres[:, 0] + 2 * centres[:, 1]) % 5 == rows["kind"].astype(int)
    assert right[near].mean() > 0.9


def test_a_network_is_refused_with_the_way_out(gist):
    with pytest.raises(ValueError, match="merf"):
        dg.train(gist, dg.Training(generator="network"))


def test_the_same_seed_trains_the_same_bits_and_a_stopped_run_goes_on_to_them(gist, tmp_path):
    whole = dg.train(gist, dg.Training(steps=60, components=10), seed=3)

    def stop(step, steps, loss):
        if step == 35:
            raise KeyboardInterrupt

    path = tmp_path / "c.checkpoint"
    training = dg.Training(steps=60, components=10)
    with pytest.raises(KeyboardInterrupt):
        dg.train(gist, training, seed=3, progress=stop, checkpoint=path)
    again = dg.train(gist, training, seed=3, checkpoint=path)
    assert again.losses == whole.losses
    assert torch.equal(again.generator.bins, whole.generator.bins)


# Files


def test_gist_and_model_survive_their_files(gist, model, tmp_path):
    gist.save(tmp_path / "a.gist")
    read = dg.read_gist(tmp_path / "a.gist")
    maps = [
        dg.Marginal().row_map(MIXED, feature_seed=0, released=g.released.stages[:1])
        for g in (gist, read)
    ]
    assert maps[0].binnings == maps[1].binnings
    model.save(tmp_path / "a.model")
    assert read_model(tmp_path / "a.model").sample(99, seed=1).equals(model.sample(99, seed=1))


def spoil(payload, tensors, how):
    if how == "firsts fall":
        tensors["firsts_0"] = tensors["firsts_0"][::-1].copy()
    elif how == "a leaf that is not there":
        tensors["firsts_0"][-1] = 10**6
    elif how == "a bin without cells":
        tensors["bins_0"][tensors["bins_0"] == 1] = 0
    elif how == "an option too few":
        tensors["firsts_3"] = tensors["firsts_3"][:-1].copy()
    elif how == "a negative share":
        tensors["within_1"][0] = -1.0
    elif how == "a share that is no number":
        tensors["within_1"][0] = np.nan
    elif how == "a missing column":
        del tensors["bins_2"]
    elif how == "other leaves":
        payload["generator"]["sizes"]["leaves"] = 2**30
    elif how == "no components":
        payload["generator"]["sizes"]["components"] = 0


@pytest.mark.parametrize(
    "how",
    [
        "firsts fall",
        "a leaf that is not there",
        "a bin without cells",
        "an option too few",
        "a negative share",
        "a share that is no number",
        "a missing column",
        "other leaves",
        "no components",
    ],
)
def test_a_file_whose_bins_contradict_the_schema_is_refused(model, tmp_path, how):
    model.save(tmp_path / "a.model")
    payload, tensors = read_artefact(tmp_path / "a.model", "model")
    tensors = {name: tensor.copy() for name, tensor in tensors.items()}
    spoil(payload, tensors, how)
    write_artefact(tmp_path / "b.model", "model", payload, tensors)
    with pytest.raises(ArtefactError):
        read_model(tmp_path / "b.model")


# What a report says of it


def test_a_report_finds_the_noisy_shares_of_choices_and_nulls_and_the_floor_of_the_loss(gist):
    shares, std = noisy_choices(gist)["stage"]
    assert shares == pytest.approx([0.25, 0.25, 0.25, 0.25], abs=6 * std + 0.02)
    ward, std = noisy_choices(gist)["ward"]
    assert ward == pytest.approx([0.6, 0.3, 0.0, 0.1, 0.0], abs=6 * std + 0.02)
    nulls, _ = noisy_choices(gist)["dose"]
    assert nulls == pytest.approx([0.75, 0.25], abs=6 * std + 0.02)
    row_map = dg.Marginal().row_map(MIXED, feature_seed=0, released=gist.released.stages[:1])
    coordinates = 2 * row_map.pair_length + 3 * row_map.single_length
    assert loss_floor(gist) == coordinates
