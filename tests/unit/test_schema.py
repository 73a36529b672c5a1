"""Schemas: the file, the dict, the constructor, and every rule they must keep."""

import dataclasses
import datetime as dt
import json

import pytest

from dpgist.errors import DataError
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

ADULT = """
[table]
name = "adult"
label = "income"
max_rows_per_person = 2
rows_about = 30000
ignore = ["id"]
[columns.zip]
type = "integer"
min = 0
max = 100
default = 40
[columns.gain]
type = "number"
min = 0
max = 99999.5
decimals = 2
[columns.workclass]
type = "category"
values = ["Private", "State-gov"]
ordered = true
other = "Other"
nullable = true
[columns.born]
type = "date"
min = 1900-01-01
max = "2020-12-31"
format = "%d/%m/%Y"
[columns.income]
type = "boolean"
"""


@pytest.fixture
def adult(tmp_path):
    path = tmp_path / "adult.toml"
    path.write_text(ADULT)
    return Schema.load(path)


def test_a_schema_file_gives_every_declared_fact(adult):
    assert (adult.name, adult.label, adult.max_rows_per_person) == ("adult", "income", 2)
    assert (adult.rows_about, adult.ignore) == (30000, ("id",))
    assert adult.columns == (
        IntegerColumn(name="zip", min=0, max=100, default=40),
        NumberColumn(name="gain", min=0, max=99999.5, decimals=2),
        CategoryColumn(
            name="workclass",
            values=("Private", "State-gov"),
            ordered=True,
            other="Other",
            nullable=True,
        ),
        DateColumn(name="born", min=dt.date(1900, 1, 1), max="2020-12-31", format="%d/%m/%Y"),
        BooleanColumn(name="income"),
    )
    assert adult.column("gain").max == 99999.5


def test_a_schema_survives_json_even_if_its_keys_are_sorted(adult):
    text = json.dumps(adult.to_dict(), sort_keys=True)
    assert Schema.from_dict(json.loads(text)) == adult
    assert hash(Schema.from_dict(json.loads(text))) == hash(adult)


def test_settings_at_their_default_are_left_out_of_the_dict():
    schema = Schema(name="t", columns=[IntegerColumn(name="a", min=0, max=1)])
    assert schema.to_dict() == {
        "table": {"name": "t", "order": ["a"]},
        "columns": {"a": {"type": "integer", "min": 0, "max": 1}},
    }


def test_a_schema_that_could_be_built_has_no_problems(adult):
    assert adult.problems() == []


def test_an_unknown_column_is_refused_with_the_known_ones(adult):
    with pytest.raises(KeyError, match=r"no column .age.; it has zip, gain"):
        adult.column("age")


def table(**settings):
    return {"table": {"name": "t", **settings}, "columns": {"a": {"type": "boolean"}}}


def column(**settings):
    return {"table": {"name": "t"}, "columns": {"a": settings}}


def date(**settings):
    return column(**{"type": "date", "min": "2000-01-01", "max": "2020-01-01", **settings})


