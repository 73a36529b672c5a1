"""T-LEDGER: budget arithmetic is exact, charges come first, and the chain shows tampering."""

import json
import sqlite3
import warnings
from fractions import Fraction

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgist.errors import ArtefactError, BudgetExceeded, DataError, PrivacyError
from dpgist.privacy import curator
from dpgist.privacy.accounting import mu_from_units, units_of
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Block, Budget
from dpgist.privacy.private import Private
from dpgist.sources import open_source
from tests.trust.worlds import Plain, plan_for, schema_of, signed_plan, table_of

BUDGET = Budget(epsilon=1.0, delta=1e-5)


def fresh(epsilon=1.0):
    return Ledger.in_memory(
        name="patients", budget=Budget(epsilon=epsilon, delta=1e-5), max_rows_per_person=1
    )


def on_disk(path):
    return Ledger.create(path, name="patients", epsilon=1, delta=1e-5, relation="add_remove")


def test_a_release_of_the_whole_budget_fits_once():
    ledger = fresh()
    ledger.charge(units_of(BUDGET), what={})
    assert ledger.spent_epsilon() == pytest.approx(1.0, rel=1e-6)
    assert ledger.remaining_epsilon() == 0.0
    with pytest.raises(BudgetExceeded, match="No row was read"):
        ledger.charge(1, what={})


def test_sixty_seven_releases_of_a_tenth_fit_and_the_next_does_not():
    ledger = fresh()
    tenth = units_of(Budget(epsilon=0.1, delta=1e-5))
    for _ in range(67):
        ledger.charge(tenth, what={})
    with pytest.raises(BudgetExceeded):
        ledger.charge(tenth, what={})


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5))
def test_the_total_agrees_with_privacy_loss_distributions(epsilons):
    ledger = fresh(epsilon=20.0)
    accountant = pld.PLDAccountant()
    for epsilon in epsilons:
        units = units_of(Budget(epsilon=epsilon, delta=1e-5))
        ledger.charge(units, what={})
        accountant.compose(dpa.GaussianDpEvent(1 / mu_from_units(units)))
    assert ledger.spent_epsilon() == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 2**58), max_size=8))
def test_spent_units_are_the_exact_sum_and_never_pass_the_cap(charges):
    ledger = fresh()
    accepted = 0
    for units in charges:
        try:
            ledger.charge(units, what={})
            accepted += units
        except BudgetExceeded:
            assert accepted + units > ledger.cap_units
        assert ledger.spent_units() == accepted <= ledger.cap_units


def test_the_room_left_that_a_refusal_names_really_fits():
    ledger = fresh()
    ledger.charge(units_of(Budget(epsilon=0.7, delta=1e-5)), what={})
    left = ledger.remaining_epsilon()
    assert 0.6 < left < 0.75
    ledger.charge(units_of(Budget(epsilon=left, delta=1e-5)), what={})


def test_a_charge_survives_reopening_and_an_unfinished_one_stays_spent(tmp_path):
    ledger = on_disk(tmp_path / "l")
    stamp = ledger.charge(5, what={"method": "merf"})
    again = Ledger.open(tmp_path / "l")
    assert again.spent_units() == 5
    assert again.unfinished() == [stamp.sequence]
    again.finish(stamp, digest="00")
    assert Ledger.open(tmp_path / "l").unfinished() == []
    assert Ledger.open(tmp_path / "l").spent_units() == 5


def test_a_finished_release_leaves_no_time_that_would_tell_the_row_count():
    ledger = fresh()
    ledger.finish(ledger.charge(5, what={}), digest="00")
    assert set(ledger.entries()[-1].body) == {"kind", "charge", "digest"}


def test_a_look_is_on_record_and_costs_nothing():
    ledger = fresh()
    ledger.note_look("evaluate")
    assert ledger.entries()[-1].body["kind"] == "unprotected look"
    assert ledger.spent_units() == 0


