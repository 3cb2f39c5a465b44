"""Incomplete Cholesky factorisation, as in basis/panel.py, with the rows of Z in several processes.

    every process    pivots B (r, d), factor R (r, r) in float64, sums of the residuals of all processes
    its own part     inputs (n, d), rows of Z (n, capacity), residual and floor (n,)

    Z <- [Z, (K_:P - Z Z_P^T) L^-T],      d <- d - rowsums(new^2)        in every process, O(n k b) for n rows

The pivots P may be inputs of any process: their inputs (b, d), and their features Z_P (b, k) where these are float64,
are gathered. A panel of pivots takes two exchanges: sums of residuals, and what is known of the proposals. Rows are
numbered through all processes, and draws in proportion to the residual are mapped to processes by the sums, so that the
same seed gives the same pivots as in one process, unless a draw falls within rounding of the border of two inputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from kernelfields.basis.panel import SMALLEST_DIAGONAL, PanelCholesky, PivotGrowth
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.data.reading import Matrix
from kernelfields.kernels.arrays import on_host
from kernelfields.numerics.triangular import forward_substitution
from kernelfields.objective.group import Group


def stacked_rows(parts: list[Matrix]) -> Matrix:
    """Return rows of one kind, dense or CSR, one below the other."""
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.csr_array(scipy.sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)


class Standing(NamedTuple):
    """Sums over the rows of a process: k(x, x), residuals; of inputs above their floor residuals, number, largest."""

    diagonal: float
    residual: float
    outside: float
    n_outside: int
    largest: float
    largest_row: int
    lowest: float
    floor: float


class Known(NamedTuple):
    """What is known of some inputs of all processes: residual and floor (b,), inputs (b, d), Z in float64 or None."""

    residual: np.ndarray
    floor: np.ndarray
    inputs: Matrix
    features: np.ndarray | None


class SharedPanel(PivotGrowth):
    """A growing factor Z of the Gram matrix of inputs in all processes; ``own`` has the rows of this one.

    ``capacity`` columns there is room for may be more than the rows here.
    """

    def __init__(self, own: PanelCholesky, capacity: int, group: Group):
        self.own, self.group, self.capacity = own, group, capacity
        self.kernel, self.inputs, self.dtype = own.kernel, own.inputs, own.dtype
        counts = group.gathered(own.inputs.shape[0])
        self._first_rows = np.concatenate([[0], np.cumsum(counts)])
        own.floor = np.maximum(own.floor, SMALLEST_DIAGONAL * group.largest(float(own.diagonal.max(initial=0.0))))
        self.pivots = np.empty(0, dtype=np.int64)
        self._factor = np.zeros((capacity, capacity))
        self._pivot_inputs: list[Matrix] = []
        self._lowest = 0.0
        self._proposed: tuple[np.ndarray, Known] | None = None
        self._look()

    def _look(self) -> None:
        """Exchange where all processes stand."""
        own = self.own
        outside = own.outside
        most = int(outside[np.argmax(own.residual[outside])]) if len(outside) else 0
        self._standings = self.group.gathered(
            Standing(
                float(own.diagonal.sum()),
                float(own.residual.sum()),
                float(own.residual[outside].sum()),
                len(outside),
                float(own.residual[most]) if len(outside) else -np.inf,
                most,
                self._lowest,
                float(own.floor.max(initial=0.0)),
            )
        )
        self._proposed = None

    @property
    def factor(self) -> np.ndarray:
        """The pivots' own rows of Z in float64, (rank, rank) lower; a view."""
        return self._factor[: self.rank, : self.rank]

    @property
    def features(self) -> Any:
        """The rows of Z of this process, (n, rank)."""
        return self.own.features

    @property
    def residual(self) -> np.ndarray:
        """k(x, x) - |z(x)|^2 of the inputs of this process, (n,)."""
        return self.own.residual

    @property
    def pivot_inputs(self) -> Matrix:
        """The inputs of all pivots, (rank, d)."""
        return stacked_rows(self._pivot_inputs) if self._pivot_inputs else self.inputs[:0]

    @property
    def relative_residual(self) -> float:
        """Trace of the residual over the trace of the Gram matrix."""
        total = sum(standing.diagonal for standing in self._standings)
        return sum(standing.residual for standing in self._standings) / total if total > 0 else 0.0

    @property
    def n_outside(self) -> int:
        """How many inputs can become pivots."""
        return sum(standing.n_outside for standing in self._standings)

    def outside_at(self, places: np.ndarray) -> np.ndarray:
        """Return the inputs at some places, 0 .. n_outside - 1, in the list of those outside."""
        ends = np.cumsum([standing.n_outside for standing in self._standings])
        return self._found(np.asarray(places), ends, lambda own: self.own.outside[own])

    def drawn_outside(self, uniforms: np.ndarray) -> np.ndarray:
        """Return inputs drawn in proportion to their residual, one for each number in [0, 1)."""
        ends = np.cumsum([standing.outside for standing in self._standings])

        def drawn(marks: np.ndarray) -> np.ndarray:
            outside = self.own.outside
            places = np.searchsorted(np.cumsum(self.own.residual[outside]), marks, side="right")
            # Sums of all processes are rounded otherwise than those of one: a mark may fall just beyond the last.
            return outside[np.minimum(places, len(outside) - 1)]

        return self._found(uniforms * ends[-1], ends, drawn)

    def _found(self, marks: np.ndarray, ends: np.ndarray, rows_of: Any) -> np.ndarray:
        """Return the numbers of the inputs at some marks along 0 .. ends[-1], each found by its own process."""
        # Rounding may put a mark at the very end: the last process that has anything to offer takes it.
        rank = np.minimum(np.searchsorted(ends, marks, side="right"), np.searchsorted(ends, ends[-1]))
        mine = np.flatnonzero(rank == self.group.rank)
        begin = 0 if self.group.rank == 0 else ends[self.group.rank - 1]
        rows = np.zeros(len(marks), dtype=np.int64)
        if len(mine):
            rows[mine] = rows_of(marks[mine] - begin) + self._first_rows[self.group.rank]
        rows = np.sum(self.group.gathered(rows), axis=0)
        self._known(rows)
        return rows

    def largest_outside(self) -> np.ndarray:
        """Return the input with the largest residual, (1,)."""
        rank = int(np.argmax([standing.largest for standing in self._standings]))
        return np.array([self._first_rows[rank] + self._standings[rank].largest_row])

    def _own(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of inputs of this process among some numbers, and their rows here."""
        own = rows - self._first_rows[self.group.rank]
        places = np.flatnonzero((own >= 0) & (own < self.inputs.shape[0]))
        return places, own[places]

    def _known(self, rows: np.ndarray) -> Known:
        """Return all that is known of some inputs; one exchange unless they are among those asked for last."""
        if self._proposed is None or not np.all(np.isin(rows, self._proposed[0])):
            places, own = self._own(rows)
            features = on_host(self.own.features[own]) if self.dtype == np.float64 else None
            mine = places, self.own.residual[own], self.own.floor[own], self.inputs[own], features
            parts = [part for part in self.group.gathered(mine) if len(part[0])]
            order = np.argsort(np.concatenate([part[0] for part in parts]), kind="stable")
            known = Known(
                np.concatenate([part[1] for part in parts])[order],
                np.concatenate([part[2] for part in parts])[order],
                stacked_rows([part[3] for part in parts])[order],
                None if features is None else np.concatenate([part[4] for part in parts])[order],
            )
            self._proposed = rows, known
        asked, known = self._proposed
        order = np.argsort(asked, kind="stable")
        at = order[np.searchsorted(asked[order], rows)]
        features = None if known.features is None else known.features[at]
        return Known(known.residual[at], known.floor[at], known.inputs[at], features)

    def residuals_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return residual and floor of some inputs."""
        known = self._known(rows)
        return known.residual, known.floor

    def residual_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the residual K - Z Z^T among some of the inputs, in float64."""
        known = self._known(rows)
        inputs, features = _wide(known.inputs), self._wide_features(known)
        block = np.array(self.kernel(inputs, inputs), dtype=np.float64)
        block -= features @ features.T
        return block

    def _wide_features(self, known: Known) -> np.ndarray:
        """Return z(x) of a few inputs in float64, (n, rank)."""
        if known.features is not None:
            return known.features
        if self.rank == 0:
            return np.empty((len(known.residual), 0))
        block = self.kernel(_wide(self.pivot_inputs), _wide(known.inputs)).astype(np.float64)
        return forward_substitution(self.factor, block).T

    def set_aside(self, refused: np.ndarray) -> None:
        """Never propose inputs again that lie in the span up to rounding."""
        if len(refused):
            self.own.set_aside(self._own(refused)[1])
            self._look()

    def append(self, pivots: np.ndarray, local_factor: np.ndarray) -> None:
        """Add pivots whose residual block has the lower Cholesky factor ``local_factor``."""
        if len(pivots) == 0:
            return
        known, own = self._known(pivots), self.own
        wide_features = self._wide_features(known)
        own.add_columns(known.inputs, wide_features, local_factor)
        begin, end = self.rank, self.rank + len(pivots)
        self._factor[begin:end, :begin] = wide_features
        self._factor[begin:end, begin:end] = local_factor
        self._pivot_inputs.append(known.inputs)
        self.pivots = own.pivots = np.concatenate([self.pivots, pivots])
        self._lowest = float(own.residual.min(initial=0.0))
        np.maximum(own.residual, 0.0, out=own.residual)
        own.residual[self._own(pivots)[1]] = 0.0
        self._look()
        lowest, floor = (min(each.lowest for each in self._standings), max(each.floor for each in self._standings))
        self.check_lowest(lowest, floor)

    def subspace(self) -> PivotSubspace:
        """Return the subspace spanned by the pivots, able to score new inputs."""
        return PivotSubspace(
            self.kernel, self.pivot_inputs, np.ascontiguousarray(np.tril(self.factor)), self.pivots.copy()
        )


def _wide(inputs: Matrix) -> Matrix:
    return inputs.astype(np.float64, copy=False)
