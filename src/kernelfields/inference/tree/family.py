"""Exact inference on packed trees and forests: two passes in the range of doubles, with a rescue beyond it.

    plan = TreeFamily(offsets, members, n_labels)
    member = plan.at(potentials)

Arrays as in inference/graphs.py, the equations in passes_compiled.py. Trees are rooted and ordered breadth first.
Tables are used where they are: a tied one is never copied. Several factors on the same two nodes, in any groups and
orientations, are merged into one *bundle* with a table of its own. Sums over the pairs of a tied group are matrix
products,

    sum_v X_v = T * (sum_v alpha_v gamma_v^T),

so no table is made per pair. Junction trees of width one take what these passes would not do faster: graphs whose
probabilities leave the range of doubles, Hessian products, best labellings and samples.

Cost: O(L^2) time per pair for log partition and marginals, for the gradient and for a Hessian product; O(N L)
memory, and that of the tables. Fails: NotAForest (a ValueError) where the pairs have a cycle or a factor is not
a pair; ValueError naming the graph where every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kernelfields.inference.graphs import GraphFamily, GraphMember, GraphPotentials
from kernelfields.inference.junction.family import JunctionFamily, JunctionMember, RescuedItems
from kernelfields.inference.packing import distinct_pairs, grouped
from kernelfields.numerics.threads import Workers

# Sums over pairs are made in pieces of so many, whatever the threads, so that no digit depends on these.
_PIECE = 16_384


class NotAForest(ValueError):
    """The factors are not those of a forest."""


class Trees(NamedTuple):
    """Rooted trees and the tables of their pairs, as the compiled passes read them."""

    offsets: np.ndarray  # (S + 1,)
    order: np.ndarray  # (N,), nodes of graph i at offsets[i] .. offsets[i + 1] - 1, breadth first
    parent: np.ndarray  # (N,), -1 at roots
    table_of: np.ndarray  # (N,), which table v shares with its parent
    flipped: np.ndarray  # (N,), whether that table is (parent, child)


class TreePasses(NamedTuple):
    """Arrays of the two passes, read and filled by compiled code; passes_compiled.py has the equations."""

    transfer: np.ndarray  # (tables, L, L), T
    alpha: np.ndarray  # (N, L)
    inverse: np.ndarray  # (N, L), 1 / m_v, 0 where m_v is, and at roots
    gamma: np.ndarray  # (N, L)
    marginals: np.ndarray  # (N, L), b


class Forest:
    """Rooted trees, and for each group how its pairs lie in them.

    child (M,): the lower node of each pair; reversed (M,): whether the parent comes first in it. bundles (N,)
    numbers the nodes whose pair with the parent has several factors, -1 for the others, whose factor is (group,
    factor).
    """

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray]):
        from kernelfields.inference.tree.passes_compiled import root_forest

        self.offsets = offsets
        n_nodes = int(offsets[-1])
        for group, nodes in enumerate(members):
            if nodes.shape[1] != 2 and len(nodes):
                raise NotAForest(
                    f"factor group {group} joins {nodes.shape[1]} nodes at a time, and trees have pairs only; "
                    'use "junction"'
                )
        pairs = [each if each.shape[1] == 2 else np.zeros((0, 2), np.int64) for each in members]
        ends, counts, pair_of = distinct_pairs(pairs, n_nodes)
        starts, by_node = grouped(ends.ravel(), n_nodes)
        self.order, self.parent, parent_edge = (np.empty(n_nodes, np.int64) for _ in range(3))
        cycle = root_forest(
            offsets, starts, ends[:, ::-1].ravel()[by_node], by_node // 2, self.order, self.parent, parent_edge
        )
        if cycle >= 0:
            graph = int(np.searchsorted(offsets, ends[cycle, 0], side="right")) - 1
            raise NotAForest(
                f"the factors of graph {graph} have a cycle through nodes {ends[cycle, 0]} and {ends[cycle, 1]}; "
                'use "junction", or "trw" for many cycles'
            )
        lower = np.where(self.parent[ends[:, 0]] == ends[:, 1], ends[:, 0], ends[:, 1])
        self.child = [lower[each] for each in pair_of]
        self.reversed = [
            np.ascontiguousarray(pair[:, 1] == below) for pair, below in zip(pairs, self.child, strict=True)
        ]
        bundled = lower[counts > 1]
        self.n_bundles = len(bundled)
        self.bundles = np.full(n_nodes, -1, np.int64)
        self.bundles[bundled] = np.arange(len(bundled))
        self.group, self.factor = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
        self.flipped = np.zeros(n_nodes, np.bool_)
        for group, below in enumerate(self.child):
            self.group[below] = group
            self.factor[below] = np.arange(len(below))
            self.flipped[below] = self.reversed[group]
        self.flipped[bundled] = False  # tables of bundles are made as (child, parent)

    def pair_tables(self, tables: Sequence[np.ndarray], n_labels: int) -> list[np.ndarray]:
        """Return the tables (1 or M, L, L) of each group, none if its factors are no pairs, then the bundles'."""
        pairs = [each if each.ndim == 3 else np.zeros((0, n_labels, n_labels)) for each in tables]
        return [*pairs, self._bundle_tables(pairs, n_labels)]

    def trees(self, pairs: Sequence[np.ndarray]) -> Trees:
        """Return the trees, with each node's table numbered as in the result of ``pair_tables``."""
        sizes = np.array([len(each) for each in pairs])
        bases = np.cumsum(sizes) - sizes
        steps = sizes != 1
        of_factor = bases[self.group] + steps[self.group] * self.factor
        table_of = np.where(self.bundles >= 0, bases[-1] + self.bundles, of_factor)
        return Trees(self.offsets, self.order, self.parent, table_of, self.flipped)

    def _bundle_tables(self, tables: Sequence[np.ndarray], n_labels: int) -> np.ndarray:
        """Return the sums (bundles, L, L) of the tables on the same nodes, as (child, parent)."""
        sums = np.zeros((self.n_bundles, n_labels, n_labels))
        for table, below, turned in zip(tables, self.child, self.reversed, strict=True):
            for wanted in (False, True) if self.n_bundles else ():
                chosen = np.flatnonzero((self.bundles[below] >= 0) & (turned == wanted))
                rows = table[np.zeros(len(chosen), np.int64) if len(table) == 1 else chosen]
                np.add.at(sums, self.bundles[below[chosen]], rows.transpose(0, 2, 1) if wanted else rows)
        return sums


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
    def leaves_first(self) -> np.ndarray:
        """The nodes (N,), graph by graph, each before its parent, which then is the only later neighbour."""
        offsets, order = self.offsets, self.forest.order
        return order[np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets)) - np.arange(len(order))]

    @cached_property
    def junction(self) -> JunctionFamily:
        """The same trees as junction trees of width one."""
        return JunctionFamily(self.offsets, self.members, self.n_labels, memory=np.inf, order=self.leaves_first)

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
        return self.junction._decode(checked, workers)

    def _draw(
        self, checked: GraphPotentials, n_samples: int, random: np.random.Generator, workers: Workers
    ) -> np.ndarray:
        return self.junction._draw(checked, n_samples, random, workers)


