"""One of our own methods, run like a peer: in a process of its own, from files to a file."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpgist as dg
from dpgist.references import independent_rows


def main():
    """Release, train and sample once; the method is named on the command line."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    facts = json.loads((folder / "job.json").read_text())
    schema = dg.Schema.from_dict(json.loads((folder / "schema.json").read_text()))
    budget = dg.Budget(epsilon=facts["epsilon"], delta=facts["delta"], relation="add_remove")
    train, seed = folder / "train.parquet", facts["seed"]
    if name == "independent":
        rng = np.random.default_rng(seed)
        rows = independent_rows(train, schema, budget, facts["rows"], rng=rng).to_pandas()
    else:
        method = {"marginal": dg.Marginal, "merf": dg.Merf}[name]()
        rows = dg.synthesize(
            pd.read_parquet(train), schema, budget, method=method, seed=seed, rows=facts["rows"]
        )
    rows.to_parquet(folder / "synthetic.parquet")


if __name__ == "__main__":
    main()