@pytest.mark.parametrize(
    ("budget", "name", "rows", "term"),
    [
        (Budget(epsilon=1, delta=1e-5), "others", 1, "name"),
        (Budget(epsilon=1, delta=1e-6), "patients", 1, "delta"),
        (Budget(epsilon=1, delta=1e-5, relation="replace_one"), "patients", 1, "relation"),
        (Budget(epsilon=1, delta=1e-5), "patients", 3, "max_rows_per_person"),
    ],
)
def test_a_ledger_of_other_terms_is_refused(budget, name, rows, term):
    with pytest.raises(PrivacyError, match=term):
        fresh().check_terms(budget, name=name, max_rows_per_person=rows)


def test_an_existing_file_is_never_overwritten(tmp_path):
    (tmp_path / "l").write_text("mine")
    with pytest.raises(DataError, match="never overwritten"):
        on_disk(tmp_path / "l")
    assert (tmp_path / "l").read_text() == "mine"


def test_a_missing_or_foreign_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="ledger create"):
        Ledger.open(tmp_path / "nowhere")
    (tmp_path / "text").write_text("hello " * 100)
    with pytest.raises(ArtefactError, match="not a dpgist ledger"):
        Ledger.open(tmp_path / "text")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(ArtefactError):
        Ledger.open(tmp_path / "other")


def alter(path, statement):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lines SET body = replace(body, '\"units\":500', '\"units\":5') WHERE sequence = 1",
        "DELETE FROM lines WHERE sequence = 1",
        "DELETE FROM lines",
        "UPDATE lines SET sequence = 9 WHERE sequence = 2",
        "UPDATE lines SET body = replace(body, 'add_remove', 'replace_one') WHERE sequence = 0",
    ],
)
def test_an_altered_chain_is_noticed(tmp_path, statement):
    ledger = on_disk(tmp_path / "l")
    for _ in range(2):
        ledger.charge(500, what={})
    alter(tmp_path / "l", statement)
    with pytest.raises(ArtefactError):
        Ledger.open(tmp_path / "l")


def test_a_rollback_shows_against_a_stamp(tmp_path):
    ledger = on_disk(tmp_path / "l")
    ledger.charge(500, what={})
    stamp = ledger.charge(500, what={})
    alter(tmp_path / "l", "DELETE FROM lines WHERE sequence = 2")
    heads = [line.head for line in Ledger.open(tmp_path / "l").entries()]
    assert stamp.head not in heads


def test_a_ledger_that_cannot_be_written_refuses_the_charge(tmp_path, monkeypatch):
    """T-DISK: a full disk, as SQLite reports it, means no charge and so no release."""
    ledger = on_disk(tmp_path / "l")
    ledger._connection.execute("PRAGMA max_page_count = 2")
    with pytest.raises(PrivacyError, match="cannot be written"):
        ledger.charge(5, what={"filler": "x" * 50_000})
    assert Ledger.open(tmp_path / "l").spent_units() == 0


def test_a_release_is_not_given_up_because_its_end_cannot_be_noted(tmp_path):
    ledger = on_disk(tmp_path / "l")
    stamp = ledger.charge(5, what={})
    ledger._connection.execute("PRAGMA query_only = 1")
    with pytest.warns(UserWarning, match="could not note the end .* in line 1"):
        ledger.finish(stamp, digest="ab")
    assert Ledger.open(tmp_path / "l").unfinished() == [1]


def test_an_altered_ledger_takes_no_release_with_it(tmp_path):
    ledger = on_disk(tmp_path / "l")
    stamp = ledger.charge(5, what={})
    with sqlite3.connect(tmp_path / "l") as other:
        other.execute("UPDATE lines SET head = 'x' WHERE sequence = 0")
    with pytest.warns(UserWarning, match="could not note the end"):
        ledger.finish(stamp, digest="ab")


