"""Exact inference on packed trees and forests: two passes in the range of doubles, with a rescue beyond it.

    plan = TreeFamily(offsets, members, n_labels)
    member = plan.at(potentials)

Arrays as in inference/graphs.py, the equations in passes_compiled.py. Tables are used where they are: a tied one
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

from kernelfields.inference.graphs import GraphFamily, GraphMember, GraphPotentials
from kernelfields.inference.junction.family import JunctionFamily
from kernelfields.inference.packing import InfeasibleGraph
from kernelfields.inference.tree.forest import Forest, NotAForest, TreePasses, TreeResponse, Trees
from kernelfields.numerics.threads import Workers

__all__ = ["NotAForest", "TreeFamily", "TreeMember"]

# Sums over pairs are made in pieces of so many, whatever the threads, so that no digit depends on these.
_PIECE = 16_384


class TreeFamily(GraphFamily):
    """Exact inference on forests; ``TreeFamily(offsets, members, n_labels)`` raises NotAForest for others."""

    method = "tree"
    exact = True
    bound = "exact"

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        super().__init__(offsets, members, n_labels)
        self.forest = Forest(offsets, members)
        n_trees = int(np.count_nonzero(self.forest.parent < 0))
        self.description = f"two passes over {n_trees} trees in {self.n_items} graphs, {n_labels} labels: exact"

    @cached_property
    def logarithms(self) -> JunctionFamily:
        """The same trees in the log domain."""
        return self.in_logarithms(self.offsets, self.members, self.forest.order)

    def in_logarithms(self, offsets: np.ndarray, members: Sequence[np.ndarray], order: np.ndarray) -> JunctionFamily:
        """Return log-domain inference for trees whose nodes are listed breadth first, graph by graph."""
        # Backwards within each graph: then every node has its parent as the only later neighbour.
        backwards = np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets)) - np.arange(len(order))
        return JunctionFamily(offsets, members, self.n_labels, memory=np.inf, order=order[backwards])

    def _member(self, checked: GraphPotentials, workers: Workers) -> TreeMember:
        from kernelfields.inference.tree.passes_compiled import exponentials, leaves_to_roots, roots_to_leaves

        node = checked.node
        pairs = self.forest.pair_tables(checked.tables, self.n_labels)
        trees = self.forest.trees(pairs)
        values, shift = exponentials(pairs, workers)
        open_labels = np.ones(node.shape if checked.restricted else (1, 1), dtype=np.bool_)
        zeros = (np.zeros_like(node) for _ in range(3))
        passes = TreePasses(values.reshape(-1, self.n_labels, self.n_labels), np.ones_like(node), *zeros)
        total = np.empty(self.n_items)

        def run(first: int, last: int) -> None:
            leaves_to_roots(first, last, trees, node, passes, shift, open_labels, total)
            roots_to_leaves(first, last, trees, passes, total)

        workers.each(run, workers.runs(self.offsets, self.n_labels))
        return TreeMember(self, checked, total, trees, passes, workers)

    def _planned_again(self, offsets: np.ndarray, members: Sequence[np.ndarray]) -> TreeFamily:
        return TreeFamily(offsets, members, self.n_labels)

    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        return self.logarithms._decode(checked, workers)

    def _draw(self, checked: GraphPotentials, n_samples: int, random: np.random.Generator) -> np.ndarray:
        return self.logarithms._draw(checked, n_samples, random)


class TreeMember(GraphMember):
    """Marginals of forests and what Hessian products need; see passes_compiled.py."""

    family: TreeFamily

    def __init__(self, family, checked, total, trees, passes, workers):
        super().__init__(family, checked, total, passes.marginals, workers)
        self._trees: Trees = trees
        self._passes: TreePasses = passes
        troubled = np.flatnonzero(np.isnan(total))
        self._rescued = _Rescue(self, troubled, checked) if troubled.size else None
        if self._rescued is not None:
            self.diagnostics["graphs in the log domain"] = len(troubled)
            for kept in (passes.alpha, passes.inverse, passes.gamma):
                kept[self._rescued.rows] = 0.0  # blank what the passes left there
            self.log_partition[troubled] = self._rescued.beliefs.log_partition
            self.node_marginals[self._rescued.rows] = self._rescued.beliefs.node_marginals

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, L) of the labels at the factors of a group."""
        marginals = self._pairs(group, None)
        if self._rescued is not None:
            marginals[self._rescued.factors[group]] = self._rescued.beliefs._table_marginals(group)
        return marginals

    def _pairs(self, group: int, chosen: np.ndarray | None, response: TreeResponse | None = None) -> np.ndarray:
        """Return X, or dX along a direction, for some or all (None) factors of a group."""
        from kernelfields.inference.tree.passes_compiled import pair_tables

        forest, members = self.family.forest, self.family.members[group]
        if members.shape[1] != 2:
            return np.zeros(self.family.table_shape(group, False))
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

    def _expected_tables(self) -> list[np.ndarray]:
        more = None if self._rescued is None else self._rescued.beliefs._expected_tables()
        return self._all_summed_pairs(None, more)

    def _all_summed_pairs(self, response: TreeResponse | None, more: list[np.ndarray] | None) -> list[np.ndarray]:
        """Return weighted X, or dX along a direction, as the potentials are shaped; ``more`` is of rescued graphs."""
        tables = [
            self._summed_pairs(group, response) if tied else self._summed(group, self._pairs(group, None, response))
            for group, tied in enumerate(self.tied)
        ]
        if self._rescued is not None and more is not None:
            self._rescued.add(tables, more)
        return tables

    def _summed_pairs(self, group: int, response: TreeResponse | None) -> np.ndarray:
        """Return the weighted sum of X, or of dX along a direction, over the factors of a tied group."""
        shape = self.family.table_shape(group, True)
        if not len(self.family.members[group]):
            return np.zeros(shape)
        forest, total = self.family.forest, np.zeros(shape[1:])
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
            total += self._weighted(pairs, self.family.factor_items(group)[chosen]).sum(axis=0)
        return total[None]

    def _outer_sum(
        self, rows: np.ndarray, left: np.ndarray, right: np.ndarray, times: np.ndarray | None = None
    ) -> np.ndarray:
        """Return sum_v weight_v (left_v * times_v) right_v^T over the rows, (L, L)."""

        def part(first: int, last: int) -> np.ndarray:
            piece = rows[first:last]
            scaled = left[piece] if times is None else left[piece] * times[piece]
            return scaled.T @ self._weighted(right[piece], self.family.position_items[piece])

        pieces = [(start, min(start + _PIECE, len(rows))) for start in range(0, len(rows), _PIECE)]
        return self._workers.sum(part, pieces)

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        from kernelfields.inference.tree.passes_compiled import tree_responses

        family, trees, passes = self.family, self._trees, self._passes
        moved = np.concatenate(family.forest.pair_tables(d_tables, family.n_labels))
        moved *= passes.transfer
        response = TreeResponse(moved, d_node.copy(), np.zeros_like(d_node))
        d_marginals = np.zeros_like(d_node)
        self._workers.each(
            lambda first, last: tree_responses(first, last, trees, passes, response, d_marginals),
            self._workers.runs(family.offsets, family.n_labels),
        )
        node, more = self._weighted(d_marginals, family.position_items), None
        if self._rescued is not None:
            rows = self._rescued.rows
            node[rows], more = self._rescued.beliefs._responses(d_node[rows], self._rescued.own(d_tables))
        return node, self._all_summed_pairs(response, more)


