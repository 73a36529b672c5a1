"""Drafting a schema from public data: always valid, never narrower than what was seen."""

import datetime as dt
import gzip
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.images import EncodeAll
from typer.testing import CliRunner

from dpgist.cli import app
from dpgist.draft import draft_schema
from dpgist.errors import DataError
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)
from dpgist.sources import open_source


def drafted(path):
    return Schema.from_dict(tomllib.loads(draft_schema(path)))


def column_of(tmp_path, cells, name="a"):
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"{name},pad", *(f"{cell},1" for cell in cells), ""]))
    return drafted(path).column(name)


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        (["17", "90"], IntegerColumn(name="a", min=10, max=90)),
        (["0", "99999"], IntegerColumn(name="a", min=0, max=100_000)),
        (["-3", "4"], IntegerColumn(name="a", min=-3, max=4)),
        (["5", "5"], IntegerColumn(name="a", min=5, max=6)),
        (["0", "0", "2"], IntegerColumn(name="a", min=0, max=2)),
        (["1.0", "8.0"], IntegerColumn(name="a", min=1, max=8)),
        (["0.25", "3.5"], NumberColumn(name="a", min=0, max=4, decimals=2)),
        (["0.12345678", "0.9"], NumberColumn(name="a", min=0.1, max=0.9)),
        (["1e20", "3"], NumberColumn(name="a", min=0, max=1e20)),
        (["-1.7e308", "1.7e308"], CategoryColumn(name="a", values=("-1.7e308", "1.7e308"))),
        (["17", "", "90"], IntegerColumn(name="a", min=10, max=90, nullable=True)),
        (["17", "?", "90"], IntegerColumn(name="a", min=10, max=90, nullable=True)),
        (["x", "y", "x"], CategoryColumn(name="a", values=("x", "y"))),
        (["x", "NA"], CategoryColumn(name="a", values=("NA", "x"))),
        (["01234", "99999"], CategoryColumn(name="a", values=("01234", "99999"))),
        (["x", "", "7"], CategoryColumn(name="a", values=("7", "x"), nullable=True)),
        (["yes", "no", ""], BooleanColumn(name="a", nullable=True)),
        (["0", "1"], BooleanColumn(name="a")),
        (
            ["2001-05-06", "2003-01-01 10:30:00"],
            DateColumn(name="a", min="2001-01-01", max="2003-12-31"),
        ),
        (
            ["31/12/1999", "01/02/2000"],
            DateColumn(name="a", min="1999-01-01", max="2000-12-31", format="%d/%m/%Y"),
        ),
        (["0001-01-01", "2001-05-06"], DateColumn(name="a", min="0001-01-01", max="2001-12-31")),
        (
            ["31.12.0099", "01.02.2000"],
            DateColumn(name="a", min="0099-01-01", max="2000-12-31", format="%d.%m.%Y"),
        ),
    ],
)
def test_a_column_is_drafted_by_what_its_cells_have_in_common(tmp_path, cells, column):
    assert column_of(tmp_path, cells) == column


def test_typed_columns_are_drafted_too(tmp_path):
    table = pa.table(
        {
            "i": pa.array([1, 5], pa.int8()),
            "f": [0.5, 2.25],
            "b": [True, None],
            "d": [dt.date(2000, 2, 3), dt.date(2001, 2, 3)],
            "t": [dt.datetime(2000, 2, 3), None],
            "s": pa.array(["x", "y"]).dictionary_encode(),
            "blob": [b"x", b"y"],
        }
    )
    pq.write_table(table, tmp_path / "public.parquet")
    schema = drafted(tmp_path / "public.parquet")
    assert schema == Schema(
        name="public",
        ignore=("blob",),
        columns=(
            IntegerColumn(name="i", min=1, max=5),
            NumberColumn(name="f", min=0, max=3, decimals=2),
            BooleanColumn(name="b", nullable=True),
            DateColumn(name="d", min="2000-01-01", max="2001-12-31"),
            DateColumn(name="t", min="2000-01-01", max="2000-12-31", nullable=True),
            CategoryColumn(name="s", values=("x", "y")),
        ),
    )
    open_source(tmp_path / "public.parquet").check(schema)


def test_free_text_and_empty_columns_are_ignored(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"note {n},,{n}" for n in range(60)]
    path.write_text("\n".join(["words,nothing,user_id", *rows, ""]))
    schema = drafted(path)
    assert schema.ignore == ("words", "nothing")
    assert [column.name for column in schema.columns] == ["user_id"]
    assert "an identifier?" in draft_schema(path)


