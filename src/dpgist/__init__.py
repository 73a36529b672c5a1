"""Release the gist of your data once, privately. Synthesise for ever.

``import dpgist as dg`` gives the public surface; everything else may change.
"""

from dpgist.classify.effects import Effect, effects
from dpgist.classify.estimator import LocallyLinearMaps
from dpgist.classify.explain import Explanation, explain
from dpgist.classify.maps import Maps
from dpgist.errors import ArtefactError, BudgetExceeded, DataError, DpgistError, PrivacyError
from dpgist.estimate import Estimate
from dpgist.evaluate.scores import Evaluation, Score
from dpgist.generators.model import Model, read_model
from dpgist.gist import Gist, NoiseError, read_gist
from dpgist.methods import Hermite, Marginal, Merf, Pearl, Scattering, suggest_features
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget, Relation
from dpgist.schema import (
    BooleanColumn,
    CategoryColumn,
    DateColumn,
    ImageColumn,
    IntegerColumn,
    NumberColumn,
    Schema,
)
from dpgist.training.loop import Training
from dpgist.version import __version__
from dpgist.workflow import check_table, evaluate, plan, release, synthesize, train

__all__ = [
    "ArtefactError",
    "BooleanColumn",
    "Budget",
    "BudgetExceeded",
    "CategoryColumn",
    "DataError",
    "DateColumn",
    "DpgistError",
    "Effect",
    "Estimate",
    "Evaluation",
    "Explanation",
    "Gist",
    "Hermite",
    "ImageColumn",
    "IntegerColumn",
    "Ledger",
    "LocallyLinearMaps",
    "Maps",
    "Marginal",
    "Merf",
    "Model",
    "NoiseError",
    "NumberColumn",
    "Pearl",
    "PrivacyError",
    "Relation",
    "Scattering",
    "Schema",
    "Score",
    "Training",
    "__version__",
    "check_table",
    "effects",
    "evaluate",
    "explain",
    "plan",
    "read_gist",
    "read_model",
    "release",
    "suggest_features",
    "synthesize",
    "train",
]