class _Rescue:
    """Some graphs of a forest in the log domain, and where they belong in the whole."""

    def __init__(self, whole: TreeMember, graphs: np.ndarray, checked: GraphPotentials):
        family = whole.family
        chosen = np.zeros(family.n_items, dtype=np.bool_)
        chosen[graphs] = True
        self._tied = checked.tied
        self.rows = np.flatnonzero(chosen[family.position_items])
        self.factors = [np.flatnonzero(chosen[family.factor_items(f)]) for f in range(len(checked.tied))]
        position = np.cumsum(chosen[family.position_items]) - 1
        offsets = np.concatenate([[0], np.cumsum(np.diff(family.offsets)[graphs])])
        members = [position[m[e]] for m, e in zip(family.members, self.factors, strict=True)]
        order = position[family.forest.order[self.rows]]
        weights = None if checked.weights is None else checked.weights[graphs]
        own = GraphPotentials(checked.node[self.rows], self.own(checked.tables), checked.tied, weights)
        try:
            self.beliefs = family.in_logarithms(offsets, members, order)._member(own, whole._workers)
        except InfeasibleGraph as error:
            raise InfeasibleGraph(int(graphs[error.graph])) from None

    def own(self, tables: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return what these graphs have of tables of all."""
        return [t if tied else t[e] for t, e, tied in zip(tables, self.factors, self._tied, strict=True)]

    def add(self, tables: list[np.ndarray], more: list[np.ndarray]) -> None:
        """Add sums of tied groups, and put rows of the others into their places."""
        for group, (rows, tied) in enumerate(zip(self.factors, self._tied, strict=True)):
            if tied:
                tables[group] += more[group]
            else:
                tables[group][rows] = more[group]
