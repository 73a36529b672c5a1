"""Parquet and Arrow files: types from the footer, rows in batches, damage reported early."""

import datetime as dt
import gc

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpgist.cells import flat
from dpgist.errors import DataError
from dpgist.schema import BooleanColumn, CategoryColumn, DateColumn, IntegerColumn, Schema
from dpgist.sources import open_source
from dpgist.sources.arrow_file import ParquetFiles
from dpgist.sources.blocks import cut_blocks

SCHEMA = Schema(
    name="t",
    columns=(IntegerColumn(name="a", min=0, max=9), CategoryColumn(name="b", values=("x",))),
)
TABLE = pa.table({"b": ["x", "y", None], "a": [1, None, 3]})


class Collect:
    """A summation that keeps every block, for tests alone."""

    recipe = "{}"
    columns = ("a", "b")
    block_rows = 2

    def __call__(self, blocks):
        return [pa.table(dict(block)) for block in blocks]


def blocks_of(path):
    source = open_source(path)
    source.check(SCHEMA)
    (blocks,) = source.partial_sums(Collect())
    return blocks


def write_arrow(table, path, form=pa.ipc.new_file):
    with form(str(path), table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1):
            writer.write_batch(batch)


@pytest.fixture(params=["t.parquet", "file.arrow", "stream.arrow"])
def written(request, tmp_path):
    path = tmp_path / request.param

    def write(table):
        if path.suffix == ".parquet":
            pq.write_table(table, path)
        else:
            form = pa.ipc.new_file if path.stem == "file" else pa.ipc.new_stream
            write_arrow(table, path, form)
        return path

    return write


def test_rows_come_in_blocks_with_their_types(written):
    blocks = blocks_of(written(TABLE))
    assert [block.to_pylist() for block in blocks] == [
        [{"a": 1, "b": "x"}, {"a": None, "b": "y"}],
        [{"a": 3, "b": None}],
    ]
    assert blocks[0].schema.field("a").type == pa.int64()


def test_an_empty_file_of_rows_gives_no_block(written):
    assert blocks_of(written(TABLE.slice(0, 0))) == []


def test_dictionaries_that_differ_between_batches_are_read_by_value(tmp_path):
    path = tmp_path / "t.arrow"
    parts = [pa.array(["x"]).dictionary_encode(), pa.array(["y", "x"]).dictionary_encode()]
    batches = [pa.record_batch({"b": part, "a": pa.array(range(len(part)))}) for part in parts]
    with pa.ipc.new_stream(str(path), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    found = pa.concat_tables(blocks_of(path))
    assert found["b"].to_pylist() == ["x", "y", "x"]


def test_categories_of_polars_are_read_by_value(tmp_path):
    frame = pl.DataFrame({"a": [1, 2, 3], "b": ["y", None, "x"]})
    frame.with_columns(pl.col("b").cast(pl.Categorical)).write_ipc(tmp_path / "t.arrow")
    found = pa.concat_tables(blocks_of(tmp_path / "t.arrow"))
    assert found["b"].to_pylist() == ["y", None, "x"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1], pa.int8()),
        pa.array([1.5]),
        pa.array([1], pa.decimal128(5, 1)),
        pa.array(["x"]),
        pa.array(["x"], pa.string_view()),
        pa.array([b"x"]),
        pa.array([b"x"], pa.binary_view()),
        pa.array([b"x"], pa.binary(1)),
        pa.array([True]),
        pa.array([0], pa.date32()),
        pa.array([None]),
    ],
    ids=lambda values: str(values.type),
)
def test_dictionaries_of_every_type_are_read_by_value(values):
    places = pa.array([0, None, 0], pa.uint8())
    cells = pa.DictionaryArray.from_arrays(places, values)
    kept, wanted = pa.chunked_array([cells, cells[:0]]), values[0].as_py()
    (block,) = cut_blocks([pa.table({"b": kept})], 5)
    assert block["b"].to_pylist() == [wanted, None, wanted]
    assert flat(kept).to_pylist() == [wanted, None, wanted]


def test_a_folder_of_parquet_files_is_read_in_the_order_of_names(tmp_path):
    for name, value in (("2", 2), ("1", 1), ("3", 3)):
        pq.write_table(pa.table({"a": [value], "b": ["x"]}), tmp_path / f"{name}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    assert pa.concat_tables(blocks_of(tmp_path))["a"].to_pylist() == [1, 2, 3]


def test_files_of_a_folder_may_differ_in_nullability_but_not_in_type(tmp_path):
    strict = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])
    pq.write_table(pa.table({"a": [1], "b": ["x"]}, schema=strict), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [2], "b": ["x"]}), tmp_path / "2.parquet")
    assert pa.concat_tables(blocks_of(tmp_path))["a"].to_pylist() == [1, 2]
    pq.write_table(pa.table({"a": [2.0], "b": ["x"]}), tmp_path / "3.parquet")
    with pytest.raises(DataError, match=r"3\.parquet has other columns or types than 1\.parquet"):
        open_source(tmp_path).check(SCHEMA)


def test_a_folder_without_parquet_files_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"holds no \.parquet file.*no column of type image"):
        open_source(tmp_path).check(SCHEMA)


