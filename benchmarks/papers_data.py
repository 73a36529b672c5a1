"""Adult and Census as in the DP-MERF paper: public schemas, under-sampling, splits."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from adult import POSITIVE, public_schema, unpacked
from adult import read_rows as adult_rows
from machine import data_folder
from sklearn.model_selection import train_test_split

import dpgist as dg

CENSUS_FILE = "census_income_1994_1995_{}.csv.xz"
# The order of the columns and these bounds are those of census-income.names (UCI, KDD archive).
CENSUS_COLUMNS = (
    *("age", "class-of-worker", "industry-recode", "occupation-recode", "education"),
    *("wage-per-hour", "enrolled", "marital-status", "major-industry", "major-occupation"),
    *("race", "hispanic-origin", "sex", "union-member", "unemployment-reason"),
    *("employment-status", "capital-gains", "capital-losses", "dividends", "tax-filer-status"),
    *("previous-region", "previous-state", "household-detail", "household-summary"),
    *("instance-weight", "migration-msa", "migration-region", "migration-within-region"),
    *("same-house", "previous-sunbelt", "employer-persons", "family-under-18"),
    *("father-birth-country", "mother-birth-country", "birth-country", "citizenship"),
    *("own-business", "veteran-questionnaire", "veteran-benefits", "weeks-worked", "year"),
    "income",
)
CENSUS_BOUNDS = {
    "age": (0, 90),
    "wage-per-hour": (0, 9_999),
    "capital-gains": (0, 99_999),
    "capital-losses": (0, 5_000),
    "dividends": (0, 100_000),
    "employer-persons": (0, 6),
    "weeks-worked": (0, 52),
}
CENSUS_CODES = {
    "industry-recode": range(52),
    "occupation-recode": range(47),
    "own-business": range(3),
    "veteran-benefits": range(3),
    "year": (94, 95),
}
CENSUS_LABELS = ("- 50000.", "50000+.")
IGNORED = "instance-weight"  # a sampling weight, which the papers leave out too


@dataclass(frozen=True, kw_only=True)
class PaperData:
    """One data set of the papers; ``majority_rate`` is the published share of it that is kept."""

    name: str
    positive: str
    majority_rate: float
    test_share: float
    schema_from: str
    load: Callable[[], tuple[dg.Schema, pd.DataFrame]]


def load_adult() -> tuple[dg.Schema, pd.DataFrame]:
    """The schema of adult.names and the rows of adult.data."""
    folder = data_folder() / "adult"
    schema = public_schema(folder)
    return schema, adult_rows(folder, schema)


def load_census() -> tuple[dg.Schema, pd.DataFrame]:
    """The schema of the data dictionary and of the test file, and the rows of the train file.

    The test file serves for nothing but the spellings of the text categories: its people are
    others than those of the train file, from which the private and the held-out rows come.
    """
    folder = data_folder() / "census"
    elsewhere = census_rows(folder / CENSUS_FILE.format("test"))
    columns: list[dg.IntegerColumn | dg.CategoryColumn] = []
    for name in CENSUS_COLUMNS:
        if name in CENSUS_BOUNDS:
            low, high = CENSUS_BOUNDS[name]
            columns.append(dg.IntegerColumn(name=name, min=low, max=high))
        elif name == "income":
            columns.append(dg.CategoryColumn(name=name, values=CENSUS_LABELS))
        elif name != IGNORED:
            values = CENSUS_CODES.get(name) or sorted(elsewhere[name].unique())
            columns.append(dg.CategoryColumn(name=name, values=tuple(map(str, values))))
    schema = dg.Schema(name="census", columns=tuple(columns), label="income", ignore=(IGNORED,))
    return schema, census_rows(folder / CENSUS_FILE.format("train"))


def census_rows(path: Path) -> pd.DataFrame:
    """All rows of one file; categories are text, and "?" and "NA" are values like any other."""
    numbers = {*CENSUS_BOUNDS, IGNORED}
    rows = pd.read_csv(
        io.BytesIO(unpacked(path)),
        names=list(CENSUS_COLUMNS),
        dtype={name: "str" for name in CENSUS_COLUMNS if name not in numbers},
        skipinitialspace=True,
        keep_default_na=False,
    )
    texts = {name: rows[name].str.strip() for name in rows.columns if name not in numbers}
    return rows.assign(**texts)


DATA = {
    "adult": PaperData(
        name="adult",
        positive=POSITIVE,
        majority_rate=0.4,
        test_share=0.1,
        schema_from="adult.names; bounds of public knowledge",
        load=load_adult,
    ),
    "census": PaperData(
        name="census",
        positive=CENSUS_LABELS[1],
        majority_rate=0.4,
        test_share=0.2,
        schema_from="order of columns, bounds and number codes of census-income.names; text"
        " categories as spelled in the census TEST file, disjoint from the private rows;"
        " anything else falls into the implicit bucket",
        load=load_census,
    ),
}


def under_sample(
    rows: pd.DataFrame, data: PaperData, schema: dg.Schema, *, seed: int
) -> pd.DataFrame:
    """Keep every row of the positive class and each other row by a coin of the published rate.

    Privacy: row-wise; whether a row stays depends on its own label and on public randomness.
    """
    coins = np.random.default_rng([seed, 0]).random(len(rows))
    return rows[(rows[schema.label] == data.positive) | (coins < data.majority_rate)]


def split(rows: pd.DataFrame, data: PaperData, *, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows."""
    train, test = train_test_split(rows, test_size=data.test_share, random_state=seed)
    return train, test


def numbers(rows: pd.DataFrame, schema: dg.Schema) -> npt.NDArray[np.float64]:
    """What the papers' classifiers see: numbers as they are, categories as integer codes.

    A code is the place in the schema's list; null and undeclared values share the code after.
    """
    columns = [column for column in schema.columns if column.name != schema.label]
    return np.column_stack([_codes(rows[column.name], column) for column in columns])


def _codes(cells: pd.Series, column: object) -> npt.NDArray[np.float64]:
    if not isinstance(column, dg.CategoryColumn):
        return cells.to_numpy(dtype=np.float64)
    codes = pd.Index(column.values).get_indexer(cells.astype("str"))
    return np.where(codes < 0, len(column.values), codes).astype(np.float64)
