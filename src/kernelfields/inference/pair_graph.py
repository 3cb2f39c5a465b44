"""Graphs of pairs for passes over trees and belief propagation: an order of the nodes, parents, tables.

The nodes of every graph are ordered so that each has a neighbour before it, except the first of a connected
component. The earlier neighbours of node v are its *parents* pa(v). If every node draws one parent by chance, the
drawn pairs form a spanning tree; a pair is drawn with probability

    rho_uv = 1 / |pa(v)|,   u in pa(v)

so rho lies in the spanning tree polytope, covers every pair, and is 1 on all bridges. Where no node has two parents,
the graph is a forest. Several factors on the same two nodes make one pair, whose table is their sum.

Arrays: P pairs, sorted by child; tables are (parent, child), or (child, parent) where flipped. Cost:
O(N + P log P) once; per call one exponentiated table for every different (table, rho), not one per pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.inference import tree
from kernelfields.inference.packed_graphs import distinct_pairs, group_places
from kernelfields.inference.packing import exponentials


def growth_order(offsets: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Order nodes (N,) graph by graph, each after a neighbour, except for the first node of a component.

    The given order is kept where it is such an order, as for the rows of a grid; else breadth first.
    """
    n_positions, n_items = int(offsets[-1]), len(offsets) - 1
    starts, by_node = group_places(np.concatenate([low, high]), n_positions)
    walk, led = np.empty(n_positions, dtype=np.int64), np.zeros(n_positions, dtype=np.bool_)
    tree.passes_compiled.breadth_first(starts, np.concatenate([high, low])[by_node], walk, led)
    led[high] = True
    graphs = np.repeat(np.arange(n_items), np.diff(offsets))
    astray = np.bincount(graphs[~led], minlength=n_items) > 0
    return np.where(astray[graphs], walk, np.arange(n_positions))


class PairGraph(NamedTuple):
    """The neighbours of each node, for compiled passes."""

    offsets: np.ndarray  # (S + 1,)
    order: np.ndarray  # (N,), nodes of graph i at offsets[i] .. offsets[i + 1] - 1
    up_start: np.ndarray  # (N + 1,), pairs to the parents of v are up_start[v] .. up_start[v + 1] - 1
    down_start: np.ndarray  # (N + 1,)
    down: np.ndarray  # (P,), pairs to the children of v, at down_start[v] .. down_start[v + 1] - 1
    parent: np.ndarray  # (P,)
    child: np.ndarray  # (P,)
    rho: np.ndarray  # (P,)
    forest: np.ndarray  # (S,), whether no node of the graph has two parents


class PairTables(NamedTuple):
    """Potentials of pairs: of pair e logs[log_of], and exps[exp_of] = exp(those / rho - shift)."""

    logs: np.ndarray  # (tables, L, L)
    exps: np.ndarray  # (different tables and weights, L, L)
    shift: np.ndarray
    source: np.ndarray  # (P, 3), log_of, exp_of and whether the table is flipped


class GroupPairs(NamedTuple):
    """The pairs of the factors of one group."""

    pair: np.ndarray  # (M,), pair of each factor
    turned: np.ndarray  # (M,), whether the first node of the factor is the child


#: Where the messages of a pair to its parent and to its child begin.
UP, DOWN = 0, 2


class Messages(NamedTuple):
    """Messages and beliefs of one call, updated in place by sweeps; messages_compiled.py has the equations."""

    #: (P, 4, L), side by side what sweeps read together: messages to the parent, logarithms with maximum 0 at UP and
    #: their exponentials behind them, then messages to the child, likewise from DOWN on.
    pairs: np.ndarray
    saved: np.ndarray  # (P, 2, L), a copy of messages downward to go back to where a sweep raises the bound
    beliefs: np.ndarray  # (N, L), B_v
    chances: np.ndarray  # (N, L), softmax of B_v

    @classmethod
    def flat(cls, n_pairs: int, n_positions: int, n_labels: int) -> Messages:
        """Return uniform messages, logarithms 0 and exponentials 1, and beliefs of zero."""
        pairs = np.zeros((n_pairs, 4, n_labels))
        pairs[:, [UP + 1, DOWN + 1]] = 1.0
        beliefs, chances = np.zeros((2, n_positions, n_labels))
        return cls(pairs, np.empty((n_pairs, 2, n_labels)), beliefs, chances)


