"""The rows of a panel that one shard of a cluster holds, and what the client needs of them; see panel.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

from kernelfields.basis.panel import SMALLEST_DIAGONAL, PanelCholesky
from kernelfields.data.reading import Matrix
from kernelfields.kernels.arrays import on_host
from kernelfields.kernels.kernel import Kernel


@dataclass
class Standing:
    """Summary of a shard's panel for the client: sums of residuals, and which is largest."""

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
    inputs: Matrix
    features: np.ndarray | None

    @classmethod
    def joined(cls, parts: list[ProposedRows]) -> ProposedRows:
        """Return the rows of several shards, one after the other."""
        features = [part.features for part in parts if part.features is not None]
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.residual for part in parts]),
            np.concatenate([part.floor for part in parts]),
            stacked_rows([part.inputs for part in parts]),
            np.concatenate(features) if features else None,
        )

    def at(self, places: np.ndarray) -> ProposedRows:
        """Return some of the rows, in another order."""
        features = None if self.features is None else self.features[places]
        return ProposedRows(self.rows[places], self.residual[places], self.floor[places], self.inputs[places], features)


def stacked_rows(parts: list[Matrix]) -> Matrix:
    """Return rows of one kind, dense or CSR, one below the other."""
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)


class ShardRows(PanelCholesky):
    """The rows of a panel that one shard holds, ``first_row`` the number of the first; derived classes keep columns."""

    def _begin_at(self, first_row: int, largest: float) -> None:
        """Set what a shard has beside the rows of its panel; ``largest`` is the largest k(x, x) of all shards."""
        self.first_row = first_row
        self.lowest = 0.0
        self._pivot_inputs: list[Matrix] = []
        # The factor is the client's.
        self.floor = np.maximum(self.floor, SMALLEST_DIAGONAL * largest)

    def add_pivots(self, pivots: np.ndarray, inputs: Matrix, wide_features: np.ndarray, local: np.ndarray) -> Self:
        """Add pivots of any shard, given by their inputs and features; return the panel."""
        self._add_columns(inputs, wide_features, local)
        self.pivots = np.concatenate([self.pivots, pivots])
        self._pivot_inputs.append(inputs)
        self.lowest = float(self.residual.min(initial=0.0))
        np.maximum(self.residual, 0.0, out=self.residual)
        self.residual[self.own(pivots)] = 0.0
        return self

    def without(self, refused: np.ndarray) -> Self:
        """Never propose inputs of any shard again, given by their numbers; return the panel."""
        self.set_aside(self.own(refused))
        return self

    @property
    def pivot_inputs(self) -> Matrix:
        """The inputs of all pivots, (rank, d)."""
        return stacked_rows(self._pivot_inputs)

    def own(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of this shard among some numbers, counted from its first one."""
        rows = numbers - self.first_row
        return rows[(rows >= 0) & (rows < len(self.residual))]

    def proposed(self, rows: np.ndarray) -> ProposedRows:
        """Return what the client needs of some rows."""
        features = on_host(self.features[rows]) if self.dtype == np.float64 else None
        return ProposedRows(rows + self.first_row, self.residual[rows], self.floor[rows], self.inputs[rows], features)

    def drawn(self, marks: np.ndarray) -> ProposedRows:
        """Return the inputs that marks along the sum of their residuals fall on."""
        outside = self.outside
        places = np.searchsorted(np.cumsum(self.residual[outside]), marks, side="right")
        # The client's sums are rounded otherwise than the shard's: a mark may fall just beyond the last.
        return self.proposed(outside[np.minimum(places, len(outside) - 1)])

    def at(self, places: np.ndarray) -> ProposedRows:
        """Return the inputs at some places in the list of those outside."""
        return self.proposed(self.outside[places])

    def numbered(self, numbers: np.ndarray) -> ProposedRows:
        """Return inputs by their numbers among those of all shards."""
        return self.proposed(numbers - self.first_row)

    def standing(self) -> Standing:
        """Return the summary of the panel for the client."""
        residual, outside = self.residual, self.outside
        largest = int(outside[np.argmax(residual[outside])]) if len(outside) else 0
        return Standing(
            n_rows=len(residual),
            diagonal=float(self.diagonal.sum()),
            residual=float(residual.sum()),
            outside=float(residual[outside].sum()),
            n_outside=len(outside),
            largest=float(residual[largest]) if len(outside) else -np.inf,
            largest_row=largest,
            lowest=self.lowest,
            floor=float(self.floor.max(initial=0.0)),
        )


class ShardPanel(ShardRows):
    """Rows of a panel in the memory of a worker."""

    def __init__(self, kernel: Kernel, inputs: Matrix, capacity: int, dtype: DTypeLike, largest: float, first_row: int):
        super().__init__(kernel, inputs, capacity, dtype, np.empty((inputs.shape[0], capacity), dtype))
        self._begin_at(first_row, largest)
        self._factor = np.zeros((0, 0))