def test_a_note_that_cannot_be_written_ends_no_release_where_warnings_are_errors(tmp_path):
    ledger = on_disk(tmp_path / "l")
    stamp = ledger.charge(5, what={})
    ledger._connection.execute("PRAGMA query_only = 1")
    with warnings.catch_warnings(action="error"):
        ledger.finish(stamp, digest="ab")


def test_a_file_of_the_name_that_sqlite_keeps_for_memory_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    on_disk(":memory:").charge(5, what={})
    assert Ledger.open(":memory:").spent_units() == 5


def test_numbers_of_other_libraries_are_numbers(tmp_path):
    terms = {"name": "t", "epsilon": np.float32(2), "delta": Fraction(1, 2**20)}
    Ledger.create(tmp_path / "l", **terms, relation="add_remove", max_rows_per_person=np.int64(2))
    found = Ledger.open(tmp_path / "l")
    assert (found.epsilon, found.delta, found.max_rows_per_person) == (2.0, 2.0**-20, 2)


def test_the_stamp_tells_a_ledger_in_memory_from_a_file(tmp_path):
    assert fresh().charge(5, what={}).in_memory
    assert not on_disk(tmp_path / "l").charge(5, what={}).in_memory


def test_lines_are_plain_json_without_private_fields():
    ledger = fresh()
    ledger.charge(5, what={"method": "merf", "epsilon": 1.0, "recipe": "ab"})
    allowed = {"kind", "units", "time", "method", "epsilon", "recipe"}
    assert set(json.loads(json.dumps(ledger.entries()[1].body))) == allowed


def test_whatever_is_refused_is_refused_before_the_charge():
    """Terms, room, a budget beyond the sampler, a plan for another schema, a bad header."""
    schema = schema_of(2)
    table = table_of([(0.1, 0.2)], "a")
    unequal = (Block(name="f", length=2), Block(name="g", length=2, weight=1e-10))
    refusals = {
        "name": (table, signed_plan(schema), BUDGET, schema_of(2, name="others")),
        "room": (table, signed_plan(schema), Budget(epsilon=1.5, delta=1e-5), schema),
        "tiny": (table, signed_plan(schema), Budget(epsilon=1e-13, delta=1e-13), schema),
        "noise": (table, plan_for(schema, Plain(copies=2), unequal), BUDGET, schema),
        "plan": (table, signed_plan(schema_of(2, rows_about=9)), BUDGET, schema),
        "header": (table.drop(columns="x1"), signed_plan(schema), BUDGET, schema),
    }
    for name, (data, plan, budget, facts) in refusals.items():
        cap = Budget(epsilon=1.0, delta=budget.delta)
        ledger = Ledger.in_memory(name="world", budget=cap, max_rows_per_person=1)
        source = Watched(open_source(data))
        with pytest.raises((PrivacyError, ValueError, DataError)):
            curator.release_plan(Private(source), plan, budget, ledger, schema=facts)
        assert ledger.spent_units() == 0, name
        assert not source.was_read, name


def test_the_charge_is_on_disk_before_the_first_row_is_read(tmp_path):
    ledger = Ledger.create(
        tmp_path / "l", name="world", epsilon=1, delta=1e-5, relation="add_remove"
    )
    seen = []

    class Late(Watched):
        def partial_sums(self, summation):
            seen.append(Ledger.open(tmp_path / "l").spent_units())
            return super().partial_sums(summation)

    source = Late(open_source(table_of([(0.1, 0.2)], "a")))
    schema = schema_of(2)
    curator.release_plan(Private(source), signed_plan(schema), BUDGET, ledger, schema=schema)
    assert seen == [units_of(BUDGET)]


class Watched:
    """A source that remembers whether its rows were read."""

    def __init__(self, source):
        self.source, self.was_read, self.kind = source, False, source.kind

    def check(self, schema):
        self.source.check(schema)

    def partial_sums(self, summation):
        self.was_read = True
        return self.source.partial_sums(summation)
