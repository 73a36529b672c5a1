"""The verbs before any release: what plan foresees and schema check tells."""

import json

import pytest

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


def test_plan_says_what_it_lacks_without_a_row_count(dpgist, people):
    (people / "people.csv").unlink()  # it must not be needed
    outcome = dpgist("plan", "--schema", "people.toml", *BUDGET)
    assert outcome.status == 0
    for words in ("coordinates", "noise std", "memory", "--rows-about", "relation replace_one: mu"):
        assert words in outcome.out, words


def test_plan_foresees_error_and_time_with_a_row_count(dpgist, people):
    plan = ["plan", "--schema", "people.toml", *BUDGET]
    outcome = dpgist(*plan, "--rows-about", "1000")
    assert "method marginal" in outcome.out
    assert "expected error" in outcome.out
    assert "time of the private pass" in outcome.out
    arguments = [*plan, "--method", "merf", "--rows-about", "1000"]
    facts = json.loads(dpgist(*arguments, "--json").out)
    more = json.loads(dpgist(*arguments[:-1], "2000", "--json").out)
    assert facts["noise_error"]["expected"] == pytest.approx(4 * more["noise_error"]["expected"])
    assert facts["memory_bytes"] == more["memory_bytes"]


def test_plan_under_replace_one_denies_add_remove(dpgist, people):
    outcome = dpgist("plan", "--schema", "people.toml", *BUDGET, "--relation", "replace_one")
    assert "relation add_remove: none, the row count is published" in outcome.out


def test_plan_foresees_the_noise_of_pairs_before_their_bins_are_known(dpgist, people, release):
    """Open is how many cells D the pairs have, and so the counts' share of the noise.

    Their squared weight is 1 / sqrt(D) beside 1: at most 1/2 for the fewest cells, so the noise
    changes by less than a quarter.
    """
    budget = ["--epsilon", "0.5", "--delta", "1e-6"]
    foreseen = json.loads(dpgist("plan", "--schema", "people.toml", *budget, "--json").out)
    assert release().status == 0
    card = json.loads(dpgist("show", "people.gist", "--json").out)
    later = [b for b in foreseen["noise"] if b["stage"] == 2]
    assert [b["block"] for b in later] == ["pairs", "singles", "counts", "health"]
    pairs = later[0]["noise_std"]
    assert pairs == pytest.approx(foreseen["sensitivity"] / foreseen["mu"] / 0.88**0.5, rel=0.01)
    last = [b for b in card["noise"] if b["block"] == "pairs"]
    assert [b["noise_std"] for b in last] == [pytest.approx(pairs, rel=0.25)]


@pytest.mark.parametrize("method", ["merf", "hermite"])
def test_plan_foresees_the_noise_that_release_adds(dpgist, people, release, method):
    budget = ["--epsilon", "0.5", "--delta", "1e-6", "--method", method]
    foreseen = json.loads(dpgist("plan", "--schema", "people.toml", *budget, "--json").out)
    assert release(method=method).status == 0
    card = json.loads(dpgist("show", "people.gist", "--json").out)
    assert [b["noise_std"] for b in card["noise"]] == [b["noise_std"] for b in foreseen["noise"]]
    for field in ("mu", "sensitivity", "other_relation", "membership_inference"):
        assert card[field] == foreseen[field], field


def test_schema_check_accepts_and_refuses(dpgist, people):
    good = dpgist("schema", "check", "people.toml")
    assert (good.status, good.out) == (0, "ok: people, 3 columns, label smoker\n")
    text = (people / "people.toml").read_text().replace("max = 110", "max = -1")
    (people / "bad.toml").write_text(text)
    bad = dpgist("schema", "check", "bad.toml")
    assert bad.status == 1
    assert "age" in bad.out
    assert dpgist("schema", "check", "nowhere.toml").status == 2


CODES = """
[table]
name = "codes"
[columns.code]
type = "category"
values = ["01", "1.50", "True", "A7", "7", "0.5", "1e3"]
"""


def test_schema_check_tells_of_values_that_cells_of_numbers_are_never_read_as(dpgist, people):
    (people / "codes.toml").write_text(CODES)
    outcome = dpgist("schema", "check", "codes.toml")
    assert outcome.status == 0
    assert "'1', not '01'; '1.5', not '1.50'; 'true', not 'True'" in " ".join(outcome.err.split())
    assert "A7" not in outcome.err
    (people / "codes.toml").write_text(
        CODES.replace('"01", "1.50", "True", ', "").replace("1e3", "9")
    )
    assert dpgist("schema", "check", "codes.toml").err == ""


def test_a_column_name_with_a_dot_is_to_be_put_in_quotes(dpgist, people):
    text = (people / "people.toml").read_text().replace("columns.height", "columns.body.height")
    (people / "dots.toml").write_text(text)
    outcome = dpgist("schema", "check", "dots.toml")
    assert outcome.status == 1
    assert 'put it in quotes, as in [columns."body.height"]' in outcome.out
