"""Products with features that are not one array in memory, tile by tile (see tiled_features.py).

    product(V)             = Z V                                (n, q)
    transposed_product(R)  = Z^T R                              (r, q)

Recomputed features take the dual form, which needs no triangular system for each row:

    Z V = k(X, B) (R_B^-T V)            Z^T G = R_B^-1 (k(B, X) G)

Each thread takes runs of tiles and has a buffer of its own. Sums over tiles are float64 and in the order of the
tiles, whichever thread is first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis.triangular import forward_substitution
from kernelfields.engines.feature_tables import DenseTable, FeatureTable, SparseTable
from kernelfields.engines.recomputed_features import RecomputedFeatures
from kernelfields.engines.tiled_features import SquaredFeatures, TiledFeatures
from kernelfields.inference.workers import Workers


def table_of(features: Any) -> FeatureTable:
    """Return the table of features: of an array, a sparse matrix or tiled ones; a table is returned as it is."""
    if isinstance(features, RecomputedFeatures):
        return RecomputedTable(features)
    if isinstance(features, TiledFeatures):
        return TiledTable(features)
    if isinstance(features, np.ndarray):
        return DenseTable(features)
    table: FeatureTable = SparseTable(features) if scipy.sparse.issparse(features) else features
    return table


class TiledTable:
    """A Z in tiles, each multiplied in the precision in which it is read."""

    def __init__(self, features: TiledFeatures):
        self.features = features
        self.shape = features.shape
        self.dtype = features.dtype
        self.stored_values = features.size

    def mean_square(self) -> float:
        """Return the mean over coordinates of sum_t z_tr^2; a pass over the tiles."""
        return float(self.features.squared_norms().sum()) / self.shape[1]

    def squared(self) -> TiledTable:
        """Return the table of z_tr^2."""
        return TiledTable(SquaredFeatures(self.features))

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z V, (n, q) float64."""
        short = np.ascontiguousarray(coefficients.T, dtype=self.dtype)
        out = np.empty((self.shape[0], len(short)))

        def run(first: int, last: int) -> None:
            for rows, tile in self.features.read(first, last):
                out[rows] = (short @ tile).T

        workers.each(run, self._pieces(len(short), workers))
        return out

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return Z^T R, (r, q) float64."""
        pieces = self._pieces(rows.shape[1], workers)
        partial = {first: np.zeros((rows.shape[1], self.shape[1])) for first, _ in pieces}

        def run(first: int, last: int) -> None:
            for span, tile in self.features.read(first, last):
                partial[first] += np.ascontiguousarray(rows[span].T, dtype=self.dtype) @ tile.T

        workers.each(run, pieces)
        return np.ascontiguousarray(_sum_in_order(partial).T)

    def _pieces(self, width: int, workers: Workers) -> list[tuple[int, int]]:
        return workers.pieces(len(self.features.tiles), self.stored_values * width)


class RecomputedTable(TiledTable):
    """A Z whose kernel rows are computed in every product; products are float64, as in prediction."""

    features: RecomputedFeatures

    def product(self, coefficients: np.ndarray, workers: Workers) -> np.ndarray:
        """Return k(X, B) (R^-T V), (n, q) float64."""
        dual = self.features.subspace.dual_coefficients(coefficients)
        out = np.empty((self.shape[0], dual.shape[1]))

        def run(first: int, last: int) -> None:
            for rows in self.features.tiles[first:last]:
                out[rows] = self.features.kernel_rows(rows) @ dual

        workers.each(run, self._pieces(dual.shape[1], workers))
        return out

    def transposed_product(self, rows: np.ndarray, workers: Workers) -> np.ndarray:
        """Return R^-1 (k(B, X) G), (r, q) float64."""
        pieces = self._pieces(rows.shape[1], workers)
        partial = {first: np.zeros(self.shape[1:] + rows.shape[1:]) for first, _ in pieces}

        def run(first: int, last: int) -> None:
            for span in self.features.tiles[first:last]:
                partial[first] += self.features.kernel_rows(span).T @ rows[span]

        workers.each(run, pieces)
        return forward_substitution(self.features.subspace.factor, _sum_in_order(partial))


def _sum_in_order(partial: dict[int, np.ndarray]) -> np.ndarray:
    """Add up the sums of all pieces, into the first of them."""
    total, *others = (partial[first] for first in sorted(partial))
    for other in others:
        total += other
    return total
