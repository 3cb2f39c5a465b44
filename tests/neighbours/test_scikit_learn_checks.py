"""scikit-learn's own checks, run on every estimator; those that do not apply are named with the reason.

Its checks pass one table of rows. KernelClassifier, MultiLabelCRF and ExponentialFamilyDensity take tables, and their
checks stand with their tests in tests/estimators. Estimators of sequences and graphs are given each row of the table
as a sequence of one position, or as a graph of one node: then a field is a classifier, and nothing is checked or
converted on the way but by the estimator itself.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from kernelfields import ChainCRF, FrameCRF, GraphCRF, Sequencewise
from kernelfields.compat import CRF
from kernelfields.selection import ChainCRFCV

#: Checks that need no data: they hold for every estimator as it is.
WITHOUT_DATA = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
}

WORDS = "it is refused, as tests of bad input show, in words about sequences where those about a table are looked for"
#: Checks that ask for what an estimator of sequences is not, and why.
OF_SEQUENCES = {
    "check_n_features_in_after_fitting": WORDS,
    "check_estimators_empty_data_messages": WORDS,
    "check_fit2d_predict1d": WORDS,
    "check_dtype_object": "a dict among numbers is refused by a ValueError, where a TypeError is looked for",
}
OF_TRANSFORMED_SEQUENCES = {
    **OF_SEQUENCES,
    "check_estimators_nan_inf": "missing values pass Sequencewise, whose transformer may be an imputer",
}
OF_LABELLED_SEQUENCES = {
    **OF_SEQUENCES,
    "check_classifiers_regression_target": WORDS,
    "check_supervised_y_2d": "labels in a column are one list for each sequence, as they should be: no warning",
}
OF_CHAINS = {
    **OF_LABELLED_SEQUENCES,
    "check_requires_y_none": WORDS,
    "check_fit_score_takes_y": "partial_fit goes on from its own batches, not from a fit, whose curvature nobody kept",
}
OF_LINEAR_GRAPHS = {
    **OF_LABELLED_SEQUENCES,
    "check_fit_score_takes_y": OF_CHAINS["check_fit_score_takes_y"],
    "check_estimators_partial_fit_n_features": "partial_fit is for kernels with a basis",
}
OF_LINEAR_ONES = {
    **OF_CHAINS,
    "check_estimators_partial_fit_n_features": "partial_fit is for kernels with a basis",
}


def one_by_one(X):
    """Rows of a table as tables of one row; what is no table stays as it is."""
    X = np.asarray(X) if isinstance(X, list) or not hasattr(X, "shape") else X
    if len(X.shape) != 2:
        return X
    rows = X.tocsr() if sp.issparse(X) else X
    return [rows[index : index + 1] for index in range(X.shape[0])]


def labels_of(y):
    return None if y is None else [np.atleast_1d(label) for label in np.asarray(y)]


def graphs_of(X):
    rows = one_by_one(X)
    return [(row, []) for row in rows] if isinstance(rows, list) else rows


def taking_sparse(tags):
    tags.input_tags.sparse = True
    return tags


class RowsByChainCRF(ClassifierMixin, ChainCRF):
    """Rows as sequences of one position."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(one_by_one(X), labels_of(y), sample_weight)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        return super().partial_fit(one_by_one(X), labels_of(y), classes, sample_weight)

    def predict(self, X):
        return np.concatenate(super().predict(one_by_one(X)))

    def predict_proba(self, X):
        return np.concatenate(super().predict_marginals(one_by_one(X)))

    def __sklearn_tags__(self):
        return taking_sparse(super().__sklearn_tags__())


class RowsByGraphCRF(ClassifierMixin, GraphCRF):
    """Rows as graphs of one node."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(graphs_of(X), labels_of(y), sample_weight)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        return super().partial_fit(graphs_of(X), labels_of(y), classes, sample_weight)

    def predict(self, X):
        return np.concatenate(super().predict(graphs_of(X)))

    def predict_proba(self, X):
        return np.concatenate(super().predict_marginals(graphs_of(X)))

    def __sklearn_tags__(self):
        return taking_sparse(super().__sklearn_tags__())


class RowsBySequencewise(Sequencewise):
    """Rows as sequences of one position, put together again once they are transformed."""

    def fit(self, X, y=None):
        return super().fit(one_by_one(X), labels_of(y))

    def fit_transform(self, X, y=None):
        return np.vstack(super().fit_transform(one_by_one(X), labels_of(y)))

    def transform(self, X):
        return np.vstack(super().transform(one_by_one(X)))


def outcomes(estimator, expected):
    """Names of checks by what became of them; a failure that was not expected is told in full."""
    results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    found = {"passed": set(), "failed": set(), "xfail": set(), "skipped": set()}
    for each in results:
        found[each["status"]].add(each["check_name"])
    told = {each["check_name"]: str(each["exception"]) for each in results if each["status"] == "failed"}
    assert not told, told
    return found


@pytest.mark.parametrize(
    ("estimator", "expected", "least"),
    [
        (RowsByChainCRF(random_state=0), OF_CHAINS, 45),
        (RowsByChainCRF("linear", support="observed"), OF_LINEAR_ONES, 45),
        (RowsByGraphCRF("linear"), OF_LINEAR_GRAPHS, 45),
        (RowsBySequencewise(StandardScaler()), OF_TRANSFORMED_SEQUENCES, 35),
    ],
    ids=["ChainCRF", "ChainCRF linear", "GraphCRF", "Sequencewise"],
)
def test_rows_as_the_shortest_sequences_pass_all_checks_that_apply(estimator, expected, least):
    found = outcomes(estimator, expected)
    assert found["xfail"] == set(expected), "a check that was to fail has passed: take it off the list"
    assert len(found["passed"]) > least


@pytest.mark.parametrize(
    "estimator",
    [ChainCRF(), GraphCRF(), ChainCRFCV(), CRF(), Sequencewise(StandardScaler()), FrameCRF()],
    ids=lambda each: type(each).__name__,
)
def test_what_needs_no_data_holds_for_every_estimator(estimator):
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert {each["check_name"] for each in results if each["status"] == "passed"} >= WITHOUT_DATA
    # Sequences have a label at every position, so that scikit-learn must not stratify by them; rows have one each.
    assert is_classifier(estimator) == isinstance(estimator, FrameCRF)
