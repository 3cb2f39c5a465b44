"""Forests of pairs: rooted, ordered breadth first, and which table each node shares with its parent.

Several factors on the same two nodes, in any groups and orientations, are merged into one *bundle* with a table
of its own; all other tables are used where they are. Cost: a sort of the pairs and a pass over them. Fails:
:class:`NotAForest` where the pairs have a cycle or a factor is not a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


class NotAForest(ValueError):
    """The factors are not those of a forest."""


class Forest:
    """Rooted trees, and for each group how its pairs lie in them.

    child (M,): the lower node of each pair; reversed (M,): whether the parent comes first in it. bundles (N,)
    numbers the nodes whose pair with the parent has several factors, -1 for the others, whose factor is (group,
    factor).
    """

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray]):
        from kernelfields.inference.graph_trees_compiled import root_forest

        n_nodes = int(offsets[-1])
        for group, each in enumerate(members):
            if each.shape[1] != 2 and len(each):
                raise NotAForest(
                    f"factor group {group} joins {each.shape[1]} nodes at a time, and trees have pairs only; "
                    'use "junction"'
                )
        self.pairs = [each if each.shape[1] == 2 else np.zeros((0, 2), np.int64) for each in members]
        everything = np.concatenate([np.zeros((0, 2), np.int64), *self.pairs])
        low, high = everything.min(axis=1, initial=n_nodes), everything.max(axis=1, initial=-1)
        keys, edge_of, counts = np.unique(low * n_nodes + high, return_inverse=True, return_counts=True)
        ends = np.column_stack([keys // max(n_nodes, 1), keys % max(n_nodes, 1)])
        tails = ends.ravel()
        by_node = np.argsort(tails, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=n_nodes))])
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
        bounds = np.cumsum([0, *(len(each) for each in self.pairs)])
        edge_of = edge_of.ravel()
        lower = np.where(self.parent[ends[:, 0]] == ends[:, 1], ends[:, 0], ends[:, 1])
        child = lower[edge_of]
        self.child = [child[a:b] for a, b in pairwise(bounds)]
        self.reversed = [
            np.ascontiguousarray(pair[:, 1] == below) for pair, below in zip(self.pairs, self.child, strict=True)
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

    def table_of(self, pairs: Sequence[np.ndarray]) -> np.ndarray:
        """Return the number of each node's table, counting through the result of ``pair_tables``."""
        sizes = np.array([len(each) for each in pairs])
        bases = np.cumsum(sizes) - sizes
        steps = sizes != 1
        own = bases[self.group] + steps[self.group] * self.factor
        return np.where(self.bundles >= 0, bases[-1] + self.bundles, own)

    def _bundle_tables(self, tables: Sequence[np.ndarray], n_labels: int) -> np.ndarray:
        """Return the sums (bundles, L, L) of the tables on the same nodes, as (child, parent)."""
        sums = np.zeros((self.n_bundles, n_labels, n_labels))
        for table, below, turned in zip(tables, self.child, self.reversed, strict=True):
            for wanted in (False, True) if self.n_bundles else ():
                chosen = np.flatnonzero((self.bundles[below] >= 0) & (turned == wanted))
                rows = table[np.zeros(len(chosen), np.int64) if len(table) == 1 else chosen]
                np.add.at(sums, self.bundles[below[chosen]], rows.transpose(0, 2, 1) if wanted else rows)
        return sums
