"""Rows as small integers and back, for peers that know discrete columns only.

Every peer gets the same public facts as dpgist: bounds and category lists. Numbers are cut into 20
bins of equal width between the bounds; null and whatever is not declared have codes of their own.
Needs numpy and pandas only, of any version.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

N_BINS = 20


class Job:
    """What a peer is asked for: ``rows`` as codes, ``sizes`` of the columns, and the budget."""

    def __init__(self, folder):
        self.folder = Path(folder)
        facts = json.loads((self.folder / "job.json").read_text())
        self.epsilon, self.delta = facts["epsilon"], facts["delta"]
        self.seed, self.n_rows = facts["seed"], facts["rows"]
        self.columns = facts["columns"]
        texts = {c["name"]: str for c in self.columns if "values" in c}
        table = pd.read_csv(self.folder / "train.csv", dtype=texts, keep_default_na=False)
        self.rows = pd.DataFrame({c["name"]: codes(table[c["name"]], c) for c in self.columns})
        self.sizes = {c["name"]: size(c) for c in self.columns}

    def write(self, rows):
        """Save synthetic codes as values."""
        rng = np.random.default_rng(self.seed)
        values = {c["name"]: decoded(np.asarray(rows[c["name"]]), c, rng) for c in self.columns}
        pd.DataFrame(values).to_csv(self.folder / "synthetic.csv", index=False)


def size(column):
    """How many codes a column has."""
    return (len(column["values"]) if "values" in column else N_BINS) + 1


def codes(cells, column):
    """Cells as codes."""
    if "values" in column:
        found = pd.Index(column["values"]).get_indexer(cells)
        return np.where(found < 0, len(column["values"]), found).astype(int)
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(float)
    low, high = column["min"], column["max"]
    places = np.clip((numbers - low) / ((high - low) or 1) * N_BINS, 0, N_BINS - 1)
    return np.where(np.isnan(numbers), N_BINS, np.floor(np.nan_to_num(places))).astype(int)


def decoded(found, column, rng):
    """Codes as cells: anywhere within a bin."""
    found = found.astype(int)
    if "values" in column:
        return np.array([*column["values"], ""], dtype=object)[found]
    low, high = column["min"], column["max"]
    values = low + (found + rng.random(len(found))) / N_BINS * (high - low)
    values = np.clip(np.rint(values) if column["whole"] else values, low, high)
    return np.where(found == N_BINS, np.nan, values)


def main(make):
    """Run a peer on the job named on the command line."""
    job = Job(sys.argv[1])
    job.write(make(job))
