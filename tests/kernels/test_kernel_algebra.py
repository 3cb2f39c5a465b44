"""Identities between kernels, and explicit features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from kernelfields.kernels import RBF, Constant, Cosine, Linear, Normalized, Polynomial, Power, Product, Scaled, Sum

X = np.random.default_rng(1).standard_normal((12, 4))
Z = np.random.default_rng(2).standard_normal((7, 4))


def same(left, right):
    np.testing.assert_allclose(left(X, Z), right(X, Z), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(left(X), right(X), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(left.diag(X), right.diag(X), rtol=1e-12, atol=1e-13)


def test_operators_build_the_named_kernels():
    k, other = RBF(0.5), Linear()
    assert k + other == Sum(k, other)
    assert k + 1 == Sum(k, Constant(1.0))
    assert 1 + k == Sum(Constant(1.0), k)
    assert k * other == Product(k, other)
    assert 2 * k == k * 2 == np.float64(2.0) * k == Scaled(2.0, k)
    assert k**3 == Power(k, 3)
    assert sum([k, other]) == Sum(Sum(Constant(0.0), k), other)


def test_identities():
    same((0.3 * Linear() + 0.5) ** 3, Polynomial(3, 0.3, 0.5))
    same(RBF(0.2) * RBF(0.3), RBF(0.5))
    same(RBF(0.2) ** 3, RBF(0.6))
    same(Normalized(Linear()), Cosine())
    same(Normalized(5 * RBF(0.1)), RBF(0.1))
    same(Linear() + Linear(), 2 * Linear())
    same((Linear() + RBF(0.1)) * Cosine(), Linear() * Cosine() + RBF(0.1) * Cosine())
    same(Linear() ** 1, Linear())
    same(Constant(2.0) * RBF(0.1), 2 * RBF(0.1))


def test_a_zero_multiple_is_the_zero_kernel():
    np.testing.assert_array_equal((0 * RBF(0.1))(X, Z), 0.0)


@settings(max_examples=25, deadline=None)
@given(
    factor=st.floats(0, 100),
    shift=st.floats(0, 100),
    degree=st.integers(1, 9),
    gamma=st.floats(1e-3, 10),
)
def test_products_of_sums_expand(factor, shift, degree, gamma):
    kernel = (factor * RBF(gamma) + shift) ** degree
    np.testing.assert_allclose(kernel(X, Z), (factor * RBF(gamma)(X, Z) + shift) ** degree, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.full(12, factor + shift) ** degree, rtol=1e-12)


def test_wrong_operands():
    with pytest.raises(ValueError, match=r"multiplied with a kernel must be finite and >= 0, got -1"):
        -1 * Linear()
    with pytest.raises(ValueError, match="added to a kernel must be finite"):
        Linear() + float("nan")
    with pytest.raises(ValueError, match="exponent must be a whole number"):
        Linear() ** 0.5
    for operation in (lambda: Linear() + "rbf", lambda: {} * Linear(), lambda: None + Linear()):
        with pytest.raises(TypeError, match="unsupported operand"):
            operation()


EXPLICIT = [
    Linear(),
    Constant(0.3),
    2.5 * Linear(),
    0 * Linear(),
    Linear() + 1,
    1 + 3 * (Linear() + 2 * Constant(2.0)),
]


@pytest.mark.parametrize("kernel", EXPLICIT, ids=repr)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_reproduce_the_kernel(kernel, container, dtype):
    rows, others = container(X.astype(dtype)), container(Z.astype(dtype))
    features, other_features = kernel.feature_map(rows), kernel.feature_map(others)
    assert features.dtype == dtype
    assert isinstance(features, np.ndarray) or features.format == "csr"
    products = features @ other_features.T
    products = products.toarray() if sparse.issparse(products) else products
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(products, kernel(rows, others), rtol=tolerance, atol=tolerance)


def test_linear_features_of_sparse_rows_stay_sparse():
    rows = sparse.csr_matrix(np.eye(3))
    assert Linear().feature_map(rows) is rows
    assert sparse.issparse((2 * Linear() + 1).feature_map(rows))


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(1.0),
        Polynomial(2, 1.0),
        Cosine(),
        Linear() * Linear(),
        Linear() ** 2,
        Linear() + RBF(1.0),
        RBF(1.0) + Linear(),
        2 * RBF(1.0),
        Normalized(Linear()),
    ],
    ids=repr,
)
def test_others_have_no_explicit_features(kernel):
    assert kernel.feature_map(X) is None
