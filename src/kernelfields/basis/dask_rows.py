"""The rows of a distributed panel that one shard holds, and what it tells the client of them; see dask_panel.py.

    Z <- [Z, (K_:P - Z Z_P^T) L^-T],      d <- d - rowsums(new^2)

The pivots P may be inputs of any shard: they come with their inputs (b, d), their features Z_P (b, k) in float64
and the factor L (b, b) of their residual block. Cost: O(n k b) for n rows. All functions here run on workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis.panel import _SMALLEST_DIAGONAL, MemoryColumns, PanelCholesky
from kernelfields.kernels import Kernel


@dataclass
class Standing:
    """What the client knows of a shard's panel: sums of residuals, and which is largest."""

    n_rows: int
    diagonal: float
    residual: float
    #: Over the inputs whose residual is above their floor only.
    outside: float
    n_outside: int
    largest: float
    largest_row: int
    #: The lowest residual before it was lifted to zero, and the highest floor.
    lowest: float
    floor: float


@dataclass
class ProposedRows:
    """Inputs that may become pivots: numbers, residuals, floors, inputs (b, d) and, with float64 columns, Z."""

    rows: np.ndarray
    residual: np.ndarray
    floor: np.ndarray
    inputs: Any
    features: np.ndarray | None

    @classmethod
    def joined(cls, parts: list[ProposedRows]) -> ProposedRows:
        """Return the rows of several shards, one after the other."""
        features = None if parts[0].features is None else np.concatenate([each.features for each in parts])
        return cls(
            np.concatenate([each.rows for each in parts]),
            np.concatenate([each.residual for each in parts]),
            np.concatenate([each.floor for each in parts]),
            stacked_rows([each.inputs for each in parts]),
            features,
        )

    def at(self, places: np.ndarray) -> ProposedRows:
        """Return some of the rows, in another order."""
        features = None if self.features is None else self.features[places]
        return ProposedRows(
            self.rows[places], self.residual[places], self.floor[places], self.inputs[places], features
        )


def stacked_rows(parts: list[Any]) -> Any:
    """Return rows of one kind, dense or CSR, one below the other."""
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)


class ShardPanel(PanelCholesky):
    """The rows of a panel that one shard holds, ``first_row`` the number of the first of them."""

    def __init__(self, kernel: Kernel, inputs: Any, capacity: int, dtype: Any, largest: float, first_row: int):
        columns = MemoryColumns(inputs.shape[0], capacity, np.dtype(dtype))
        super().__init__(kernel, inputs, capacity, dtype, columns)
        self.first_row = first_row
        self.lowest = 0.0
        self._pivot_inputs: list[Any] = []
        # The scale of the largest k(x, x) of all shards; the factor is the client's.
        self.floor = np.maximum(self.floor, _SMALLEST_DIAGONAL * largest)
        self._factor = np.zeros((0, 0))

    def add_pivots(self, pivots: np.ndarray, inputs: Any, wide_features: np.ndarray, local: np.ndarray) -> None:
        """Add pivots of any shard, given by their inputs and features."""
        self._add_columns(inputs, wide_features, local)
        self.pivots = np.concatenate([self.pivots, pivots])
        self._pivot_inputs.append(inputs)
        self.lowest = float(self.residual.min(initial=0.0))
        np.maximum(self.residual, 0.0, out=self.residual)
        self.residual[self.own(pivots)] = 0.0

    @property
    def pivot_inputs(self) -> Any:
        """The inputs of all pivots, (rank, d)."""
        return stacked_rows(self._pivot_inputs)

    def own(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of this shard among some numbers, counted from its first one."""
        rows = numbers - self.first_row
        return rows[(rows >= 0) & (rows < len(self.residual))]

    def proposed(self, rows: np.ndarray) -> ProposedRows:
        """Return what the client needs to know of some rows."""
        features = self.features[rows] if self.dtype == np.float64 else None
        return ProposedRows(
            rows + self.first_row, self.residual[rows], self.floor[rows], self.inputs[rows], features
        )


def diagonal_range(shard: Any, inputs: Any, kernel: Kernel) -> tuple[int, float]:
    """Return the number of inputs and the largest k(x, x) among them."""
    return inputs.shape[0], float(np.max(kernel.diag(inputs), initial=0.0))


def started_panel(
    shard: Any, inputs: Any, kernel: Kernel, capacity: int, dtype: Any, largest: float, first_rows: np.ndarray
) -> ShardPanel:
    """Return an empty panel."""
    return ShardPanel(kernel, inputs, capacity, dtype, largest, int(first_rows[shard.number]))


def with_pivots(
    shard: Any, panel: ShardPanel, pivots: np.ndarray, inputs: Any, wide_features: np.ndarray, local: np.ndarray
) -> ShardPanel:
    """Return the panel with some more pivots; it is changed in place."""
    panel.add_pivots(pivots, inputs, wide_features, local)
    return panel


def set_aside(shard: Any, panel: ShardPanel, refused: np.ndarray) -> ShardPanel:
    """Return the panel without hope for some inputs; it is changed in place."""
    panel.set_aside(panel.own(refused))
    return panel


def standing(shard: Any, panel: ShardPanel) -> Standing:
    """Return what the client needs to know of a panel."""
    residual, outside = panel.residual, panel.outside
    largest = int(outside[np.argmax(residual[outside])]) if len(outside) else 0
    return Standing(
        n_rows=len(residual),
        diagonal=float(panel.diagonal.sum()),
        residual=float(residual.sum()),
        outside=float(residual[outside].sum()),
        n_outside=len(outside),
        largest=float(residual[largest]) if len(outside) else -np.inf,
        largest_row=largest,
        lowest=panel.lowest,
        floor=float(panel.floor.max(initial=0.0)),
    )


def rows_drawn(shard: Any, panel: ShardPanel, marks: np.ndarray) -> ProposedRows:
    """Return the inputs that marks along the sum of their residuals fall on."""
    outside = panel.outside
    places = np.searchsorted(np.cumsum(panel.residual[outside]), marks, side="right")
    # The client's sums are rounded otherwise than the shard's: a mark may fall just beyond the last.
    return panel.proposed(outside[np.minimum(places, len(outside) - 1)])


def rows_at(shard: Any, panel: ShardPanel, places: np.ndarray) -> ProposedRows:
    """Return the inputs at some places in the list of those outside."""
    return panel.proposed(panel.outside[places])


def rows_numbered(shard: Any, panel: ShardPanel, numbers: np.ndarray) -> ProposedRows:
    """Return inputs by their numbers among those of all shards."""
    return panel.proposed(numbers - panel.first_row)
