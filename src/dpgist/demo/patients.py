"""A simulated hospital table whose dependencies are known, because they are written down here."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)

N_ROWS = 50_000
DIAGNOSES = (
    "appendicitis",
    "cancer",
    "diabetes",
    "fracture",
    "heart failure",
    "kidney disease",
    "pneumonia",
    "stroke",
)
SEVERITIES = ("mild", "moderate", "severe", "critical")
YEAR_START = datetime.date(2024, 1, 1)
YEAR_END = datetime.date(2024, 12, 31)

SCHEMA = Schema(
    name="demo-patients",
    columns=(
        IntegerColumn(name="age", min=18, max=100),
        CategoryColumn(name="sex", values=("female", "male")),
        DateColumn(name="admitted", min=YEAR_START, max=YEAR_END),
        CategoryColumn(name="diagnosis", values=DIAGNOSES),
        CategoryColumn(name="severity", values=SEVERITIES, ordered=True),
        BooleanColumn(name="smoker"),
        NumberColumn(name="haemoglobin", min=5.0, max=20.0, decimals=1, nullable=True),
        NumberColumn(name="creatinine", min=0.0, max=4.0, decimals=2, nullable=True),
        NumberColumn(name="crp", min=0.0, max=150.0, decimals=0, nullable=True),
        CategoryColumn(name="readmitted", values=("no", "yes")),
    ),
    label="readmitted",
    rows_about=N_ROWS,
)

Array = npt.NDArray[Any]
Columns = Mapping[str, Array]


def simulate(n_rows: int, *, rng: np.random.Generator) -> pa.Table:
    """Patients drawn column after column, each from the ones before it.

    Privacy: simulated; nobody's data.
    """
    age = np.rint(18 + 82 * rng.beta(2.4, 2.4, n_rows)).astype(np.int64)
    years = (age - 58) / 18
    male = rng.random(n_rows) < 0.48
    diagnosis = _diagnosis(years, rng)
    severity = _severity(years, diagnosis, rng)
    smoker = rng.random(n_rows) < np.where(male, 0.40, 0.18)
    readmitted = _readmitted(years, diagnosis, severity, smoker, rng)
    haemoglobin, creatinine, crp = _labs(age, male, diagnosis, severity, rng)
    return pa.table(
        {
            "age": age,
            "sex": np.where(male, "male", "female").tolist(),
            "admitted": _admitted(diagnosis, rng).tolist(),
            "diagnosis": [DIAGNOSES[code] for code in diagnosis],
            "severity": [SEVERITIES[code] for code in severity],
            "smoker": smoker,
            "haemoglobin": _with_nulls(haemoglobin.round(1), np.full(n_rows, 0.05), rng),
            "creatinine": _with_nulls(creatinine.round(2), _MISSING[severity], rng),
            "crp": _with_nulls(crp.round(0), np.full(n_rows, 0.10), rng),
            "readmitted": np.where(readmitted, "yes", "no").tolist(),
        }
    )


_MISSING = np.array([0.35, 0.20, 0.08, 0.05])
"""Creatinine is measured more often the sicker the patient."""


def _is(diagnosis: Array, name: str) -> Array:
    return np.asarray(diagnosis == DIAGNOSES.index(name))


def _diagnosis(years: Array, rng: np.random.Generator) -> Array:
    by_age = np.array([-1.0, 0.2, 0.0, -0.4, 0.8, 0.2, 0.1, 0.6])
    scores = years[:, None] * by_age + rng.gumbel(size=(len(years), len(DIAGNOSES)))
    return np.asarray(scores.argmax(axis=1))


def _severity(years: Array, diagnosis: Array, rng: np.random.Generator) -> Array:
    push = np.array([-0.8, 0.4, -0.3, -0.5, 0.6, 0.2, 0.1, 0.8])
    latent = 0.6 * years + push[diagnosis] + rng.standard_normal(len(years))
    return np.asarray(np.searchsorted([-0.5, 0.6, 1.7], latent))


def _readmitted(
    years: Array, diagnosis: Array, severity: Array, smoker: Array, rng: np.random.Generator
) -> Array:
    log_odds = -2.2 + 0.5 * years + 0.7 * severity + 1.0 * _is(diagnosis, "heart failure")
    log_odds = log_odds + 0.6 * smoker
    return np.asarray(rng.random(len(years)) < 1 / (1 + np.exp(-log_odds)))


def _admitted(diagnosis: Array, rng: np.random.Generator) -> Array:
    days = (YEAR_END - YEAR_START).days + 1
    winter = rng.beta(1.3, 4.0, len(diagnosis))  # pneumonia comes early in the year
    share = np.where(_is(diagnosis, "pneumonia"), winter, rng.random(len(diagnosis)))
    return np.asarray(np.datetime64(YEAR_START) + np.floor(share * days).astype("timedelta64[D]"))


def _labs(
    age: Array, male: Array, diagnosis: Array, severity: Array, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    kidney = _is(diagnosis, "kidney disease")
    noise = rng.standard_normal((3, len(age)))
    haemoglobin = 12.8 + 1.8 * male - 2.2 * kidney + 1.1 * noise[0]
    creatinine = 1.1 + 0.012 * (age - 58) + 1.4 * kidney + 0.25 * noise[1]
    log_crp = 2.0 + 1.5 * _is(diagnosis, "pneumonia") + 0.3 * severity + 0.6 * noise[2]
    return (
        np.clip(haemoglobin, 5, 20),
        np.clip(creatinine, 0, 4),
        np.clip(np.exp(log_crp), 0, 150),
    )


def _with_nulls(values: Array, rate: Array, rng: np.random.Generator) -> pa.Array:
    return pa.array(values, mask=rng.random(len(values)) < rate)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A planted dependency: a contrast whose size says how strong it is."""

    name: str
    size: Callable[[Columns], float]


