"""Comma-separated files: one record is one row, and no record touches another."""

import csv
import gzip
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgist.errors import DataError
from dpgist.schema import CategoryColumn, IntegerColumn, Schema
from dpgist.sources import csv_file, open_source
from dpgist.sources.csv_file import records

SCHEMA = Schema(
    name="t",
    columns=(
        IntegerColumn(name="a", min=0, max=9),
        CategoryColumn(name="b", values=("x",)),
        CategoryColumn(name="c", values=("x",)),
    ),
)


class Collect:
    """A summation that keeps every block, for tests alone."""

    recipe = "{}"

    def __init__(self, columns=("a", "b", "c"), block_rows=4):
        self.columns, self.block_rows = columns, block_rows

    def __call__(self, blocks):
        return [pa.table(dict(block)) for block in blocks]


def rows_of(path, **settings):
    source = open_source(path)
    source.check(SCHEMA)
    (blocks,) = source.partial_sums(Collect(**settings))
    return [tuple(row.values()) for block in blocks for row in block.to_pylist()]


@pytest.fixture
def write(tmp_path):
    def write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_cells_are_text_and_columns_may_stand_in_any_order(write):
    path = write("c,a,b\n1,2,3\n, 5 ,x\n")
    assert rows_of(path) == [("2", "3", "1"), (" 5 ", "x", "")]


def test_blocks_have_one_size_and_only_the_last_is_shorter(write):
    path = write("a,b,c\n" + "1,2,3\n" * 10)
    source = open_source(path)
    (blocks,) = source.partial_sums(Collect(block_rows=4))
    assert [len(block) for block in blocks] == [4, 4, 2]


def test_windows_line_ends_a_byte_order_mark_and_blank_lines_are_no_cells(write):
    path = write(b"\xef\xbb\xbfa,b,c\r\n1,2,3\r\n\r\n   \n4,5,6")
    assert rows_of(path) == [("1", "2", "3"), ("4", "5", "6")]


def test_a_packed_file_reads_like_a_plain_one(write):
    path = write(gzip.compress(b'a,b,c\n1,"2,2",3\n'), "t.csv.gz")
    assert rows_of(path) == [("1", "2,2", "3")]


def test_the_header_is_parsed_with_quotes_too(write):
    path = write('"a", "b" ,"c"\n1,2,3\n')
    assert rows_of(path) == [("1", "2", "3")]


def test_quoted_cells_may_hold_commas_quotes_and_lines(write):
    path = write('a,b,c\n1,"x, ""y""",3\n4,"one\n\ntwo, three\nfour",6\n7,8,"end\n"\n')
    assert rows_of(path) == [
        ("1", 'x, "y"', "3"),
        ("4", "one\n\ntwo, three\nfour", "6"),
        ("7", "8", "end\n"),
    ]


def test_a_quote_inside_a_plain_cell_is_a_character(write):
    path = write('a,b,c\n7,8"y,9\n10,"11" x,12\n')
    assert rows_of(path) == [("7", '8"y', "9"), ("10", "11 x", "12")]


def test_a_cell_that_looks_like_many_rows_is_one_cell(write):
    text = "hello\n" + "1,2,3\n" * 5000 + "bye"
    path = write('a,b,c\n1,2,3\n4,"' + text + '",6\n7,8,9\n')
    assert rows_of(path) == [("1", "2", "3"), ("4", text, "6"), ("7", "8", "9")]


def test_a_record_may_open_and_close_quotes_on_many_lines(write):
    path = write('a,b,c\n1,"x\n","y\n""z"""\n4,"\n,\n""\n","6"\n')
    assert rows_of(path) == [("1", "x\n", 'y\n"z"'), ("4", '\n,\n"\n', "6")]


def test_a_quote_that_nobody_closes_makes_one_row(write):
    path = write('a,b,c\n1,2,3\n4,"5\n6,7,8\n9\n')
    assert [row[0] for row in rows_of(path)] == ["1", "4"]


def test_a_record_beyond_all_measure_is_cut_and_the_next_one_is_whole(write, monkeypatch):
    monkeypatch.setattr(csv_file, "MOST_CHARACTERS", 10)
    path = write('a,b,c\n1,"' + "x" * 8 + "\n" * 30 + '",3\n4,5,6\n')
    first, second = rows_of(path)
    assert len(first[1]) <= 20
    assert second == ("4", "5", "6")


def test_missing_fields_are_absent_and_surplus_ones_dropped(write):
    path = write("a,b,c\n1\n1,2\n1,2,3,4\n")
    assert rows_of(path) == [("1", None, None), ("1", "2", None), ("1", "2", "3")]


