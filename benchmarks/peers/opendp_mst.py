"""MST of opendp 0.16.0 with mbi 1.1.0, sampled by method="sample": its default breaks the joint."""

import math

import opendp.prelude as dp
import polars as pl
from discrete import main

dp.enable_features("contrib")
TRIES = 200


def make(job):
    """Fit and draw."""
    rows = pl.DataFrame({name: job.rows[name].to_numpy() for name in job.sizes})
    keys = {name: list(range(size)) for name, size in job.sizes.items()}
    rho = cdp_rho(job.epsilon, job.delta)
    for attempt in range(TRIES):  # it refuses most budgets by their last bit
        try:
            table = release(rows, keys, rho * (1 - attempt * 1e-6))
            break
        except Exception as error:
            if "budget" not in str(error) or attempt == TRIES - 1:
                raise
    drawn = table.synthesize(rows=job.n_rows, method="sample")
    return {name: drawn[name].fill_null(size - 1) for name, size in job.sizes.items()}


def release(rows, keys, rho):
    """One release of its contingency table."""
    context = dp.Context.compositor(
        data=rows.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    query = context.query(rho=rho).select(*keys)
    return query.contingency_table(keys=keys, algorithm=dp.mbi.MST()).release()


def cdp_rho(epsilon, delta):
    """The largest rho that implies (epsilon, delta): Canonne, Kamath and Steinke 2020."""

    def delta_of(rho):
        if rho == 0:
            return 0.0
        low, high = 1.01, (epsilon + 1) / (2 * rho) + 2
        for _ in range(200):
            alpha = (low + high) / 2
            slope = (2 * alpha - 1) * rho - epsilon + math.log1p(-1.0 / alpha)
            low, high = (alpha, high) if slope < 0 else (low, alpha)
        log_delta = (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha)
        return min(math.exp(log_delta) / (alpha - 1.0), 1.0)

    low, high = 0.0, epsilon + 1
    for _ in range(200):
        rho = (low + high) / 2
        low, high = (rho, high) if delta_of(rho) <= delta else (low, rho)
    return low


if __name__ == "__main__":
    main(make)
