"""How the papers' columns are released: through the wall, or as a rehearsal without noise."""

from __future__ import annotations

from typing import Any

import dpgist as dg
from dpgist.methods import METHODS
from dpgist.testing import NoNoise, rehearse

DELTA, RELATION = 1e-5, "replace_one"
NONPRIVATE, REAL = "nonprivate", "real"
NOMINAL_EPSILON = 1.0  # a run without noise weighs its blocks as the private run does


def identity(column: str, seed: int) -> dict[str, Any]:
    """What makes a run: the paper's column (an epsilon, "nonprivate" or "real") and the seed."""
    private = column not in (NONPRIVATE, REAL)
    return {
        "column": column,
        "epsilon": float(column) if private else None,
        "delta": DELTA if private else None,
        "relation": RELATION if private else None,
        "seed": seed,
    }


def gist_of(
    rows: Any,
    schema: dg.Schema,
    column: str,
    *,
    seed: int,
    public: str = "published data",
    method: Any = "merf",
) -> dg.Gist:
    """The gist of a column, by ``Merf()`` unless another method is given.

    ``public`` is why the rows may be rehearsed with.
    """
    own = METHODS[method]() if isinstance(method, str) else method or dg.Merf()
    epsilon = NOMINAL_EPSILON if column == NONPRIVATE else float(column)
    budget = dg.Budget(epsilon=epsilon, delta=DELTA, relation=RELATION)
    if column == NONPRIVATE:
        reason = f"{schema.name}: {public}"
        return rehearse(rows, schema, own, budget, public=reason, noise=NoNoise(), seed=seed)
    ledger = dg.Ledger.in_memory(name=schema.name, budget=budget, max_rows_per_person=1)
    return dg.release(rows, schema, own, budget, ledger=ledger, seed=seed)


def settings_of(gist: dg.Gist, model: dg.Model) -> dict[str, Any]:
    """What a result file says of how the rows were made."""
    used = {key: value for key, value in model.training.items() if value is not None}
    return {"rehearsal": gist.rehearsal, "method": {gist.method: gist.settings}, "training": used}
