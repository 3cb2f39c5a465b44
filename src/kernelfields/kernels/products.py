"""Inner products and distances between all rows of X (n, d) and of Z (m, d), dense or CSR.

    products   <x, z>                                 one matrix product
    squared    ||x||^2 + ||z||^2 - 2 <x, z>           one matrix product, in float64
    manhattan  sum_j |x_j - z_j|

Z = None stands for X; the result is then exactly symmetric and distances have a zero diagonal.

Squared distances cancel: the error is that of the norms, not that of the distance. Hence the work is
done in float64 also for float32 inputs, block by block, and dense inputs are first shifted by the median
of a sample of Z, which changes no distance (a mean would follow outliers away from the other rows). What
lies below the rounding of the norms is set to zero, so that equal rows are at distance zero whether or
not they sit on a diagonal.

Cost: O(n m d) time dense, fewer for sparse (entries that meet in a column); memory one (n, m) array
and a few megabytes.

The second half of the module are the elementwise steps of the kernels' formulas. All functions take tensors of
PyTorch as well and then return tensors on the same device; those with ``with_tensor_twin`` are written a second
time, for tensors, in kernels/tensors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances as sparse_manhattan
from sklearn.utils.extmath import safe_sparse_dot

from kernelfields.kernels.inputs import block_dtype, row_blocks, with_tensor_twin

_MEDIAN_SAMPLE = 256


@with_tensor_twin
def inner_products(X: Any, Z: Any | None = None) -> np.ndarray:
    """Return <x, z> for all rows, shape (n, m)."""
    if Z is None:
        # BLAS returns an exactly symmetric product only for two views of one contiguous array.
        Z = X = X if sparse.issparse(X) else contiguous(X)
    if sparse.issparse(X) and sparse.issparse(Z):
        dtype = block_dtype(X, Z)
        left, right = X.astype(dtype, copy=False), Z.astype(dtype, copy=False)
        # Accumulates straight into the dense result where scikit-learn can: four times as fast as
        # a sparse product when most entries meet, and as fast when few do.
        return safe_sparse_dot(left, right.T, dense_output=True)
    return np.asarray(X @ Z.T)


@with_tensor_twin
def squared_norms(X: Any) -> np.ndarray:
    """Return ||x||^2 of every row, shape (n,), in float64."""
    if sparse.issparse(X):
        return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


@with_tensor_twin
def squared_distances(X: Any, Z: Any | None = None) -> np.ndarray:
    """Return ||x - z||^2 for all rows, shape (n, m)."""
    n_columns = X.shape[0] if Z is None else Z.shape[0]
    distances = np.empty((X.shape[0], n_columns), dtype=block_dtype(X, Z))
    if distances.size == 0:
        return distances
    X, Z = _shifted_to_float64(X, Z)
    norms = squared_norms(X)
    if Z is not None:
        other_norms = squared_norms(Z)
        for rows in row_blocks(*distances.shape):
            distances[rows] = _from_products(inner_products(X[rows], Z), norms[rows], other_norms)
        return distances
    for rows in row_blocks(*distances.shape):
        above = slice(0, rows.start)
        if rows.start > 0:
            left = _from_products(inner_products(X[rows], X[above]), norms[rows], norms[above])
            distances[rows, above] = left
            distances[above, rows] = left.T
        square = _from_products(inner_products(X[rows]), norms[rows], norms[rows])
        np.fill_diagonal(square, 0.0)
        distances[rows, rows] = square
    return distances


def _shifted_to_float64(X: Any, Z: Any | None) -> tuple[Any, Any | None]:
    if sparse.issparse(X) or sparse.issparse(Z):
        return X.astype(np.float64), None if Z is None else Z.astype(np.float64)
    rows = X if Z is None else Z
    median = np.median(rows[:: -(-len(rows) // _MEDIAN_SAMPLE)], axis=0).astype(np.float64)
    return X - median, None if Z is None else Z - median


def _from_products(products: np.ndarray, norms: np.ndarray, other_norms: np.ndarray) -> np.ndarray:
    # The two norms are added first: (2p + a) + b and (2p + b) + a may differ in the last digit.
    sums = np.add.outer(norms, other_norms)
    products *= -2.0
    products += sums
    sums *= 32 * np.finfo(np.float64).eps
    products[products <= sums] = 0.0
    return products


@with_tensor_twin
def manhattan_distances(X: Any, Z: Any | None = None) -> np.ndarray:
    """Return sum_j |x_j - z_j| for all rows, shape (n, m)."""
    other = X if Z is None else Z
    distances = np.empty((X.shape[0], other.shape[0]), dtype=block_dtype(X, Z))
    if distances.size == 0:
        return distances
    if not (sparse.issparse(X) or sparse.issparse(other)):
        for rows in row_blocks(*distances.shape):
            distances[rows] = cdist(X[rows], other, "cityblock")
        return distances
    left, right = _with_short_indices(X), _with_short_indices(other)
    for rows in row_blocks(*distances.shape):
        distances[rows] = sparse_manhattan(left[rows], right)
    return distances


def _with_short_indices(X: Any) -> sparse.csr_array:
    """Return X as a float64 CSR matrix with the 32-bit indices scikit-learn asks for."""
    X = sparse.csr_array(X, dtype=np.float64)
    if X.indices.dtype == np.int32 and X.indptr.dtype == np.int32:
        return X
    if X.nnz > np.iinfo(np.int32).max:
        raise ValueError(
            f"the Manhattan distance of sparse rows is limited to 2^31 - 1 non-zeros, got {X.nnz}. "
            "Pass fewer rows at a time."
        )
    return sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


@with_tensor_twin
def contiguous(X: np.ndarray) -> np.ndarray:
    """Return X with its rows one after the other in memory."""
    return np.ascontiguousarray(X)


@with_tensor_twin
def side_by_side(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the columns of two matrices in one."""
    return np.hstack([left, right])


