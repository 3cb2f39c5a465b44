"""Incomplete Cholesky factorisation, as in panel.py, with the rows of Z spread over shards on other machines.

    client    pivots B (r, d), factor R (r, r) in float64, sums of the residual over each shard
    shard     its inputs (n, d), rows of Z (n, capacity), residual and floor (n,)

A panel of pivots takes two rounds: proposals come from the shards with all that the block H = K_PP - Z_P Z_P^T
needs, and the chosen ones go out to all of them. Draws in proportion to the residual are mapped to shards by the
sums and to rows by the shards, so the same seed gives the same pivots as on one machine, unless a draw falls
within rounding of the border between two inputs. The client's memory is O(r (r + d)), whatever N; a round moves
O(b (r + d)) numbers to each shard.

Panels in shards change in place, step after step. A shard made again on another machine walks through all steps.
Fails: ValueError where the kernel is not positive semi-definite, as in panel.py.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kernelfields.basis.dask_rows import (
    ProposedRows,
    Standing,
    diagonal_range,
    rows_at,
    rows_drawn,
    rows_numbered,
    set_aside,
    stacked_rows,
    standing,
    started_panel,
    with_pivots,
)
from kernelfields.basis.proposals import PivotGrowth
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.basis.triangular import forward_substitution
from kernelfields.kernels import Kernel


class Shards(Protocol):
    """What a panel asks of a group of shards; see engines/dask_shards.py."""

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
        self.recipe = self.shards.successor(
            self.recipe, with_pivots, pivots, known.inputs, wide_features, local_factor
        )
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
