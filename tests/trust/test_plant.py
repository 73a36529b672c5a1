"""T-PLANT: every sabotage of the wall is caught by the T-test it belongs to."""

import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

from tests.trust import (
    test_audit,
    test_copies,
    test_grid,
    test_ledger,
    test_noise,
    test_poisson,
    test_rng,
    test_rowwise,
    test_sens,
)
from tests.trust.plants import PLANTS

# The checks of each T-test that a plant must make fail: at least one of them has to.
CHECKS = {
    "T-AUDIT": [
        lambda: test_audit.audit(
            "one row more", epsilon=1.0, n=200_000, releases=test_audit.tiled_release
        ),
        test_audit.test_two_blocks_and_all_broken_cells_keep_the_promise_together,
        test_audit.test_three_rows_per_person_are_paid_for,
    ],
    "T-NOISE": [test_noise.test_the_variance_on_two_million_coordinates_is_the_claimed_one],
    "T-GRID": [
        test_grid.test_outputs_are_integers_and_hit_every_residue,
        test_grid.test_every_output_is_possible_under_every_input,
    ],
    "T-NOSEED": [test_rng.test_seeding_every_generator_does_not_repeat_the_noise],
    "T-FRESH": [test_rng.test_two_releases_are_uncorrelated],
    "T-SENS": [
        test_sens.test_worst_pairs_use_the_whole_sensitivity,
        test_sens.test_a_row_that_breaks_every_cell_uses_the_health_share_too,
        test_sens.test_two_blocks_add_their_squares,
        lambda: test_sens.test_mad_numbers_among_good_ones_become_bounded_integers(
            float("nan"), non_negative=False
        ),
        test_sens.test_any_numbers_become_bounded_integers,
        test_sens.test_one_row_of_anything_moves_the_statistic_by_at_most_its_sensitivity,
        lambda: test_sens.test_unit_rows_of_either_precision_stay_inside_in_integers("f4", 20),
        lambda: test_sens.test_a_place_twice_or_one_mark_too_many_leaves_no_bound([2, 2, 2]),
    ],
    "T-LEDGER": [
        test_ledger.test_sixty_seven_releases_of_a_tenth_fit_and_the_next_does_not,
        test_ledger.test_a_release_of_the_whole_budget_fits_once,
        test_ledger.test_whatever_is_refused_is_refused_before_the_charge,
    ],
    "T-POISSON": [
        test_poisson.test_every_row_is_in_a_batch_by_an_independent_coin,
        test_poisson.test_the_divisor_is_constant_and_public,
        test_poisson.test_a_canary_in_every_batch_is_seen_as_claimed_and_hardly_less,
        test_poisson.test_a_canary_in_sampled_batches_is_seen_no_better_than_claimed,
    ],
    "T-COPIES": [
        test_copies.test_large_copies_that_agree_use_the_whole_bound,
        test_copies.test_what_rounding_hides_when_copies_cancel_stays_within_the_bound,
        test_copies.test_one_row_more_moves_the_sum_by_at_most_the_bound,
        test_copies.test_copies_of_a_row_are_its_own_wherever_it_stands,
    ],
    "T-ROWWISE": [test_rowwise.test_the_built_in_map_gives_a_row_the_same_integers_in_every_slot],
}


def passes(check):
    try:
        check()
    except (AssertionError, pytest.fail.Exception, hypothesis.errors.HypothesisException):
        return False
    except Exception as error:  # the wall itself refused: also a catch
        return type(error).__name__ not in ("PrivacyError", "ValueError", "RuntimeError")
    return True


# T-tests that need files, processes or the command line run in a pytest of their own.
RUNS = {
    "T-CAL": ("test_cal.py", "never_above or published"),
    "T-ORDER": ("test_order.py", "permutations"),
    "T-ADJ": ("test_adj.py", "closed_form or publishes_n"),
    "T-SCHEMA": ("test_schema.py", "empty_table"),
    "T-FUZZ": ("test_fuzz.py", "however_mad"),
    "T-LOG": ("test_log.py", "canary or neighbours"),
    "T-KILL": ("test_kill.py", "between_charge_and_release"),
    "T-RACE": ("test_race.py", "24"),
    "T-TAMPER": ("test_tamper.py", "flipped or forged"),
}
QUICK, SLOW = ([p for p in PLANTS if (p.caught_by in CHECKS) == quick] for quick in (True, False))


@pytest.mark.parametrize("plant", SLOW, ids=lambda plant: plant.name)
def test_the_plant_makes_its_own_t_test_fail(plant):
    file, tests = RUNS[plant.caught_by]
    root = Path(__file__).parents[2]
    options = ["-q", "-x", "-p", "tests.trust.planting", "-p", "no:cacheprovider", "-k", tests]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"tests/trust/{file}"],
        cwd=root, env=os.environ | {"DPGIST_PLANT": plant.name}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-2000:]


def test_every_trust_test_has_a_plant():
    assert {plant.caught_by for plant in PLANTS} == set(CHECKS) | set(RUNS)


@pytest.mark.parametrize("plant", QUICK, ids=lambda plant: plant.name)
def test_the_plant_is_caught_where_it_belongs(plant):
    with plant.planted():
        unnoticed = all(passes(check) for check in CHECKS[plant.caught_by])
    assert not unnoticed, f"{plant.name} went unnoticed by {plant.caught_by}"


@pytest.mark.parametrize("name", CHECKS)
def test_without_a_plant_the_same_checks_pass(name):
    assert all(passes(check) for check in CHECKS[name])
