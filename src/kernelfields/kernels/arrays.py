"""Operations for the formulas of kernels: products, norms and distances of rows, functions of blocks.

Rows are float32 or float64; a block between n rows X and m rows Z is dense (n, m), and float32 only when both sides
are. Z = None stands for X; the result is then exactly symmetric and distances have a zero diagonal.

    ||x - z||^2 = ||x||^2 + ||z||^2 - 2 <x, z>      one matrix product

cancels: the error is that of the norms, not that of the distance. Hence the work is done in float64 also for float32
inputs, block by block, and dense inputs are first shifted by the median of a sample of Z, which changes no distance (a
mean would follow outliers away from the other rows). What lies below the rounding of the norms is set to zero, so that
equal rows are at distance zero whether or not they sit on a diagonal.

A formula is written once, with these functions and with ``+ - * /``, and holds wherever rows may be:

    NumPy arrays, CSR matrices      the functions below; scipy and scikit-learn are loaded where they are needed
    tensors of PyTorch              kernels/tensors.py, loaded with the first tensor
    rows of an ONNX graph           methods of the rows and values in serving/onnx_graph.py

A function that is marked with ``dispatch_by_library`` is replaced there by one of the same name, if its first argument
is a tensor or belongs to a graph. Functions that work in place return their result, which replaces the argument.

Cost: O(n m d) time dense, fewer for sparse (entries that meet in a column); memory one (n, m) array
and a few megabytes. Raises ValueError for inputs that are no matrix of real numbers, or that cannot be compared.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from kernelfields.kernels.rows import (
    FORMULA_BYTES,
    FORMULA_ROWS,
    MEDIAN_SAMPLE,
    check_matrix,
    not_real_message,
    row_blocks,
)
from kernelfields.numerics import sparse_rows
from kernelfields.numerics.sparse_rows import Rows, SparseRows, is_sparse

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# A product of more multiplications than the second is shared out to threads by BLAS, one with a vector of more than
# the first (OpenBLAS; others begin later); up to the third it is done before they are all awake on a busy machine.
_ALONE_VECTOR, _ALONE, _SMALL_PRODUCT = 9_000, 2**18, 2**24
# Sums of rounded numbers are known up to this share.
_ROUNDING = 32 * float(np.finfo(np.float64).eps)
# Sparse rows are compared entry by entry if at most this share of the pairs of entries meet in a column.
_FEW_MEET = 0.01
# Entries of a block of Manhattan distances that are added up together: they stay in the cache.
_CACHED_ENTRIES = 2**15

_Function = TypeVar("_Function", bound=Callable[..., object])
_Values = TypeVar("_Values", bound=Rows)


def is_tensor(X: object) -> bool:
    """Whether X is a tensor of PyTorch, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return isinstance(X, getattr(torch, "Tensor", ()))


def _find_backend(X: object) -> ModuleType | type | None:
    """Return the module or class with the operations on X, or None for NumPy."""
    if isinstance(X, np.ndarray):
        return None
    if is_tensor(X):
        from kernelfields.kernels import tensors

        return tensors
    return type(X) if getattr(type(X), "has_kernel_operations", False) else None


def dispatch_by_library(function: _Function) -> _Function:
    """Call the function of this name in the library of the first argument, if there is one."""

    @functools.wraps(function)
    def answer(first: object, *others: object) -> object:
        return getattr(_find_backend(first), function.__name__, function)(first, *others)

    return cast(_Function, answer)


def namespace(X: object) -> ModuleType:
    """Return NumPy for arrays, or the module with the same functions for tensors."""
    backend = _find_backend(X)
    return backend if isinstance(backend, ModuleType) else np


# ---- rows


@dispatch_by_library
def as_rows(X: object, name: str = "X") -> Rows:
    """Return X as a two-dimensional ndarray or canonical CSR matrix of float32 or float64.

    A tensor stays where it is; a sparse one becomes dense, so pass it by blocks of rows.
    """
    rows = X if is_sparse(X) else np.asarray(X)
    check_matrix(rows.shape, name)
    rows = _as_float(rows.tocsr() if is_sparse(rows) else rows, name)
    if is_sparse(rows) and not rows.has_canonical_format:
        rows = rows.astype(rows.dtype)  # a copy: the caller's matrix keeps its order of entries
        rows.sum_duplicates()  # type: ignore[attr-defined]
    return rows


def _as_float(X: Rows, name: str) -> Rows:
    if X.dtype in (np.float32, np.float64):
        return X
    if X.dtype.kind not in "biufO":
        raise ValueError(not_real_message(name, X.dtype))
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers, but an entry is not one: {error}.") from error


