"""Arrays behind kernels: rows of X (n, d) and Z (m, d), dense or CSR, and the steps of the kernels' formulas.

Rows are float32 or float64; a block between n and m rows is dense (n, m), and float32 only when both sides are.
Z = None stands for X; the result is then exactly symmetric and distances have a zero diagonal.

    ||x - z||^2 = ||x||^2 + ||z||^2 - 2 <x, z>      one matrix product

cancels: the error is that of the norms, not that of the distance. Hence the work is done in float64 also for float32
inputs, block by block, and dense inputs are first shifted by the median of a sample of Z, which changes no distance (a
mean would follow outliers away from the other rows). What lies below the rounding of the norms is set to zero, so that
equal rows are at distance zero whether or not they sit on a diagonal.

Rows may also be a tensor of PyTorch, on any device: results are then tensors there. Functions marked with
``with_tensor_twin`` are written a second time, under the same name, in kernels/tensors.py, the one module here
that imports PyTorch; it is loaded when the first tensor comes.

Cost: O(n m d) time dense, fewer for sparse (entries that meet in a column); memory one (n, m) array
and a few megabytes. Fails: ValueError for inputs that are no matrix of real numbers, or that cannot be compared.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.utils.extmath import safe_sparse_dot

# About 16 MB of float64: large enough for fast matrix products, small beside the block itself.
_BLOCK_ENTRIES = 2**21
_SMALLEST_BLOCK = 16
# A product of more multiplications than the second is shared out to threads by BLAS, one with a vector of more than
# the first (OpenBLAS; others begin later); up to the third it is done before they are all awake on a busy machine.
_ALONE_VECTOR, _ALONE, _SMALL_PRODUCT = 9_000, 2**18, 2**24
#: Rows whose median is taken off before squared distances are computed.
MEDIAN_SAMPLE = 256

_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of PyTorch, which is not imported to find out."""
    torch = sys.modules.get("torch")
    return isinstance(X, getattr(torch, "Tensor", ()))


def with_tensor_twin(function: _Function) -> _Function:
    """Let the function of the same name in kernels/tensors.py answer when the first argument is a tensor."""

    @functools.wraps(function)
    def answer(first: Any, *others: Any) -> Any:
        if is_tensor(first):
            twin = getattr(importlib.import_module("kernelfields.kernels.tensors"), function.__name__)
            return twin(first, *others)
        return function(first, *others)

    return cast(_Function, answer)


@with_tensor_twin
def as_rows(X: Any, name: str = "X") -> Any:
    """Return X as a two-dimensional ndarray or canonical CSR matrix of float32 or float64.

    A tensor stays where it is; a sparse one becomes dense, so pass it by blocks of rows.
    """
    X = X if sparse.issparse(X) else np.asarray(X)
    check_matrix(X, name)
    X = _as_float(X.tocsr() if sparse.issparse(X) else X, name)
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()  # the caller's matrix keeps its order of entries
        X.sum_duplicates()
    return X


def not_real(name: str, dtype: Any) -> str:
    """Return what to say of inputs that are no real numbers."""
    return f"{name} must hold real numbers, got dtype {dtype}."


def _as_float(X: Any, name: str) -> Any:
    if X.dtype in (np.float32, np.float64):
        return X
    if X.dtype.kind not in "biufO":
        raise ValueError(not_real(name, X.dtype))
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers, but an entry is not one: {error}.") from error


def check_matrix(X: Any, name: str) -> None:
    """Raise ValueError unless X has two dimensions."""
    if X.ndim != 2:
        raise ValueError(
            f"{name} must be two-dimensional (rows, columns), got shape {tuple(X.shape)}. "
            "Use x.reshape(1, -1) for a single row, x.reshape(-1, 1) for a single column."
        )


@with_tensor_twin
def on_host(X: Any) -> Any:
    """Return X as a matrix in the memory of the processor; only a tensor may have to move."""
    return X


def _place(X: Any) -> str:
    return f"a tensor on {X.device}" if is_tensor(X) else f"a {type(X).__name__}"


def check_comparable(X: Any, Z: Any) -> None:
    """Raise ValueError unless X and Z have as many columns and lie in the same place."""
    if is_tensor(X) != is_tensor(Z) or (is_tensor(X) and X.device != Z.device):
        raise ValueError(
            f"X is {_place(X)} but Z is {_place(Z)}. A kernel compares rows in one place: "
            "move one of them, with torch.as_tensor(Z, device=X.device) say."
        )
    if X.shape[1] != Z.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns but Z has {Z.shape[1]}. "
            "A kernel compares rows with the same columns: build both sides in the same way."
        )


@with_tensor_twin
def block_dtype(X: Any, Z: Any | None) -> np.dtype:
    """Return the dtype of k(X, Z)."""
    return np.result_type(X.dtype, X.dtype if Z is None else Z.dtype)


