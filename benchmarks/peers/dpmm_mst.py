"""MST of dpmm 0.1.9, on codes."""

from discrete import main
from dpmm.models.mst import MSTGM
from numpy.random import RandomState


def make(job):
    """Fit and draw."""
    model = MSTGM(epsilon=job.epsilon, delta=job.delta, n_jobs=1)
    model.set_domain(job.sizes)
    model.set_random_state(RandomState(job.seed))
    model.fit(job.rows)
    return model.generate(n_records=job.n_rows)


if __name__ == "__main__":
    main(make)