@dispatch_by_library
def on_host(X: object) -> np.ndarray:
    """Return rows or values in host memory: tensors as arrays, CSR matrices unchanged."""
    return cast(np.ndarray, X)


@dispatch_by_library
def location(X: Rows) -> object:
    """Return the device of rows; None for arrays and sparse rows in host memory."""
    return None


@dispatch_by_library
def describe_location(X: Rows) -> str:
    """Describe the type and the device of rows, for messages."""
    return f"a {type(X).__name__}"


def check_comparable(X: Rows, Z: Rows) -> None:
    """Raise ValueError unless X and Z have the same number of columns and are on the same device."""
    if location(X) != location(Z):
        raise ValueError(
            f"X is {describe_location(X)} but Z is {describe_location(Z)}. A kernel compares rows in one place: "
            "move one of them, with torch.as_tensor(Z, device=X.device) say."
        )
    if X.shape[1] != Z.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns but Z has {Z.shape[1]}. "
            "A kernel compares rows with the same columns: build both sides in the same way."
        )


@dispatch_by_library
def is_dense(X: Rows) -> TypeIs[np.ndarray]:
    """Whether the rows are dense, so that a row can be subtracted from all of them."""
    return not is_sparse(X)


@dispatch_by_library
def scale_rows(X: Rows, factors: np.ndarray) -> Rows:
    """Multiply each row by its own factor, in the dtype of the rows."""
    return sparse_rows.scale_rows(X, factors) if is_sparse(X) else convert(X * factors[:, None], X.dtype)


@dispatch_by_library
def concatenate_columns(left: Rows, right: Rows) -> Rows:
    """Concatenate the columns of two matrices."""
    if is_sparse(left) or is_sparse(right):
        return sparse_rows.concatenate_columns([left, right])
    return namespace(left).hstack([left, right])


# ---- products, norms, distances


def block_dtype(X: Rows, Z: Rows | None) -> np.dtype:
    """Return the dtype of k(X, Z)."""
    return namespace(X).promote_types(X.dtype, X.dtype if Z is None else Z.dtype)


@dispatch_by_library
def inner_products(X: Rows, Z: Rows | None = None) -> np.ndarray:
    """Return <x, z> for all rows, shape (n, m)."""
    if Z is None:
        # BLAS returns an exactly symmetric product only for two views of one contiguous array.
        Z = X = X if is_sparse(X) else np.ascontiguousarray(X)
    if isinstance(X, np.ndarray) and isinstance(Z, np.ndarray):
        return X @ Z.T if Z is X else product(X, Z.T)
    if isinstance(X, np.ndarray | SparseRows) or isinstance(Z, np.ndarray | SparseRows):
        return np.asarray(X @ Z.T)
    # Accumulates straight into the dense result where scikit-learn can: four times as fast as
    # a sparse product when most entries meet, and as fast when few do.
    from sklearn.utils.extmath import safe_sparse_dot

    dtype = block_dtype(X, Z)
    return safe_sparse_dot(X.astype(dtype, copy=False), Z.astype(dtype, copy=False).T, dense_output=True)