def category(**settings):
    return column(**{"type": "category", "values": ["x", "y"], **settings})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (column(type="integer", min=3, max=2), "column 'a': min 3 is above max 2"),
        (column(type="integer", min=0), "column 'a': max is missing"),
        (column(type="integer", min=0, max=1.5), "column 'a': max must be an integer, got 1.5"),
        (column(type="integer", min=0, max=True), "column 'a': max must be an integer, got True"),
        (column(type="integer", min=0, max=10**16), "column 'a': min and max may be at most"),
        (column(type="integer", min=-(10**400), max=0), "column 'a': min and max may be at most"),
        (column(type="number", min=0, max=10**400), "column 'a': max must be a finite number"),
        (column(type="integer", min=0, max=1, default=2), "column 'a': default 2 is outside"),
        (column(type="integer", min=0, max=1, default="x"), "column 'a': default must be an int"),
        (column(type="integer", min=0, max=1, decimals=2), "unknown setting 'decimals'"),
        (column(type="number", min=0, max=float("inf")), "column 'a': max must be a finite number"),
        (column(type="number", min=float("nan"), max=1), "column 'a': min must be a finite number"),
        (column(type="number", min=-1.5e308, max=1.5e308), "column 'a': the distance"),
        (column(type="number", min=0, max=1, decimals=-1), "column 'a': decimals must be"),
        (column(type="number", min=0, max=1e9, decimals=9), "column 'a': min and max may be"),
        (column(type="number", min=0, max=1, nullable=1), "column 'a': nullable must be true"),
        (column(type="picture"), "column 'a': type 'picture' is unknown; choose one of integer"),
        (column(min=0), "column 'a': type is missing"),
        (category(values=[]), "column 'a': values is empty"),
        (category(values="xy"), "column 'a': values must be a list"),
        (category(values=["x", 1]), "column 'a': value must be a text in quotes, got 1"),
        (category(values=["x", "x"]), "column 'a': value 'x' is listed more than once"),
        (category(values=["x", " y"]), "column 'a': value ' y' is empty or has blanks"),
        (category(values=["x", ""]), "column 'a': value '' is empty"),
        (category(values=["x", "\ud800"]), "column 'a': value '\\\\ud800' is not valid"),
        (category(other="x"), "column 'a': other 'x' is also listed"),
        (category(other=" "), "column 'a': other ' ' is empty"),
        (category(default="z"), "column 'a': default 'z' is not listed"),
        (category(ordered="no"), "column 'a': ordered must be true or false"),
        (column(type="boolean", default=1), "column 'a': default must be true or false"),
        (date(min="2000-13-01"), "column 'a': min must be a date like 2024-01-31"),
        (date(min=dt.datetime(2000, 1, 1, 5)), "column 'a': min must be a date"),
        (date(min="2021-01-01"), "column 'a': min 2021-01-01 is above max 2020-01-01"),
        (date(default="1999-01-01"), "column 'a': default 1999-01-01 is outside"),
        (date(format="%d"), "column 'a': format '%d' does not write 2000-01-01"),
        (date(format="%Q"), "column 'a': format '%Q' does not write"),
        (date(format=3), "column 'a': format must be a text"),
        (table(label="b"), "label 'b' is not a declared column"),
        (table(label=["b"]), r"label \['b'\] is not a declared column"),
        (table(label="a"), "at least one column besides the label"),
        (table(ignore=["a"]), "column 'a': both declared and ignored"),
        (table(ignore="id"), "ignore must be a list of column names"),
        (table(max_rows_per_person=0), "max_rows_per_person must be an integer from 1 to"),
        (table(max_rows_per_person=10**400), "max_rows_per_person must be an integer from 1 to"),
        (table(rows_about=1.5), "rows_about must be an integer from 1 to"),
        (table(lable="a"), "unknown setting 'lable'; the settings are ignore, label"),
        (table(order=["a", "a"]), "order must list every column exactly once"),
        (table(name=""), "name must be a text"),
        ({"table": {"name": "t"}}, "at least one column"),
        ({"table": 3, "columns": {}}, "must be sections"),
        ({"table": {"name": "t"}, "columns": {"a": 3}}, "column 'a': must be a section"),
        ({**table(), "column": {}}, "unknown section 'column'"),
        (
            {
                "table": {"name": "t", "label": "a"},
                "columns": {
                    "a": {"type": "integer", "min": 0, "max": 1},
                    "b": {"type": "boolean"},
                },
            },
            "column 'a': the label must be a category or a boolean, not integer",
        ),
    ],
)
def test_a_contradiction_is_refused_by_its_column_and_rule(content, message):
    with pytest.raises(DataError, match=message):
        Schema.from_dict(content)


def test_all_problems_are_reported_at_once():
    content = category(values=["x", "x"], other="x", default="z")
    content["table"] |= {"label": "nowhere", "rows_about": 0}
    with pytest.raises(DataError) as caught:
        Schema.from_dict(content)
    assert str(caught.value).count("\n  - ") == 5


def test_a_label_whose_column_is_unreadable_is_not_reported_twice():
    with pytest.raises(DataError) as caught:
        Schema.from_dict({"table": {"name": "t", "label": "a"}, "columns": {"a": {}}})
    assert str(caught.value).count("\n  - ") == 1


def test_the_constructor_keeps_the_same_rules():
    a = BooleanColumn(name="a")
    with pytest.raises(DataError, match="column 'a': declared more than once"):
        Schema(name="t", columns=(a, a))
    with pytest.raises(DataError, match="columns must be a tuple of IntegerColumn"):
        Schema(name="t", columns=({"type": "boolean"},))
    with pytest.raises(DataError, match="label 'b' is not a declared column"):
        Schema(name="t", columns=(a,), label="b")
    with pytest.raises(DataError, match="name ' a' is empty or has blanks"):
        Schema(name="t", columns=(BooleanColumn(name=" a"),))


def test_a_schema_cannot_be_changed(adult):
    with pytest.raises(dataclasses.FrozenInstanceError):
        adult.label = None


def test_a_missing_or_broken_schema_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot read the schema file .*nowhere\.toml: No such"):
        Schema.load(tmp_path / "nowhere.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("[table\n")
    with pytest.raises(DataError, match=r"bad\.toml is not valid TOML"):
        Schema.load(bad)
    bad.write_text("[table]\nname = 't'\n")
    with pytest.raises(DataError, match=r"bad\.toml contradicts itself or is incomplete"):
        Schema.load(bad)
