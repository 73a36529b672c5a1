"""All scores of a table: classifiers, marginals, dependence; everyone and group by group."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpgist.evaluate.classifiers import classifiers as classifier_set
from dpgist.evaluate.dependence import (
    MOST_KERNEL_ROWS,
    correlation_error,
    cramers_error,
    cramers_matrix,
    mmd_squared,
    nearest_record,
)
from dpgist.evaluate.groups import FEWEST_ROWS, Group, make_groups
from dpgist.evaluate.marginals import (
    MOST_PAIRS,
    MOST_SUBSETS,
    Bins,
    RangeQuery,
    Subset,
    mean_variation,
    quantile_bins,
    range_error,
    range_queries,
    subsets,
)
from dpgist.evaluate.scores import Score, no_rows_in_group
from dpgist.evaluate.steps import Steps
from dpgist.evaluate.table import Rows, class_names
from dpgist.evaluate.utility import utility_scores

FIDELITY = (
    *("tv1", "tv2", "tv3", "tv4", "tv2_l1", "range_queries", "mmd", "correlation", "cramers_v"),
    "nearest_record",
)
_GROUP_SUBSETS, _GROUP_QUERIES, _GROUP_ROWS = 60, 200, 1000


def n_steps(n_sources: int, which: str) -> int:
    """How many steps :func:`score_tables` takes.

    Privacy: public facts only.
    """
    return n_sources * (len(classifier_set(which)) + 1)


def score_tables(
    sources: Mapping[str, Rows],
    test: Rows,
    *,
    group_columns: Sequence[str],
    classifiers: str,
    rng: np.random.Generator,
    steps: Steps,
) -> tuple[tuple[Score, ...], tuple[str, ...]]:
    """Score every source against the real test rows; and what is to be said about it.

    Privacy: reads rows without any protection; outside the guarantee.
    """
    groups = make_groups(test, group_columns)
    chosen = classifier_set(classifiers)
    scores = [
        *utility_scores(sources, test, classifiers=chosen, groups=groups, rng=rng, steps=steps)
    ]
    for source, rows in sources.items():
        same = copy.deepcopy(rng)  # each source is asked the same questions
        scores += fidelity_scores(source, rows, test, groups=groups, rng=same)
        steps.finish(f"marginals of {source} rows")
    return tuple(scores), tuple(_notes(sources, test))


def fidelity_scores(
    source: str, rows: Rows, real: Rows, *, groups: Sequence[Group], rng: np.random.Generator
) -> Iterator[Score]:
    """How much some rows look like the real ones: everyone, then group by group.

    Privacy: reads rows without any protection; outside the guarantee.
    """
    if not real.n_rows or not rows.n_rows:
        whose = "real test" if not real.n_rows else source
        why = f"there are no {whose} rows"
        yield from (Score(metric=m, source=source, value=None, why=why) for m in FIDELITY)
        return
    bins = quantile_bins(real)
    judge = _Judge.of(bins, most=MOST_SUBSETS, n_queries=1000, rows=MOST_KERNEL_ROWS, rng=rng)
    yield from judge.scores(source, rows, real, rng=rng)
    few = _Judge.of(bins, most=_GROUP_SUBSETS, n_queries=_GROUP_QUERIES, rows=_GROUP_ROWS, rng=rng)
    for group in groups:
        yield from few.group_scores(source, rows, real, group, rng=rng)


@dataclass(frozen=True, kw_only=True)
class _Judge:
    """The questions asked of every table alike."""

    bins: Bins
    subsets: Mapping[str, Sequence[Subset]]
    queries: Sequence[RangeQuery]
    most_rows: int

    @staticmethod
    def of(bins: Bins, *, most: int, n_queries: int, rows: int, rng: np.random.Generator) -> _Judge:
        chosen = {
            f"tv{alpha}": subsets(bins.columns, alpha, most=most, rng=rng)
            for alpha in range(1, min(4, len(bins.columns)) + 1)
        }
        if "tv2" in chosen:
            pairs = MOST_PAIRS if most == MOST_SUBSETS else most
            chosen["tv2_l1"] = subsets(bins.columns, 2, most=pairs, rng=rng)
        queries = range_queries(bins, n_queries=n_queries, rng=rng)
        return _Judge(bins=bins, subsets=chosen, queries=queries, most_rows=rows)

    def scores(
        self,
        source: str,
        rows: Rows,
        real: Rows,
        *,
        rng: np.random.Generator,
        group: str | None = None,
    ) -> Iterator[Score]:
        for metric, value in self._values(rows, real, rng).items():
            why = "too few columns or rows of the kind it needs" if value is None else None
            yield Score(metric=metric, source=source, value=value, group=group, why=why)

    def group_scores(
        self, source: str, rows: Rows, real: Rows, group: Group, *, rng: np.random.Generator
    ) -> Iterator[Score]:
        """A group that the rows lack altogether is as far off as can be, and in no box."""
        real, rows = real.take(group.of(real)), rows.take(group.of(rows))
        if real.n_rows < FEWEST_ROWS:
            why = f"fewer than {FEWEST_ROWS} real test rows"
            worst: dict[str, float] = {}
        elif not rows.n_rows:
            why = no_rows_in_group(source)
            worst = {metric: 2.0 if metric == "tv2_l1" else 1.0 for metric in self.subsets}
            own, none = self.bins.codes(real), self.bins.codes(rows)
            worst["range_queries"] = range_error(own, none, self.queries)
        else:
            yield from self.scores(source, rows, real, rng=rng, group=group.name)
            return
        for metric in FIDELITY:
            value = worst.get(metric)
            yield Score(metric=metric, source=source, value=value, group=group.name, why=why)

    def _values(self, rows: Rows, real: Rows, rng: np.random.Generator) -> dict[str, float | None]:
        own, other = self.bins.codes(real), self.bins.codes(rows)
        found: dict[str, float | None] = dict.fromkeys(FIDELITY)
        for metric, chosen in self.subsets.items():
            distance = mean_variation(own, other, chosen, self.bins)
            found[metric] = 2 * distance if metric == "tv2_l1" else distance
        found["range_queries"] = range_error(own, other, self.queries)
        found["mmd"] = mmd_squared(real, rows, rng=rng, most=self.most_rows)
        found["correlation"] = correlation_error(real, rows)
        matrices = (cramers_matrix(codes, self.bins) for codes in (own, other))
        found["cramers_v"] = cramers_error(*matrices)
        found["nearest_record"] = nearest_record(real, rows, rng=rng, most=self.most_rows)
        return found


def _notes(sources: Mapping[str, Rows], test: Rows) -> Iterator[str]:
    label, names = test.schema.label, class_names(test.schema)
    if len(names) == 2:
        yield f"positive class: {label} = {names[-1]}, the last value declared"
    for title, rows in {"real test": test, **sources}.items():
        if label is not None and rows.n_rows:
            without = int((rows.classes() < 0).sum())
            if without:
                some = "1 row has" if without == 1 else f"{without} rows have"
                yield f"column {label!r} of the {title} rows: {some} no declared label, not used"