def product(left: np.ndarray, right: np.ndarray, small: int = _SMALL_PRODUCT) -> np.ndarray:
    """Return left @ right; at most ``small`` multiplications are done in parts, without threads of BLAS.

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


@dispatch_by_library
def squared_norms(X: Rows) -> np.ndarray:
    """Return ||x||^2 of every row, shape (n,), in float64."""
    if is_sparse(X):
        return sparse_rows.row_sums(X, np.square(X.data[: X.nnz], dtype=np.float64))
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


class Destinations(NamedTuple):
    """Rows Z (m, d) prepared for squared distances: in float64, less ``shift`` (d,), with ||z||^2."""

    source: Rows
    shift: np.ndarray | None
    rows: Rows
    norms: np.ndarray


def prepare_destinations(Z: Rows, centred: bool = True) -> Destinations:
    """Return the part of squared distances to Z that is common to all rows."""
    shift = median_row(Z) if centred and is_dense(Z) and Z.shape[0] > 0 else None
    rows = _subtract_row(Z, shift)
    return Destinations(Z, shift, rows, squared_norms(rows))


def squared_distances(X: Rows, Z: Rows | Destinations | None = None) -> np.ndarray:
    """Return ||x - z||^2 for all rows, shape (n, m); Z may also be prepared :class:`Destinations`."""
    if Z is None:
        return _pairwise_distances(X)
    to = Z if isinstance(Z, Destinations) else prepare_destinations(Z, is_dense(X))
    if to.shift is not None and not is_dense(X):
        to = prepare_destinations(to.source, centred=False)
    return map_blocks(X, to.rows.shape[0], block_dtype(X, to.source), lambda part: _distances_to_destinations(part, to))


def _distances_to_destinations(X: Rows, to: Destinations) -> np.ndarray:
    moved = _subtract_row(X, to.shift)
    return _from_products(inner_products(moved, to.rows), outer_sums(squared_norms(moved), to.norms))


def _pairwise_distances(X: Rows) -> np.ndarray:
    n_rows, to = X.shape[0], prepare_destinations(X)
    distances = empty(X, (n_rows, n_rows), X.dtype)
    for rows in cut_rows(X, n_rows, n_rows):
        some, norms, above = to.rows[rows], to.norms[rows], slice(0, rows.start)
        if rows.start > 0:
            left = _from_products(inner_products(some, to.rows[above]), outer_sums(norms, to.norms[above]))
            distances[rows, above] = left
            distances[above, rows] = left.T
        square = _from_products(inner_products(some), outer_sums(norms, norms))
        distances[rows, rows] = with_diagonal(square, 0.0)
    return distances


def _subtract_row(X: Rows, shift: np.ndarray | None) -> Rows:
    return in_float64(X) if shift is None else X - shift


def _from_products(products: np.ndarray, sums: np.ndarray) -> np.ndarray:
    # The two norms are added first: (2p + a) + b and (2p + b) + a may differ in the last digit.
    products *= -2.0
    products += sums
    sums *= _ROUNDING
    return zero_small(products, sums)


@dispatch_by_library
def median_row(Z: np.ndarray) -> np.ndarray:
    """Return the median of a sample of the rows, (d,), in float64."""
    return np.median(Z[:: -(-len(Z) // MEDIAN_SAMPLE)], axis=0).astype(np.float64)


@dispatch_by_library
def manhattan_distances(X: Rows, Z: Rows | None = None) -> np.ndarray:
    """Return sum_j |x_j - z_j| for all rows, shape (n, m)."""
    distances: Callable[..., np.ndarray] = _dense_manhattan
    other, dtype = X if Z is None else Z, block_dtype(X, Z)
    if is_sparse(X) or is_sparse(other):
        X, other = SparseRows.from_rows(X), SparseRows.from_rows(other)
        if X.nnz * other.nnz > _FEW_MEET * math.prod(X.shape) * math.prod(other.shape):
            X, other = X.toarray(), other.toarray()
        else:
            distances = _sparse_manhattan
    return map_blocks(X, other.shape[0], dtype, lambda part: distances(part, other))


def _dense_manhattan(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    if "scipy" in sys.modules:
        from scipy.spatial.distance import cdist

        return cdist(X, Z, "cityblock")
    # The digits of cdist, in three times its time.
    distances, step = np.zeros((len(X), len(Z))), max(1, _CACHED_ENTRIES // max(1, len(Z)))
    for first in range(0, len(X), step):
        total = distances[first : first + step]
        apart = np.empty_like(total)
        for x, z in zip(X[first : first + step].T, Z.T, strict=True):
            np.subtract.outer(x, z, out=apart, dtype=np.float64)
            total += np.abs(apart, out=apart)
    return distances


def _sparse_manhattan(X: SparseRows, Z: SparseRows) -> np.ndarray:
    """Return |x| + |z|, less |x_j| + |z_j| - |x_j - z_j| for the columns in which both have entries."""
    sums = outer_sums(*(sparse_rows.row_sums(rows, np.abs(rows.data, dtype=np.float64)) for rows in (X, Z)))
    distances = sums.copy()
    for rows, mine, theirs in sparse_rows.meetings(X, Z.T):
        x, z = X.data[mine].astype(np.float64), Z.T.data[theirs].astype(np.float64)
        met = np.abs(x - z) - (np.abs(x) + np.abs(z))
        distances[rows] += sparse_rows.sums_of_meetings(X, Z.T, rows, mine, theirs, met)
    return zero_small(distances, sums * _ROUNDING)


@dispatch_by_library
def look_up(X: Rows, table: np.ndarray, columns: np.ndarray | None, owner: str) -> np.ndarray:
    """Return entries of a table (N, N) at the row numbers in X (n, 1) and at columns; None for its diagonal."""
    rows = row_numbers(X, len(table), owner)
    return table[rows, rows] if columns is None else table[np.ix_(rows, columns)]


def row_numbers(X: Rows, n_rows: int, owner: str) -> np.ndarray:
    """Return one column of row numbers below n_rows as whole numbers (n,); ValueError, naming the owner, otherwise."""
    if X.shape[1] != 1:
        raise ValueError(
            f"{owner}: inputs are one column of row numbers into the matrix, got {X.shape[1]} columns. "
            "Use np.arange(n).reshape(-1, 1) for the first n objects."
        )
    numbers = (X.toarray() if is_sparse(X) else np.asarray(X)).ravel()
    wrong = ~((numbers >= 0) & (numbers < n_rows) & (numbers == np.floor(numbers)))
    if wrong.any():
        raise ValueError(
            f"{owner}: row numbers must be whole and from 0 to {n_rows - 1}, "
            f"got {numbers[np.argmax(wrong)]:g} in row {int(np.argmax(wrong))} of the input."
        )
    return numbers.astype(np.intp)


# ---- blocks and vectors


@dispatch_by_library
def cut_rows(X: Rows, n_rows: int, n_columns: int = 1) -> list[slice]:
    """Split the rows of an (n_rows, n_columns) array into blocks that suit the device of X."""
    return row_blocks(n_rows, n_columns, budget=FORMULA_BYTES, least=FORMULA_ROWS)


@dispatch_by_library
def map_blocks(X: Rows, n_columns: int, dtype: DTypeLike, function: Callable[[Rows], np.ndarray]) -> np.ndarray:
    """Return function(X), shape (n, n_columns), computed in blocks of a few megabytes."""
    blocks = list(cut_rows(X, X.shape[0], n_columns))
    if len(blocks) == 1:
        return convert(function(X), dtype)
    values = empty(X, (X.shape[0], n_columns), dtype)
    for rows in blocks:
        values[rows] = function(X[rows])
    return values


@dispatch_by_library
def transform(block: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply an elementwise function in place, in blocks of a few megabytes."""
    for rows in cut_rows(block, *block.shape):
        block[rows] = function(block[rows])
    return block


