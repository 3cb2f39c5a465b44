"""Exact inference on packed trees and forests: two passes in the range of doubles, with a rescue beyond it.

    plan = TreeInference(offsets, members, n_labels)
    beliefs = plan.infer(node, factors)

Arrays as in inference/beliefs.py, the equations in passes_compiled.py. Tables are used where they are: a tied one
is never copied, and only factors on the same two nodes are summed up first (forest.py). Sums over the pairs of a
tied group are matrix products,

    sum_v X_v = T * (sum_v alpha_v gamma_v^T),

so no table is made per pair. A graph whose probabilities leave the range of doubles is computed in the log domain
by junction trees of width one, as are best labellings and samples of all.

Cost: O(L^2) time per pair for log partition and marginals, for the gradient and for a Hessian product; O(N L)
memory, and that of the tables. Fails: NotAForest (a ValueError) where the pairs have a cycle or a factor is not
a pair; ValueError naming the graph where every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kernelfields.inference.beliefs import GraphBeliefs, GraphInference
from kernelfields.inference.junction.inference import JunctionBeliefs, JunctionInference
from kernelfields.inference.packing import InfeasibleGraph
from kernelfields.inference.tree.forest import Forest, NotAForest, TreePasses, TreeResponse, Trees
from kernelfields.numerics.threads import Workers

__all__ = ["NotAForest", "TreeBeliefs", "TreeInference"]

# Sums over pairs are made in pieces of so many, whatever the threads, so that no digit depends on these.
_PIECE = 16_384


class TreeInference(GraphInference):
    """Exact inference on forests; ``TreeInference(offsets, members, n_labels)`` raises NotAForest for others."""

    method = "tree"
    exact = True
    bound = "exact"

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        super().__init__(offsets, members, n_labels)
        self.forest = Forest(offsets, members)
        n_trees = int(np.count_nonzero(self.forest.parent < 0))
        self.description = f"two passes over {n_trees} trees in {self.n_graphs} graphs, {n_labels} labels: exact"

    @cached_property
    def logarithms(self) -> JunctionInference:
        """The same trees in the log domain."""
        return self.in_logarithms(self.offsets, self.members, self.forest.order)

    def in_logarithms(self, offsets: np.ndarray, members: Sequence[np.ndarray], order: np.ndarray) -> JunctionInference:
        """Return log-domain inference for trees whose nodes are listed breadth first, graph by graph."""
        # Backwards within each graph: then every node has its parent as the only later neighbour.
        backwards = np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets)) - np.arange(len(order))
        return JunctionInference(offsets, members, self.n_labels, memory=np.inf, order=order[backwards])

    def infer(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        *,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
    ) -> TreeBeliefs:
        """Compute log partition functions and marginals; ``weights`` (S,) weigh the graphs in the gradient."""
        from kernelfields.inference.tree.passes_compiled import exponentials, leaves_to_roots, roots_to_leaves

        node, tables, tied = self.check_potentials(node, factors)
        weights = self.check_weights(weights)
        workers = workers or Workers(1)
        forest = self.forest
        pairs = forest.pair_tables(tables, self.n_labels)
        trees = forest.trees(pairs)
        values, shift = exponentials(pairs, workers)
        transfer = values.reshape(-1, self.n_labels, self.n_labels)
        # Sums are minus infinity exactly where an entry is: potentials are never plus infinity here.
        restricted = not all(np.isfinite(each.sum()) for each in (node, *pairs))
        open_labels = np.ones(node.shape if restricted else (1, 1), dtype=np.bool_)
        zeros = (np.zeros_like(node) for _ in range(3))
        passes = TreePasses(transfer, np.ones_like(node), *zeros)
        total = np.empty(self.n_graphs)

        def run(first: int, last: int) -> None:
            leaves_to_roots(first, last, trees, node, passes, shift, open_labels, total)
            roots_to_leaves(first, last, trees, passes, total)

        workers.each(run, workers.runs(self.offsets, self.n_labels))
        beliefs = TreeBeliefs(self, total, tied=tied, weights=weights, trees=trees, passes=passes, workers=workers)
        beliefs.rescue(node, tables)
        return beliefs

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score per graph (S,); ties have a fixed winner."""
        return self.logarithms.decode(node, factors, workers)

    def sample(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        n_samples: int,
        random: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw independent labellings (n_samples, N) from p(y)."""
        return self.logarithms.sample(node, factors, n_samples, random)


class TreeBeliefs(GraphBeliefs):
    """Marginals of forests and what Hessian products need; see passes_compiled.py."""

    inference: TreeInference

    def __init__(self, inference, total, *, tied, weights, trees, passes, workers):
        super().__init__(inference, total, passes.marginals, tied=tied, weights=weights)
        self._trees: Trees = trees
        self._passes: TreePasses = passes
        self._workers = workers
        self._rescued: _Rescue | None = None

    def rescue(self, node: np.ndarray, factors: list[np.ndarray]) -> None:
        """Compute the graphs that doubles cannot hold in the log domain, and blank what the passes left there."""
        troubled = np.flatnonzero(np.isnan(self.log_partition))
        if troubled.size:
            self.diagnostics["graphs in the log domain"] = len(troubled)
            self._rescued = _Rescue(self, troubled, node, factors)
            for kept in (self._passes.alpha, self._passes.inverse, self._passes.gamma):
                kept[self._rescued.rows] = 0.0
            self.log_partition[troubled] = self._rescued.beliefs.log_partition
            self.node_marginals[self._rescued.rows] = self._rescued.beliefs.node_marginals

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, L) of the labels at the factors of a group."""
        marginals = self._pairs(group, None)
        if self._rescued is not None:
            marginals[self._rescued.factors[group]] = self._rescued.beliefs.factor_marginals(group)
        return marginals

    def _pairs(self, group: int, chosen: np.ndarray | None, response: TreeResponse | None = None) -> np.ndarray:
        """Return X, or dX along a direction, for some or all (None) factors of a group."""
        from kernelfields.inference.tree.passes_compiled import pair_tables

        forest, members = self.inference.forest, self.inference.members[group]
        if members.shape[1] != 2:
            return np.zeros(self.inference.table_shape(group, False))
        child, turned = forest.child[group], forest.reversed[group]
        if chosen is not None:
            child, turned = child[chosen], turned[chosen]
        pairs = np.stack([child, self._trees.table_of[child], forest.flipped[child], turned])
        transfer, alpha, gamma = self._passes.transfer, self._passes.alpha, self._passes.gamma
        moved, rest, delta = response or (transfer[:0], gamma, gamma)
        result = np.empty((len(child), *transfer.shape[1:]))
        self._workers.each(
            lambda first, last: pair_tables(first, last, pairs, transfer, moved, alpha, rest, gamma, delta, result),
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

    def _summed_pairs(self, group: int, response: TreeResponse | None = None) -> np.ndarray:
        """Return the weighted sum of X, or of dX along a direction, over the factors of a tied group."""
        shape = self.inference.table_shape(group, True)
        if not len(self.inference.members[group]):
            return np.zeros(shape)
        forest, total = self.inference.forest, np.zeros(shape[1:])
        transfer, alpha, gamma = self._passes.transfer, self._passes.alpha, self._passes.gamma
        below, turned = forest.child[group], forest.reversed[group]
        bundled = forest.bundles[below] >= 0
        for reverse in (False, True):
            rows = below[~bundled & (turned == reverse)]
            if not len(rows):
                continue
            table = self._trees.table_of[rows[0]]
            counts = self._outer_sum(rows, alpha, gamma)
            sums = transfer[table] * (counts.T if reverse else counts)
            if response is not None:
                sums = response.moved[table] * (counts.T if reverse else counts)
                counts = self._outer_sum(rows, alpha, gamma, response.rest)
                counts += self._outer_sum(rows, alpha, response.delta)
                sums += transfer[table] * (counts.T if reverse else counts)
            total += sums
        chosen = np.flatnonzero(bundled)
        if len(chosen):
            pairs = self._pairs(group, chosen, response)
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
        from kernelfields.inference.tree.passes_compiled import tree_responses

        d_node, d_tables = self._check_direction(d_node, d_factors)
        inference, trees, passes = self.inference, self._trees, self._passes
        moved = np.concatenate(inference.forest.pair_tables(d_tables, inference.n_labels))
        moved *= passes.transfer
        response = TreeResponse(moved, d_node.copy(), np.zeros_like(d_node))
        d_marginals = np.zeros_like(d_node)
        self._workers.each(
            lambda first, last: tree_responses(first, last, trees, passes, response, d_marginals),
            self._workers.runs(inference.offsets, inference.n_labels),
        )
        tables = [
            self._summed_pairs(group, response) if tied else self._summed(group, self._pairs(group, None, response))
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
            self.beliefs: JunctionBeliefs = plan.infer(node[self.rows], tables, weights=weights, workers=whole._workers)
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
