"""A simulated hospital: 62 measurements of a check-up and three conditions that may co-occur.

The records of the paper (Henan Renmin hospital, 110,300 of them) are not to be had, so these are
made up, with the paper's shape: 4 basic examinations, 26 blood, 12 urine and 20 liver values;
hypertension, diabetes and fatty liver; the power set of the three as classes, of which a public
list keeps four. Nobody's record: six hidden traits are drawn, measurements follow from them with
plausible means and spreads, conditions from the traits and the true (not the measured) values,
with a chance that nobody can foretell. Ranges in the schema are those that medicine expects, from
the means and spreads written down here, not from the records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

import dpgist as dg

RECORDS = 110_300
CONDITIONS = ("hypertension", "diabetes", "fatty liver")
KEPT = ("healthy", "hypertension", "fatty liver", "hypertension + fatty liver")
"""The public list of classes that are kept; records of the other four are never read."""

TRAITS = ("age", "fat", "sugar", "liver", "kidney", "inflamed")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One measurement: possible range, usual mean and spread, and how hidden traits move it.

    ``skewed`` values are log-normal, with ``spread`` in the logarithm; ``grade`` is a whole number
    from 0, as read off a test strip, mostly 0.
    """

    name: str
    low: float
    high: float
    mean: float
    spread: float
    traits: dict[str, float]
    skewed: bool = False
    grade: bool = False
    decimals: int = 1

    def column(self) -> dg.IntegerColumn | dg.NumberColumn:
        """The public column."""
        if self.grade:
            return dg.IntegerColumn(name=self.name, min=int(self.low), max=int(self.high))
        low, high = self._usual()
        return dg.NumberColumn(name=self.name, min=low, max=high, decimals=self.decimals)

    def _usual(self) -> tuple[float, float]:
        """The range that medicine expects; rarer values count as its ends."""
        if self.skewed:
            ends = self.mean * np.exp(-2.5 * self.spread), self.mean * np.exp(2.5 * self.spread)
        else:
            ends = self.mean - 3.5 * self.spread, self.mean + 3.5 * self.spread
        low, high = (round(float(end), self.decimals) for end in ends)
        return max(low, self.low), min(high, self.high)

    def values(self, hidden: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
        """Measured values of all records."""
        pull = sum((share * hidden[t].to_numpy() for t, share in self.traits.items()), 0.0)
        rest = np.sqrt(max(1 - sum(share**2 for share in self.traits.values()), 0.05))
        z = pull + rest * rng.normal(size=len(hidden))
        if self.grade:
            return np.clip(np.floor(self.spread * (z - self.mean)), self.low, self.high)
        if self.skewed:
            return np.clip(self.mean * np.exp(self.spread * z), self.low, self.high)
        return np.clip(self.mean + self.spread * z, self.low, self.high)


def _m(name, low, high, mean, spread, skewed=False, grade=False, decimals=1, **traits):
    return Measure(
        name=name,
        low=low,
        high=high,
        mean=mean,
        spread=spread,
        traits=traits,
        skewed=skewed,
        grade=grade,
        decimals=decimals,
    )


BASIC = (
    _m("male", 0, 1, 0, 1, grade=True),  # drawn apart
    _m("bmi", 14.0, 45.0, 24.0, 3.6, fat=0.85, age=0.15),
    _m("diastolic", 40.0, 130.0, 77.0, 10.5, decimals=0, fat=0.30, age=0.30, kidney=0.2),
    _m("systolic", 80.0, 220.0, 124.0, 17.0, decimals=0, fat=0.28, age=0.50, kidney=0.2),
)
BLOOD = (
    _m("white_cells", 1.0, 25.0, 6.2, 0.25, skewed=True, inflamed=0.6, fat=0.15),
    _m("neutrophils_pct", 10.0, 95.0, 57.0, 8.5, inflamed=0.6),
    _m("lymphocytes_pct", 3.0, 80.0, 33.0, 7.8, inflamed=-0.6),
    _m("monocytes_pct", 0.0, 20.0, 6.5, 1.7, inflamed=0.2),
    _m("eosinophils_pct", 0.0, 20.0, 2.0, 0.6, skewed=True),
    _m("basophils_pct", 0.0, 4.0, 0.5, 0.4, skewed=True),
    _m("red_cells", 2.0, 7.5, 4.8, 0.45, decimals=2, kidney=-0.2),
    _m("haemoglobin", 50.0, 210.0, 145.0, 15.0, decimals=0, kidney=-0.25),
    _m("haematocrit", 15.0, 65.0, 43.0, 4.2, kidney=-0.2),
    _m("cell_volume", 60.0, 125.0, 90.0, 5.0, age=0.1),
    _m("cell_haemoglobin", 18.0, 42.0, 30.0, 2.0),
    _m("cell_concentration", 260.0, 390.0, 334.0, 11.0, decimals=0),
    _m("cell_width", 9.0, 28.0, 13.0, 0.08, skewed=True, age=0.15, inflamed=0.2),
    _m("platelets", 30.0, 700.0, 225.0, 55.0, decimals=0, liver=-0.25, inflamed=0.2),
    _m("platelet_volume", 6.0, 15.0, 10.2, 1.1),
    _m("platelet_width", 7.0, 25.0, 12.8, 2.2),
    _m("glucose", 2.5, 25.0, 5.3, 0.13, skewed=True, decimals=2, sugar=0.85, age=0.15),
    _m("triglycerides", 0.2, 15.0, 1.35, 0.5, skewed=True, decimals=2, fat=0.55, sugar=0.3),
    _m("cholesterol", 1.5, 12.0, 4.9, 0.95, decimals=2, age=0.2, fat=0.2),
    _m("hdl", 0.3, 3.5, 1.35, 0.32, decimals=2, fat=-0.5, sugar=-0.1),
    _m("ldl", 0.5, 8.0, 2.9, 0.8, decimals=2, age=0.15, fat=0.2),
    _m("urea", 1.0, 35.0, 5.0, 0.27, skewed=True, decimals=2, kidney=0.6, age=0.25),
    _m("creatinine", 20.0, 600.0, 68.0, 0.22, skewed=True, decimals=0, kidney=0.65),
    _m("uric_acid", 80.0, 900.0, 320.0, 85.0, decimals=0, fat=0.4, kidney=0.35),
    _m("c_reactive", 0.0, 150.0, 1.2, 1.0, skewed=True, decimals=2, inflamed=0.7, fat=0.25),
    _m("homocysteine", 2.0, 80.0, 11.0, 0.35, skewed=True, age=0.25, kidney=0.4),
)
URINE = (
    _m("urine_glucose", 0, 4, 1.6, 2.0, grade=True, sugar=0.8),
    _m("urine_protein", 0, 4, 1.4, 1.5, grade=True, kidney=0.6),
    _m("urine_ketones", 0, 4, 2.0, 1.5, grade=True, sugar=0.2),
    _m("urine_blood", 0, 4, 1.4, 1.5, grade=True, kidney=0.3),
    _m("urine_bilirubin", 0, 4, 2.2, 1.5, grade=True, liver=0.4),
    _m("urobilinogen", 0, 4, 1.9, 1.5, grade=True, liver=0.3),
    _m("urine_nitrite", 0, 1, 1.8, 1.0, grade=True, inflamed=0.3),
    _m("urine_white_cells", 0, 4, 1.3, 1.5, grade=True, inflamed=0.4),
    _m("urine_ph", 4.5, 9.0, 6.0, 0.7),
    _m("urine_gravity", 1.0, 1.045, 1.018, 0.006, decimals=3, kidney=-0.2),
    _m("urine_vitamin_c", 0, 4, 0.9, 1.5, grade=True),
    _m("urine_casts", 0, 4, 2.0, 1.5, grade=True, kidney=0.4),
)
LIVER = (
    _m("alt", 2.0, 400.0, 21.0, 0.5, skewed=True, liver=0.75, fat=0.25),
    _m("ast", 5.0, 400.0, 22.0, 0.33, skewed=True, liver=0.75),
    _m("ast_alt_ratio", 0.2, 4.0, 1.1, 0.35, decimals=2, liver=-0.4, fat=-0.3),
    _m("ggt", 3.0, 600.0, 24.0, 0.65, skewed=True, liver=0.55, fat=0.25),
    _m("alp", 20.0, 400.0, 72.0, 0.27, skewed=True, age=0.2, liver=0.2),
    _m("ldh", 60.0, 700.0, 175.0, 0.17, skewed=True, age=0.15, liver=0.2),
    _m("bilirubin", 2.0, 90.0, 13.0, 0.38, skewed=True, liver=0.1),
    _m("bilirubin_direct", 0.3, 40.0, 3.6, 0.4, skewed=True, liver=0.2),
    _m("bilirubin_indirect", 1.0, 60.0, 9.2, 0.4, skewed=True),
    _m("protein", 45.0, 100.0, 73.5, 4.2, inflamed=0.15),
    _m("albumin", 20.0, 60.0, 45.5, 2.8, inflamed=-0.3, age=-0.25, kidney=-0.2),
    _m("globulin", 12.0, 55.0, 28.0, 3.8, inflamed=0.3),
    _m("albumin_globulin", 0.5, 3.5, 1.65, 0.26, decimals=2, inflamed=-0.3),
    _m("prealbumin", 50.0, 550.0, 265.0, 50.0, decimals=0, inflamed=-0.3, fat=0.2),
    _m("bile_acids", 0.2, 120.0, 3.5, 0.7, skewed=True, liver=0.3),
    _m("cholinesterase", 2.0, 18.0, 8.6, 1.7, fat=0.4, sugar=0.1),
    _m("adenosine_deaminase", 1.0, 60.0, 9.5, 0.3, skewed=True, liver=0.2, inflamed=0.2),
    _m("fucosidase", 3.0, 80.0, 24.0, 6.0, liver=0.15, sugar=0.2),
    _m("nucleotidase", 0.2, 40.0, 3.2, 0.5, skewed=True, liver=0.2),
    _m("ast_mitochondrial", 0.5, 60.0, 5.0, 0.35, skewed=True, liver=0.5),
)
MEASURES = (*BASIC, *BLOOD, *URINE, *LIVER)


def schema() -> dg.Schema:
    """The public description: 62 inputs, the kept classes, and about how many records."""
    return dg.Schema(
        name="hospital",
        label="condition",
        rows_about=100_000,
        columns=(
            *(measure.column() for measure in MEASURES),
            dg.CategoryColumn(name="condition", values=KEPT),
        ),
    )


def records(n_records: int = RECORDS, *, rng: np.random.Generator) -> pd.DataFrame:
    """Simulated records of the kept classes only, so somewhat fewer than ``n_records``."""
    hidden = pd.DataFrame(rng.normal(size=(n_records, len(TRAITS))), columns=list(TRAITS))
    hidden["sugar"] += 0.4 * hidden["fat"] + 0.3 * hidden["age"]
    hidden["liver"] += 0.5 * hidden["fat"]
    hidden["kidney"] += 0.3 * hidden["age"]
    male = rng.random(n_records) < 0.55
    hidden["fat"] += 0.3 * male
    values = {m.name: m.values(hidden, rng).round(m.decimals) for m in MEASURES}
    values["male"] = male.astype(float)
    rows = pd.DataFrame(values)
    rows["condition"] = _conditions(rows, hidden, rng)
    return rows[rows["condition"].isin(KEPT)].reset_index(drop=True)


def _conditions(rows: pd.DataFrame, hidden: pd.DataFrame, rng: np.random.Generator) -> list[str]:
    """The power set in words; each condition is a coin whose odds follow from the record.

    Hypertension comes by either pressure, fatty liver by weight or, in lean people, by fats in the
    blood: so no single linear map of a class can say it all.
    """
    pressure = np.maximum((rows["systolic"] - 140) / 2.2, (rows["diastolic"] - 90) / 1.6)
    sugar = (np.log(rows["glucose"]) - np.log(7.0)) / 0.05 + 0.8 * rows["urine_glucose"]
    weight = (rows["bmi"] - 26.5) / 0.45 + 1.0 * hidden["liver"]
    lean = 2.4 * np.log(rows["triglycerides"] / 2.6) + 1.6 * np.log(rows["alt"] / 34)
    fatty = np.maximum(weight, 5.0 * lean) + 0.5 * rows["male"]
    odds = {"hypertension": pressure, "diabetes": sugar, "fatty liver": fatty}
    chosen = {name: rng.random(len(rows)) < 1 / (1 + np.exp(-odd)) for name, odd in odds.items()}
    has = pd.DataFrame(chosen)[list(CONDITIONS)].to_numpy()
    words = np.array(CONDITIONS)
    return [" + ".join(words[line]) or "healthy" for line in has]
