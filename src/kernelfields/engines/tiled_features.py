"""Features Z (n, r) that are not one array in memory: tiles of rows, to be read one after the other.

A tile is a few megabytes and comes transposed, as (r, rows), in an array that the next tile may overwrite.
``features[rows]`` gives some rows as an array of their own, ``np.asarray(features)`` all of them; either reads
every tile in which a wanted row lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

#: Bytes of a tile: long enough for a product to run at full speed and for a disk to read without a pause.
TILE_BYTES = 4 * 2**20
# Products of shorter tiles are slow, whatever the rank.
_FEWEST_ROWS = 64


def tile_rows(n_rows: int, rank: int, itemsize: int) -> int:
    """Return how many rows a tile has."""
    return max(1, min(n_rows, max(_FEWEST_ROWS, TILE_BYTES // max(1, rank * itemsize))))


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

    @property
    def T(self) -> TransposedFeatures:
        """Z^T, for products with (n, q) arrays."""
        return TransposedFeatures(self)

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} belong to the process that made them and cannot be pickled or copied"
        )


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