def raise_to(block: np.ndarray, exponent: int) -> np.ndarray:
    """Raise every entry to an integer power >= 1 in place: products are several times as fast as pow."""
    return block if exponent == 1 else transform(block, lambda part: _whole_power(part, exponent))


def _whole_power(base: np.ndarray, exponent: int) -> np.ndarray:
    if exponent == 1:
        return base
    half = _whole_power(base * base, exponent // 2)
    return half * base if exponent % 2 else half


@dispatch_by_library
def scale_rows_and_columns(block: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Multiply entry (i, j) by rows[i] * columns[j] in place; a symmetric block stays symmetric."""
    for part in cut_rows(block, *block.shape):
        block[part] *= rows[part, None] * columns
    return block


def outer_sums(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return rows[i] + columns[j], shape (n, m)."""
    return rows[:, None] + columns


def empty(X: Rows, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return an uninitialized array on the device of X."""
    return namespace(X).empty(shape, dtype=dtype, device=getattr(X, "device", "cpu"))


@dispatch_by_library
def fill_array(X: Rows, shape: tuple[int, ...], value: float, dtype: DTypeLike) -> np.ndarray:
    """Return an array of one value on the device of X."""
    return namespace(X).full(shape, value, dtype=dtype, device=getattr(X, "device", "cpu"))


@dispatch_by_library
def convert(values: _Values, dtype: DTypeLike) -> _Values:
    """Return rows or values in another dtype, uncopied if unchanged."""
    return cast(_Values, values.astype(dtype, copy=False))


def in_float64(X: _Values) -> _Values:
    """Return rows or values in float64."""
    return convert(X, namespace(X).float64)


def with_diagonal(block: np.ndarray, values: np.ndarray | float) -> np.ndarray:
    """Write the diagonal of a square block, in place."""
    numbers = np.arange(block.shape[0])
    block[numbers, numbers] = values
    return block


def exponential(values: np.ndarray) -> np.ndarray:
    """Exponentiate in place."""
    return namespace(values).exp(values, out=values)


def square_root(values: np.ndarray) -> np.ndarray:
    """Compute the square root in place."""
    return namespace(values).sqrt(values, out=values)


@dispatch_by_library
def zero_small(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Set values to zero if they are at most their bounds, in place."""
    values[values <= bounds] = 0.0
    return values


def inverse_or_zero(values: np.ndarray) -> np.ndarray:
    """Return 1 / values for positive values, and 0 for others."""
    where, positive = namespace(values).where, values > 0
    return where(positive, 1.0 / where(positive, values, 1.0), 0.0)


@dispatch_by_library
def first_negative(values: np.ndarray) -> int | None:
    """Return the index of the first negative value of a vector; None without one."""
    negative = np.flatnonzero(on_host(values) < 0)
    return int(negative[0]) if len(negative) else None


@dispatch_by_library
def compute_on_host(X: Rows, function: Callable[..., np.ndarray], *others: Rows | None) -> np.ndarray:
    """Return function(X, ...) for a function of NumPy arrays; tensors are copied to the host and back."""
    return function(X, *others)
