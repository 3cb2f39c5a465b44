"""Exact inference on packed trees and forests: two passes in the range of doubles, with a rescue beyond it.

    plan = TreeInference(offsets, members, n_labels)
    beliefs = plan.infer(node, factors)

Arrays as in ``graph``, the equations in ``graph_trees_compiled``. Tables are used where they are: a tied one is never
copied, and only factors on the same two nodes are summed up first (``graph_forests``). A graph whose probabilities
leave the range of doubles is computed in the log domain by junction trees of width one, as are best labellings and
samples of all.

Cost: O(L^2) time per pair for log partition and marginals, for the gradient and for a Hessian product; O(N L) memory,
and that of the tables. Fails: NotAForest (a ValueError) where the pairs have a cycle or a factor is not a pair;
ValueError naming the graph where every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from kernelfields.inference.graph import GraphBeliefs, GraphInference
from kernelfields.inference.graph_forests import Forest, NotAForest
from kernelfields.inference.graph_packing import InfeasibleGraph
from kernelfields.inference.junction_trees import JunctionBeliefs, JunctionInference
from kernelfields.inference.workers import Workers

__all__ = ["NotAForest", "TreeBeliefs", "TreeInference"]

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
        troubled = np.flatnonzero(np.isnan(total))
        if troubled.size:
            self.diagnostics["graphs in the log domain"] = len(troubled)

    def rescue(self, node: np.ndarray, factors: list[np.ndarray]) -> None:
        """Compute the graphs that doubles cannot hold in the log domain, and blank what the passes left there."""
        troubled = np.flatnonzero(np.isnan(self.log_partition))
        if troubled.size:
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

    def _pairs(self, group: int, chosen: np.ndarray | None, moved=None, rest=None, delta=None) -> np.ndarray:
        """Return X, or dX along a direction, for some or all (None) factors of a group."""
        from kernelfields.inference.graph_trees_compiled import pair_tables

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
        tables = []
        for group, tied in enumerate(self.tied):
            table = self._summed_pairs(group) if tied else self._summed(group, self._pairs(group, None))
            tables.append(table)
        if self._rescued is not None:
            self._rescued.add(tables, self._rescued.beliefs.gradient()[1])
        return self._weighted(self.node_marginals, self.inference.node_graphs), tables

    def _summed_pairs(self, group: int, moved=None, rest=None, delta=None) -> np.ndarray:
        """Return the weighted sum of X, or of dX along a direction, over the factors of a tied group."""
        shape = self.inference.table_shape(group, True)
        if not len(self.inference.members[group]):
            return np.zeros(shape)
        forest, total = self.inference.forest, np.zeros(shape[1:])
        below, turned = forest.child[group], forest.reversed[group]
        bundled = forest.bundles[below] >= 0
        alpha, gamma = self._alpha, self._gamma
        for reverse in (False, True):
            rows = below[~bundled & (turned == reverse)]
            if not len(rows):
                continue
            table = self._transfer[self._table_of[rows[0]]]
            weights = None if self.weights is None else self.weights[self.inference.node_graphs[rows]][:, None]

            def outer(left, right, rows=rows, weights=weights):
                return self._in_pieces(
                    len(rows),
                    lambda part: (
                        left(rows[part]).T
                        @ (right(rows[part]) if weights is None else right(rows[part]) * weights[part])
                    ),
                )

            def turn(sums, reverse=reverse):
                return sums.T if reverse else sums

            counts = outer(alpha.__getitem__, gamma.__getitem__)
            if moved is None:
                total += table * turn(counts)
            else:
                counts_moved = outer(lambda v: alpha[v] * rest[v], gamma.__getitem__)
                counts_moved += outer(alpha.__getitem__, delta.__getitem__)
                total += table * turn(counts_moved) + moved[self._table_of[rows[0]]] * turn(counts)
        chosen = np.flatnonzero(bundled)
        if len(chosen):
            pairs = self._pairs(group, chosen, moved, rest, delta)
            total += self._weighted(pairs, self.inference.factor_graphs(group)[chosen]).sum(axis=0)
        return total[None]

    def _in_pieces(self, n_rows: int, product: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Return the sum of product(rows) over pieces of the rows, added in their order."""
        pieces = [(start, min(start + _PIECE, n_rows)) for start in range(0, n_rows, _PIECE)]
        partial: dict[int, np.ndarray] = {}

        def run(first: int, last: int) -> None:
            partial[first] = product(slice(first, last))

        self._workers.each(run, pieces)
        return np.sum([partial[first] for first, _ in pieces], axis=0)

    def hessian_product(
        self, d_node: np.ndarray, d_factors: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        from kernelfields.inference.graph_trees_compiled import tree_responses

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
            self.beliefs: JunctionBeliefs = plan.infer(node[self.rows], tables, weights=weights)
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

    def in_logarithms(
        self, offsets: np.ndarray, members: Sequence[np.ndarray], order: np.ndarray
    ) -> JunctionInference:
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
        from kernelfields.inference.graph_exponentials import exponentials
        from kernelfields.inference.graph_trees_compiled import leaves_to_roots, roots_to_leaves

        node, tables, tied = self.check_potentials(node, factors)
        weights = self.check_weights(weights)
        workers = workers or Workers(1)
        forest = self.forest
        pairs = forest.pair_tables(tables, self.n_labels)
        table_of = forest.table_of(pairs)
        values, shift = exponentials(pairs, workers)
        transfer = values.reshape(-1, self.n_labels, self.n_labels)
        # Sums are minus infinity exactly where an entry is: potentials are never plus infinity here.
        restricted = not all(np.isfinite(each.sum()) for each in (node, *pairs))
        open_labels = np.ones(node.shape if restricted else (1, 1), dtype=np.bool_)
        alpha = np.ones_like(node)
        inverse, gamma, marginals = np.zeros_like(node), np.zeros_like(node), np.zeros_like(node)
        total = np.empty(self.n_graphs)
        tree = forest.order, forest.parent, table_of, forest.flipped

        def run(first: int, last: int) -> None:
            leaves_to_roots(
                first, last, self.offsets, *tree, node, transfer, shift, open_labels, alpha, inverse, total
            )
            roots_to_leaves(first, last, self.offsets, *tree, transfer, alpha, inverse, gamma, marginals, total)

        workers.each(run, workers.runs(self.offsets, self.n_labels))
        beliefs = TreeBeliefs(
            self,
            total,
            marginals,
            tied=tied,
            weights=weights,
            passes=(table_of, transfer, alpha, inverse, gamma),
            workers=workers,
        )
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
