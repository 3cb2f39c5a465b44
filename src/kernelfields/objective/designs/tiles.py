"""Features Z (n, r) that are not one array in memory: tiles of rows, read or computed again, and products with them.

A tile is a few megabytes and comes transposed, as (r, rows), in an array that the next tile may overwrite.
``features[rows]`` gives some rows as an array of their own, ``np.asarray(features)`` all of them; either reads
every tile in which a wanted row lies. Features that are kept nowhere are computed from kernel rows whenever they are
asked for, O(n r d) more for every product, and products with them take the dual form, which needs no triangular
system for each row:

    Z_rows = k(X_rows, B) R^-T
    Z V    = k(X, B) (R^-T V)            Z^T G = R^-1 (k(B, X) G)

Each thread takes runs of tiles and has a buffer of its own. Sums over tiles are float64 and in the order of the
tiles, whichever thread is first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.triangular import back_substitution, forward_substitution

#: Bytes of a tile: long enough for a product to run at full speed and for a disk to read without a pause.
_TILE_BYTES = 4 * 2**20
# Products of shorter tiles are slow, whatever the rank.
_FEWEST_ROWS = 64


def tile_rows(n_rows: int, rank: int, itemsize: int, tile_bytes: int | None = None) -> int:
    """Return how many rows a tile has, of ``tile_bytes`` or the usual size."""
    size = tile_bytes or _TILE_BYTES
    return max(1, min(n_rows, max(_FEWEST_ROWS, size // max(1, rank * itemsize))))


def tiles_of(n_rows: int, rows_per_tile: int) -> list[slice]:
    """Return the rows of every tile."""
    return [slice(begin, min(begin + rows_per_tile, n_rows)) for begin in range(0, n_rows, rows_per_tile)]


class TiledFeatures:
    """Features (n, r) in tiles of rows: what tables, samples of rows and certificates ask of them."""

    def __init__(self, shape: tuple[int, int], dtype: Any, rows_per_tile: int):
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.rows_per_tile = rows_per_tile
        self.tiles = tiles_of(shape[0], rows_per_tile)

    def read(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and transposed features (r, rows) of tiles first..last-1, each in the same array."""
        raise NotImplementedError(f"{type(self).__name__} must define read(first, last)")

    @property
    def size(self) -> int:
        """Number of values."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> np.ndarray:
        wanted = np.arange(self.shape[0])[rows]
        if wanted.ndim == 0:
            return self[wanted[None]][0]
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        tile_of_row = wanted // self.rows_per_tile
        for index in np.unique(tile_of_row):
            places = np.flatnonzero(tile_of_row == index)
            for span, tile in self.read(int(index), int(index) + 1):
                out[places] = tile[:, wanted[places] - span.start].T
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def squared_norms(self) -> np.ndarray:
        """Return ||z(x)||^2 of every row, (n,) float64."""
        norms = np.empty(self.shape[0])
        for rows, tile in self.read(0, len(self.tiles)):
            norms[rows] = np.einsum("ij,ij->j", tile, tile, dtype=np.float64)
        return norms

    def table(self) -> TiledTable:
        """Return the products with these features."""
        return TiledTable(self)

    @property
    def T(self) -> TransposedFeatures:
        """Z^T, for products with (n, q) arrays."""
        return TransposedFeatures(self)

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} belong to the process that made them and cannot be pickled or copied")


class TransposedFeatures:
    """Z^T of tiled features."""

    def __init__(self, features: TiledFeatures):
        self.features = features
        self.shape = features.shape[::-1]

    def __matmul__(self, rows: np.ndarray) -> np.ndarray:
        total = np.zeros((self.shape[0], rows.shape[1]))
        for span, tile in self.features.read(0, len(self.features.tiles)):
            total += tile @ rows[span].astype(tile.dtype, copy=False)
        return total.astype(rows.dtype, copy=False)


class SquaredFeatures(TiledFeatures):
    """The squares z_tr^2 of other tiled features."""

    def __init__(self, features: TiledFeatures):
        super().__init__(features.shape, features.dtype, features.rows_per_tile)
        self._features = features

    def read(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and transposed squares of some tiles."""
        for rows, tile in self._features.read(first, last):
            yield rows, np.square(tile, out=tile)


