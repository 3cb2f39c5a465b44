"""Features that are kept nowhere: kernel rows are computed again whenever they are asked for.

    Z_rows = k(X_rows, B) R^-T            Z_rows W^T = k(X_rows, B) (R^-T W^T)

Memory: a tile of kernel rows for each thread, and R (r, r). Time: O(n r d) more for every product with Z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg

from kernelfields.basis import PanelCholesky, PivotSubspace
from kernelfields.basis.triangular import back_substitution
from kernelfields.engines.tiled_features import TiledFeatures, tile_rows, tiles_of


class RecomputedColumns:
    """Columns that are kept nowhere: Z_rows W^T = k(X_rows, B) R^-T W^T."""

    in_memory = False

    def __init__(self, n_rows: int, capacity: int, dtype: Any):
        self.n_rows = n_rows
        self.capacity = min(capacity, n_rows)
        self.dtype = np.dtype(dtype)

    def row_blocks(self, n_pivots: int) -> list[slice]:
        """Return runs of rows whose kernel rows are a tile in float64."""
        return tiles_of(self.n_rows, tile_rows(self.n_rows, self.capacity, 8))

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
        return RecomputedFeatures(panel.subspace(), panel.inputs, panel.dtype, panel.diagonal - panel.residual)


class RecomputedFeatures(TiledFeatures):
    """Features of a subspace with pivots, computed whenever they are read; ``norms`` where ||z(x)||^2 is known."""

    def __init__(self, subspace: PivotSubspace, inputs: Any, dtype: Any, norms: np.ndarray | None = None):
        shape = (inputs.shape[0], subspace.rank)
        super().__init__(shape, dtype, tile_rows(*shape, 8))
        self.subspace = subspace
        self.inputs = inputs
        self._norms = norms

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
