"""What an evaluation says: scores, what each means, and the stamp they carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

STAMP = (
    "outside the guarantee: these numbers were computed from real rows without noise; treat them "
    "as you treat the rows"
)
SOURCES = ("synthetic", "real", "independent", "noise")
"""Whose rows were scored, in the order of every table; all but the first are references."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A kind of score: its title, which way is better, and one line on what it means.

    ``family`` says what is asked of the rows: "utility" (train classifiers on them), "fidelity"
    (do they look like the real rows) or "illustration" (no judgement at all).

    Privacy: public; holds no number.
    """

    title: str
    better: Literal["high", "low"]
    means: str
    family: Literal["utility", "fidelity", "illustration"]


def no_rows_in_group(source: str) -> str:
    """Why a group that the rows lack altogether has no score.

    Privacy: public words.
    """
    return f"there are no {source} rows in this group"


def _metric(
    title: str, better: Literal["high", "low"], means: str, family: Any = "fidelity"
) -> Metric:
    return Metric(title=title, better=better, means=means, family=family)


_SUBSETS = (
    ": mean of 100 random subsets, and the middle 95 % of them, which is wider than the error of "
    "the mean"
)
METRICS: dict[str, Metric] = {
    "roc_auc": _metric(
        "ROC AUC",
        "high",
        "area under the ROC curve of classifiers trained on these rows and tested on real ones, "
        "from their scores; 0.5 is guessing (several classes: mean of one against the rest)",
        "utility",
    ),
    "pr_auc": _metric(
        "PR AUC",
        "high",
        "average precision of the same classifiers, from their scores; guessing gives the share of "
        "the positive class",
        "utility",
    ),
    "roc_hard": _metric(
        "ROC, hard",
        "high",
        "paper protocol: ROC AUC of predicted labels instead of scores, which is balanced accuracy",
        "utility",
    ),
    "pr_hard": _metric(
        "PRC, hard",
        "high",
        "paper protocol: average precision of predicted labels instead of scores",
        "utility",
    ),
    "f1_weighted": _metric(
        "F1",
        "high",
        "F1 of each class, averaged with the classes' shares in the test rows; for one class, its "
        "F1",
        "utility",
    ),
    "accuracy": _metric(
        "accuracy",
        "high",
        "share of test rows predicted right; for one class, the share of its rows found",
        "utility",
    ),
    "tv1": _metric("TV 1", "low", "mean total variation of the columns, one by one (0 to 1)"),
    "tv2": _metric("TV 2", "low", "mean total variation of the pairs of columns (0 to 1)"),
    "tv3": _metric("TV 3", "low", "mean total variation of the triples of columns (0 to 1)"),
    "tv4": _metric("TV 4", "low", "mean total variation of four columns at once (0 to 1)"),
    "tv2_l1": _metric(
        "L1 2",
        "low",
        "mean L1 distance of pairs of columns (0 to 2), twice their total variation; taken of up "
        "to 5,000 pairs, the total variation itself of up to 500",
    ),
    "range_queries": _metric(
        "ranges", "low", "mean error of the share of rows in 1,000 random boxes over three columns"
    ),
    "mmd": _metric(
        "MMD²",
        "low",
        "squared maximum mean discrepancy with a Gaussian kernel, unbiased: 0 up to chance for "
        "rows of the same kind, and then sometimes below",
    ),
    "correlation": _metric(
        "corr", "low", "mean absolute difference of the Pearson correlations of numbers and label"
    ),
    "cramers_v": _metric(
        "Cramér", "low", "mean absolute difference of Cramér's V (bias-corrected) of column pairs"
    ),
    "nearest_record": _metric(
        "nearest",
        "high",
        "median distance to the nearest real row: an illustration and NO privacy measure; the "
        "guarantee is on the card",
        "illustration",
    ),
    "fid": _metric("FID", "low", "Fréchet distance of Inception features"),
    "kid": _metric("KID", "low", f"kernel distance of Inception features{_SUBSETS}"),
    "lenet_fid": _metric(
        "LeNet FID",
        "low",
        "Fréchet distance of LeNet features, as PEARL has it: mean of 10 bootstraps, and two of "
        "their standard deviations either way",
    ),
    "lenet_kid": _metric(
        "LeNet KID",
        "low",
        f"kernel distance of LeNet features, as PEARL has it{_SUBSETS}",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Score:
    """One number, whose rows it judges, and how sure it is.

    ``source`` is "synthetic" or a reference: "real" (training rows), "independent" (columns drawn
    one by one from noisy counts of the same budget) or "noise" (the same method on no rows).
    ``low`` and ``high`` are a 95 % interval over the test rows; of LeNet FID and of KID, the
    spread that :data:`METRICS` names. ``model`` is the classifier, None for a mean over classifiers
    or a score without any. ``group`` is like "sex=Female", None for everyone. Where ``value`` is
    None, ``why`` says why.

    Privacy: computed from real rows without noise; outside the guarantee.
    """

    metric: str
    source: str
    value: float | None
    low: float | None = None
    high: float | None = None
    model: str | None = None
    group: str | None = None
    why: str | None = None

    @property
    def is_lacking(self) -> bool:
        """Whether there is no value because the rows lack the group altogether."""
        return self.value is None and self.why == no_rows_in_group(self.source)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """All scores of one evaluation, and what is to be said about them.

    Privacy: computed from real rows without noise; outside the guarantee, as ``stamp`` says.
    """

    scores: tuple[Score, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    stamp: str = STAMP

    def find(
        self,
        metric: str,
        *,
        source: str = "synthetic",
        model: str | None = None,
        group: str | None = None,
    ) -> Score | None:
        """The one score of that kind, or None."""
        wanted = (metric, source, model, group)
        return next(
            (s for s in self.scores if (s.metric, s.source, s.model, s.group) == wanted), None
        )

    def mean(self, metric: str, source: str = "synthetic") -> float:
        """The score of everyone, averaged over classifiers if there are any; NaN if none."""
        found = self.find(metric, source=source)
        return float("nan") if found is None or found.value is None else found.value

    def worst_group(self, metric: str, source: str = "synthetic") -> Score | None:
        """The group whose score is worst, or None if no group has one.

        A group that the rows lack altogether is worse than any, with a value or, where there is
        nothing to compute one from, without.
        """
        mine = [
            s
            for s in self.scores
            if (s.metric, s.source, s.model) == (metric, source, None) and s.group is not None
        ]
        lacking = next((s for s in mine if s.is_lacking), None)
        having = [s for s in mine if s.value is not None]
        sign = 1.0 if METRICS[metric].better == "high" else -1.0
        return lacking or min(having, key=lambda s: sign * (s.value or 0.0), default=None)

    @property
    def sources(self) -> tuple[str, ...]:
        """Whose rows were scored, in the order of :data:`SOURCES`."""
        return _in_order((score.source for score in self.scores), SOURCES)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were tried, in the order of :data:`METRICS`."""
        return _in_order((score.metric for score in self.scores), METRICS)

    @property
    def models(self) -> tuple[str, ...]:
        """The classifiers, in the order they were run."""
        return tuple(dict.fromkeys(s.model for s in self.scores if s.model is not None))

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, in the order they were scored."""
        return tuple(dict.fromkeys(s.group for s in self.scores if s.group is not None))

    def table(self) -> str:
        """The scores for people: sources, then classifiers, then the worst groups."""
        from dpgist.evaluate.text import evaluation_text

        return evaluation_text(self)

    def to_dict(self) -> dict[str, Any]:
        """The scores as JSON-able data; what is None is left out of each score."""
        scores = [asdict(score) for score in self.scores]
        return {
            "stamp": self.stamp,
            "metrics": {name: asdict(METRICS[name]) for name in self.metrics},
            "scores": [
                {key: value for key, value in score.items() if value is not None or key == "value"}
                for score in scores
            ],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 2),
        }


def left_out_of_means(failed: Sequence[Sequence[str]], n_classifiers: int) -> tuple[str, ...]:
    """The classifiers that no mean counts, so that means compare, by those that failed each source.

    A source on which every classifier failed has no mean and decides nothing.

    Privacy: names classifiers only.
    """
    some = [names for names in failed if len(names) < n_classifiers]
    return tuple(dict.fromkeys(name for names in some for name in names))


def mean_without(classifiers: Sequence[str]) -> str | None:
    """What is to be said about a mean that leaves some classifiers out.

    Privacy: names classifiers only.
    """
    if not classifiers:
        return None
    return f"the mean is without {', '.join(classifiers)}, as is that of every other kind of rows"


def _in_order(found: Iterable[str], order: Iterable[str]) -> tuple[str, ...]:
    kept = dict.fromkeys(found)
    return tuple(name for name in order if name in kept) + tuple(set(kept) - set(order))
