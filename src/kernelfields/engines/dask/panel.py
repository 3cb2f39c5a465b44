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

Panels in shards change in place, step after step. A shard made again on another machine walks through all steps.
Fails: ValueError where the kernel is not positive semi-definite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse

from kernelfields.basis.panel import _SMALLEST_DIAGONAL, MemoryColumns, PanelCholesky, PivotGrowth
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.triangular import forward_substitution


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
        return ProposedRows(self.rows[places], self.residual[places], self.floor[places], self.inputs[places], features)


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
        return ProposedRows(rows + self.first_row, self.residual[rows], self.floor[rows], self.inputs[rows], features)


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


class Shards(Protocol):
    """What a panel asks of a group of shards; see engines/dask/shards.py."""

    def recipe(self, function: Any, *arguments: Any) -> Any:
        """Return how shards compute an entry."""

    def successor(self, changed: Any, function: Any, *arguments: Any) -> Any:
        """Return the recipe of an entry that a function changes in place."""

    def ask(self, function: Any, *arguments: Any) -> list[Any]:
        """Return the answer of every shard."""

    def ask_each(self, function: Any, arguments: Any) -> list[Any]:
        """Return the answers of shards with arguments of their own."""


class DaskPanel(PivotGrowth):
    """A growing factor Z of the Gram matrix of inputs in shards, with room for ``capacity`` columns.

    ``views`` is the recipe of the shards' inputs, and ``recipe`` that of their present panels.
    """

    def __init__(self, shards: Shards, views: Any, kernel: Kernel, capacity: int, dtype: Any = np.float64):
        self.shards = shards
        self.kernel = kernel
        self.dtype = np.dtype(dtype)
        counts, largest = zip(*shards.ask(diagonal_range, views, kernel), strict=True)
        self._first_rows = np.concatenate([[0], np.cumsum(counts)])
        self.pivots = np.empty(0, dtype=np.int64)
        self._factor = np.zeros((min(capacity, int(self._first_rows[-1])),) * 2)
        self._inputs: list[Any] = []
        self._proposed: ProposedRows | None = None
        self.recipe = shards.recipe(
            started_panel, views, kernel, self.capacity, self.dtype, max(largest), self._first_rows
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
        total = sum(each.diagonal for each in self._standings)
        return sum(each.residual for each in self._standings) / total if total > 0 else 0.0

    @property
    def exhausted(self) -> bool:
        """Whether no input is left whose residual is above its floor."""
        return self.n_outside == 0

    @property
    def n_outside(self) -> int:
        """How many inputs can become pivots."""
        return sum(each.n_outside for each in self._standings)

    def outside_at(self, places: np.ndarray) -> np.ndarray:
        """Return the inputs at some places, 0 .. n_outside - 1, in the list of those outside."""
        ends = np.cumsum([each.n_outside for each in self._standings])
        return self._propose(rows_at, ends, np.asarray(places))

    def drawn_outside(self, uniforms: np.ndarray) -> np.ndarray:
        """Return inputs drawn in proportion to their residual, one for each number in [0, 1)."""
        ends = np.cumsum([each.outside for each in self._standings])
        return self._propose(rows_drawn, ends, uniforms * ends[-1])

    def largest_outside(self) -> np.ndarray:
        """Return the input with the largest residual, (1,)."""
        shard = int(np.argmax([each.largest for each in self._standings]))
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
            self.recipe = self.shards.successor(self.recipe, set_aside, refused)
            self._look()

    def append(self, pivots: np.ndarray, local_factor: np.ndarray) -> None:
        """Add pivots whose residual block has the lower Cholesky factor ``local_factor``."""
        if len(pivots) == 0:
            return
        known = self._known(pivots)
        wide_features = self._wide_features(known)
        self.recipe = self.shards.successor(self.recipe, with_pivots, pivots, known.inputs, wide_features, local_factor)
        begin, end = self.rank, self.rank + len(pivots)
        self._factor[begin:end, :begin] = wide_features
        self._factor[begin:end, begin:end] = local_factor
        self._inputs.append(known.inputs)
        self.pivots = np.concatenate([self.pivots, pivots])
        self._look()
        lowest, floor = min(each.lowest for each in self._standings), max(each.floor for each in self._standings)
        self.check_lowest(lowest, floor)

    def subspace(self) -> PivotSubspace:
        """Return the subspace spanned by the pivots, able to score new inputs."""
        return PivotSubspace(
            self.kernel, stacked_rows(self._inputs), np.ascontiguousarray(self.factor), self.pivots.copy()
        )

    def _look(self) -> None:
        self._proposed = None
        self._standings: list[Standing] = self.shards.ask(standing, self.recipe)

    def _propose(self, function: Any, ends: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """Ask each shard for the rows at its share of some marks along 0 .. ends[-1]; return their numbers."""
        # Rounding may put a mark at the very end: the last shard that has anything to offer takes it.
        shard = np.minimum(np.searchsorted(ends, marks, side="right"), np.searchsorted(ends, ends[-1]))
        begins = np.concatenate([ends[:1] * 0, ends[:-1]])
        return self._ask_rows(function, shard, marks - begins[shard])

    def _ask_rows(self, function: Any, shard: np.ndarray, marks: np.ndarray) -> np.ndarray:
        asked = [np.flatnonzero(shard == number) for number in range(len(self._standings))]
        answers = self.shards.ask_each(
            function, [(self.recipe, marks[places]) if len(places) else None for places in asked]
        )
        joined = ProposedRows.joined([each for each in answers if each is not None])
        self._proposed = joined.at(np.argsort(np.concatenate(asked)))
        return self._proposed.rows

    def _known(self, rows: np.ndarray) -> ProposedRows:
        """Return all that is known of some inputs, asked for if they were not proposed."""
        if self._proposed is None or not np.all(np.isin(rows, self._proposed.rows)):
            shard = np.searchsorted(self._first_rows, rows, side="right") - 1
            self._ask_rows(rows_numbered, shard, rows)
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


def _wide(inputs: Any) -> Any:
    return inputs.astype(np.float64, copy=False)
