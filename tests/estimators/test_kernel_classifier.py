"""KernelClassifier: scikit-learn's checks, Gaussian process classification, an independent Newton."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as GaussianRBF
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from kernelfields import ChainCRF, KernelClassifier
from kernelfields.kernels import RBF

EXACT = {"rank": None, "basis": "all", "tol": 1e-12, "random_state": 0, "dtype": "float64"}


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


@pytest.mark.parametrize(
    ("data", "variance", "length"),
    [
        (load_breast_cancer, 4.0, 5.0),
        (load_iris, 1.0, 1.5),
        (lambda **_: load_digits(n_class=2, return_X_y=True), 6.0, 8.0),
        (lambda **_: make_moons(120, random_state=0), 9.0, 0.7),
    ],
    ids=["breast cancer", "iris", "digits", "moons"],
)
def test_the_mode_is_that_of_gaussian_process_classification(data, variance, length):
    X, y = data(return_X_y=True)
    X, y = X[y < 2][:200], y[y < 2][:200]
    # Some pixels of the digits never change.
    X = scaled(X[:, X.std(axis=0) > 0])
    theirs = GaussianProcessClassifier(ConstantKernel(variance) * GaussianRBF(length), optimizer=None).fit(X, y)
    # The log-odds have twice the prior variance of a class.
    crf = KernelClassifier(RBF(0.5 / length**2), prior_variance=0.5 * variance, bias=False, **EXACT).fit(X, y)
    base = theirs.base_estimator_
    # Scikit-learn stops when its evidence moves by less than 1e-10: take its mode one Newton step further.
    kernel = base.kernel_(X)
    f = kernel @ (base.y_train_ - base.pi_)
    for _ in range(5):
        p = 1.0 / (1.0 + np.exp(-f))
        weight = p * (1.0 - p)
        f = kernel @ np.linalg.solve(np.eye(len(X)) + weight[:, None] * kernel, weight * f + base.y_train_ - p)
    np.testing.assert_allclose(crf.decision_function(X), f, atol=1e-6)
    np.testing.assert_allclose(base.pi_, crf.predict_proba(X)[:, 1], atol=1e-6)


def test_softmax_agrees_with_a_dense_newton_method():
    X, y = load_iris(return_X_y=True)
    X = scaled(X)[::3]
    y = y[::3]
    crf = KernelClassifier(RBF(0.3), prior_variance=2.0, bias=False, **EXACT).fit(X, y)
    # Newton on f (n, L) with prior covariance 2 K (I - 11'/L), in eigenvectors of K, from the formulas alone.
    kernel = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    n, labels = len(X), 3
    values, vectors = np.linalg.eigh(kernel)
    kept = values > 1e-12 * values.max()
    Z = vectors[:, kept] * np.sqrt(values[kept])
    contrasts = np.linalg.svd(np.eye(labels) - 1.0 / labels)[0][:, : labels - 1]
    features = np.einsum("ir,lq->ilrq", Z, contrasts).reshape(n * labels, -1)
    theta = np.zeros(features.shape[1])
    onehot = np.eye(labels)[y]
    for _ in range(12):
        f = (features @ theta).reshape(n, labels)
        p = np.exp(f - f.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient = features.T @ (p - onehot).ravel() + theta / 2.0
        weight = np.zeros((n * labels, n * labels))
        for i in range(n):
            rows = slice(i * labels, (i + 1) * labels)
            weight[rows, rows] = np.diag(p[i]) - np.outer(p[i], p[i])
        hessian = features.T @ weight @ features + np.eye(len(theta)) / 2.0
        theta -= np.linalg.solve(hessian, gradient)
    np.testing.assert_allclose(crf.predict_proba(X), p, atol=1e-8)


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
