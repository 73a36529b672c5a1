"""T-FUZZ: bad structure is refused before the charge, bad cells never are, none is quoted."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpgist as dg
from dpgist.privacy.ledger import Ledger

CANARY = "Q7-canary-77123"
SCHEMA = dg.Schema(
    name="people",
    columns=(
        dg.IntegerColumn(name="age", min=0, max=100),
        dg.NumberColumn(name="dose", min=0.0, max=5.0, nullable=True),
        dg.CategoryColumn(name="town", values=("A", "B")),
        dg.DateColumn(name="born", min=dt.date(1900, 1, 1), max=dt.date(2020, 1, 1)),
        dg.BooleanColumn(name="ill"),
    ),
    label="ill",
)
NAMES = [column.name for column in SCHEMA.columns]
METHODS = {
    "merf": dg.Merf(joint_frequencies=4, pair_frequencies=4),
    "marginal": dg.Marginal(most_leaves=32),
    "pearl": dg.Pearl(frequencies=12, scaling="modes", most_leaves=32),
}
BUDGET = dg.Budget(epsilon=1.0, delta=1e-5)
GOOD = [41, 2.5, "A", "1980-02-03", True]
MAD_CELLS = [
    None, float("nan"), float("inf"), -float("inf"), 1e308, -0.0, 5e-324, 10**400, -(10**30),
    "", " ", CANARY, "nan", "1e999", "0x12", "1_000", "\x00", "\ud800",
    "\N{ARABIC-INDIC DIGIT TWO}",
    "2020-13-45", "9999-99-99", b"bytes", [1, 2], {"a": 1}, (), object(), dt.date.max,
    dt.datetime(2000, 1, 1, tzinfo=dt.UTC), pd.NaT, pd.NA, np.float32("nan"), np.int64(-1),
    decimal.Decimal("NaN"), decimal.Decimal("1E+500"), complex(1, 1), True, "yes",
]  # fmt: skip


def frame(rows):
    return pd.DataFrame(
        {name: pd.array([row[i] for row in rows], dtype=object) for i, name in enumerate(NAMES)}
    )


def released(table, ledger=None, method="merf"):
    ledger = ledger or Ledger.in_memory(name="people", budget=BUDGET, max_rows_per_person=1)
    return dg.release(table, SCHEMA, METHODS[method], BUDGET, ledger=ledger)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("column", range(5), ids=NAMES)
def test_no_cell_however_mad_raises(column, method):
    rows = []
    for cell in MAD_CELLS:
        row = list(GOOD)
        row[column] = cell
        rows.append(row)
    gist = released(frame(rows), method=method)
    assert len(gist.released.last["health"].values[0]) == 5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [[], [GOOD]], ids=["no row", "one row"])
def test_tiny_tables_release_train_and_sample_like_any_other(rows, method):
    model = dg.train(released(frame(rows), method=method), dg.Training(steps=3))
    sampled = model.sample(20, seed=0)
    assert list(sampled.columns) == NAMES
    assert len(sampled) == 20


def test_read_only_and_strided_columns_work():
    ages = np.arange(40)[::4]
    ages.setflags(write=False)
    table = pd.DataFrame(
        {
            "age": ages,
            "dose": np.linspace(0, 9, 10),
            "town": ["A"] * 10,
            "born": ["2000-01-01"] * 10,
            "ill": [True, False] * 5,
        }
    )
    assert released(table).released.mu > 0


def without(name):
    return frame([GOOD]).drop(columns=name)


def doubled():
    table = frame([GOOD])
    return pd.concat([table, table[["age"]]], axis=1)


STRUCTURE = {
    "missing column": (lambda: without("dose"), "dose"),
    "duplicate column": (doubled, "age"),
    "undeclared column": (lambda: frame([GOOD]).assign(notes=CANARY), "notes"),
    "no column at all": (lambda: pd.DataFrame(), "none of the schema's columns"),
    "not a table": (lambda: 42, "cannot read rows from int"),
    "no such file": (lambda: "nowhere.csv", "nowhere"),
    "wrong type": (
        lambda: pa.table({**{n: frame([GOOD])[n].astype(str) for n in NAMES}, "age": [b"x"]}),
        "age",
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", STRUCTURE)
def test_bad_structure_is_refused_by_name_before_any_charge(case, method):
    make, named = STRUCTURE[case]
    ledger = Ledger.in_memory(name="people", budget=BUDGET, max_rows_per_person=1)
    with pytest.raises(dg.DataError, match=named) as caught:
        released(make(), ledger, method)
    assert ledger.spent_units() == 0
    assert CANARY not in str(caught.value)


def test_text_in_a_number_column_of_a_typed_file_is_a_structure_error(tmp_path):
    table = pa.table({n: [str(v)] for n, v in zip(NAMES, [CANARY, *GOOD[1:]], strict=True)})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(dg.DataError, match="age") as caught:
        released(tmp_path / "t.parquet")
    assert CANARY not in str(caught.value)


def test_broken_cells_are_seen_in_the_health_block_only_through_noise():
    good = released(frame([GOOD] * 4_000))
    bad = released(frame([[CANARY, *GOOD[1:]]] * 4_000))
    health = [g.released.last["health"] for g in (good, bad)]
    std = health[0].noise_std
    assert abs(health[0].sums()[0, 0]) < 6 * std
    assert abs(health[1].sums()[0, 0] - 4_000) < 6 * std
    assert abs(health[1].sums()[0, 1]) < 6 * std
