"""Rows of inputs, dense arrays (n, d) or the parts of a CSR matrix, and the few things prediction does with them.

    times(X, M)           X M, dense (n, m), M dense or sparse
    windowed(X, offsets)  every row joined with its neighbours in the same sequence, zeros beyond its ends

Sparse products are gathered, not multiplied: entry (t, j, v) adds v M[j] to row t. Cost: O(non-zeros m) for a dense M,
O(entries that meet) for a sparse one, some megabytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

# Numbers that are gathered at a time: 32 MB of doubles.
_AT_ONCE = 2**22


class SparseRows(NamedTuple):
    """Rows as in scipy's CSR: row t has the entries indptr[t] .. indptr[t + 1] - 1; columns sorted, none twice."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]

    @property
    def entry_rows(self) -> np.ndarray:
        """The row of every entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @property
    def transposed(self) -> SparseRows:
        """The same with rows for columns."""
        order = np.argsort(self.indices, kind="stable")
        indptr = _starts(np.bincount(self.indices, minlength=self.shape[1]))
        return SparseRows(self.data[order], self.entry_rows[order], indptr, (self.shape[1], self.shape[0]))

    def toarray(self) -> np.ndarray:
        """Return a dense array."""
        dense = np.zeros(self.shape, self.data.dtype)
        dense[self.entry_rows, self.indices] = self.data
        return dense


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def canonical(data: np.ndarray, indices: np.ndarray, counts: np.ndarray, width: int) -> SparseRows:
    """Return rows with sorted columns, of entries in any order within rows; those of the same column add up."""
    n_rows = len(counts)
    keys = np.repeat(np.arange(n_rows, dtype=np.int64) * width, counts) + indices
    if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
        order = np.argsort(keys, kind="stable")
        keys, data = keys[order], data[order]
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        keys, data = keys[first], np.add.reduceat(data, first)
    return SparseRows(data, keys % width, np.searchsorted(keys, np.arange(n_rows + 1) * width), (n_rows, width))


def sparse_of(dense: np.ndarray) -> SparseRows:
    """Return the entries of a dense array that are not zero."""
    rows, columns = np.nonzero(dense)
    return SparseRows(dense[rows, columns], columns, _starts(np.bincount(rows, minlength=len(dense))), dense.shape)


def taken(X: Any, rows: np.ndarray) -> Any:
    """Return some rows, by their numbers."""
    if not isinstance(X, SparseRows):
        return X[rows]
    counts = np.diff(X.indptr)[rows]
    indptr = _starts(counts)
    entries = np.arange(indptr[-1]) + np.repeat(X.indptr[rows] - indptr[:-1], counts)
    return SparseRows(X.data[entries], X.indices[entries], indptr, (len(rows), X.shape[1]))


def columns_of(X: Any, begin: int, end: int) -> Any:
    """Return the columns begin .. end - 1."""
    if not isinstance(X, SparseRows):
        return np.ascontiguousarray(X[:, begin:end])
    seen = (X.indices >= begin) & (X.indices < end)
    indptr = _starts(seen)[X.indptr]
    return SparseRows(X.data[seen], X.indices[seen] - begin, indptr, (X.shape[0], end - begin))


def windowed(X: Any, offsets: np.ndarray, window: tuple[int, int]) -> Any:
    """Join every row with ``window`` = (before, after) neighbours; block j of the columns holds row t - before + j."""
    before, after = window
    if before == after == 0:
        return X
    n_rows, width = X.shape
    n_blocks = before + 1 + after
    position = np.arange(n_rows)
    first, last = (np.repeat(each, np.diff(offsets)) for each in (offsets[:-1], offsets[1:]))
    source = position[:, None] + np.arange(-before, after + 1)
    inside = (source >= first[:, None]) & (source < last[:, None])
    if not isinstance(X, SparseRows):
        joined = np.zeros((n_rows, n_blocks, width), X.dtype)
        joined[inside] = X[source[inside]]
        return joined.reshape(n_rows, -1)
    blocks = np.nonzero(inside)[1]
    runs = taken(X, source[inside])
    columns = runs.indices + np.repeat(blocks * width, np.diff(runs.indptr))
    indptr = runs.indptr[_starts(inside.sum(axis=1))]
    return SparseRows(runs.data, columns, indptr, (n_rows, n_blocks * width))


def squared_norms(X: Any) -> np.ndarray:
    """Return the squared norm of every row, (n,), in float64."""
    if not isinstance(X, SparseRows):
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return np.bincount(X.entry_rows, np.square(X.data, dtype=np.float64), minlength=X.shape[0])


def times(X: Any, M: Any) -> np.ndarray:
    """Return X M, dense (n, m) in float64."""
    if not isinstance(X, SparseRows):
        dense = M.toarray() if isinstance(M, SparseRows) else M
        return X.astype(np.float64, copy=False) @ dense.astype(np.float64, copy=False)
    product = np.zeros((X.shape[0], M.shape[1]))
    if isinstance(M, SparseRows):
        for rows, entries, places in meetings(X, M):
            product[rows] = scattered(X, M, rows, entries, places, X.data[entries] * M.data[places])
        return product
    for rows, run in _runs(X, np.full(len(X.indices), M.shape[1])):
        gathered = M[X.indices[run]] * X.data[run, None]
        filled = np.flatnonzero(np.diff(X.indptr[rows.start : rows.stop + 1])) + rows.start
        if len(filled):
            product[filled] = np.add.reduceat(gathered, X.indptr[filled] - run.start, axis=0)
    return product


def meetings(X: SparseRows, M: SparseRows) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield runs of rows of X, with entries of X and the entries of row j of M that those of column j meet."""
    counts = M.indptr[X.indices + 1] - M.indptr[X.indices]
    for rows, entries in _runs(X, counts):
        each = counts[entries]
        ends = np.cumsum(each)
        met = np.arange(ends[-1] if len(ends) else 0)
        places = met + np.repeat(M.indptr[X.indices[entries]] - (ends - each), each)
        yield rows, np.repeat(np.arange(entries.start, entries.stop), each), places


def scattered(
    X: SparseRows, M: SparseRows, rows: slice, entries: np.ndarray, places: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return the sums of values of meetings for each row of a run and each column of M, (rows, m)."""
    width, n_rows = M.shape[1], rows.stop - rows.start
    keys = (X.entry_rows[entries] - rows.start) * width + M.indices[places]
    return np.bincount(keys, values, minlength=n_rows * width).reshape(n_rows, width)


def _runs(X: SparseRows, cost: np.ndarray) -> Iterator[tuple[slice, slice]]:
    """Cut rows into runs whose entries cost about ``_AT_ONCE`` in all; yield rows and entries."""
    before = _starts(cost)[X.indptr]
    begin = 0
    while begin < X.shape[0]:
        end = max(begin + 1, int(np.searchsorted(before, before[begin] + _AT_ONCE, side="right")) - 1)
        yield slice(begin, end), slice(int(X.indptr[begin]), int(X.indptr[end]))
        begin = end
