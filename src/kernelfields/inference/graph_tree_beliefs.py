"""What the two passes over forests know: marginals of pairs, gradients, Hessian products.

The equations are in ``graph_trees_compiled``. Sums over the pairs of a tied group are matrix products,

    sum_v X_v = T * (sum_v alpha_v gamma_v^T),

so no table is made per pair. Graphs that doubles cannot hold are kept aside, with beliefs in the log domain.
Cost: O(L^2) time per pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelfields.inference.graph import GraphBeliefs
from kernelfields.inference.graph_packing import InfeasibleGraph
from kernelfields.inference.junction_beliefs import JunctionBeliefs

if TYPE_CHECKING:
    from kernelfields.inference.graph_trees import TreeInference

# Sums over pairs are made in pieces of so many, whatever the threads, so that no digit depends on these.
_PIECE = 16_384


class TreeBeliefs(GraphBeliefs):
    """Marginals of forests and what Hessian products need; see ``graph_trees_compiled``."""

    inference: TreeInference

    def __init__(self, inference, total, marginals, *, tied, weights, passes, workers):
        super().__init__(inference, total, marginals, tied=tied, weights=weights)
        self._table_of, self._transfer, self._alpha, self._inverse, self._gamma = passes
        self._workers = workers
        self._rescued: _Rescue | None = None

    def rescue(self, node: np.ndarray, factors: list[np.ndarray]) -> None:
        """Compute the graphs that doubles cannot hold in the log domain, and blank what the passes left there."""
        troubled = np.flatnonzero(np.isnan(self.log_partition))
        if troubled.size:
            self.diagnostics["graphs in the log domain"] = len(troubled)
            self._rescued = _Rescue(self, troubled, node, factors)
            for kept in (self._alpha, self._inverse, self._gamma):
                kept[self._rescued.rows] = 0.0
            self.log_partition[troubled] = self._rescued.beliefs.log_partition
            self.node_marginals[self._rescued.rows] = self._rescued.beliefs.node_marginals

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, L) of the labels at the factors of a group."""
        marginals = self._pairs(group, None)
        if self._rescued is not None:
            marginals[self._rescued.factors[group]] = self._rescued.beliefs.factor_marginals(group)
        return marginals

    def _pairs(self, group, chosen, moved=None, rest=None, delta=None):
        """Return X, or dX along a direction, for some or all (None) factors of a group."""
        from kernelfields.inference.graph_tree_derivatives import pair_tables

        forest, members = self.inference.forest, self.inference.members[group]
        if members.shape[1] != 2:
            return np.zeros(self.inference.table_shape(group, False))
        child, turned = forest.child[group], forest.reversed[group]
        if chosen is not None:
            child, turned = child[chosen], turned[chosen]
        result = np.empty((len(child), *self._transfer.shape[1:]))
        if moved is None:
            moved, rest, delta = self._transfer[:0], self._gamma, self._gamma
        passes = self._table_of, forest.flipped, self._transfer, moved, self._alpha, rest, self._gamma, delta
        self._workers.each(
            lambda first, last: pair_tables(first, last, child, turned, *passes, result),
            self._workers.pieces(len(child), 4 * result.size),
        )
        return result

    def gradient(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the gradient of the weighted log partition in (node, factors), shaped like them."""
        tables = [
            self._summed_pairs(group) if tied else self._summed(group, self._pairs(group, None))
            for group, tied in enumerate(self.tied)
        ]
        if self._rescued is not None:
            self._rescued.add(tables, self._rescued.beliefs.gradient()[1])
        return self._weighted(self.node_marginals, self.inference.node_graphs), tables

    def _summed_pairs(self, group, moved=None, rest=None, delta=None):
        """Return the weighted sum of X, or of dX along a direction, over the factors of a tied group."""
        shape = self.inference.table_shape(group, True)
        if not len(self.inference.members[group]):
            return np.zeros(shape)
        forest, total = self.inference.forest, np.zeros(shape[1:])
        below, turned = forest.child[group], forest.reversed[group]
        bundled = forest.bundles[below] >= 0
        for reverse in (False, True):
            rows = below[~bundled & (turned == reverse)]
            if not len(rows):
                continue
            table = self._table_of[rows[0]]
            counts = self._outer_sum(rows, self._alpha, self._gamma)
            sums = self._transfer[table] * (counts.T if reverse else counts)
            if moved is not None:
                sums = moved[table] * (counts.T if reverse else counts)
                counts = self._outer_sum(rows, self._alpha, self._gamma, rest)
                counts += self._outer_sum(rows, self._alpha, delta)
                sums += self._transfer[table] * (counts.T if reverse else counts)
            total += sums
        chosen = np.flatnonzero(bundled)
        if len(chosen):
            pairs = self._pairs(group, chosen, moved, rest, delta)
            total += self._weighted(pairs, self.inference.factor_graphs(group)[chosen]).sum(axis=0)
        return total[None]

    def _outer_sum(
        self, rows: np.ndarray, left: np.ndarray, right: np.ndarray, times: np.ndarray | None = None
    ) -> np.ndarray:
        """Return sum_v weight_v (left_v * times_v) right_v^T over the rows, (L, L)."""
        pieces = [(start, min(start + _PIECE, len(rows))) for start in range(0, len(rows), _PIECE)]
        partial: dict[int, np.ndarray] = {}

        def run(first: int, last: int) -> None:
            part = rows[first:last]
            scaled = left[part] if times is None else left[part] * times[part]
            partial[first] = scaled.T @ self._weighted(right[part], self.inference.node_graphs[part])

        self._workers.each(run, pieces)
        # In order, so that the sum does not depend on which thread was first.
        return np.sum([partial[first] for first, _ in pieces], axis=0)

    def hessian_product(
        self, d_node: np.ndarray, d_factors: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        from kernelfields.inference.graph_tree_derivatives import tree_responses

        d_node, d_tables = self._check_direction(d_node, d_factors)
        inference, forest = self.inference, self.inference.forest
        moved = np.concatenate(forest.pair_tables(d_tables, inference.n_labels))
        moved *= self._transfer
        rest, delta, d_marginals = d_node.copy(), np.zeros_like(d_node), np.zeros_like(d_node)
        tree = forest.order, forest.parent, self._table_of, forest.flipped
        passes = self._alpha, self._inverse, self._gamma, self.node_marginals
        self._workers.each(
            lambda first, last: tree_responses(
                first, last, inference.offsets, *tree, self._transfer, moved, *passes, rest, delta, d_marginals
            ),
            self._workers.runs(inference.offsets, inference.n_labels),
        )
        tables = [
            self._summed_pairs(group, moved, rest, delta)
            if tied
            else self._summed(group, self._pairs(group, None, moved, rest, delta))
            for group, tied in enumerate(self.tied)
        ]
        node = self._weighted(d_marginals, inference.node_graphs)
        if self._rescued is not None:
            node[self._rescued.rows], more = self._rescued.hessian_product(d_node, d_tables)
            self._rescued.add(tables, more)
        return node, tables


class _Rescue:
    """Some graphs of a forest in the log domain, and where they belong in the whole."""

    def __init__(self, whole: TreeBeliefs, graphs: np.ndarray, node: np.ndarray, factors: list[np.ndarray]):
        inference = whole.inference
        chosen = np.zeros(inference.n_graphs, dtype=np.bool_)
        chosen[graphs] = True
        self._tied = whole.tied
        self.rows = np.flatnonzero(chosen[inference.node_graphs])
        self.factors = [np.flatnonzero(chosen[inference.factor_graphs(f)]) for f in range(len(factors))]
        position = np.cumsum(chosen[inference.node_graphs]) - 1
        offsets = np.concatenate([[0], np.cumsum(np.diff(inference.offsets)[graphs])])
        members = [position[m[e]] for m, e in zip(inference.members, self.factors, strict=True)]
        order = position[inference.forest.order[self.rows]]
        plan = inference.in_logarithms(offsets, members, order)
        weights = None if whole.weights is None else whole.weights[graphs]
        tables = self._own(factors)
        try:
            self.beliefs: JunctionBeliefs = plan.infer(
                node[self.rows], tables, weights=weights, workers=whole._workers
            )
        except InfeasibleGraph as error:
            raise InfeasibleGraph(int(graphs[error.graph])) from None

    def _own(self, factors: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [t if tied else t[e] for t, e, tied in zip(factors, self.factors, self._tied, strict=True)]

    def hessian_product(self, d_node, d_factors):
        return self.beliefs.hessian_product(d_node[self.rows], self._own(d_factors))

    def add(self, tables: list[np.ndarray], more: list[np.ndarray]) -> None:
        """Add sums of tied groups, and put rows of the others into their places."""
        for group, (rows, tied) in enumerate(zip(self.factors, self._tied, strict=True)):
            if tied:
                tables[group] += more[group]
            else:
                tables[group][rows] = more[group]
