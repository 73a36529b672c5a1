"""PrivBayes of synthetic-data-generation 0.1.14, on codes; pure epsilon, delta is not used."""

import numpy as np
import pandas as pd
from discrete import main
from synthesis.synthesizers.privbayes import PrivBayes


def make(job):
    """Fit and draw."""
    np.random.seed(job.seed)  # noqa: NPY002 - the peer knows no other
    rows = pd.DataFrame(
        {
            name: pd.Categorical(job.rows[name].astype(str), list(map(str, range(size))))
            for name, size in job.sizes.items()
        }
    )
    model = PrivBayes(epsilon=job.epsilon, n_cpus=1, verbose=False)
    model.fit(rows)
    return model.sample(job.n_rows).astype(int)


if __name__ == "__main__":
    main(make)
