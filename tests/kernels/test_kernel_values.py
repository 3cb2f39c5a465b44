"""Every kernel against a plain double loop over pairs of rows, dense, sparse and in float32."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gamma as gamma_function
from scipy.special import kv

from kernelfields.kernels import (
    RBF,
    CallableKernel,
    Constant,
    Cosine,
    Forest,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    Power,
    Product,
    Scaled,
    Sum,
    Tanimoto,
)


def matern(nu, length_scale):
    def value(x, z):
        r = math.sqrt(sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))
        t = math.sqrt(2 * nu) * r / length_scale
        return 1.0 if t == 0 else 2 ** (1 - nu) / gamma_function(nu) * t**nu * kv(nu, t)

    return value


def squared(x, z):
    return sum((a - b) ** 2 for a, b in zip(x, z, strict=True))


def dot(x, z):
    return sum(a * b for a, b in zip(x, z, strict=True))


def cosine(x, z):
    norms = math.sqrt(dot(x, x) * dot(z, z))
    return dot(x, z) / norms if norms > 0 else 0.0


def normalized_quadratic(x, z):
    return (0.5 * dot(x, z)) ** 2 / math.sqrt((0.5 * dot(x, x)) ** 2 * (0.5 * dot(z, z)) ** 2)


def tanimoto(x, z):
    return dot(x, z) / (dot(x, x) + dot(z, z) - dot(x, z)) if dot(x, x) + dot(z, z) else 0.0


def same_sides(x, z):
    return 0.5 * int((x[0] > 0.5) == (z[0] > 0.5)) + 0.5 * int((x[1] > -0.2) == (z[1] > -0.2))


#: Two trees of one comparison each, of the first column and of the second.
STUMPS = [[0, 0.5, 1, 2], [-1, 0, 1, 1], [-1, 0, 2, 2], [1, -0.2, 4, 5], [-1, 0, 4, 4], [-1, 0, 5, 5]]
CASES = [
    (Linear(), dot),
    (Polynomial(degree=1, gamma=0.3, coef0=0.0), lambda x, z: 0.3 * dot(x, z)),
    (Polynomial(degree=2, gamma=0.3, coef0=0.5), lambda x, z: (0.3 * dot(x, z) + 0.5) ** 2),
    (Polynomial(degree=7, gamma=0.1, coef0=1.0), lambda x, z: (0.1 * dot(x, z) + 1.0) ** 7),
    (RBF(gamma=0.2), lambda x, z: math.exp(-0.2 * squared(x, z))),
    (
        Laplacian(gamma=0.2),
        lambda x, z: math.exp(-0.2 * sum(abs(a - b) for a, b in zip(x, z, strict=True))),
    ),
    (Matern(nu=0.5, length_scale=2.0), lambda x, z: math.exp(-math.sqrt(squared(x, z)) / 2.0)),
    (Matern(nu=1.5, length_scale=2.0), matern(1.5, 2.0)),
    (Matern(nu=2.5, length_scale=2.0), matern(2.5, 2.0)),
    (Matern(nu=math.inf, length_scale=2.0), lambda x, z: math.exp(-squared(x, z) / 8.0)),
    (Cosine(), cosine),
    (Tanimoto(), tanimoto),
    (Forest(trees=STUMPS), same_sides),
    (Constant(value=0.7), lambda x, z: 0.7),
    (Sum(Linear(), RBF(0.2)), lambda x, z: dot(x, z) + math.exp(-0.2 * squared(x, z))),
    (Product(Linear(), RBF(0.2)), lambda x, z: dot(x, z) * math.exp(-0.2 * squared(x, z))),
    (Power(Linear(), 3), lambda x, z: dot(x, z) ** 3),
    (Scaled(2.5, Linear()), lambda x, z: 2.5 * dot(x, z)),
    (Normalized(Polynomial(2, 0.5, 0.0)), normalized_quadratic),
    (CallableKernel(lambda X, Z: X @ Z.T), dot),
]
IDS = [repr(kernel)[:60] for kernel, _ in CASES]
ENTRIES = (0.0, 0.0, -1.5, 0.5, 2.0)


@pytest.fixture
def X():
    rng = np.random.default_rng(3)
    rows = rng.choice(ENTRIES, size=(9, 6)) + rng.choice([0.0, 0.25], size=(9, 6))
    rows[4] = rows[2]  # a duplicate
    assert (np.abs(rows).sum(axis=1) > 0).all()
    return rows


@pytest.fixture
def Z(X):
    rng = np.random.default_rng(4)
    rows = rng.choice(ENTRIES, size=(5, 6)) + 0.1 * rng.standard_normal((5, 1))
    rows[1] = X[3]
    return rows


def by_pairs(value, X, Z):
    return np.array([[value(x, z) for z in Z] for x in X])


@pytest.mark.parametrize(("kernel", "value"), CASES, ids=IDS)
def test_dense_block_equals_double_loop(kernel: Kernel, value, X, Z):
    np.testing.assert_allclose(kernel(X, Z), by_pairs(value, X, Z), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(kernel(X), by_pairs(value, X, X), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("kernel", "value"), CASES, ids=IDS)
def test_diagonal_and_exact_symmetry(kernel: Kernel, value, X, Z):
    gram = kernel(X)
    assert np.array_equal(gram, gram.T)
    np.testing.assert_allclose(kernel.diag(X), gram.diagonal(), rtol=1e-13, atol=1e-14)
    assert kernel(X, Z).shape == (9, 5)
    np.testing.assert_allclose(kernel(X, Z), kernel(Z, X).T, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array])
@pytest.mark.parametrize(("kernel", "value"), CASES, ids=IDS)
def test_sparse_equals_dense(kernel: Kernel, value, container, X, Z):
    for left, right in [(container(X), container(Z)), (X, container(Z)), (container(X), Z)]:
        block = kernel(left, right)
        assert isinstance(block, np.ndarray)
        assert block.dtype == np.float64
        np.testing.assert_allclose(block, kernel(X, Z), rtol=1e-11, atol=1e-12)
    gram = kernel(container(X))
    assert np.array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, kernel(X), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(container(X)), kernel.diag(X), rtol=1e-12)


@pytest.mark.parametrize(("kernel", "value"), CASES, ids=IDS)
def test_float32_in_float32_out(kernel: Kernel, value, X, Z):
    single, other = X.astype(np.float32), Z.astype(np.float32)
    exact = by_pairs(value, single.astype(float), other.astype(float))
    for left, right in [(single, other), (sparse.csr_array(single), sparse.csr_array(other))]:
        block = kernel(left, right)
        assert block.dtype == np.float32
        np.testing.assert_allclose(block, exact, rtol=2e-5, atol=2e-6)
        gram = kernel(left)
        assert gram.dtype == np.float32
        assert np.array_equal(gram, gram.T)
        assert kernel.diag(left).dtype == np.float32
    assert kernel(single, Z).dtype == np.float64
    assert kernel(X, other).dtype == np.float64


@pytest.mark.parametrize(("kernel", "value"), CASES, ids=IDS)
def test_one_row_and_no_rows(kernel: Kernel, value, X):
    np.testing.assert_allclose(kernel(X[:1]), [[value(X[0], X[0])]], rtol=1e-12)
    assert kernel(X[:0], X).shape == (0, 9)
    assert kernel(X, X[:0]).shape == (9, 0)
    assert kernel(X[:0]).shape == (0, 0)
    assert kernel.diag(X[:0]).shape == (0,)


def test_integers_lists_and_strided_inputs():
    whole = np.arange(24).reshape(6, 4)
    assert RBF(0.1)(whole).dtype == np.float64
    np.testing.assert_array_equal(Linear()(whole.tolist()), whole @ whole.T)
    strided = np.random.default_rng(0).standard_normal((40, 30))[::2, ::3]
    for kernel in (Linear(), RBF(0.1), Cosine(), Matern(0.5, 1.0)):
        for view in (strided, np.asfortranarray(strided), strided.astype(np.float32)):
            gram = kernel(view)
            assert np.array_equal(gram, gram.T)


def test_sparse_entries_stored_twice_are_summed_and_the_input_is_left_alone():
    rows = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3, 3])), shape=(2, 3))
    stored = rows.indices.copy()
    np.testing.assert_allclose(Laplacian(0.1)(rows), Laplacian(0.1)(rows.toarray()), rtol=1e-14)
    np.testing.assert_array_equal(rows.indices, stored)


def test_sparse_laplacian_takes_long_indices(X):
    rows = sparse.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    np.testing.assert_allclose(Laplacian(0.2)(rows), Laplacian(0.2)(X), rtol=1e-13)
    np.testing.assert_allclose(Linear()(rows), Linear()(X), rtol=1e-13)


def test_wrong_inputs_are_named():
    with pytest.raises(ValueError, match=r"X must be two-dimensional .* got shape \(3,\)"):
        Linear()(np.ones(3))
    with pytest.raises(ValueError, match="Z must be two-dimensional"):
        Linear()(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match="X has 3 columns but Z has 2"):
        RBF(1.0)(np.ones((2, 3)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="real numbers, got dtype complex"):
        Linear()(np.ones((2, 2), dtype=complex))
    with pytest.raises(ValueError, match="an entry is not one"):
        Linear()(np.array([["a", 1.0]], dtype=object))
    with pytest.raises(NotImplementedError, match="must define _block"):
        Kernel()(np.ones((2, 2)))


def test_zero_rows():
    rows = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    expected = np.diag([0.0, 1.0, 0.0])
    for kernel in (Cosine(), Tanimoto(), Normalized(Linear())):
        for X in (rows, sparse.csr_array(rows)):
            np.testing.assert_array_equal(kernel(X), expected)
            np.testing.assert_allclose(kernel(X, rows), expected, rtol=1e-15)
            np.testing.assert_array_equal(kernel.diag(X), [0, 1, 0])


def test_normalized_refuses_a_negative_diagonal():
    with pytest.raises(ValueError, match=r"k\(x, x\) = -1 < 0 at row 0"):
        Normalized(CallableKernel(lambda X, Z: -np.ones((len(X), len(Z)))))(np.ones((2, 2)))