def row_blocks(n_rows: int, n_columns: int, entries: int | None = None) -> Iterator[slice]:
    """Cut the rows of an (n_rows, n_columns) array into blocks of about ``entries``; None for a few megabytes."""
    step = max(_SMALLEST_BLOCK, (entries or _BLOCK_ENTRIES) // max(n_columns, 1))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))


@with_tensor_twin
def blocks_of(block: Any) -> Iterator[slice]:
    """Cut the rows of a block into blocks that suit the place where it lies."""
    return row_blocks(*block.shape)


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
    if Z is X or sparse.issparse(X) or sparse.issparse(Z):
        return np.asarray(X @ Z.T)
    return product(X, Z.T)


def product(left: np.ndarray, right: np.ndarray, small: int = _SMALL_PRODUCT) -> np.ndarray:
    """Return left @ right; one of at most ``small`` multiplications in parts that take no threads of BLAS.

    The scores of a short sequence are such products. Threads would halve a millisecond on a machine with nothing else
    to do, and wait for each other for tens of them where every core is busy.
    """
    n_rows, inner, n_columns = *left.shape, right.shape[1]
    work, alone = n_rows * inner * n_columns, _ALONE_VECTOR if 1 in (n_rows, n_columns) else _ALONE
    if work <= alone or work > small:
        return left @ right
    out = np.zeros((n_rows, n_columns), dtype=np.result_type(left, right))
    left = left.astype(out.dtype, copy=False)
    if inner > n_columns:
        step = max(1, alone // (n_rows * n_columns))
        for k in range(0, inner, step):
            out += left[:, k : k + step] @ right[k : k + step]
        return out
    step = max(1, alone // (n_rows * inner))
    for k in range(0, n_columns, step):
        np.matmul(left, right[:, k : k + step], out=out[:, k : k + step])
    return out


@with_tensor_twin
def squared_norms(X: Any) -> np.ndarray:
    """Return ||x||^2 of every row, shape (n,), in float64."""
    if sparse.issparse(X):
        return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


class Destinations(NamedTuple):
    """Rows Z (m, d) as squared distances to them are computed: in float64, ``shift`` (d,) taken off, and ||z||^2."""

    given: Any
    shift: Any
    rows: Any
    norms: Any


@with_tensor_twin
def destinations(Z: Any) -> Destinations:
    """Return what squared distances to Z need that does not depend on the other rows; nothing is taken off CSR rows."""
    if sparse.issparse(Z) or Z.shape[0] == 0:
        rows = Z.astype(np.float64)
        return Destinations(Z, None, rows, squared_norms(rows))
    shift = _median(Z)
    rows = Z - shift
    return Destinations(Z, shift, rows, squared_norms(rows))


@with_tensor_twin
def squared_distances(X: Any, Z: Any | None = None) -> np.ndarray:
    """Return ||x - z||^2 for all rows, shape (n, m); Z may also be the :class:`Destinations` of rows that stay."""
    if Z is not None:
        return _squared_distances_to(X, Z if isinstance(Z, Destinations) else _destinations_for(X, Z))
    distances = np.empty((X.shape[0], X.shape[0]), dtype=X.dtype)
    if distances.size == 0:
        return distances
    X = X.astype(np.float64) if sparse.issparse(X) else X - _median(X)
    norms = squared_norms(X)
    for rows in blocks_of(distances):
        above = slice(0, rows.start)
        if rows.start > 0:
            left = _from_products(inner_products(X[rows], X[above]), norms[rows], norms[above])
            distances[rows, above] = left
            distances[above, rows] = left.T
        square = _from_products(inner_products(X[rows]), norms[rows], norms[rows])
        np.fill_diagonal(square, 0.0)
        distances[rows, rows] = square
    return distances


def _squared_distances_to(X: Any, to: Destinations) -> np.ndarray:
    distances = np.empty((X.shape[0], to.rows.shape[0]), dtype=block_dtype(X, to.given))
    if distances.size == 0:
        return distances
    if sparse.issparse(X) and to.shift is not None:
        to = _destinations_for(X, to.given)
    X = X.astype(np.float64) if to.shift is None else X - to.shift
    norms = squared_norms(X)
    for rows in blocks_of(distances):
        distances[rows] = _from_products(inner_products(X[rows], to.rows), norms[rows], to.norms)
    return distances


def _destinations_for(X: Any, Z: Any) -> Destinations:
    if not sparse.issparse(X):
        return destinations(Z)
    # What is taken off sparse rows would fill them.
    rows = Z.astype(np.float64)
    return Destinations(Z, None, rows, squared_norms(rows))


def _median(rows: np.ndarray) -> np.ndarray:
    return np.median(rows[:: -(-len(rows) // MEDIAN_SAMPLE)], axis=0).astype(np.float64)


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
        for rows in blocks_of(distances):
            distances[rows] = cdist(X[rows], other, "cityblock")
        return distances
    # Loaded by those alone who need it: a tenth of a second.
    from sklearn.metrics.pairwise import manhattan_distances as sparse_manhattan

    left, right = _with_short_indices(X), _with_short_indices(other)
    for rows in blocks_of(distances):
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


def transform(block: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply an elementwise function in place, a few megabytes at a time, and return the block."""
    for rows in blocks_of(block):
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


def scale_rows_and_columns(block: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Multiply entry (i, j) by rows[i] * columns[j] in place; a symmetric block stays symmetric."""
    for part in blocks_of(block):
        block[part] *= rows[part, None] * columns
    return block


#: The kind under which a sparse matrix stands in the description of a kernel.
SPARSE_MATRIX = "sparse matrix"


def described_matrix(X: Any) -> Any:
    """Return a matrix as a model file can hold it: itself, or the parts of a sparse one under their names."""
    if not sparse.issparse(X):
        return np.asarray(X)
    X = sparse.csr_array(X)
    shape = [int(length) for length in X.shape]
    return {"kind": SPARSE_MATRIX, "data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": shape}


def matrix_from_description(described: Mapping[str, Any]) -> sparse.csr_array:
    """Return the sparse matrix whose parts were described; ValueError if they do not make one."""
    try:
        data, indices, indptr = (np.asarray(described[name]) for name in ("data", "indices", "indptr"))
        X = sparse.csr_array((data, indices, indptr), shape=tuple(described["shape"]))
        X.check_format(full_check=True)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the description of a sparse matrix is wrong: {error}.") from error
    return X
