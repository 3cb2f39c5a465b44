"""KernelClassifier: scikit-learn's checks, chains and logistic regression as its equals, bad input."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from kernelfields import ChainCRF, KernelClassifier
from kernelfields.kernels import RBF


def scaled(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


# Checks that need pandas are skipped with a warning where it is not installed.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Skipping check:sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("parameters", [{}, {"kernel": "linear"}, {"rank": 5}, {"class_weight": "balanced"}], ids=str)
def test_scikit_learns_checks_pass(parameters):
    results = check_estimator(KernelClassifier(random_state=0, **parameters), on_fail=None)
    failed = [(each["check_name"], str(each["exception"])) for each in results if each["status"] == "failed"]
    expected = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}
    # With five pivots drawn at random, repeated rows and weighted ones draw others.
    assert [name for name, _ in failed if "rank" not in parameters or name not in expected] == [], failed
    assert sum(each["status"] == "passed" for each in results) > 40


def test_it_is_the_chain_of_length_one():
    X, y = load_iris(return_X_y=True)
    X = scaled(X)
    chain = ChainCRF(RBF(0.3), rank=40, tol=1e-10, max_iter=1000, random_state=0).fit(list(X[:, None]), y[:, None])
    crf = KernelClassifier(RBF(0.3), rank=40, bias=False, tol=1e-10, random_state=0).fit(X, y)
    assert crf.solution_.value == pytest.approx(chain.solution_.value, rel=1e-9)
    assert crf.certify(X, y).value == pytest.approx(chain.certify(list(X[:, None]), y[:, None]).value, rel=1e-9)


def test_linear_kernels_are_logistic_regression():
    X, y = make_classification(300, 10, n_informative=6, n_classes=3, random_state=0)
    crf = KernelClassifier("linear", prior_variance=0.7, bias=False, tol=1e-12).fit(X, y)
    theirs = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(crf.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    sparse = KernelClassifier("linear", prior_variance=0.7, bias=False, tol=1e-12).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_proba(X), crf.predict_proba(X), atol=1e-6)


def test_bad_input_is_named():
    X, y = make_moons(20, random_state=0)
    with pytest.raises(ValueError, match="the one class 1: a classifier needs"):
        KernelClassifier().fit(X, np.ones(20, dtype=int))
    with pytest.raises(ValueError, match="at least 2 classes must have a positive weight"):
        KernelClassifier().fit(X, y, (y == 1).astype(float))
    with pytest.raises(ValueError, match="prior_variance must be"):
        KernelClassifier(prior_variance=0.0).fit(X, y)
    crf = KernelClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="scope must be"):
        crf.certify(X, y, scope="all")
    with pytest.raises(ValueError, match=r"labels that the classifier was not fitted to: \[3\]"):
        crf.certify(X, np.full(20, 3))
    constant = KernelClassifier(random_state=0).fit(np.ones((20, 3)), y)
    np.testing.assert_allclose(constant.predict_proba(np.ones((1, 3))), 0.5, atol=1e-6)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        KernelClassifier(rank=500, max_iter=1, tol=1e-8, random_state=0).fit(*make_moons(800, random_state=0))
