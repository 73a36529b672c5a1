"""Comma-separated files: one line is one row, and no line touches another."""

import gzip

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgist.errors import DataError
from dpgist.schema import CategoryColumn, IntegerColumn, Schema
from dpgist.sources import open_source
from dpgist.sources.csv_file import MOST_LINES, records

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


def test_a_stray_quote_keeps_to_its_own_row(write):
    path = write('a,b,c\n1,"x,3\n4,5,6\n7,8"y,9\n10,"11",12\n')
    found = rows_of(path)
    assert [row[0] for row in found] == ["1", "4", "7", "10"]
    assert found[1] == ("4", "5", "6")
    assert found[2:] == [("7", '8"y', "9"), ("10", "11", "12")]


def test_a_quote_left_open_at_the_end_loses_no_row(write):
    path = write('a,b,c\n1,2,3\n4,"5\n6,7\n8\n')
    assert [row[0] for row in rows_of(path)] == ["1", "4", "6", "8"]


def test_a_quote_open_for_too_many_lines_is_a_stray_one(write):
    fits = write('a,b,c\n1,"' + "\n" * (MOST_LINES - 1) + '",3\n', "fits.csv")
    assert len(rows_of(fits)) == 1
    filler = "x\n" * MOST_LINES
    assert len(rows_of(write(f'a,b,c\n1,"{filler}",3\n', "long.csv"))) == MOST_LINES + 1


def test_a_file_of_one_column_has_one_row_a_line():
    lines = iter(["1\n", '"2\n', '3"\n', "4\n"])
    assert [row[0].strip() for row in records(lines, n_fields=1)] == ["1", "2", '3"', "4"]


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


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", '"a,b,c\n1,2,3\n'])
def test_a_file_without_a_header_is_refused(write, content):
    with pytest.raises(DataError, match=r"t\.csv has no header"):
        open_source(write(content)).check(SCHEMA)


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


FIELD = st.text('ab" \r\x00é', max_size=4).map(
    lambda text: text.replace('"', "")
) | st.sampled_from(['"x,y"', '"say ""hi"""', '""'])
ROW_LINE = st.tuples(FIELD, FIELD, FIELD).map(lambda fields: ",".join(["k", *fields]) + "\n")
ANY_LINE = st.text('ab",\r \x00', max_size=12).map(lambda text: text + "\n")


@given(st.lists(ROW_LINE, max_size=5), st.lists(ROW_LINE, max_size=5), ANY_LINE)
def test_whatever_one_line_holds_the_others_stay_as_they_are(before, after, line):
    def found(lines):
        return list(records(iter(lines), n_fields=4))

    with_line, without = found([*before, line, *after]), found([*before, *after])
    assert with_line[: len(before)] == without[: len(before)]
    assert with_line[len(with_line) - len(after) :] == without[len(before) :]
    assert len(without) <= len(with_line) <= len(without) + 1
