"""Kernels towards rows that stay give the digits of kernels of two matrices; small products take no threads."""

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.kernels import RBF, Columns, Constant, Forest, Laplacian, Linear, Matern, Polynomial, Tanimoto
from kernelfields.kernels.arrays import product

KERNELS = [
    RBF(0.3),
    Matern(1.5, 2.0),
    Laplacian(0.2),
    Polynomial(2, gamma=0.1),
    0.5 * RBF(0.3) + Constant(2.0) * Linear(),
    Columns(RBF(0.4), 1, 4) * Matern(2.5, 1.0),
    RBF(0.3) ** 2,
    Tanimoto(),
    Forest(trees=[[0, 3.0, 1, 2], [-1, 0, 1, 1], [4, 3.5, 3, 4], [-1, 0, 3, 3], [-1, 0, 4, 4]]),
]


def rows(seed: int, n_rows: int, dtype: type = np.float64) -> np.ndarray:
    return (3.0 + np.random.default_rng(seed).normal(size=(n_rows, 5))).astype(dtype)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_stay_change_no_digit(kernel, dtype):
    X, Z = rows(0, 7, dtype), rows(1, 40, dtype)
    block = kernel.towards(Z)
    for given in (X, X[:1], X.astype(np.float64), X[:0]):
        expected = kernel(given, Z)
        assert block(given).dtype == expected.dtype
        np.testing.assert_array_equal(block(given), expected)


@pytest.mark.parametrize("sparse_X", [False, True])
@pytest.mark.parametrize("sparse_Z", [False, True])
def test_rows_that_stay_may_be_sparse_and_others_dense(sparse_X, sparse_Z):
    X, Z = rows(0, 7), rows(1, 40)
    X, Z = sp.csr_array(X) if sparse_X else X, sp.csr_array(Z) if sparse_Z else Z
    np.testing.assert_array_equal(RBF(0.3).towards(Z)(X), RBF(0.3)(X, Z))


def test_a_kernel_of_ones_own_keeps_its_formula():
    class Halved(RBF):
        def _block(self, X, Z):
            return 0.5 * super()._block(X, Z)

    X, Z = rows(0, 7), rows(1, 40)
    np.testing.assert_array_equal(Halved(0.3).towards(Z)(X), 0.5 * RBF(0.3)(X, Z))


def test_other_columns_are_refused():
    with pytest.raises(ValueError, match="X has 4 columns but Z has 5"):
        RBF(0.3).towards(rows(1, 40))(rows(0, 7)[:, :4])


@pytest.mark.parametrize("shape", [(8, 128, 4000), (8, 4000, 25), (1, 128, 300), (1, 900, 25), (3, 500, 1), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_in_parts_are_products(shape, dtype):
    n_rows, inner, n_columns = shape
    random = np.random.default_rng(0)
    left = random.normal(size=(n_rows, inner)).astype(dtype)
    right = random.normal(size=(n_columns, inner)).astype(dtype).T
    whole = product(left, right, small=0)
    assert product(left, right).dtype == whole.dtype == dtype
    bound = 8 * np.finfo(dtype).eps * (np.abs(left) @ np.abs(right))
    assert (np.abs(product(left, right) - whole) <= bound).all()
