"""LocallyLinearMaps as scikit-learn, tables and images see it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpgist.classify.estimator import LocallyLinearMaps
from dpgist.classify.maps import Maps
from dpgist.errors import BudgetExceeded, DataError, PrivacyError
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget
from dpgist.schema import CategoryColumn, NumberColumn, Schema

BUDGET = Budget(epsilon=8.0, delta=1e-5)
QUICK = {"steps": 4, "rate": 0.5, "rows": 100, "maps": 2, "budget": BUDGET}
NOISY = "what is fitted is noisy: two fits differ, and tiny data without a signal is not learnt"
PUBLIC = "classes are declared, never read from y: a check with other labels has none to learn"
SILENT = "a bad cell must not raise, because an error is a release; it becomes a declared value"
NOT_APPLICABLE = {
    "check_classifiers_one_label": PUBLIC,
    "check_classifiers_one_label_sample_weights": PUBLIC,
    "check_classifiers_regression_target": PUBLIC,
    "check_classifiers_classes": PUBLIC,
    "check_supervised_y_2d": PUBLIC,
    "check_estimators_nan_inf": SILENT,
    "check_supervised_y_no_nan": SILENT,
    "check_classifiers_train": NOISY,
    "check_fit_idempotent": NOISY,
    "check_methods_subset_invariance": NOISY,
    "check_dtype_object": "tables of objects are described by a schema",
    "check_n_features_in_after_fitting": "",
    "check_readonly_memmap_input": "",
    "check_f_contiguous_array_estimator": "",
    "check_positive_only_tag_during_fit": "",
    "check_estimators_dtypes": "",
    "check_estimators_pickle": "",
    "check_fit1d": "",
    "check_fit2d_1sample": "",
    "check_fit2d_1feature": "",
    "check_complex_data": "",
    "check_estimator_sparse_tag": "",
    "check_estimator_sparse_array": "",
    "check_estimator_sparse_matrix": "",
    "check_dataframe_column_names_consistency": "",
}


@parametrize_with_checks([LocallyLinearMaps(classes=[0, 1, 2], **QUICK)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