class Sources(NamedTuple):
    """The sources of the tables of pairs: concatenated tables of all groups, then sums of tables as (parent, child)."""

    log_of: np.ndarray  # (P,)
    flipped: np.ndarray  # (P,)
    sums: np.ndarray  # (sums, most factors of a pair), 2 table + flipped, -1 where there are fewer

    def with_sums(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Return the tables (1 or M, L, L) of all groups, then the sums; tables of one group unchanged."""
        n_labels = factors[0].shape[1] if len(factors) else 1
        logs = factors[0] if len(factors) == 1 else np.concatenate([np.zeros((0, n_labels, n_labels)), *factors])
        if not len(self.sums):
            return logs
        sums = np.zeros((len(self.sums), n_labels, n_labels))
        for column in self.sums.T:
            chosen, flipped = np.divmod(column, 2)
            for turn in (False, True):
                rows = (column >= 0) & (flipped == turn)
                part = logs[chosen[rows]]
                sums[rows] += part.transpose(0, 2, 1) if turn else part
        return np.concatenate([logs, sums])


class PairGraphs:
    """Pairs of packed graphs, with weights of spanning trees and with unit weights."""

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray]):
        n_positions = int(offsets[-1])
        ends, counts, pair_of = distinct_pairs(members, n_positions)
        low, high = ends.T
        order = growth_order(offsets, low, high)
        rank = np.empty(n_positions, dtype=np.int64)
        rank[order] = np.arange(n_positions)
        parent = np.where(rank[low] < rank[high], low, high)
        up_start, by_child = group_places(low + high - parent, n_positions)
        place = np.empty(len(ends), dtype=np.int64)
        place[by_child] = np.arange(len(ends))
        parent, child = parent[by_child], (low + high - parent)[by_child]
        #: Whether a pair has several factors, (P,).
        self.several = counts[by_child] > 1
        self.groups = [
            GroupPairs(place[pairs], rows[:, 0] == child[place[pairs]])
            for rows, pairs in zip(members, pair_of, strict=True)
        ]
        n_parents = np.diff(up_start)
        lone = np.maximum.reduceat(n_parents, offsets[:-1]) <= 1
        down = group_places(parent, n_positions)
        self.graph = PairGraph(offsets, order, up_start, *down, parent, child, 1.0 / n_parents[child], lone)
        self._sources: dict[tuple[bool, ...], Sources] = {}

    @property
    def n_pairs(self) -> int:
        """Number of pairs of nodes that share a factor."""
        return len(self.graph.parent)

    def without_weights(self) -> PairGraph:
        """Return the graph with rho = 1 throughout."""
        return self.graph._replace(rho=np.ones(self.n_pairs))

    def sources(self, tied: tuple[bool, ...]) -> Sources:
        """Return the source of the table of each pair for these tied groups."""
        if tied not in self._sources:
            self._sources[tied] = self._find_sources(tied)
        return self._sources[tied]

    def tables(self, factors: list[np.ndarray], tied: tuple[bool, ...], graph: PairGraph) -> PairTables:
        """Arrange the potentials of all groups for the pairs and exponentiate them."""
        source = self.sources(tied)
        logs = source.with_sums(factors)
        inverse = np.rint(1.0 / graph.rho).astype(np.int64)
        keys, exp_of = np.unique(source.log_of * (inverse.max(initial=0) + 1) + inverse, return_inverse=True)
        which, power = np.divmod(keys, inverse.max(initial=0) + 1)
        exps, shift = exponentials(logs[which] * power[:, None, None])
        places = np.column_stack([source.log_of, exp_of.ravel(), source.flipped])
        return PairTables(logs, exps, shift, places.astype(np.int32))

    def _find_sources(self, tied: tuple[bool, ...]) -> Sources:
        n_tables = 0
        sources, pairs = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for group, shared in zip(self.groups, tied, strict=True):
            rows = np.zeros(len(group.pair), np.int64) if shared else np.arange(len(group.pair))
            sources.append(2 * (n_tables + rows) + group.turned)
            pairs.append(group.pair)
            n_tables += 1 if shared else len(group.pair)
        source, pair = np.concatenate(sources), np.concatenate(pairs)
        order = np.lexsort((source, pair))
        source, pair = source[order], pair[order]
        start = np.searchsorted(pair, np.arange(self.n_pairs + 1))
        count = np.diff(start)
        log_of, flipped = np.divmod(source[start[:-1]], 2)
        slots, several = np.arange(count.max(initial=0)), self.several
        table = np.where(
            slots < count[several, None], source[np.minimum(start[:-1][several, None] + slots, len(source) - 1)], -1
        )
        sums, which = np.unique(table, axis=0, return_inverse=True)
        log_of[several], flipped[several] = n_tables + which.ravel(), 0
        return Sources(log_of, flipped == 1, sums)
