"""Sparse matrices by rows, with NumPy alone: the part of scipy's CSR arrays for kernels and prediction.

    row t has the entries indptr[t] .. indptr[t + 1] - 1 of ``data`` and ``indices``; columns sorted, none twice

``SparseRows`` has the constructor, attributes and operators of ``scipy.sparse.csr_array``, so that functions here and
in the kernels take either. Products are gathered: entry (t, j, v) of X adds v M[j] to row t of X M. Cost:
O(non-zeros m) for a dense M (d, m), O(entries that meet) for a sparse one, some megabytes at a time; results are dense.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

if TYPE_CHECKING:
    from typing_extensions import TypeIs

# Numbers that are gathered at a time: 32 MB of doubles.
_AT_ONCE = 2**22

Index = slice | np.ndarray | tuple[slice, slice]


def is_sparse(X: object) -> TypeIs[SparseRows]:
    """Whether X is a sparse matrix of scipy or :class:`SparseRows`, without importing scipy."""
    return hasattr(X, "tocsr")


class SparseRows:
    """A CSR matrix in canonical format, made of ``parts`` = (data, indices, indptr).

    Annotations name this class where scipy's CSR matrices are meant as well.
    """

    #: As in scipy: columns are sorted, and none is there twice.
    has_canonical_format = True
    # Arrays leave `array @ rows` to the rows.
    __array_ufunc__ = None

    def __init__(self, parts: tuple[np.ndarray, np.ndarray, np.ndarray], *, shape: tuple[int, int]):
        self.data, self.indices, self.indptr = parts
        self.shape = shape

    @classmethod
    def from_rows(cls, rows: Rows) -> SparseRows:
        """Convert dense rows, or the rows of a CSR matrix, to SparseRows."""
        if isinstance(rows, np.ndarray):
            return cls.from_dense(rows)
        if type(rows) is cls:
            return rows
        n_entries = int(rows.indptr[-1])
        return cls((rows.data[:n_entries], rows.indices[:n_entries], np.asarray(rows.indptr)), shape=rows.shape)

    @classmethod
    def from_dense(cls, dense: np.ndarray) -> SparseRows:
        """Return the nonzero entries of a dense array."""
        rows, columns = np.nonzero(dense)
        n_rows, n_columns = dense.shape
        counts = np.bincount(rows, minlength=n_rows)
        return cls((dense[rows, columns], columns, make_offsets(counts)), shape=(n_rows, n_columns))

    @classmethod
    def from_entries(cls, data: np.ndarray, indices: np.ndarray, counts: np.ndarray, width: int) -> SparseRows:
        """Return rows of ``counts`` entries each, from unsorted columns; entries of equal columns add up."""
        n_rows = len(counts)
        keys = np.repeat(np.arange(n_rows, dtype=np.int64) * width, counts) + indices
        if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
            order = np.argsort(keys, kind="stable")
            keys, data = keys[order], data[order]
            first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
            keys, data = keys[first], np.add.reduceat(data, first)
        indptr = np.searchsorted(keys, np.arange(n_rows + 1) * width)
        return cls((data, keys % width, indptr), shape=(n_rows, width))

    @property
    def dtype(self) -> np.dtype:
        """Type of the entries."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.data)

    @cached_property
    def T(self) -> SparseRows:
        """The transpose, computed once."""
        order = np.argsort(self.indices, kind="stable")
        indptr = make_offsets(np.bincount(self.indices, minlength=self.shape[1]))
        return SparseRows((self.data[order], entry_rows(self)[order], indptr), shape=(self.shape[1], self.shape[0]))

    def tocsr(self) -> SparseRows:
        """Return the matrix itself."""
        return self

    def toarray(self) -> np.ndarray:
        """Return a dense array."""
        dense = np.zeros(self.shape, self.dtype)
        dense[entry_rows(self), self.indices] = self.data
        return dense

    def astype(self, dtype: DTypeLike, copy: bool = True) -> SparseRows:
        """Return the matrix with entries of another type; itself if the type is the same and ``copy`` is False."""
        if not copy and self.dtype == dtype:
            return self
        return SparseRows((self.data.astype(dtype), self.indices, self.indptr), shape=self.shape)

    def __getitem__(self, key: Index) -> SparseRows:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        chosen = self if isinstance(rows, slice) and rows == slice(None) else self._rows(rows)
        return chosen if columns == slice(None) else chosen._columns(*columns.indices(self.shape[1])[:2])

    def _rows(self, rows: slice | np.ndarray) -> SparseRows:
        numbers = np.arange(self.shape[0])[rows]
        entries, indptr = gather_entries(self.indptr, numbers)
        return SparseRows((self.data[entries], self.indices[entries], indptr), shape=(len(numbers), self.shape[1]))

    def _columns(self, begin: int, end: int) -> SparseRows:
        inside = (self.indices >= begin) & (self.indices < end)
        indptr = make_offsets(inside)[self.indptr]
        return SparseRows((self.data[inside], self.indices[inside] - begin, indptr), shape=(self.shape[0], end - begin))

    def __mul__(self, factor: float) -> SparseRows:
        return SparseRows((self.data * factor, self.indices, self.indptr), shape=self.shape)

    def __matmul__(self, other: np.ndarray | SparseRows) -> np.ndarray:
        product = np.zeros((self.shape[0], other.shape[1]))
        if isinstance(other, SparseRows):
            for rows, mine, theirs in meetings(self, other):
                values = self.data[mine] * other.data[theirs]
                product[rows] = sums_of_meetings(self, other, rows, mine, theirs, values)
        else:
            for rows, run in _runs(self, np.full(self.nnz, other.shape[1])):
                gathered = other[self.indices[run]] * self.data[run, None]
                filled = np.flatnonzero(np.diff(self.indptr[rows.start : rows.stop + 1])) + rows.start
                if len(filled):
                    product[filled] = np.add.reduceat(gathered, self.indptr[filled] - run.start, axis=0)
        return product.astype(np.result_type(self.dtype, other.dtype), copy=False)

    def __rmatmul__(self, other: np.ndarray) -> np.ndarray:
        return (self.T @ other.T).T


