"""T-PLANT: every sabotage of the wall is caught by the T-test it belongs to."""

import hypothesis
import pytest

from tests.trust import (
    test_audit,
    test_grid,
    test_ledger,
    test_noise,
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
    ],
    "T-LEDGER": [
        test_ledger.test_sixty_seven_releases_of_a_tenth_fit_and_the_next_does_not,
        test_ledger.test_a_release_of_the_whole_budget_fits_once,
        test_ledger.test_whatever_is_refused_is_refused_before_the_charge,
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


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_the_plant_is_caught_where_it_belongs(plant):
    with plant.planted():
        unnoticed = all(passes(check) for check in CHECKS[plant.caught_by])
    assert not unnoticed, f"{plant.name} went unnoticed by {plant.caught_by}"


@pytest.mark.parametrize("name", CHECKS)
def test_without_a_plant_the_same_checks_pass(name):
    assert all(passes(check) for check in CHECKS[name])
