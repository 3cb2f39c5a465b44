"""Exact inference on packed trees and forests: two passes in the range of doubles, with a fallback beyond it.

    plan = TreeFamily(offsets, members, n_labels)
    member = plan.distribution(potentials)

Arrays as in inference/graphs.py, the equations in passes_compiled.py. Trees are rooted, and their nodes ordered, by
pair_graph.py. Tables are used where they are: a tied one is never copied. Several factors on the same two nodes, in any
groups and orientations, have their sum as one table. Sums over the pairs of a tied group are matrix products,

    sum_v X_v = T * (sum_v alpha_v gamma_v^T),

so no table is made per pair. Junction trees of width one take what these passes would not do faster: graphs whose
probabilities leave the range of doubles, Hessian products, best labellings and samples.

Cost: O(L^2) time per pair for log partition and marginals, for the gradient and for a Hessian product; O(N L)
memory, and that of the tables. Raises NotAForest (a ValueError) where the pairs have a cycle or a factor is not
a pair; ValueError naming the graph where every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kernelfields.inference import tree
from kernelfields.inference.family import RankedLabellings
from kernelfields.inference.graphs import GraphFamily, GraphMember, GraphPotentials
from kernelfields.inference.junction.family import JunctionFamily, JunctionMember, RescuedItems
from kernelfields.inference.packing import exponentials
from kernelfields.inference.pair_graph import PairGraphs
from kernelfields.numerics.threads import Workers

# Sums over pairs are made in pieces of so many, whatever the threads, so that no digit depends on these.
_PIECE = 16_384


class NotAForest(ValueError):
    """The factors do not form a forest."""


class Trees(NamedTuple):
    """Rooted trees and the tables of their pairs, for the compiled passes."""

    offsets: np.ndarray  # (S + 1,)
    order: np.ndarray  # (N,), nodes of graph i at offsets[i] .. offsets[i + 1] - 1, parents before their children
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


class TreeFamily(GraphFamily):
    """Exact inference on forests; ``TreeFamily(offsets, members, n_labels)`` raises NotAForest for others."""

    method = "tree"

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        super().__init__(offsets, members, n_labels)
        for group, nodes in enumerate(members):
            if nodes.shape[1] != 2 and len(nodes):
                raise NotAForest(
                    f"factor group {group} joins {nodes.shape[1]} nodes at a time, and trees have pairs only; "
                    'use "junction"'
                )
        self.pairs = PairGraphs(offsets, [nodes[:, :2] for nodes in members])
        pairs, n_parents = self.pairs.graph, np.diff(self.pairs.graph.up_start)
        if not pairs.forest.all():
            pair = int(pairs.up_start[np.argmax(n_parents > 1)])
            graph = self.position_items[pairs.child[pair]]
            raise NotAForest(
                f"the factors of graph {graph} have a cycle through nodes {pairs.parent[pair]} and "
                f'{pairs.child[pair]}; use "junction", or "trw" for many cycles'
            )
        n_trees = int(np.count_nonzero(n_parents == 0))
        self.description = f"two passes over {n_trees} trees in {self.n_items} graphs, {n_labels} labels: exact"

    @cached_property
    def leaves_first(self) -> np.ndarray:
        """The nodes (N,), graph by graph, each before its parent, its only later neighbour."""
        offsets, order = self.offsets, self.pairs.graph.order
        return order[np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets)) - np.arange(len(order))]

    @cached_property
    def junction(self) -> JunctionFamily:
        """The trees as junction trees of width one."""
        return JunctionFamily(self.offsets, self.members, self.n_labels, memory=np.inf, order=self.leaves_first)

    def _member(self, checked: GraphPotentials, workers: Workers) -> TreeMember:
        compiled = tree.passes_compiled
        node, pairs, source = checked.node, self.pairs.graph, self.pairs.sources(checked.tied)
        # Groups of larger factors have none.
        tables = [each if each.ndim == 3 else np.zeros((len(each), *node.shape[1:] * 2)) for each in checked.tables]
        transfer, shift = exponentials(source.with_sums(tables))
        parent, table_of, flipped = np.full(len(node), -1), np.zeros(len(node), np.int64), np.zeros(len(node), np.bool_)
        parent[pairs.child], table_of[pairs.child], flipped[pairs.child] = pairs.parent, source.log_of, ~source.flipped
        trees = Trees(self.offsets, pairs.order, parent, table_of, flipped)
        open_labels = np.ones(node.shape if checked.has_forbidden else (1, 1), dtype=np.bool_)
        zeros = (np.zeros_like(node) for _ in range(3))
        passes = TreePasses(transfer, np.ones_like(node), *zeros)
        total = np.empty(self.n_items)

        def run(first: int, last: int) -> None:
            compiled.leaves_to_roots(first, last, trees, node, passes, shift, open_labels, total)
            compiled.roots_to_leaves(first, last, trees, passes, total)

        workers.each(run, workers.runs(self.offsets, self.n_labels))
        return TreeMember(self, checked, total, trees, passes, workers)

    def _decode(self, checked: GraphPotentials, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        return self.junction._decode(checked, workers)

    def _ranked(self, checked: GraphPotentials, k: int, workers: Workers) -> RankedLabellings:
        return self.junction._ranked(checked, k, workers)

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
        self._trees, self._passes = trees, passes
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
        """Return the marginals X of pairs for some factors of a group, all for None."""
        pair_tables = tree.passes_compiled.pair_tables
        if self.family.members[group].shape[1] != 2:
            return np.zeros(self.family.table_shape(group, False))
        pair, turned = self.family.pairs.groups[group]
        if chosen is not None:
            pair, turned = pair[chosen], turned[chosen]
        child = self.family.pairs.graph.child[pair]
        pairs = np.stack([child, self._trees.table_of[child], self._trees.flipped[child], ~turned])
        transfer, alpha, gamma = self._passes.transfer, self._passes.alpha, self._passes.gamma
        result = np.empty((len(child), *transfer.shape[1:]))
        self._workers.each(
            lambda first, last: pair_tables(first, last, pairs, transfer, alpha, gamma, result),
            self._workers.pieces(len(child), 4 * result.size),
        )
        return result

    def _expected_tables(self) -> list[np.ndarray]:
        tables = [
            self._summed_pairs(group) if tied else self._sum_factors(group, self._pairs(group, None))
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
        pairs, total = self.family.pairs, np.zeros(shape[1:])
        pair, turned = pairs.groups[group]
        for child_first in (True, False):
            rows = pairs.graph.child[pair[~pairs.several[pair] & (turned == child_first)]]
            if len(rows):
                counts = self._outer_sum(rows)
                total += self._passes.transfer[self._trees.table_of[rows[0]]] * (counts if child_first else counts.T)
        chosen = np.flatnonzero(pairs.several[pair])
        if len(chosen):
            tables = self._pairs(group, chosen)
            total += self._weighted(tables, self.family.factor_items(group)[chosen]).sum(axis=0)
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
        """The distribution by junction trees, for Hessian products."""
        return self.family.junction._member(self._checked, self._workers)

    def _responses(self, d_node: np.ndarray, d_tables: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        return self._junction._responses(d_node, d_tables)
