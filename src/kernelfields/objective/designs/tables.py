"""Products with features Z (n, r), in runs of rows for threads:

    product(V)             = Z V          (n, q) float64
    transposed_product(R)  = Z^T R        (r, q) float64

Each run of rows is one BLAS call (dense) or one compiled loop (sparse) on one thread: runs need not wait for each
other, so that a core busy with something else delays its own share only. Partial sums are added in float64, in the
order of the rows.
"""

from __future__ import annotations

import platform
from typing import Protocol

import numpy as np
import scipy.sparse

from kernelfields.numerics.sparse_rows import Rows, SparseRows, is_sparse
from kernelfields.numerics.threads import Workers
from kernelfields.objective import designs
from kernelfields.objective.coordinates import gram_matrix

# Of the two ways to write Z V, the library is faster by a third with Z first on x86, with V first elsewhere.
_FEATURES_FIRST = platform.machine().lower() in ("x86_64", "amd64")


class FeatureTable(Protocol):
    """Products with a feature matrix Z (n, r), on any device."""

    shape: tuple[int, int]
    dtype: np.dtype
    stored_values: int

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""


class DenseTable:
    """A dense Z, multiplied in its own precision; Z^T R is computed from its short side, faster for q << r."""

    def __init__(self, features: np.ndarray):
        self.features = features
        self.shape = features.shape
        self.dtype = features.dtype
        self.stored_values = features.size

    def mean_square(self, sampled: slice = slice(None), first: int = 0) -> float:
        """Return the mean over coordinates of sum_t z_tr^2; with ``sampled``, from every n-th row.

        With ``first``, that over the coordinates from there on, zero where there are none.
        """
        part = self.features[sampled, first:]
        return (sampled.step or 1) * float(np.einsum("ij,ij->", part, part)) / max(1, part.shape[1])

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""
        short = np.ascontiguousarray(coefficients.T, dtype=self.dtype)
        out = np.empty((self.shape[0], len(short)))

        def run(first: int, last: int) -> None:
            rows = self.features[first:last]
            out[first:last] = rows @ short.T if _FEATURES_FIRST else (short @ rows.T).T

        workers.each(run, self._runs(len(short), workers))
        return out

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""

        def part(first: int, last: int) -> np.ndarray:
            short = np.ascontiguousarray(rows[first:last].T, dtype=self.dtype)
            return (short @ self.features[first:last]).astype(np.float64, copy=False)

        return np.ascontiguousarray(workers.sum(part, self._runs(rows.shape[1], workers)).T)

    def gram(self, sampled: slice, columns: int | None = None) -> np.ndarray:
        """Return the lower half of Z^T Z in the precision of Z, estimated from every n-th row.

        With ``columns``, it is that of the first columns.
        """
        return gram_matrix(self.features[:, :columns], sampled)

    def weighted_gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Z^T diag(w) Z, (r, r), for w (n,)."""
        return weighted_product(self.features, self.features, weights)

    def _runs(self, width: int, workers: Workers) -> list[tuple[int, int]]:
        """Return the runs of rows for threads."""
        return workers.pieces(self.shape[0], self.stored_values * width)


class SparseTable:
    """A CSR Z and its transposed index; products by compiled loops, in float64."""

    def __init__(self, features: SparseRows):
        self.features = features
        self.shape = features.shape
        self.dtype = features.dtype
        self.stored_values = features.nnz
        self._transposed = features.T.tocsr()

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""
        return float(np.einsum("i,i->", self.features.data, self.features.data)) / self.shape[1]

    def square_entries(self) -> SparseTable:
        """Return the table of z_tr^2."""
        return SparseTable(squared_entries(self.features))

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""
        return _sparse_product(self.features, coefficients, workers)

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""
        return _sparse_product(self._transposed, rows, workers)

    def weighted_gram(self, weights: np.ndarray) -> np.ndarray:
        """Return Z^T diag(w) Z, (r, r), for w (n,)."""
        return weighted_product(self.features, self.features, weights)


def weighted_product(left: Rows, right: Rows, weights: np.ndarray) -> np.ndarray:
    """Return left^T diag(w) right, for w (n,)."""
    if is_sparse(right):
        product = left.T @ (scipy.sparse.diags_array(weights) @ right)
        return product.toarray() if is_sparse(product) else product
    return left.T @ (right * weights[:, None])


def squared_entries(features: SparseRows) -> SparseRows:
    """Return a CSR matrix of the same kind with the squares of its entries."""
    return type(features)((np.square(features.data), features.indices, features.indptr), shape=features.shape)


def _sparse_product(matrix: SparseRows, table: np.ndarray, workers: Workers) -> np.ndarray:
    add_rows = designs.pairs_compiled.add_rows
    table = np.ascontiguousarray(table, dtype=np.float64)
    out = np.empty((matrix.shape[0], table.shape[1]))
    workers.each(
        lambda first, last: add_rows(first, last, matrix.indptr, matrix.indices, matrix.data, table, out),
        workers.weighted_pieces(matrix.indptr, table.shape[1]),
    )
    return out


def feature_table(features: Rows | FeatureTable) -> FeatureTable:
    """Return the table of features: an array, a sparse matrix, or a table unchanged."""
    if isinstance(features, np.ndarray):
        return DenseTable(features)
    return SparseTable(features) if is_sparse(features) else features
