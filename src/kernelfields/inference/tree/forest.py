"""Forests of pairs: rooted, ordered breadth first, and which table each node shares with its parent.

Several factors on the same two nodes, in any groups and orientations, are merged into one *bundle* with a table
of its own; all other tables are used where they are. Cost: a sort of the pairs and a pass over them. Fails:
:class:`NotAForest` where the pairs have a cycle or a factor is not a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.inference.packing import distinct_pairs, grouped


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


class TreeResponse(NamedTuple):
    """Arrays of the derivatives along a direction (du, dw)."""

    moved: np.ndarray  # (tables, L, L), T * dw; (0, L, L) where there is no direction
    rest: np.ndarray  # (N, L), r
    delta: np.ndarray  # (N, L)


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