class TreeMember(GraphMember):
    """Marginals of forests; see passes_compiled.py."""

    family: TreeFamily

    def __init__(
        self,
        family: TreeFamily,
        checked: GraphPotentials,
        total: np.ndarray,
        trees: Trees,
        passes: TreePasses,
        workers: Workers,
    ):
        super().__init__(family, checked, total, passes.marginals, workers)
        self._checked, self._trees, self._passes = checked, trees, passes
        self._rescued: RescuedItems | None = None
        troubled = np.flatnonzero(np.isnan(total))
        if troubled.size:
            rescued = RescuedItems(troubled, family, family.members, checked, workers, order=family.leaves_first)
            self._rescued = rescued
            self.diagnostics["graphs in the log domain"] = len(troubled)
            for kept in (passes.alpha, passes.inverse, passes.gamma):
                kept[rescued.rows] = 0.0  # blank what the passes left there
            self.log_partition[troubled] = rescued.member.log_partition
            self.node_marginals[rescued.rows] = rescued.member.node_marginals

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, L) of the labels at the factors of a group."""
        marginals = self._pairs(group, None)
        if self._rescued is not None:
            marginals[self._rescued.factors[group]] = self._rescued.member._table_marginals(group)
        return marginals

    def _pairs(self, group: int, chosen: np.ndarray | None) -> np.ndarray:
        """Return X for some or all (None) factors of a group."""
        from kernelfields.inference.tree.passes_compiled import pair_tables

        forest, members = self.family.forest, self.family.members[group]
        if members.shape[1] != 2:
            return np.zeros(self.family.table_shape(group, False))
        child, turned = forest.child[group], forest.reversed[group]
        if chosen is not None:
            child, turned = child[chosen], turned[chosen]
        pairs = np.stack([child, self._trees.table_of[child], forest.flipped[child], turned])
        transfer, alpha, gamma = self._passes.transfer, self._passes.alpha, self._passes.gamma
        result = np.empty((len(child), *transfer.shape[1:]))
        self._workers.each(
            lambda first, last: pair_tables(first, last, pairs, transfer, alpha, gamma, result),
            self._workers.pieces(len(child), 4 * result.size),
        )
        return result

    def _expected_tables(self) -> list[np.ndarray]:
        tables = [
            self._summed_pairs(group) if tied else self._summed(group, self._pairs(group, None))
            for group, tied in enumerate(self.tied)
        ]
        if self._rescued is not None:
            self._rescued.add(tables, self._rescued.member._expected_tables())
        return tables

    def _summed_pairs(self, group: int) -> np.ndarray:
        """Return the weighted sum of X over the factors of a tied group."""
        shape = self.family.table_shape(group, True)
        if not len(self.family.members[group]):
            return np.zeros(shape)
        forest, total = self.family.forest, np.zeros(shape[1:])
        below, turned = forest.child[group], forest.reversed[group]
        bundled = forest.bundles[below] >= 0
        for reverse in (False, True):
            rows = below[~bundled & (turned == reverse)]
            if len(rows):
                counts = self._outer_sum(rows)
                total += self._passes.transfer[self._trees.table_of[rows[0]]] * (counts.T if reverse else counts)
        chosen = np.flatnonzero(bundled)
        if len(chosen):
            pairs = self._pairs(group, chosen)
            total += self._weighted(pairs, self.family.factor_items(group)[chosen]).sum(axis=0)
        return total[None]

    def _outer_sum(self, rows: np.ndarray) -> np.ndarray:
        """Return sum_v weight_v alpha_v gamma_v^T over the rows, (L, L)."""
        alpha, gamma = self._passes.alpha, self._passes.gamma

        def part(first: int, last: int) -> np.ndarray:
            piece = rows[first:last]
            return alpha[piece].T @ self._weighted(gamma[piece], self.family.position_items[piece])

        pieces = [(start, min(start + _PIECE, len(rows))) for start in range(0, len(rows), _PIECE)]
        return self._workers.sum(part, pieces)

    @cached_property
    def _junction(self) -> JunctionMember:
        """The same distribution by junction trees, for Hessian products."""
        return self.family.junction._member(self._checked, self._workers)

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        return self._junction._responses(d_node, d_tables)
