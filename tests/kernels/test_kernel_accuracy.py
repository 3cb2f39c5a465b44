"""Rounding and memory: distances far from the origin, float32, several blocks of rows."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from kernelfields.kernels import (
    RBF,
    Constant,
    Cosine,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    Tanimoto,
    arrays,
)


def rows_of_norm_ten(n, seed):
    rows = np.random.default_rng(seed).standard_normal((n, 20))
    return 10 * rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_float32_rbf_is_within_1e_minus_5_of_float64():
    X = rows_of_norm_ten(60, 0).astype(np.float32)
    Z = X + (1e-3 * np.random.default_rng(1).standard_normal(X.shape)).astype(np.float32)
    exact = np.exp(-cdist(X.astype(float), Z.astype(float), "sqeuclidean"))
    for left, right in [(X, Z), (sparse.csr_array(X), sparse.csr_array(Z))]:
        assert np.abs(RBF(1.0)(left, right) - exact).max() < 1e-6


def test_a_common_shift_changes_nothing():
    X = np.random.default_rng(0).standard_normal((30, 4))
    shifted = X + 1e6
    np.testing.assert_allclose(RBF(0.5)(shifted), RBF(0.5)(X), atol=1e-8)
    np.testing.assert_allclose(RBF(0.5)(shifted, shifted[:7]), RBF(0.5)(X, X[:7]), atol=1e-8)


def test_one_far_row_does_not_blur_the_others():
    X = 1e-3 * np.random.default_rng(0).standard_normal((30, 2))
    with_outlier = np.vstack([X, [[1e9, 1e9]]])
    np.testing.assert_allclose(RBF(1e6)(X, with_outlier)[:, :30], RBF(1e6)(X), rtol=1e-9, atol=1e-12)


def test_distances_of_whole_numbers_are_exact():
    X = (np.random.default_rng(0).random((40, 30)) < 0.3).astype(float)
    np.testing.assert_array_equal(RBF(0.1)(X, X[:9]), np.exp(-0.1 * cdist(X, X[:9], "sqeuclidean")))


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(0.5, 1.0)])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_equal_rows_have_value_one_off_the_diagonal_too(kernel, container):
    X = rows_of_norm_ten(50, 2)
    block = kernel(container(X[:30]), container(X))
    np.testing.assert_array_equal(block[np.arange(30), np.arange(30)], 1.0)
    doubled = kernel(container(np.vstack([X, X])))
    np.testing.assert_array_equal(doubled[np.arange(50), 50 + np.arange(50)], 1.0)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.1),
        Laplacian(0.1),
        Matern(1.5, 1.0),
        Polynomial(3, 0.1),
        Normalized(Polynomial(2, 0.1)),
        Cosine(),
        Tanimoto(),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_many_blocks_equal_one(kernel, dtype, container, monkeypatch):
    X = container(np.random.default_rng(0).standard_normal((70, 5)).astype(dtype))
    whole, cross = kernel(X), kernel(X, X[:33])
    monkeypatch.setattr(arrays, "FORMULA_BYTES", 8 * 20 * 70)
    tolerance = 1e-6 if dtype == np.float32 else 1e-13
    gram = kernel(X)
    assert np.array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, whole, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(kernel(X, X[:33]), cross, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "kernel", [Linear(), RBF(0.1), Polynomial(3, 0.1), Matern(2.5, 1.0), Laplacian(0.1), Constant(2.0)]
)
def test_memory_is_about_one_block(kernel, monkeypatch):
    monkeypatch.setattr(arrays, "FORMULA_BYTES", 8 * 50_000)
    X = np.random.default_rng(0).standard_normal((1000, 5))
    tracemalloc.start()
    try:
        size = kernel(X, X[:900]).nbytes
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.4 * size