def test_a_draft_says_what_to_check_and_what_never_to_do(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("d,kind\n01/02/2000,x\n03/04/2001,y\n")
    text = draft_schema(path)
    assert "Never draft one from private rows" in text
    assert '# label = "kind"' in text
    assert '# the dates also fit "%d/%m/%Y": which is it?' in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no header"),
        ("a,a\n1,2\n", "columns more than once: 'a'"),
        ("a,b\n", "no column is"),
        ("a\nNA\n", "no column is"),
    ],
)
def test_a_table_that_says_nothing_is_refused(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        draft_schema(tmp_path / "t.csv")
    with pytest.raises(DataError, match="no file or folder"):
        draft_schema(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("content", ["town\nGenève\nGenôve\n", "été,étè\n1,2\n"])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_text_that_is_not_utf8_is_refused_instead_of_merging_its_letters(
    tmp_path, content, encoding, name
):
    path = tmp_path / name
    packed = gzip.compress if name.endswith(".gz") else bytes
    path.write_bytes(packed(content.encode(encoding)))
    with pytest.raises(DataError, match=rf"{name} is not in UTF-8.*convert it"):
        draft_schema(path)
    path.write_bytes(packed(content.encode("utf-8-sig")))
    drafted(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;b\n1;2\n", "names one column, with semicolons or tabs"),
        ("a\tb\n1\t2\n", "names one column, with semicolons or tabs"),
        ("a;b\n1,5;2,5\n", "names one column, with semicolons or tabs"),
        ("a,b\n1,5,2,5\n", "rows with more cells than its first line names columns"),
        ('a,b\n1,"2,5"\n1,x, y\n', "rows with more cells than its first line names columns"),
    ],
)
def test_columns_that_are_not_separated_by_commas_are_refused(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        draft_schema(tmp_path / "t.csv")


def test_a_draft_does_not_send_images_elsewhere(tmp_path):
    (tmp_path / "t.npz").write_bytes(b"")
    with pytest.raises(DataError, match=r"must end in \.csv") as caught:
        draft_schema(tmp_path / "t.npz")
    assert "npz files" not in str(caught.value)


LIKELY = st.sampled_from(["", "1", "0", "2.5", "-7", "1e300", "?", "x", "yes", "2001-02-03", "007"])
CELLS = LIKELY | st.text(max_size=4) | st.floats().map(repr) | st.integers().map(str)
NAMES = st.lists(st.text(max_size=5), min_size=1, max_size=3, unique=True)


@settings(max_examples=80, deadline=None)
@given(st.data(), NAMES)
def test_a_draft_is_valid_and_breaks_no_cell_it_was_made_from(tmp_path_factory, data, names):
    names = [name.encode("utf-8", "replace").decode() for name in names]
    row = st.tuples(*[CELLS for _ in names])
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    columns = list(zip(*rows, strict=True))
    table = pa.table([[c.encode("utf-8", "replace") for c in column] for column in columns], names)
    table = table.cast(pa.schema([(name, pa.string()) for name in names]))
    path = tmp_path_factory.mktemp("draft") / "t.parquet"
    pq.write_table(table, path)
    try:
        text = draft_schema(path)
    except DataError:  # no column can be declared
        return
    schema = Schema.from_dict(tomllib.loads(text))
    summation = EncodeAll(schema, 64)
    found = summation([{name: table[name] for name in summation.columns}])
    marks = {"?", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan"}
    for at, name in enumerate(summation.columns):
        for cell, broken in zip(table[name].to_pylist(), found.broken[:, at], strict=True):
            assert not broken or cell.strip() in marks


def test_the_verb_prints_or_writes_and_warns(tmp_path):
    public = tmp_path / "t.csv"
    public.write_text("a\n1\n9\n")
    run = CliRunner().invoke
    shown = run(app, ["schema", "draft", str(public)])
    assert shown.exit_code == 0
    assert shown.stdout == draft_schema(public)
    assert "never do this with private rows" in shown.stderr
    out = tmp_path / "t.toml"
    assert run(app, ["schema", "draft", str(public), "--out", str(out)]).exit_code == 0
    assert Schema.load(out).column("a") == IntegerColumn(name="a", min=1, max=9)
    assert run(app, ["schema", "draft", str(public), "--out", str(out)]).exit_code != 0
    help_text = run(app, ["schema", "draft", "--help"]).stdout
    assert "Never run this on private rows" in help_text