def test_duplicate_missing_and_undeclared_columns_are_refused(written):
    twice = pa.table([[1], ["x"], [2]], names=["a", "b", "a"])
    with pytest.raises(DataError, match="has column 'a' more than once"):
        open_source(written(twice)).check(SCHEMA)
    with pytest.raises(DataError, match="lacks column 'a'"):
        open_source(written(TABLE.select(["b"]))).check(SCHEMA)
    with pytest.raises(DataError, match="has column 'z', which the schema does not know"):
        open_source(written(TABLE.append_column("z", pa.nulls(3)))).check(SCHEMA)


ACCEPTED = {
    IntegerColumn(name="a", min=0, max=9): [
        pa.int8(),
        pa.uint64(),
        pa.float32(),
        pa.decimal128(5, 1),
        pa.dictionary(pa.int8(), pa.int64()),
        pa.null(),
    ],
    CategoryColumn(name="a", values=("x",)): [
        pa.string(),
        pa.large_string(),
        pa.int16(),
        pa.float64(),
        pa.bool_(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.null(),
    ],
    DateColumn(name="a", min="2000-01-01", max="2001-01-01"): [
        pa.date32(),
        pa.timestamp("ms", "UTC"),
        pa.string(),
    ],
    BooleanColumn(name="a"): [pa.bool_(), pa.string(), pa.int64(), pa.float32()],
}
REFUSED = {
    IntegerColumn(name="a", min=0, max=9): [pa.string(), pa.bool_(), pa.date32(), pa.binary()],
    CategoryColumn(name="a", values=("x",)): [pa.binary(), pa.list_(pa.string())],
    DateColumn(name="a", min="2000-01-01", max="2001-01-01"): [pa.int64(), pa.duration("s")],
    BooleanColumn(name="a"): [pa.decimal128(5, 1), pa.date32()],
}


@pytest.mark.parametrize("column", ACCEPTED, ids=lambda column: type(column).__name__)
def test_every_fitting_physical_type_is_accepted(column):
    for kind in ACCEPTED[column]:
        open_source(pa.table({"a": pa.array([], kind)})).check(Schema(name="t", columns=(column,)))


@pytest.mark.parametrize("column", REFUSED, ids=lambda column: type(column).__name__)
def test_a_wrong_physical_type_is_refused_with_column_type_and_way_out(column, tmp_path):
    for kind in REFUSED[column]:
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"a": pa.array([], kind)}), path)
        with pytest.raises(
            DataError, match=r"column 'a' is declared \w+ but stored as .*; cast it"
        ):
            open_source(path).check(Schema(name="t", columns=(column,)))


def test_a_file_that_is_cut_short_or_of_another_kind_is_refused_before_any_row(tmp_path):
    whole = tmp_path / "whole.parquet"
    pq.write_table(TABLE, whole)
    write_arrow(TABLE, tmp_path / "whole.arrow")
    for suffix in ("parquet", "arrow"):
        path = tmp_path / f"t.{suffix}"
        content = (tmp_path / f"whole.{suffix}").read_bytes()
        for broken in (content[: len(content) // 2], b"", b"a,b\n1,x\n", content[:-3]):
            path.write_bytes(broken)
            with pytest.raises(DataError, match=rf"t\.{suffix} cannot be read"):
                open_source(path).check(SCHEMA)


def test_a_stream_that_is_cut_short_is_refused_before_any_row(tmp_path):
    path = tmp_path / "t.arrow"
    write_arrow(TABLE, path, pa.ipc.new_stream)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"t\.arrow cannot be read"):
        open_source(path).check(SCHEMA)


def test_a_page_damaged_inside_is_reported_without_what_it_holds(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path, compression="gzip", use_dictionary=False)
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"canary" * 4 + content[64:])
    with pytest.raises(DataError, match=r"t\.parquet cannot be read") as caught:
        blocks_of(path)
    assert "canary" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_path_that_leads_nowhere_or_says_nothing_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no file or folder"):
        open_source(tmp_path / "nowhere.csv")
    (tmp_path / "t.xlsx").write_text("")
    with pytest.raises(DataError, match=r"must end in \.csv, \.csv\.gz, \.parquet or \.arrow"):
        open_source(str(tmp_path / "t.xlsx"))


def test_each_source_says_its_kind_and_nothing_else(tmp_path):
    for name, kind in (("t.csv", "csv"), ("t.CSV.gz", "csv"), ("t.arrow", "pyarrow")):
        (tmp_path / name).write_text("a,b\n1,canary\n")
        source = open_source(tmp_path / name)
        assert source.kind == kind
        assert repr(source) == str(source) == f"<{kind} source>"
    pq.write_table(TABLE, tmp_path / "t.parquet")
    assert open_source(tmp_path).kind == "parquet"
    dated = open_source(pa.table({"d": [dt.date(2000, 1, 1)]}))
    assert repr(dated) == f"{dated}" == "<pyarrow source>"


def test_parquet_is_read_in_flat_memory(tmp_path):
    """What is held at any time is a batch, not the row groups read so far."""
    path = tmp_path / "t.parquet"
    values = np.random.default_rng(0).random(600_000)
    pq.write_table(
        pa.table(dict.fromkeys("abcd", values)), path, row_group_size=5_000, compression="none"
    )
    gc.collect()
    before = pa.total_allocated_bytes()
    batches = ParquetFiles(path=path).tables(tuple("abcd"))
    held = max(pa.total_allocated_bytes() - before for _ in batches)
    assert held < path.stat().st_size / 3
