"""T-ADJ: both readings of a release equal their closed forms, and no accountant guesses for us."""

import math
from pathlib import Path

import dp_accounting as dpa
import pytest

from dpgist.privacy.accounting import mu_of
from dpgist.privacy.plan import Relation
from dpgist.privacy.sensitivity import mu_under
from tests.trust.worlds import budget_of, release, schema_of, signed_plan, table_of

TABLE = table_of([(0.1, 0.2), (0.5, 0.6)], "ab")
SCHEMA = schema_of(2)


def released(relation):
    return release(TABLE, signed_plan(SCHEMA), budget_of(1.0, relation), SCHEMA)


def test_an_add_remove_release_reads_under_replace_one_by_the_closed_form():
    out = released("add_remove")
    weights = {part.block.name: part.block.weight for part in out.last.blocks}
    c, h = weights["counts"], weights["health"] * math.sqrt(3)
    ratio = math.sqrt((4 + 2 * h**2) / (1 + c**2 + h**2))
    assert mu_under(out, Relation.ADD_REMOVE) == pytest.approx(mu_of(1, 1e-5), rel=1e-8)
    assert mu_under(out, Relation.REPLACE_ONE) == pytest.approx(mu_of(1, 1e-5) * ratio, rel=1e-8)


def test_a_replace_one_release_publishes_n_and_has_no_add_remove_reading():
    out = released("replace_one")
    assert out.n_rows == 2
    assert mu_under(out, Relation.ADD_REMOVE) is None
    assert mu_under(out, Relation.REPLACE_ONE) == pytest.approx(mu_of(1, 1e-5), rel=1e-8)


def test_an_add_remove_release_does_not_publish_n():
    assert released("add_remove").n_rows is None


def test_the_accountants_own_replace_one_is_never_used(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("an accountant object was made")

    monkeypatch.setattr(dpa.rdp, "RdpAccountant", refuse)
    monkeypatch.setattr(dpa.pld, "PLDAccountant", refuse)
    released("replace_one")
    package = Path(__file__).parents[2] / "src" / "dpgist"
    uses = [path for path in package.rglob("*.py") if "NeighboringRelation" in path.read_text()]
    assert uses == []
