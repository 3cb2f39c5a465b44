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

import numpy as np
from numpy.typing import DTypeLike

from kernelfields.basis.panel import PivotGrowth
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.data.reading import Matrix
from kernelfields.engines.dask.shard_panel import ProposedRows, ShardPanel, ShardRows, stacked_rows
from kernelfields.engines.dask.shards import SHARD, Recipe, Shard, ShardGroup
from kernelfields.engines.engine import Engine
from kernelfields.engines.torch.engine import Torch
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.triangular import forward_substitution


def diagonal_range(inputs: Matrix, kernel: Kernel) -> tuple[int, float]:
    """Return the number of inputs and the largest k(x, x) among them."""
    return inputs.shape[0], float(np.max(kernel.diag(inputs), initial=0.0))


def started_panel(
    shard: Shard,
    inputs: Matrix,
    kernel: Kernel,
    capacity: int,
    dtype: np.dtype,
    largest: float,
    first_rows: np.ndarray,
    engine: Engine | None = None,
) -> ShardRows:
    """Return an empty panel, in memory or on the device of the worker."""
    settings = kernel, inputs, capacity, dtype, largest, int(first_rows[shard.number])
    if not isinstance(engine, Torch):
        return ShardPanel(*settings)
    from kernelfields.engines.dask.devices import DeviceShardPanel

    return DeviceShardPanel(*settings, engine.resolved_device())


class DaskPanel(PivotGrowth):
    """A growing factor Z of the Gram matrix of inputs in shards, with room for ``capacity`` columns.

    ``views`` is the recipe of the shards' inputs, and ``recipe`` that of their present panels.
    """

    def __init__(
        self,
        shards: ShardGroup,
        views: Recipe,
        kernel: Kernel,
        capacity: int,
        dtype: DTypeLike = np.float64,
        engine: Engine | None = None,
    ):
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
            started_panel, SHARD, views, kernel, self.capacity, self.dtype, max(largest), self._first_rows, engine
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
        return self._propose(ShardRows.at, ends, np.asarray(places))

    def drawn_outside(self, uniforms: np.ndarray) -> np.ndarray:
        """Return inputs drawn in proportion to their residual, one for each number in [0, 1)."""
        ends = np.cumsum([standing.outside for standing in self._standings])
        return self._propose(ShardRows.drawn, ends, uniforms * ends[-1])

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
            self.recipe = self.shards.successor(self.recipe, ShardRows.without, refused)
            self._look()

    def append(self, pivots: np.ndarray, local_factor: np.ndarray) -> None:
        """Add pivots whose residual block has the lower Cholesky factor ``local_factor``."""
        if len(pivots) == 0:
            return
        known = self._known(pivots)
        wide_features = self._wide_features(known)
        self.recipe = self.shards.successor(
            self.recipe, ShardRows.add_pivots, pivots, known.inputs, wide_features, local_factor
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
        self._standings = self.shards.ask(ShardRows.standing, self.recipe)

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
            self._ask_rows(ShardRows.numbered, shard, rows)
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
