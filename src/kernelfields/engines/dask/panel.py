"""Incomplete Cholesky factorisation, as in basis/panel.py, with the rows of Z spread over shards on other machines.

    client    pivots B (r, d), factor R (r, r) in float64, sums of the residual over each shard
    shard     its inputs (n, d), rows of Z (n, capacity), residual and floor (n,)

    Z <- [Z, (K_:P - Z Z_P^T) L^-T],      d <- d - rowsums(new^2)        in every shard, O(n k b) for n rows

The pivots P may be inputs of any shard: they come with their inputs (b, d), their features Z_P (b, k) in float64
and the factor L (b, b) of their residual block. A panel of pivots takes two rounds: proposals come from the shards
with all that the block H = K_PP - Z_P Z_P^T needs, and the chosen ones go out to all of them. Draws in proportion to
the residual are mapped to shards by the sums and to rows by the shards, so the same seed gives the same pivots as on
one machine, unless a draw falls within rounding of the border between two inputs. The client's memory is
O(r (r + d)), whatever N; a round moves O(b (r + d)) numbers to each shard.

Panels in shards change in place, step after step. A shard made again on another machine repeats all steps.
Fails: ValueError where the kernel is not positive semi-definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

from kernelfields.basis.panel import _SMALLEST_DIAGONAL, MemoryColumns, PanelCholesky, PivotGrowth
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.engines.dask.shards import SHARD, Recipe, Shard, ShardGroup
from kernelfields.fields.reading import Matrix
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.triangular import forward_substitution


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


class ShardPanel(PanelCholesky):
    """The rows of a panel that one shard holds, ``first_row`` the number of the first of them."""

    def __init__(self, kernel: Kernel, inputs: Matrix, capacity: int, dtype: DTypeLike, largest: float, first_row: int):
        columns = MemoryColumns(inputs.shape[0], capacity, np.dtype(dtype))
        super().__init__(kernel, inputs, capacity, dtype, columns)
        self.first_row = first_row
        self.lowest = 0.0
        self._pivot_inputs: list[Matrix] = []
        # The scale of the largest k(x, x) of all shards; the factor is the client's.
        self.floor = np.maximum(self.floor, _SMALLEST_DIAGONAL * largest)
        self._factor = np.zeros((0, 0))

    def add_pivots(
        self, pivots: np.ndarray, inputs: Matrix, wide_features: np.ndarray, local: np.ndarray
    ) -> ShardPanel:
        """Add pivots of any shard, given by their inputs and features; return the panel."""
        self._add_columns(inputs, wide_features, local)
        self.pivots = np.concatenate([self.pivots, pivots])
        self._pivot_inputs.append(inputs)
        self.lowest = float(self.residual.min(initial=0.0))
        np.maximum(self.residual, 0.0, out=self.residual)
        self.residual[self.own(pivots)] = 0.0
        return self

    def without(self, refused: np.ndarray) -> ShardPanel:
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
        features = self.features[rows] if self.dtype == np.float64 else None
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


def diagonal_range(inputs: Matrix, kernel: Kernel) -> tuple[int, float]:
    """Return the number of inputs and the largest k(x, x) among them."""
    return inputs.shape[0], float(np.max(kernel.diag(inputs), initial=0.0))


def started_panel(
    shard: Shard, inputs: Matrix, kernel: Kernel, capacity: int, dtype: np.dtype, largest: float, first_rows: np.ndarray
) -> ShardPanel:
    """Return an empty panel."""
    return ShardPanel(kernel, inputs, capacity, dtype, largest, int(first_rows[shard.number]))


class DaskPanel(PivotGrowth):
    """A growing factor Z of the Gram matrix of inputs in shards, with room for ``capacity`` columns.

    ``views`` is the recipe of the shards' inputs, and ``recipe`` that of their present panels.
    """

    def __init__(self, shards: ShardGroup, views: Recipe, kernel: Kernel, capacity: int, dtype: DTypeLike = np.float64):
        self.shards = shards
        self.kernel = kernel
        self.dtype = np.dtype(dtype)
        counts, largest = zip(*shards.ask(diagonal_range, views, kernel), strict=True)
        self._first_rows = np.concatenate([[0], np.cumsum(counts)])
        self.pivots = np.empty(0, dtype=np.int64)
        self._factor = np.zeros((min(capacity, int(self._first_rows[-1])),) * 2)
        self._inputs: list[Matrix] = []
        self._proposed: ProposedRows | None = None
        self.recipe = shards.recipe(
            started_panel, SHARD, views, kernel, self.capacity, self.dtype, max(largest), self._first_rows
        )
        self._look()

    @property
    def capacity(self) -> int:
        """Number of columns there is room for."""
        return len(self._factor)

    @property
    def factor(self) -> np.ndarray:
        """The pivots' own rows of Z in float64, (rank, rank) lower; a view."""
        return self._factor[: self.rank, : self.rank]

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
        return self._propose(ShardPanel.at, ends, np.asarray(places))

    def drawn_outside(self, uniforms: np.ndarray) -> np.ndarray:
        """Return inputs drawn in proportion to their residual, one for each number in [0, 1)."""
        ends = np.cumsum([standing.outside for standing in self._standings])
        return self._propose(ShardPanel.drawn, ends, uniforms * ends[-1])

    def largest_outside(self) -> np.ndarray:
        """Return the input with the largest residual, (1,)."""
        shard = int(np.argmax([standing.largest for standing in self._standings]))
        return np.array([self._first_rows[shard] + self._standings[shard].largest_row])

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

    def set_aside(self, refused: np.ndarray) -> None:
        """Never propose inputs again that lie in the span up to rounding."""
        if len(refused):
            self.recipe = self.shards.successor(self.recipe, ShardPanel.without, refused)
            self._look()

    def append(self, pivots: np.ndarray, local_factor: np.ndarray) -> None:
        """Add pivots whose residual block has the lower Cholesky factor ``local_factor``."""
        if len(pivots) == 0:
            return
        known = self._known(pivots)
        wide_features = self._wide_features(known)
        self.recipe = self.shards.successor(
            self.recipe, ShardPanel.add_pivots, pivots, known.inputs, wide_features, local_factor
        )
        begin, end = self.rank, self.rank + len(pivots)
        self._factor[begin:end, :begin] = wide_features
        self._factor[begin:end, begin:end] = local_factor
        self._inputs.append(known.inputs)
        self.pivots = np.concatenate([self.pivots, pivots])
        self._look()
        lowest, floor = (
            min(standing.lowest for standing in self._standings),
            max(standing.floor for standing in self._standings),
        )
        self.check_lowest(lowest, floor)

    def subspace(self) -> PivotSubspace:
        """Return the subspace spanned by the pivots, able to score new inputs."""
        return PivotSubspace(
            self.kernel, stacked_rows(self._inputs), np.ascontiguousarray(self.factor), self.pivots.copy()
        )

    def _look(self) -> None:
        self._proposed = None
        self._standings = self.shards.ask(ShardPanel.standing, self.recipe)

    def _propose(self, function: Callable[..., ProposedRows], ends: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """Request the rows at each shard's share of some marks along 0 .. ends[-1]; return their numbers."""
        # Rounding may put a mark at the very end: the last shard that has anything to offer takes it.
        shard = np.minimum(np.searchsorted(ends, marks, side="right"), np.searchsorted(ends, ends[-1]))
        begins = np.concatenate([ends[:1] * 0, ends[:-1]])
        return self._ask_rows(function, shard, marks - begins[shard])

    def _ask_rows(self, function: Callable[..., ProposedRows], shard: np.ndarray, marks: np.ndarray) -> np.ndarray:
        chosen = [np.flatnonzero(shard == number) for number in range(len(self._standings))]
        answers = self.shards.ask_each(
            function, [(self.recipe, marks[places]) if len(places) else None for places in chosen]
        )
        self._proposed = ProposedRows.joined(answers).at(np.argsort(np.concatenate(chosen)))
        return self._proposed.rows

    def _known(self, rows: np.ndarray) -> ProposedRows:
        """Return all that is known of some inputs, requested if they were not proposed."""
        if self._proposed is None or not np.all(np.isin(rows, self._proposed.rows)):
            shard = np.searchsorted(self._first_rows, rows, side="right") - 1
            self._ask_rows(ShardPanel.numbered, shard, rows)
        assert self._proposed is not None
        order = np.argsort(self._proposed.rows, kind="stable")
        return self._proposed.at(order[np.searchsorted(self._proposed.rows[order], rows)])

    def _wide_features(self, known: ProposedRows) -> np.ndarray:
        """Return z(x) of a few inputs in float64, (n, rank)."""
        if known.features is not None:
            return known.features
        if self.rank == 0:
            return np.empty((len(known.rows), 0))
        block = self.kernel(_wide(stacked_rows(self._inputs)), _wide(known.inputs)).astype(np.float64)
        return forward_substitution(self.factor, block).T


def _wide(inputs: Matrix) -> Matrix:
    return inputs.astype(np.float64, copy=False)
