"""Tables on disk are what the schema that they belong to reads back."""

import datetime as dt
import gc
import weakref

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.made_gists import GRID, gist_of, grid_table

from dpgist.encode import Encoder
from dpgist.methods import Marginal
from dpgist.outputs import Outputs, save_release, write_table, write_tables
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)
from dpgist.sources.csv_file import CsvFile

DAYS = [dt.date(1, 1, 1), None, dt.date(987, 12, 31), dt.date(2002, 4, 3), dt.date(2002, 4, 3)]


def dated(form):
    day = DateColumn(name="day", min="0001-01-01", max="2020-12-31", format=form, nullable=True)
    return Schema(name="t", columns=(IntegerColumn(name="at", min=0, max=9), day))


def read_back(path, schema):
    """The rows of a csv file as the schema understands them, and which cells break it."""
    encoder = Encoder(schema)
    (table,) = CsvFile(path=path).tables(encoder.columns)
    encoded = encoder.encode({name: table[name].combine_chunks() for name in encoder.columns})
    return encoder.decode(encoded.rows, encoded.labels), encoded.broken


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%B %d, %Y", "%G-W%V-%u", "%%Y %Y/%j"])
def test_dates_are_written_in_the_format_that_their_column_declares(tmp_path, form):
    schema = dated(form)
    table = pa.table({"at": range(len(DAYS)), "day": pa.array(DAYS, pa.date32())})
    write_table(table, tmp_path / "t.csv", schema, force=False)
    found, broken = read_back(tmp_path / "t.csv", schema)
    assert not broken.any()
    assert found.equals(table)


def test_a_day_is_written_first_and_a_year_of_four_digits_last_if_the_format_says_so(tmp_path):
    table = pa.table({"at": [1], "day": [dt.date(87, 4, 3)]})
    write_table(table, tmp_path / "t.csv", dated("%d.%m.%Y"), force=False)
    assert (tmp_path / "t.csv").read_text() == '"at","day"\n1,"03.04.0087"\n'


def test_dates_stay_dates_in_parquet(tmp_path):
    table = pa.table({"at": [1], "day": [dt.date(87, 4, 3)]})
    write_table(table, tmp_path / "t.parquet", dated("%d.%m.%Y"), force=False)
    assert pq.read_table(tmp_path / "t.parquet").equals(table)


def test_a_table_without_rows_keeps_its_header(tmp_path):
    empty = pa.table({"at": pa.array([], pa.int64()), "day": pa.array([], pa.date32())})
    write_table(empty, tmp_path / "t.csv", dated("%d.%m.%Y"), force=False)
    assert (tmp_path / "t.csv").read_text() == '"at","day"\n'


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (IntegerColumn(name="a", min=-9, max=9, nullable=True), [None, -3, None]),
        (NumberColumn(name="a", min=0, max=1, nullable=True), [0.1, None, 1e-7]),
        (BooleanColumn(name="a", nullable=True), [None, True, False]),
        (CategoryColumn(name="a", values=('x "y"', "z"), nullable=True), ['x "y"', None, None]),
        (DateColumn(name="a", min="0001-01-01", max="2020-12-31", nullable=True), DAYS),
        (dated("%d.%m.%Y").column("day"), DAYS),
    ],
)
def test_nulls_of_an_only_column_are_rows(tmp_path, column, cells):
    schema = Schema(name="t", columns=(column,))
    table = pa.table({column.name: cells})
    write_table(table, tmp_path / "t.csv", schema, force=False)
    found, broken = read_back(tmp_path / "t.csv", schema)
    assert not broken.any()
    assert found.equals(table)
    assert len(pd.read_csv(tmp_path / "t.csv")) == len(cells)


def some_rows(n, at=0):
    cells = {"at": range(at, at + n), "day": [DAYS[i % len(DAYS)] for i in range(n)]}
    types = [("at", pa.int64()), ("day", pa.date32())]
    return pa.table(cells, schema=pa.schema(types))


@pytest.mark.parametrize("n", [0, 1, 5_000])
def test_a_table_is_written_as_arrow_writes_it(tmp_path, n):
    table, schema = some_rows(n), dated("%Y-%m-%d")
    pq.write_table(table, tmp_path / "own.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "own.csv")
    for suffix in ("parquet", "csv"):
        write_table(table, tmp_path / f"t.{suffix}", schema, force=False)
        own, found = (tmp_path / f"{name}.{suffix}" for name in ("own", "t"))
        assert found.read_bytes() == own.read_bytes()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_many_tables_are_written_as_one_and_never_held_together(tmp_path, suffix):
    alive = []

    def parts():
        for start in range(0, 50, 5):
            table = some_rows(5, at=start)
            alive.append(weakref.ref(table))
            yield table
            del table
            gc.collect()
            assert sum(part() is not None for part in alive) <= 2

    schema, path = dated("%d.%m.%Y"), tmp_path / f"t.{suffix}"
    write_tables(parts(), path, schema, force=False)
    if suffix == "csv":
        table, _ = read_back(path, schema)
    else:
        table = pq.read_table(path)
    assert len(table) == 50
    assert table["day"].to_pylist() == DAYS * 10


def test_a_report_about_other_results_is_refused_and_by_force_discarded(tmp_path):
    report = tmp_path / "report.html"
    report.write_text("about others")
    with pytest.raises(FileExistsError):
        Outputs(folder=tmp_path).prepare()
    outputs = Outputs(folder=tmp_path, force=True)
    outputs.prepare()
    save_release(gist_of(grid_table(50), GRID, Marginal()), outputs)
    assert not report.exists()
