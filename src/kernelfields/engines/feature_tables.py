"""Feature matrices and their two products, cut into runs of rows for threads.

    product(V)             = Z V          (n, q)
    transposed_product(R)  = Z^T R        (r, q)

Each run of rows is one BLAS call (dense) or one compiled loop (sparse) on one thread: runs need not wait for each
other, so that a core busy with something else delays its own share only. Partial sums are added in float64.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kernelfields.inference.workers import Workers


class FeatureTable(Protocol):
    """What clique sets ask of a feature matrix Z (n, r)."""

    shape: tuple[int, int]
    dtype: np.dtype
    stored_values: int

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""

    def squared(self) -> FeatureTable:
        """Return the table of z_tr^2."""

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""


class DenseTable:
    """A dense Z, multiplied in its own precision with the short side first, the faster layout for q << r."""

    def __init__(self, features: np.ndarray):
        self.features = features
        self.shape = features.shape
        self.dtype = features.dtype
        self.stored_values = features.size

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""
        return float(np.einsum("ij,ij->", self.features, self.features)) / self.shape[1]

    def squared(self) -> DenseTable:
        """Return the table of z_tr^2."""
        return DenseTable(np.square(self.features))

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""
        short = np.ascontiguousarray(coefficients.T, dtype=self.dtype)
        out = np.empty((self.shape[0], len(short)))

        def run(first: int, last: int) -> None:
            out[first:last] = (short @ self.features[first:last].T).T

        workers.each(run, workers.pieces(self.shape[0], self.stored_values * len(short)))
        return out

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""
        pieces = workers.pieces(self.shape[0], self.stored_values * rows.shape[1])
        partial: dict[int, np.ndarray] = {}

        def run(first: int, last: int) -> None:
            short = np.ascontiguousarray(rows[first:last].T, dtype=self.dtype)
            partial[first] = short @ self.features[first:last]

        workers.each(run, pieces)
        total = np.zeros((rows.shape[1], self.shape[1]))
        for first, _ in pieces:  # in order, so that the sum does not depend on which thread was first
            total += partial[first]
        return np.ascontiguousarray(total.T)


class SparseTable:
    """A CSR Z and its transposed index; products by compiled loops, in float64."""

    def __init__(self, features: Any):
        self.features = features
        self.shape = features.shape
        self.dtype = features.dtype
        self.stored_values = features.nnz
        self._transposed = features.T.tocsr()

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""
        return float(np.einsum("i,i->", self.features.data, self.features.data)) / self.shape[1]

    def squared(self) -> SparseTable:
        """Return the table of z_tr^2."""
        return SparseTable(self.features.power(2))

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""
        return _sparse_product(self.features, coefficients, workers)

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""
        return _sparse_product(self._transposed, rows, workers)


def _sparse_product(matrix: Any, table: np.ndarray, workers: Workers) -> np.ndarray:
    from kernelfields.engines.sparse_products import add_rows

    table = np.ascontiguousarray(table, dtype=np.float64)
    out = np.empty((matrix.shape[0], table.shape[1]))
    workers.each(
        lambda first, last: add_rows(first, last, matrix.indptr, matrix.indices, matrix.data, table, out),
        workers.weighted_pieces(matrix.indptr, table.shape[1]),
    )
    return out
