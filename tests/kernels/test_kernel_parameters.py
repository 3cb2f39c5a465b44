"""Parameters: rules that follow the data, checks, cloning, equality."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from kernelfields.kernels import (
    RBF,
    Constant,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    Power,
    Scaled,
    Sum,
)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((30, 4)) * [1, 2, 0, 1] + 3


def test_scale_and_auto_are_those_of_scikit_learn(X):
    y = np.arange(30) % 2
    for rule in ("scale", "auto"):
        expected = SVC(gamma=rule).fit(X, y)._gamma
        for kernel in (RBF(rule), Polynomial(gamma=rule)):
            assert kernel.resolve(X).gamma == pytest.approx(expected, rel=1e-14)
            assert kernel.resolve(sparse.csc_matrix(X)).gamma == pytest.approx(expected, rel=1e-14)
            assert kernel.resolve(X.astype(np.float32)).gamma == pytest.approx(expected, rel=1e-6)
            assert kernel.gamma == rule


@pytest.mark.parametrize("kernel", [RBF(), Polynomial(), Laplacian(), Matern()], ids=repr)
@pytest.mark.parametrize("unit", [1e200, 1e-200])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_scale_says_so_when_the_variance_leaves_the_range_of_floats(kernel, unit, kind):
    X = kind(unit * np.arange(6.0).reshape(3, 2))
    with pytest.raises(ValueError, match=r"variance of the inputs, which lie between 0 and 5e.*Rescale"):
        kernel.resolve(X)


def test_scale_of_laplacian_and_matern(X):
    assert Laplacian().resolve(X).gamma == pytest.approx(1 / (4 * X.std()), rel=1e-14)
    assert Laplacian("auto").resolve(X).gamma == 0.25
    assert Matern().resolve(X).length_scale == pytest.approx(math.sqrt(4 * X.var() / 2), rel=1e-14)
    np.testing.assert_allclose(Matern(nu=math.inf).resolve(X)(X), RBF().resolve(X)(X), rtol=1e-12, atol=1e-15)


def test_kernels_with_a_rule_say_that_they_follow_the_data():
    assert all(kernel.depends_on_data for kernel in (RBF(), Polynomial(), Laplacian(), Matern()))
    assert not any(kernel.depends_on_data for kernel in (Linear(), Constant(), Sum(RBF(), Linear())))


@pytest.mark.parametrize("constant", [np.full((7, 3), 0.1), sparse.csr_array(np.full((7, 3), 0.1))])
def test_constant_inputs_give_one(constant):
    assert RBF().resolve(constant).gamma == 1.0
    assert Laplacian().resolve(constant).gamma == 1.0
    assert Matern().resolve(constant).length_scale == math.sqrt(0.5)
    np.testing.assert_array_equal(RBF().resolve(constant)(constant), 1.0)


def test_resolve_reaches_every_part(X):
    kernel = 2 * RBF() + Normalized(Polynomial(gamma="auto")) * Matern() ** 2 + Linear()
    resolved = kernel.resolve(X)
    rules = [value for value in resolved.get_params().values() if isinstance(value, str)]
    assert rules == []
    assert resolved(X).shape == (30, 30)
    assert resolved.resolve(X[:3]) == resolved
    assert kernel.get_params()["left__left__kernel__gamma"] == "scale"


def test_an_unresolved_rule_says_what_to_do(X):
    for kernel in (RBF(), Laplacian("auto"), Polynomial(), Matern(), 1 + RBF()):
        with pytest.raises(ValueError, match=r"depends on the training inputs\. Call kernel\.resolve"):
            kernel(X)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(0.0), r"RBF: gamma must be a positive finite number.* got 0\.0"),
        (RBF("wide"), "RBF: gamma .* got 'wide'"),
        (RBF(np.nan), "gamma .* got nan"),
        (RBF(True), "gamma .* got True"),
        (RBF([1.0]), r"gamma .* got \[1\.0\]"),
        (Laplacian(-1), "Laplacian: gamma .* got -1"),
        (Polynomial(degree=0), "degree must be a whole number >= 1, got 0"),
        (Polynomial(degree=2.5), r"degree must be a whole number >= 1, got 2\.5"),
        (Polynomial(degree=math.inf), "degree must be a whole number >= 1, got inf"),
        (Polynomial(gamma=-2), "Polynomial: gamma"),
        (Polynomial(coef0=-1.0), r"coef0 must be a finite number >= 0, got -1\.0"),
        (Matern(nu=0.7), "nu must be 0.5, 1.5, 2.5 or infinity, got 0.7"),
        (Matern(nu="inf"), "nu must be 0.5, 1.5, 2.5 or infinity, got 'inf'"),
        (Matern(length_scale=math.inf), "length_scale must be a positive finite number"),
        (Constant(-1), "value must be a finite number >= 0, got -1"),
        (Scaled(-1, Linear()), "factor must be a finite number >= 0"),
        (Power(Linear(), 0), "exponent must be a whole number >= 1, got 0"),
        (Sum(Linear(), Power(RBF(-1.0), 2)), "RBF: gamma"),
    ],
)
def test_wrong_values_are_named(kernel, message, X):
    with pytest.raises(ValueError, match=message):
        kernel.resolve(X)


def test_a_part_must_be_a_kernel(X):
    with pytest.raises(TypeError, match="Sum: right must be a Kernel, got 'rbf'"):
        Sum(Linear(), "rbf").resolve(X)


def test_inputs_without_a_variance_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        RBF().resolve(np.ones((0, 3)))
    with pytest.raises(ValueError, match="NaN or infinity"):
        RBF().resolve(np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match="gamma must be a positive finite number"):
        RBF().resolve(np.array([[0.0, 1e-157]]))


def test_kernels_serve_as_parameters_of_a_grid_search(X):
    y = np.arange(30) % 2
    grid = {"kernel": [RBF(0.1), Linear() + RBF(0.5)], "C": [1.0, 2.0]}
    search = GridSearchCV(SVC(), grid, cv=2).fit(X, y)
    assert search.best_params_["kernel"] in grid["kernel"]
    nested = GridSearchCV(SVC(kernel=RBF(0.1)), {"kernel__gamma": [0.1, 1.0]}, cv=2).fit(X, y)
    np.testing.assert_array_equal(
        nested.predict(X), SVC(kernel="rbf", gamma=nested.best_params_["kernel__gamma"]).fit(X, y).predict(X)
    )