def test_bytes_that_are_not_utf_8_and_strange_controls_stay_in_their_cell(write):
    path = write(b'a,b,c\n1,\xff\xfe,3\n4,\x00\r\x0b\xe2\x80\xa8,6\n7,"\r8\r",9\r"\n')
    found = rows_of(path)
    assert [row[0] for row in found] == ["1", "4", "7"]
    assert found[0] == ("1", "\ufffd\ufffd", "3")


def test_a_cell_beyond_the_readers_limit_raises_nothing(write):
    path = write('a,b,c\n1,"' + "x" * 200_000 + '",3\n4,5,6\n')
    assert rows_of(path)[1] == ("4", "5", "6")


def test_a_header_alone_is_an_empty_table(write):
    assert rows_of(write("a,b,c\n")) == []
    assert rows_of(write("a,b,c", "u.csv")) == []


OLD_ENDS = "a,b,c,id\r1,2,3,Alice\r4,5,6,Bob\r"


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", '"a,b,c\n1,2,3\n', OLD_ENDS])
def test_a_file_without_a_header_is_refused_and_nothing_of_it_is_quoted(write, content):
    with pytest.raises(DataError, match=r"t\.csv has no header") as caught:
        open_source(write(content)).check(SCHEMA)
    assert "Alice" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a,b", "lacks column 'c', which the schema declares"),
        ("a,x", "lacks columns 'b', 'c'"),
        ("a,b,c,b", "has column 'b' more than once; rename or drop"),
        ('a,b,c," b "', "has column 'b' more than once"),
        ("a,b,c,d", "has column 'd', which the schema does not know; declare it"),
        ("x,y,z", "none of the schema's columns"),
    ],
)
def test_a_header_that_breaks_the_schema_is_refused_before_any_row(write, header, message):
    with pytest.raises(DataError, match=message):
        open_source(write(header + "\n1,2,3\n")).check(SCHEMA)


def test_ignored_columns_may_be_there_or_not_and_are_not_read(write):
    schema = Schema(name="t", columns=SCHEMA.columns, ignore=("id", "gone"))
    source = open_source(write("id,a,b,c\nsecret,1,2,3\n"))
    source.check(schema)
    (blocks,) = source.partial_sums(Collect())
    assert blocks[0].column_names == ["a", "b", "c"]


@pytest.mark.parametrize("line", ["Alice,39,Bachelors", "Alice,a,b", "Alice,a,a,Bachelors"])
def test_a_first_line_that_may_be_a_row_is_never_quoted(write, line):
    with pytest.raises(DataError) as caught:
        open_source(write(line + "\n")).check(SCHEMA)
    assert "Alice" not in str(caught.value)
    assert "Bachelors" not in str(caught.value)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-9], lambda b: b"a,b,c\n", lambda b: b[:30] + b"x"]
)
def test_a_damaged_packed_file_is_refused_before_any_row(write, damage):
    text = "a,b,c\n" + "".join(f"{i},x,y\n" for i in range(1000))
    path = write(damage(gzip.compress(text.encode())), "t.csv.gz")
    with pytest.raises(DataError, match=r"t\.csv\.gz cannot be read"):
        open_source(path).check(SCHEMA)


CELL = st.text('ab", \r\n\x00é', max_size=8)
RECORD = st.tuples(st.just("k"), CELL, CELL, CELL)


def written(rows, *, line_end="\n"):
    """The lines of a file that Python's CSV writer wrote."""
    file = io.StringIO()
    csv.writer(file, lineterminator=line_end, quoting=csv.QUOTE_NONNUMERIC).writerows(rows)
    return io.StringIO(file.getvalue(), newline="\n")


@given(st.lists(RECORD, max_size=5), st.lists(RECORD, max_size=5), RECORD)
def test_whatever_one_record_holds_it_is_one_row_and_the_others_stay_as_they_are(b, a, record):
    for line_end in ("\n", "\r\n"):
        found = [
            [tuple(row) for row in records(written(rows, line_end=line_end), n_fields=4)]
            for rows in ([*b, record, *a], [*b, *a])
        ]
        assert found[0] == [*b, record, *a]
        assert found[1] == [*b, *a]


@given(st.lists(st.tuples(CELL), max_size=8))
def test_a_file_of_one_column_has_one_row_a_record(rows):
    assert [tuple(row) for row in records(written(rows), n_fields=1)] == rows


@given(st.lists(RECORD, max_size=5), RECORD)
def test_a_writer_that_quotes_where_it_must_is_read_alike(rows, record):
    """But for blanks at the ends of cells, which are not kept everywhere."""
    plain = [tuple(cell.replace("\r", "").strip() for cell in row) for row in [*rows, record]]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(plain)
    lines = io.StringIO(file.getvalue(), newline="\n")
    assert [tuple(row) for row in records(lines, n_fields=4)] == plain
