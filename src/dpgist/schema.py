"""Public facts about a table: its columns, their ranges and values, its label.

A schema is written by a person, or drafted from public data, and never computed from private
rows. Everything in this file is public by definition, so error messages may quote it in full.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from dpgist.columns import (
    COLUMN_TYPES,
    EXACT_LIMIT,
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    ImageColumn,
    IntegerColumn,
    NumberColumn,
    is_integer,
    repeated,
    text_problems,
    type_name,
)
from dpgist.errors import DataError

__all__ = [
    "BooleanColumn",
    "CategoryColumn",
    "Column",
    "DateColumn",
    "ImageColumn",
    "IntegerColumn",
    "NumberColumn",
    "Schema",
    "type_name",
]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A table's public description; building one that contradicts itself raises ``DataError``.

    ``label`` names the column that conditions the generator. ``max_rows_per_person`` is declared,
    not checked. ``rows_about`` is an optional public guess. ``ignore`` lists columns of the data
    that are never read.

    Privacy: public; nothing here may be computed from private rows.
    """

    name: str
    columns: tuple[Column, ...]
    label: str | None = None
    max_rows_per_person: int = 1
    rows_about: int | None = None
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("columns", "ignore"):
            if isinstance(getattr(self, field), list):
                object.__setattr__(self, field, tuple(getattr(self, field)))
        _refuse(self.problems(), source="the schema")

    def problems(self) -> list[str]:
        """Every contradiction, one sentence each; empty for any schema that could be built.

        Privacy: public facts only.
        """
        return list(_table_problems({f.name: getattr(self, f.name) for f in fields(self)}))

    def column(self, name: str) -> Column:
        """The column of that name.

        Privacy: public facts only.
        """
        for column in self.columns:
            if column.name == name:
                return column
        known = ", ".join(column.name for column in self.columns)
        raise KeyError(f"the schema has no column {name!r}; it has {known}")

    @property
    def image(self) -> ImageColumn | None:
        """The image column, if this is a table of images.

        Privacy: public facts only.
        """
        return next((column for column in self.columns if isinstance(column, ImageColumn)), None)

    @staticmethod
    def load(path: str | Path) -> Schema:
        """Read a schema file (TOML).

        Privacy: public; opens the schema file alone.
        """
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise DataError(f"cannot read the schema file {path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"the schema file {path} is not valid TOML: {error}") from None
        return _schema_from(content, source=f"the schema file {path}")

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Schema:
        """The schema in a nested dict of the schema file's form.

        Privacy: public facts only.
        """
        return _schema_from(content, source="the schema")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able dict of the schema file's form; settings at their default are left out.

        ``order`` repeats the order of the columns, which sorted JSON would lose.

        Privacy: public facts only.
        """
        table = _settings(self, leave_out={"columns"})
        return {
            "table": table | {"order": [column.name for column in self.columns]},
            "columns": {
                column.name: {"type": type_name(column)} | _settings(column, leave_out={"name"})
                for column in self.columns
            },
        }


# --- reading and writing the nested form ----------------------------------------------------


def _settings(thing: Any, *, leave_out: set[str]) -> dict[str, Any]:
    pairs = {f.name: (getattr(thing, f.name), f.default) for f in fields(thing)}
    return {
        name: _plain(value)
        for name, (value, default) in pairs.items()
        if name not in leave_out and value != default
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


def _schema_from(content: Mapping[str, Any], *, source: str) -> Schema:
    problems = [
        f"unknown section {key!r}; there are [table] and [columns.NAME]"
        for key in sorted(set(content) - {"table", "columns"})
    ]
    table, columns = content.get("table", {}), content.get("columns", {})
    if not isinstance(table, Mapping) or not isinstance(columns, Mapping):
        _refuse([*problems, "[table] and [columns.NAME] must be sections"], source=source)
    parsed: list[Column] = []
    for name in _ordered(columns, table.get("order"), problems):
        _read_column(name, columns[name], parsed, problems)
    known = {f.name for f in fields(Schema)} - {"columns"}
    problems += _unknown_keys(set(table) - {"order"}, known, "[table]")
    arguments: dict[str, Any] = {key: table[key] for key in known if key in table}
    arguments = {"name": None, **arguments, "columns": tuple(parsed)}
    if isinstance(arguments.get("ignore"), list):
        arguments["ignore"] = tuple(arguments["ignore"])
    problems += _table_problems(arguments, unread=set(columns) - {c.name for c in parsed})
    _refuse(problems, source=source)
    return Schema(**arguments)


def _ordered(columns: Mapping[str, Any], order: Any, problems: list[str]) -> list[str]:
    if order is None:
        return list(columns)
    if not isinstance(order, list) or Counter(map(str, order)) != Counter(list(columns)):
        problems.append("[table]: order must list every column exactly once; or leave it out")
        return list(columns)
    return list(order)


def _read_column(name: str, settings: Any, parsed: list[Column], problems: list[str]) -> None:
    kinds = ", ".join(COLUMN_TYPES)
    if not isinstance(settings, Mapping):
        problems.append(f"column {name!r}: must be a section [columns.{name}] with a type")
        return
    word = settings.get("type")
    kind = COLUMN_TYPES.get(word) if isinstance(word, str) else None
    if kind is None:
        found = "is missing" if word is None else f"{word!r} is unknown"
        hint = _quotes_hint(name, settings)
        problems.append(f"column {name!r}: type {found}; choose one of {kinds}{hint}")
        return
    known = {f.name for f in fields(kind)} - {"name"}
    problems += _unknown_keys(set(settings) - {"type"}, known, f"column {name!r}")
    required = {f.name: None for f in fields(kind) if f.default is MISSING}
    given = {key: settings[key] for key in known if key in settings}
    parsed.append(kind(**{**required, **given, "name": name}))


def _quotes_hint(name: str, settings: Mapping[str, Any]) -> str:
    """A way out for names with dots, which TOML reads as sections within sections."""
    inner = next((key for key, value in settings.items() if isinstance(value, Mapping)), None)
    if inner is None:
        return ""
    return f'; if its name holds a dot, put it in quotes, as in [columns."{name}.{inner}"]'


def _unknown_keys(given: set[str], known: set[str], where: str) -> list[str]:
    keys = ", ".join(sorted(known))
    return [
        f"{where}: unknown setting {key!r}; the settings are {keys}"
        for key in sorted(given - known)
    ]


def _refuse(problems: Iterable[str], *, source: str) -> None:
    problems = list(problems)
    if problems:
        raise DataError(
            "\n  - ".join([f"{source} contradicts itself or is incomplete:", *problems])
        )


# --- rules ----------------------------------------------------------------------------------


def _table_problems(table: Mapping[str, Any], unread: Set[str] = frozenset()) -> Iterator[str]:
    """All rules of a whole schema; ``unread`` are columns already reported as unreadable."""
    if not isinstance(table["name"], str) or not table["name"].strip():
        yield f"[table]: name must be a text, got {table['name']!r}"
    columns, ignore = table["columns"], table.get("ignore", ())
    if not isinstance(columns, tuple) or not all(type(c) in COLUMN_TYPES.values() for c in columns):
        kinds = ", ".join(kind.__name__ for kind in COLUMN_TYPES.values())
        yield f"columns must be a tuple of {kinds}"
        return
    names = [column.name for column in columns]
    for column in columns:
        yield from (f"column {column.name!r}: {text}" for text in _column_problems(column))
    yield from (f"column {name!r}: declared more than once" for name in repeated(names))
    yield from _count_problems(table.get("max_rows_per_person", 1), "max_rows_per_person")
    if table.get("rows_about") is not None:
        yield from _count_problems(table["rows_about"], "rows_about")
    if not isinstance(ignore, tuple) or not all(isinstance(name, str) for name in ignore):
        yield f"[table]: ignore must be a list of column names, got {ignore!r}"
    else:
        both = sorted({*names, *unread} & set(ignore))
        yield from (f"column {name!r}: both declared and ignored; drop one" for name in both)
    yield from _label_problems(table.get("label"), columns, unread)
    yield from _image_problems(table.get("label"), columns)


def _column_problems(column: Column) -> Iterator[str]:
    yield from text_problems(column.name, "name")
    yield from column.problems()


def _label_problems(label: Any, columns: tuple[Column, ...], unread: Set[str]) -> Iterator[str]:
    if not unread and all(column.name == label for column in columns):
        yield "there must be at least one column besides the label"
    if label is None or (isinstance(label, str) and label in unread):
        return
    found = next((column for column in columns if column.name == label), None)
    if found is None:
        yield f"[table]: label {label!r} is not a declared column"
    elif not isinstance(found, CategoryColumn | BooleanColumn):
        yield f"column {label!r}: the label must be a category or a boolean, not {type_name(found)}"


def _image_problems(label: Any, columns: tuple[Column, ...]) -> Iterator[str]:
    images = [column.name for column in columns if isinstance(column, ImageColumn)]
    if len(images) > 1:
        yield f"there may be only one image column, not {', '.join(map(repr, images))}"
    others = [c.name for c in columns if c.name not in images and c.name != label]
    if images and others:
        yield (
            f"a table of images has no column but the image and the label; "
            f"drop or ignore {', '.join(map(repr, others))}"
        )


def _count_problems(value: Any, field: str) -> Iterator[str]:
    if not is_integer(value) or not 1 <= value <= EXACT_LIMIT:
        yield f"[table]: {field} must be an integer from 1 to 10^15, got {value!r}"
