"""Products with features Z (n, r), in runs of rows for threads:

    product(V)             = Z V          (n, q) float64
    transposed_product(R)  = Z^T R        (r, q) float64

Each run of rows is one BLAS call (dense), one for every tile (tiles.py) or one compiled loop (sparse) on one thread:
runs need not wait for each other, so that a core busy with something else delays its own share only. Partial sums are
added in float64, in the order of the rows. Products with features that are computed again take the dual form, which
needs no triangular system for each row:

    Z V = k(X, B) (R^-T V)                Z^T G = R^-1 (k(B, X) G)
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from kernelfields.numerics.sparse_rows import SparseRows, is_sparse
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.triangular import forward_substitution
from kernelfields.objective.designs.tiles import Features, RecomputedFeatures, TiledFeatures

# Of the two ways to write Z V, the library is faster by a third with Z first on x86, with V first elsewhere.
_FEATURES_FIRST = platform.machine().lower() in ("x86_64", "amd64")


class FeatureTable(Protocol):
    """Products with a feature matrix Z (n, r), wherever it is."""

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
    """A dense Z, multiplied in its own precision; in Z^T R the short side comes first, the faster layout for q << r."""

    features_first = _FEATURES_FIRST

    def __init__(self, features: np.ndarray | TiledFeatures):
        self.features = features
        self.shape = features.shape
        self.dtype = features.dtype
        self.stored_values = features.size
        self._precision: DTypeLike = self.dtype

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2."""
        return float(np.einsum("ij,ij->", self.features, self.features)) / self.shape[1]

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""
        short = np.ascontiguousarray(coefficients.T, dtype=self._precision)
        out = np.empty((self.shape[0], len(short)))

        def run(first: int, last: int) -> None:
            for rows, tile in self._read(first, last):
                out[rows] = tile.T @ short.T if self.features_first else (short @ tile).T

        workers.each(run, self._runs(len(short), workers))
        return out

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""

        def part(first: int, last: int) -> np.ndarray:
            total = np.zeros((rows.shape[1], self.shape[1]))
            for span, tile in self._read(first, last):
                total += np.ascontiguousarray(rows[span].T, dtype=self._precision) @ tile.T
            return total

        return np.ascontiguousarray(workers.sum(part, self._runs(rows.shape[1], workers)).T)

    def _runs(self, width: int, workers: Workers) -> list[tuple[int, int]]:
        """Return the runs of rows, or of tiles, that threads take."""
        return workers.pieces(self.shape[0], self.stored_values * width)

    def _read(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and transposed features (r, rows) of a run."""
        yield slice(first, last), self.features[first:last].T


class TiledTable(DenseTable):
    """A Z in tiles, each multiplied in the precision in which it is read."""

    features: TiledFeatures
    features_first = False

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2; a pass over the tiles."""
        return float(self.features.squared_norms().sum()) / self.shape[1]

    def _runs(self, width: int, workers: Workers) -> list[tuple[int, int]]:
        return workers.pieces(len(self.features.tiles), self.stored_values * width)

    def _read(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        return self.features.read(first, last)


class RecomputedTable(TiledTable):
    """A Z whose kernel rows are computed in every product; products are float64, as in prediction."""

    features: RecomputedFeatures

    def __init__(self, features: RecomputedFeatures):
        super().__init__(features)
        self._precision = np.float64

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return k(X, B) (R^-T V), (n, q) float64."""
        return super().product(self.features.subspace.dual_coefficients(coefficients), workers)

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return R^-1 (k(B, X) G), (r, q) float64."""
        return forward_substitution(self.features.subspace.factor, super().transposed_product(rows, workers))

    def _read(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in self.features.tiles[first:last]:
            yield rows, self.features.kernel_rows(rows).T


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

    def squared(self) -> SparseTable:
        """Return the table of z_tr^2."""
        return SparseTable(squares_of(self.features))

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""
        return _sparse_product(self.features, coefficients, workers)

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""
        return _sparse_product(self._transposed, rows, workers)


def squares_of(features: SparseRows) -> SparseRows:
    """Return a CSR matrix of the same kind with the squares of its entries."""
    return type(features)((np.square(features.data), features.indices, features.indptr), shape=features.shape)


def _sparse_product(matrix: SparseRows, table: np.ndarray, workers: Workers) -> np.ndarray:
    from kernelfields.objective.designs.pairs_compiled import add_rows

    table = np.ascontiguousarray(table, dtype=np.float64)
    out = np.empty((matrix.shape[0], table.shape[1]))
    workers.each(
        lambda first, last: add_rows(first, last, matrix.indptr, matrix.indices, matrix.data, table, out),
        workers.weighted_pieces(matrix.indptr, table.shape[1]),
    )
    return out


def table_of(features: Features | FeatureTable) -> FeatureTable:
    """Return the products with features: an array, a sparse matrix, tiles, or what is a table itself."""
    if isinstance(features, np.ndarray):
        return DenseTable(features)
    if isinstance(features, RecomputedFeatures):
        return RecomputedTable(features)
    if isinstance(features, TiledFeatures):
        return TiledTable(features)
    return SparseTable(features) if is_sparse(features) else features