class RecomputedColumns:
    """Columns that are kept nowhere: Z_rows W^T = k(X_rows, B) R^-T W^T."""

    in_memory = False

    def __init__(self, n_rows: int, capacity: int, dtype: Any, *, tile_bytes: int | None = None):
        self.n_rows = n_rows
        self.capacity = min(capacity, n_rows)
        self.dtype = np.dtype(dtype)
        self._tile_bytes = tile_bytes

    def row_blocks(self, n_pivots: int) -> list[slice]:
        """Return runs of rows whose kernel rows are a tile in float64."""
        return tiles_of(self.n_rows, tile_rows(self.n_rows, self.capacity, 8, self._tile_bytes))

    def multiplier(self, panel: PanelCholesky, wide_features: np.ndarray) -> Callable[[slice], np.ndarray]:
        """Return the function rows -> Z_rows W^T."""
        dual = back_substitution(panel.factor, np.array(wide_features.T))
        pivots = panel.inputs[panel.pivots]
        if len(dual) == 0:
            return lambda rows: np.zeros((rows.stop - rows.start, dual.shape[1]))
        return lambda rows: panel.kernel(panel.inputs[rows], pivots) @ dual

    def write(self, rows: slice, begin: int, values: np.ndarray) -> None:
        """Forget the values."""

    def factor(self) -> np.ndarray:
        """Return an array of zeros."""
        return np.zeros((self.capacity, self.capacity))

    def leading(self, factor: np.ndarray, rank: int) -> np.ndarray:
        """Return the leading part, shared where it is all."""
        return np.ascontiguousarray(factor[:rank, :rank])

    def features(self, panel: PanelCholesky) -> TiledFeatures:
        """Return features that are computed when they are read."""
        norms = panel.diagonal - panel.residual
        return RecomputedFeatures(panel.subspace(), panel.inputs, panel.dtype, norms, self._tile_bytes)


class RecomputedFeatures(TiledFeatures):
    """Features of a subspace with pivots, computed whenever they are read; ``norms`` where ||z(x)||^2 is known."""

    def __init__(
        self,
        subspace: PivotSubspace,
        inputs: Any,
        dtype: Any,
        norms: np.ndarray | None = None,
        tile_bytes: int | None = None,
    ):
        shape = (inputs.shape[0], subspace.rank)
        super().__init__(shape, dtype, tile_rows(*shape, 8, tile_bytes))
        self.subspace = subspace
        self.inputs = inputs
        self._norms = norms

    def table(self) -> RecomputedTable:
        """Return the products with these features."""
        return RecomputedTable(self)

    def kernel_rows(self, rows: Any) -> np.ndarray:
        """Return k(x, B) of some rows, (rows, r)."""
        return self.subspace.kernel(self.inputs[rows], self.subspace.pivots)

    def read(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and transposed features of some tiles."""
        for rows in self.tiles[first:last]:
            yield rows, self._whitened(rows)

    def _whitened(self, rows: Any) -> np.ndarray:
        block = self.kernel_rows(rows).T.astype(np.float64, copy=False)
        factor = self.subspace.factor
        return scipy.linalg.solve_triangular(factor, block, lower=True, check_finite=False).astype(self.dtype)

    def __getitem__(self, rows: Any) -> np.ndarray:
        if isinstance(rows, slice) or np.ndim(rows) == 0:
            return super().__getitem__(rows)
        return self.subspace.features(self.inputs[rows], self.dtype)

    def squared_norms(self) -> np.ndarray:
        """Return ||z(x)||^2 of every row, (n,)."""
        if self._norms is None:
            self._norms = super().squared_norms()
        return self._norms


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