@with_tensor_twin
def filled(X: Any, shape: tuple[int, ...], value: float, dtype: Any) -> np.ndarray:
    """Return an array of one value, where X is."""
    return np.full(shape, value, dtype=dtype)


@with_tensor_twin
def converted(values: Any, dtype: Any) -> Any:
    """Return the values in another dtype, themselves where it is the one they have."""
    return values.astype(dtype, copy=False)


@with_tensor_twin
def set_diagonal(block: np.ndarray, values: Any) -> None:
    """Write the diagonal of a square block."""
    np.fill_diagonal(block, values)


@with_tensor_twin
def exponential(values: np.ndarray) -> np.ndarray:
    """Take the exponential in place."""
    return np.exp(values, out=values)


@with_tensor_twin
def square_root(values: np.ndarray) -> np.ndarray:
    """Take the square root in place."""
    return np.sqrt(values, out=values)


@with_tensor_twin
def inverse_or_zero(values: np.ndarray) -> np.ndarray:
    """Return 1 / values where they are positive, and 0 elsewhere."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


@with_tensor_twin
def computed_on_host(values: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return function(values) for a function of NumPy arrays; tensors are copied there and back."""
    return function(values)


@with_tensor_twin
def transform(block: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply an elementwise function in place, a few megabytes at a time, and return the block."""
    for rows in row_blocks(*block.shape):
        block[rows] = function(block[rows])
    return block


def raise_to(block: np.ndarray, exponent: int) -> np.ndarray:
    """Raise every entry to a whole power >= 1 in place: products are several times as fast as pow."""
    return block if exponent == 1 else transform(block, lambda part: _whole_power(part, exponent))


def _whole_power(base: np.ndarray, exponent: int) -> np.ndarray:
    if exponent == 1:
        return base
    half = _whole_power(base * base, exponent // 2)
    return half * base if exponent % 2 else half


@with_tensor_twin
def scale_rows_and_columns(block: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Multiply entry (i, j) by rows[i] * columns[j] in place; a symmetric block stays symmetric."""
    for part in row_blocks(*block.shape):
        block[part] *= rows[part, None] * columns
    return block
