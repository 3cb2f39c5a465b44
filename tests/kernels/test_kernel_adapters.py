"""Precomputed matrices, functions and scikit-learn kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp

from kernelfields.kernels import RBF, CallableKernel, Linear, Precomputed, resolve_kernel

X = np.random.default_rng(1).standard_normal((12, 3))
Z = np.random.default_rng(2).standard_normal((70, 3))


def column(*numbers):
    return np.array(numbers).reshape(-1, 1)


def test_precomputed_looks_values_up():
    matrix = X @ X.T
    kernel = Precomputed(matrix).resolve(column(0))
    rows, others = column(3, 0, 3), column(11, 2)
    np.testing.assert_array_equal(kernel(rows, others), matrix[np.ix_([3, 0, 3], [11, 2])])
    np.testing.assert_array_equal(kernel(sparse.csr_array(rows), others), kernel(rows, others))
    np.testing.assert_array_equal(kernel(rows), matrix[np.ix_([3, 0, 3], [3, 0, 3])])
    np.testing.assert_array_equal(kernel.diag(rows), matrix.diagonal()[[3, 0, 3]])
    assert kernel(rows.astype(np.float32)).dtype == np.float32
    assert Precomputed(matrix.astype(np.float32))(rows).dtype == np.float64


def test_a_sum_does_not_write_into_the_precomputed_matrix():
    matrix = np.eye(3)
    (Precomputed(matrix) + 1)(column(0, 1, 2))
    np.testing.assert_array_equal(matrix, np.eye(3))


def test_rounding_asymmetry_is_removed():
    matrix = np.array([[1.0, 0.5], [0.5 + 1e-14, 1.0]])
    gram = Precomputed(matrix).resolve(column(0))(column(0, 1))
    assert np.array_equal(gram, gram.T)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"must be square, got shape \(2, 3\)"),
        ([[1.0, 2.0], [0.0, 1.0]], r"not symmetric: the value at \(0, 1\) is 2 but at \(1, 0\) it is 0"),
        ([[np.nan]], r"has the value nan at \(0, 0\)"),
        ([["a"]], "must hold real numbers"),
    ],
)
def test_precomputed_refuses_what_is_no_gram_matrix(matrix, message):
    with pytest.raises(ValueError, match=message):
        Precomputed(matrix).resolve(column(0))


def test_precomputed_refuses_wrong_row_numbers():
    kernel = Precomputed(np.eye(4))
    for wrong, shown in [(column(0, 4), "4 in row 1"), (column(-1), "-1"), (column(0.5), r"0\.5")]:
        with pytest.raises(ValueError, match=f"whole and from 0 to 3, got {shown}"):
            kernel(wrong)
        with pytest.raises(ValueError, match="whole and from 0 to 3"):
            kernel.diag(wrong)
    with pytest.raises(ValueError, match="got nan"):
        kernel(column(np.nan))
    with pytest.raises(ValueError, match=r"one column of row numbers .* got 2 columns"):
        kernel(np.ones((3, 2)))


def test_callable_equals_the_kernel_it_wraps():
    kernel = CallableKernel(RBF(0.3)).resolve(X)
    np.testing.assert_array_equal(kernel(X, Z), RBF(0.3)(X, Z))
    np.testing.assert_array_equal(kernel.diag(Z), 1.0)
    np.testing.assert_array_equal(kernel(Z, sparse.csr_array(X)), RBF(0.3)(Z, sparse.csr_array(X)))
    linear = CallableKernel(lambda A, B: A @ B.T)
    np.testing.assert_allclose(linear(sparse.csr_array(X)), Linear()(X), rtol=1e-13)
    np.testing.assert_allclose(linear.diag(Z), Linear().diag(Z), rtol=1e-13)
    assert clone(linear) == linear


def test_a_sum_does_not_write_into_what_a_function_returned():
    kept = np.eye(12)
    (CallableKernel(lambda A, B: kept) + 1)(X)
    np.testing.assert_array_equal(kept, np.eye(12))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: np.ones(3), r"must return shape \(12, 70\) .* got \(3,\)"),
        (lambda A, B: A @ B.T * np.inf, r"returned -?inf at \(0, 0\)"),
        (lambda A, B: "no", r"real array of shape \(12, 70\).* got a str"),
    ],
)
def test_wrong_functions_are_named(function, message):
    with pytest.raises(ValueError, match=f"'similarity' .*{message}"):
        CallableKernel(function, name="similarity")(X, Z)


def test_an_asymmetric_function_is_refused():
    with pytest.raises(ValueError, match="'skew' is not symmetric"):
        CallableKernel(lambda A, B: np.add.outer(A[:, 0], 2 * B[:, 0]), name="skew")(X)


def test_callable_parameters_are_checked():
    with pytest.raises(TypeError, match="function must be callable"):
        CallableKernel(3).resolve(X)
    with pytest.raises(TypeError, match="name must be a string"):
        CallableKernel(len, name=3).resolve(X)


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * gp.Matern([0.5, 1.0, 2.0], nu=2.5) + gp.DotProduct(0.4),
        gp.RationalQuadratic() ** 2,
        gp.PairwiseKernel(gamma=0.4, metric="laplacian"),
    ],
    ids=repr,
)
def test_kernels_of_scikit_learn_are_functions(kernel):
    adapted = resolve_kernel(kernel).resolve(X)
    np.testing.assert_allclose(adapted(X, Z), kernel(X, Z), rtol=1e-14)
    np.testing.assert_allclose(adapted(X), kernel(X), rtol=1e-14)
    np.testing.assert_allclose(adapted.diag(X), kernel.diag(X), rtol=1e-14)
    assert adapted(X.astype(np.float32)).dtype == np.float32
    assert clone(adapted) == adapted


def test_white_noise_of_scikit_learn_is_no_function_of_two_inputs():
    adapted, plain = resolve_kernel(gp.RBF(0.7) + gp.WhiteKernel(0.5)), gp.RBF(0.7)
    np.testing.assert_array_equal(adapted(X), plain(X))
    np.testing.assert_array_equal(adapted.diag(X), plain.diag(X))


def test_parameters_of_a_function_are_its_own():
    adapted = CallableKernel(gp.RBF(0.7))
    assert set(adapted.get_params()) == {"function", "name"}
    with pytest.raises(ValueError, match="Invalid parameter 'function'"):
        adapted.set_params(function__length_scale=2.0)


def test_an_error_of_a_function_says_what_it_was_called_with():
    with pytest.raises((TypeError, ValueError)) as raised:
        resolve_kernel(gp.RBF())(sparse.csr_array(X))
    assert raised.value.__notes__ == ["raised by the kernel function 'RBF', which was called with sparse (CSR) rows"]
    with pytest.raises(ValueError, match=r"must return shape \(12, 12\)"):
        resolve_kernel(gp.CompoundKernel([gp.RBF(), gp.RBF()]))(X)