#: Rows of numbers, dense or sparse.
Rows: TypeAlias = np.ndarray | SparseRows


def make_offsets(counts: np.ndarray) -> np.ndarray:
    """Return the cumulative sums of lengths from zero, (n + 1,) int64."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64, copy=False)


def gather_entries(offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of the chosen runs, concatenated, and their offsets."""
    counts = np.diff(offsets)[chosen]
    after = make_offsets(counts)
    return np.repeat(offsets[:-1][chosen] - after[:-1], counts) + np.arange(after[-1]), after


def entry_rows(X: SparseRows) -> np.ndarray:
    """Return the row of every entry."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def row_sums(X: SparseRows, values: np.ndarray) -> np.ndarray:
    """Return the sum over the entries of every row, (n,), of values by entry."""
    sums, filled = np.zeros(X.shape[0], values.dtype), np.flatnonzero(np.diff(X.indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(values, X.indptr[filled])
    return sums


def scale_rows(X: SparseRows, factors: np.ndarray) -> SparseRows:
    """Multiply each row by its own factor, in the type of the entries."""
    data = (X.data[: X.nnz] * np.repeat(factors, np.diff(X.indptr))).astype(X.dtype, copy=False)
    return type(X)((data, X.indices[: X.nnz], X.indptr), shape=X.shape)


def concatenate_columns(parts: Sequence[Rows]) -> SparseRows:
    """Concatenate the columns of matrices, at least one of them sparse, in one sparse matrix."""
    sparse = [SparseRows.from_rows(part) for part in parts]
    counts = [np.diff(part.indptr) for part in sparse]
    indptr = make_offsets(np.sum(counts, axis=0))
    data = np.empty(indptr[-1], np.result_type(*(part.dtype for part in sparse)))
    indices, begin, width = np.empty(indptr[-1], np.int64), indptr[:-1].copy(), 0
    for part, own in zip(sparse, counts, strict=True):
        places = np.arange(part.nnz) + np.repeat(begin - part.indptr[:-1], own)
        data[places], indices[places] = part.data, part.indices + width
        begin += own
        width += part.shape[1]
    kind = next(type(part) for part in parts if is_sparse(part))
    return kind((data, indices, indptr), shape=(len(indptr) - 1, width))


def meetings(X: SparseRows, M: SparseRows) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield runs of rows of X, with pairs of entries: of X at column j, and of M in row j."""
    counts = M.indptr[X.indices + 1] - M.indptr[X.indices]
    for rows, entries in _runs(X, counts):
        places, _ = gather_entries(M.indptr, X.indices[entries])
        yield rows, np.repeat(np.arange(entries.start, entries.stop), counts[entries]), places


def sums_of_meetings(
    X: SparseRows, M: SparseRows, rows: slice, entries: np.ndarray, places: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Sum values of paired entries for each row of a run and each column of M, (rows, m)."""
    width, n_rows = M.shape[1], rows.stop - rows.start
    own = np.repeat(np.arange(n_rows), np.diff(X.indptr[rows.start : rows.stop + 1]))
    keys = own[entries - X.indptr[rows.start]] * width + M.indices[places]
    return np.bincount(keys, values, minlength=n_rows * width).reshape(n_rows, width)


def _runs(X: SparseRows, cost: np.ndarray) -> Iterator[tuple[slice, slice]]:
    """Split rows into runs with a total cost of ``_AT_ONCE``; yield rows and entries."""
    before = make_offsets(cost)[X.indptr]
    begin = 0
    while begin < X.shape[0]:
        end = max(begin + 1, int(np.searchsorted(before, before[begin] + _AT_ONCE, side="right")) - 1)
        yield slice(begin, end), slice(int(X.indptr[begin]), int(X.indptr[end]))
        begin = end
