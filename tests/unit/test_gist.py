"""Gists: the file round-trips, the card says all it must, the noise error is what noise does."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from dpgist.artefact import read_artefact, write_artefact
from dpgist.card import REHEARSAL, at_least, card_text, membership_inference, round_up
from dpgist.encode import Encoder
from dpgist.errors import ArtefactError
from dpgist.gist import REHEARSAL_LEDGER, Gist, expected_noise_error, read_gist
from dpgist.privacy.accounting import epsilon_of, units_of
from dpgist.privacy.ledger import LedgerStamp
from dpgist.privacy.plan import Block, Budget
from dpgist.privacy.released import Released, ReleasedBlock, ReleasedStage
from dpgist.privacy.sensitivity import grid_noise_stds, l2_sensitivity
from dpgist.schema import CategoryColumn, DateColumn, IntegerColumn, NumberColumn, Schema

SCHEMA = Schema(
    name="people",
    columns=(
        IntegerColumn(name="years", min=0, max=100),
        NumberColumn(name="height", min=0.0, max=2.5, decimals=2, nullable=True),
        DateColumn(name="born", min="1900-01-01", max="2024-12-31"),
        CategoryColumn(name="kind", values=("a", "b"), other="rest"),
    ),
    label="kind",
)


def make_gist(relation="add_remove", n_rows=None, rehearsal=False, rows_per_person=1):
    budget = Budget(epsilon=1.0, delta=1e-5, relation=relation)
    classes = Encoder(SCHEMA).n_classes
    blocks = (
        Block(name="fourier", length=6, labelled=True),
        Block(name="counts", length=1, bits=0, labelled=True, constant=True, non_negative=True),
        Block(name="health", length=4, bits=0, bound_squared=4, weight=0.05, non_negative=True),
    )
    units = units_of(budget)
    stds = grid_noise_stds(blocks, budget.relation, rows_per_person, mu_squared_units=units)
    shapes = [(classes if block.labelled else 1, block.length) for block in blocks]
    values = [
        np.arange(math.prod(s)).reshape(s) * 10**k for s, k in zip(shapes, (9, 2, 0), strict=True)
    ]
    stage = ReleasedStage(
        blocks=tuple(
            ReleasedBlock(block=b, values=v, grid_noise_std=s)
            for b, v, s in zip(blocks, values, stds, strict=True)
        ),
        mu_squared_units=units,
    )
    released = Released(
        stages=(stage,),
        budget=budget,
        max_rows_per_person=rows_per_person,
        sensitivity=l2_sensitivity(blocks, budget.relation, rows_per_person),
        mu_squared_units=units,
        n_rows=n_rows,
    )
    return Gist(
        released=released,
        schema=SCHEMA,
        method="merf",
        settings={"n_features": 3},
        feature_seed=7,
        table_kind="pandas",
        ledger=LedgerStamp(
            ledger_id=REHEARSAL_LEDGER if rehearsal else "f00d",
            ledger_name="people",
            sequence=3,
            head="ab" * 32,
        ),
        version="0.1.0",
        rehearsal=rehearsal,
    )


@pytest.fixture
def gist():
    return make_gist()


def test_a_saved_gist_reads_back_the_same(gist, tmp_path):
    gist.save(tmp_path / "x.gist")
    again = read_gist(tmp_path / "x.gist")
    assert again.header() == gist.header()
    for before, after in zip(gist.released.last.blocks, again.released.last.blocks, strict=True):
        assert before.block == after.block
        assert before.grid_noise_std == after.grid_noise_std
        assert np.array_equal(before.values, after.values)
    assert replace(again, released=gist.released) == gist


def test_saving_the_same_gist_twice_writes_the_same_bytes(gist, tmp_path):
    gist.save(tmp_path / "one")
    read_gist(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_values_are_stored_in_the_smallest_integers(gist, tmp_path):
    gist.save(tmp_path / "x.gist")
    _, tensors = read_artefact(tmp_path / "x.gist", "gist")
    kinds = {name: tensor.dtype.name for name, tensor in tensors.items()}
    assert kinds == {"stage0.fourier": "int64", "stage0.counts": "int16", "stage0.health": "int8"}


def _drop(payload, tensors):
    del payload["feature_seed"]


def _rename(payload, tensors):
    tensors["stage0.other"] = tensors.pop("stage0.health")


def _extra(payload, tensors):
    tensors["more"] = np.zeros(1)


def _reshape(payload, tensors):
    tensors["stage0.fourier"] = tensors["stage0.fourier"].T.copy()


def _floats(payload, tensors):
    tensors["stage0.fourier"] = tensors["stage0.fourier"].astype(np.float64)


def _bad_block(payload, tensors):
    payload["released"]["stages"][0]["blocks"][0]["block"]["length"] = "6"


def _unknown_field(payload, tensors):
    payload["released"]["stages"][0]["blocks"][0]["block"]["surprise"] = 1


def _bad_schema(payload, tensors):
    payload["schema"]["columns"]["years"]["type"] = "integer?"


def _bad_budget(payload, tensors):
    payload["released"]["budget"]["epsilon"] = -1


@pytest.mark.parametrize(
    "damage",
    [
        _drop, _rename, _extra, _reshape, _floats,
        _bad_block, _unknown_field, _bad_schema, _bad_budget,
    ],
)  # fmt: skip
def test_a_wrong_gist_with_a_right_checksum_is_still_refused(gist, tmp_path, damage):
    gist.save(tmp_path / "x.gist")
    payload, tensors = read_artefact(tmp_path / "x.gist", "gist")
    damage(payload, tensors)
    write_artefact(tmp_path / "x.gist", "gist", payload, tensors, force=True)
    with pytest.raises(ArtefactError):
        read_gist(tmp_path / "x.gist")


def test_the_card_says_everything_a_reader_must_know(gist):
    card = gist.card()
    for words in (
        "(1, 1e-05)-differential privacy",
        "relation add_remove",
        "relation replace_one: mu = ",
        "epsilon = 1 (delta 1e-05)",
        "(delta 1e-06)",
        "(delta 1e-09)",
        "73.11 %",
        "declared 1, not checked",
        "sensitivity 1.41",
        "feature seed 7",
        "years: integer 0 to 100",
        "height: number 0.0 to 2.5 or null",
        "born: date 1900-01-01 to 2024-12-31",
        "kind: category a, b else rest",
        "rows_about: not declared",
        "born: 2 ± ",
        "b: 100 ± ",
        "method merf (n_features=3)",
        "dpgist 0.1.0",
        "entry 3",
        "ab" * 32,
        "AES-256",
        "Timing is out of scope",
        "DP-MERF, Prop. 3.1",
        "grid 2^-20",
    ):
        assert words in card, words
    assert "REHEARSAL" not in card


def test_the_card_is_json_and_renders_the_same_after_a_round_trip(gist):
    stored = json.loads(json.dumps(gist.card_dict(), sort_keys=True))
    assert card_text(stored) == gist.card()


def test_a_replace_one_card_denies_an_add_remove_reading():
    card = make_gist("replace_one", n_rows=123)
    assert "relation add_remove: none, the row count is published" in card.card()
    assert "row count 123 (public under replace_one)" in card.card()
    assert card.card_dict()["other_relation"]["mu"] is None


def test_an_add_remove_card_reads_under_replace_one_as_the_closed_form_says():
    card = make_gist().card_dict()
    # blocks: signed features (w=1, B=1), counts (w=1, B=1), health (w=.05, B^2=4, never negative)
    add_remove = 1 + 1 + 0.05**2 * 4
    replace_one = max(4 + 0, 2 + 2) + 2 * 0.05**2 * 4
    expected = card["mu"] * math.sqrt(replace_one / add_remove)
    assert card["other_relation"]["mu"] == pytest.approx(expected, rel=1e-9)
    epsilon = card["other_relation"]["epsilon_at"][0]["epsilon"]
    assert epsilon >= epsilon_of(expected, 1e-5)
    assert epsilon == pytest.approx(epsilon_of(expected, 1e-5), rel=1e-3)


def test_a_rehearsal_says_so_first():
    lines = make_gist(rehearsal=True).card().splitlines()
    assert lines[3] == REHEARSAL


@pytest.mark.parametrize("value", [1.0, 0.2, 1e-5, 1.0000049, 1.0000049e-6, 0.1 + 0.2, 123456.7])
def test_a_claim_in_words_is_never_smaller_than_the_number(value):
    assert float(at_least(value)) >= value
    assert len(at_least(1.0)) == 1


def test_a_card_says_that_its_ledger_was_in_memory_only(gist):
    kept = replace(gist.ledger, in_memory=True)
    card = replace(gist, ledger=kept).card()
    assert "ledger kept in memory only: no other release" in card
    assert "ledger head" not in card


def test_the_card_of_a_csv_file_says_what_its_rows_rest_on(gist):
    assert "quoted as RFC 4180 says" in replace(gist, table_kind="csv").card()
    assert "RFC 4180" not in gist.card()


def test_rows_per_person_reach_the_card():
    assert "declared 4, not checked" in make_gist(rows_per_person=4).card()


def test_epsilons_are_given_at_three_different_deltas_and_rounded_up(gist):
    table = gist.card_dict()["epsilon_at"]
    assert len({entry["delta"] for entry in table}) == 3
    assert table[0] == {"delta": 1e-5, "epsilon": 1.0}
    for entry in table[1:]:
        assert entry["epsilon"] >= epsilon_of(gist.released.mu, entry["delta"])


@pytest.mark.parametrize(
    ("epsilon", "percent"), [(5, 99.3), (2, 88.1), (1, 73.1), (0.5, 62.2), (0.2, 55.0), (0.1, 52.5)]
)
def test_the_membership_reading_is_table_1_1_of_the_thesis(epsilon, percent):
    budget = Budget(epsilon=epsilon, delta=1e-9)
    reading = membership_inference(budget, mu=0.25)
    assert 100 * reading["by_epsilon"] == pytest.approx(percent, abs=0.06)
    assert reading["by_mu"] == pytest.approx(norm.cdf(0.125), abs=1e-4)
    assert reading["by_mu"] >= norm.cdf(0.125)


def test_rounding_up_never_rounds_down():
    for value in (1.0, 0.99999, 1.00001, 123456.7, 3.3e-7, 0.1 + 0.2):
        assert round_up(value) >= value * (1 - 1e-11)
        assert round_up(value) <= value * 1.002
    assert round_up(1.0) == 1.0


def test_the_rows_are_the_noisy_count_or_the_public_one():
    gist = make_gist()
    assert gist.rows == gist.released.last["counts"].sums().sum()
    assert make_gist("replace_one", n_rows=123).rows == 123


def test_noise_adds_to_the_loss_what_noise_error_says():
    rng = np.random.default_rng(0)
    gist = make_gist()
    error = gist.noise_error()
    block = gist.released.last["fourier"]
    std = block.noise_std / gist.rows
    difference = rng.standard_normal(block.values.size)
    difference *= 2 / np.linalg.norm(difference)  # the largest two unit vectors can be apart
    noise = std * rng.standard_normal((400_000, block.values.size))
    added = ((difference + noise) ** 2).sum(axis=1) - 4.0
    assert added.mean() == pytest.approx(error.expected, abs=5 * added.std() / len(added) ** 0.5)
    assert np.abs(added).mean() <= error.bound


def test_the_bound_is_proposition_3_1_for_one_block_of_norm_one():
    features, sigma, rows = 500, 5.0, 10_000
    error = expected_noise_error(
        np.array([float(features)]), np.array([2 * sigma / rows]), np.array([1.0]),
        random_lengths=[features],
    )  # fmt: skip
    gammas = math.exp(math.lgamma((features + 1) / 2) - math.lgamma(features / 2))
    noise = 4 * features * sigma**2 / rows**2 + 8 * math.sqrt(2) * sigma / rows * gammas
    assert error.bound == pytest.approx(noise, rel=1e-9)
    assert error.feature_term == pytest.approx(8 * math.sqrt(2 * math.pi / features))
