"""Features Z (n, r) that are not one array in memory: tiles of rows, read or computed again.

A tile is a few megabytes and comes transposed, as (r, rows), in an array that the next tile may overwrite.
``features[rows]`` gives some rows as an array of their own, ``np.asarray(features)`` all of them; either reads
every tile in which a wanted row lies. Features that are kept nowhere are computed from kernel rows whenever they are
read, O(n r d) more for every product:

    Z_rows = k(X_rows, B) R^-T

Each thread takes runs of tiles and has a buffer of its own. tables.py multiplies with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from kernelfields.basis.panel import Columns, PanelCholesky
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.numerics.triangular import back_substitution

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
    """Features (n, r) in tiles of rows."""

    def __init__(self, shape: tuple[int, int], dtype: DTypeLike, rows_per_tile: int):
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

    def __getitem__(self, rows: int | slice | np.ndarray) -> np.ndarray:
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

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def squared_norms(self) -> np.ndarray:
        """Return ||z(x)||^2 of every row, (n,) float64."""
        norms = np.empty(self.shape[0])
        for rows, tile in self.read(0, len(self.tiles)):
            norms[rows] = np.einsum("ij,ij->j", tile, tile, dtype=np.float64)
        return norms

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} belong to the process that made them and cannot be pickled or copied")


#: Features of inputs: an array, a CSR matrix or tiles.
Features: TypeAlias = Rows | TiledFeatures


class RecomputedColumns(Columns):
    """Columns that are kept nowhere: Z_rows W^T = k(X_rows, B) R^-T W^T."""

    def __init__(self, n_rows: int, capacity: int, dtype: DTypeLike, *, tile_bytes: int | None = None):
        super().__init__(n_rows, capacity, dtype)
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

    def features(self, panel: PanelCholesky) -> TiledFeatures:
        """Return features that are computed when they are read."""
        norms = panel.diagonal - panel.residual
        return RecomputedFeatures(panel.subspace(), panel.inputs, panel.dtype, norms, self._tile_bytes)


class RecomputedFeatures(TiledFeatures):
    """Features of a subspace with pivots, computed whenever they are read; ``norms`` where ||z(x)||^2 is known."""

    def __init__(
        self,
        subspace: PivotSubspace,
        inputs: Rows,
        dtype: DTypeLike,
        norms: np.ndarray | None = None,
        tile_bytes: int | None = None,
    ):
        shape = (inputs.shape[0], subspace.rank)
        super().__init__(shape, dtype, tile_rows(*shape, 8, tile_bytes))
        self.subspace = subspace
        self.inputs = inputs
        self._norms = norms

    def kernel_rows(self, rows: slice) -> np.ndarray:
        """Return k(x, B) of some rows, (rows, r)."""
        return self.subspace.kernel(self.inputs[rows], self.subspace.pivots)

    def read(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and transposed features of some tiles."""
        for rows in self.tiles[first:last]:
            yield rows, self.subspace.features(self.inputs[rows], self.dtype).T

    def __getitem__(self, rows: int | slice | np.ndarray) -> np.ndarray:
        if isinstance(rows, np.ndarray) and rows.ndim == 1:
            return self.subspace.features(self.inputs[rows], self.dtype)
        return super().__getitem__(rows)

    def squared_norms(self) -> np.ndarray:
        """Return ||z(x)||^2 of every row, (n,)."""
        if self._norms is None:
            self._norms = super().squared_norms()
        return self._norms