def columns_of(table: pa.Table) -> dict[str, Array]:
    """Numpy columns: numbers as floats with NaN for null, dates as day of the year.

    Privacy: for simulated or synthetic rows.
    """
    columns: dict[str, Array] = {}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_date(column.type):
            days = column.to_numpy().astype("datetime64[D]") - np.datetime64(YEAR_START)
            columns[name] = days.astype(np.float64)
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            columns[name] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        else:
            columns[name] = np.array(column.to_pylist(), dtype=object)
    return columns


def _gap(value: str, group: Callable[[Columns], Array], rest: Callable[[Columns], Array]) -> Any:
    def size(columns: Columns) -> float:
        numbers = _numbers(value, columns)
        sides = [numbers[side(columns)] for side in (group, rest)]
        if any(np.isnan(side).all() for side in sides):
            return 0.0  # without such patients there is no contrast
        return float(np.nanmean(sides[0]) - np.nanmean(sides[1]))

    return size


def _numbers(value: str, columns: Columns) -> Array:
    return _NUMBERS[value](columns) if value in _NUMBERS else columns[value]


_NUMBERS: dict[str, Callable[[Columns], Array]] = {
    "readmitted": lambda c: np.where(c["readmitted"] == "yes", 1.0, 0.0),
    "severe": lambda c: np.where(np.isin(c["severity"], SEVERITIES[2:]), 1.0, 0.0),
    "no creatinine": lambda c: np.where(np.isnan(c["creatinine"]), 1.0, 0.0),
    "smoker": lambda c: np.where(c["smoker"] == np.True_, 1.0, 0.0),
}


def _old(columns: Columns) -> Array:
    return np.asarray(columns["age"] >= 70)


def _young(columns: Columns) -> Array:
    return np.asarray(columns["age"] < 45)


def _has(column: str, *values: str) -> Callable[[Columns], Array]:
    return lambda columns: np.isin(columns[column], values)


def _has_not(column: str, *values: str) -> Callable[[Columns], Array]:
    return lambda columns: ~np.isin(columns[column], values)


def _against_others(value: str, diagnosis: str) -> Any:
    return _gap(value, _has("diagnosis", diagnosis), _has_not("diagnosis", diagnosis))


_SICK, _MILD = _has("severity", "severe", "critical"), _has("severity", "mild")
_MEN, _WOMEN = _has("sex", "male"), _has("sex", "female")

EFFECTS = (
    Effect(
        name="readmission rate, age 70+ against under 45", size=_gap("readmitted", _old, _young)
    ),
    Effect(name="readmission rate, severe against mild", size=_gap("readmitted", _SICK, _MILD)),
    Effect(
        name="readmission rate, heart failure against others",
        size=_against_others("readmitted", "heart failure"),
    ),
    Effect(name="share severe, age 70+ against under 45", size=_gap("severe", _old, _young)),
    Effect(name="haemoglobin (g/dl), men against women", size=_gap("haemoglobin", _MEN, _WOMEN)),
    Effect(
        name="haemoglobin (g/dl), kidney disease against others",
        size=_against_others("haemoglobin", "kidney disease"),
    ),
    Effect(
        name="creatinine (mg/dl), kidney disease against others",
        size=_against_others("creatinine", "kidney disease"),
    ),
    Effect(
        name="creatinine (mg/dl), age 70+ against under 45", size=_gap("creatinine", _old, _young)
    ),
    Effect(
        name="creatinine missing, mild against severe", size=_gap("no creatinine", _MILD, _SICK)
    ),
    Effect(name="CRP (mg/l), pneumonia against others", size=_against_others("crp", "pneumonia")),
    Effect(
        name="admission day, pneumonia against others",
        size=_against_others("admitted", "pneumonia"),
    ),
    Effect(name="share of smokers, men against women", size=_gap("smoker", _MEN, _WOMEN)),
)
