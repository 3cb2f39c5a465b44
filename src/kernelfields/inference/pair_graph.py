"""Graphs of pairs as passes over trees and belief propagation visit them: an order of the nodes, parents, tables.

The nodes of every graph are ordered so that each has a neighbour before it, except the first of a connected
component. The earlier neighbours of node v are its *parents* pa(v). If every node draws one parent by chance, the
drawn pairs form a spanning tree; a pair is drawn with probability

    rho_uv = 1 / |pa(v)|,   u in pa(v)

so rho lies in the spanning tree polytope, covers every pair, and is 1 on all bridges. Where no node has two parents,
the graph is a forest. Several factors on the same two nodes make one pair, whose table is their sum.

Arrays: P pairs, sorted by child; tables are (parent, child), or (child, parent) where flipped. Cost:
O(N + P log P) once; per call one exponentiated table for every different (table, rho), not one per pair.

Orders of nodes for belief propagation, and parts of a large graph that sweeps visit side by side.

``growth_order``: every node but the first of a connected component follows a neighbour.

``cut_apart``: the nodes in such an order are cut into ranges of about equal length. The earlier nodes of the pairs
between ranges are a separator; where these are not connected, as the layers of a breadth-first order of a grid, the
later nodes are taken as well. The trunk are paths of earlier neighbours from each of its connected parts to the first
node. Then

    trunk; parts of the separator without it; first range without both, second range without both, ..

is a growth order too, of three levels, and no pair joins two parts of one level. So a sweep downward, which reads what
earlier nodes sent, and one upward, which reads what later ones did, may visit the parts of a level in any order, or
side by side in threads: every number is the same, however many threads there are. On a grid of 300 x 300 the levels
are a column, 15 rows and 16 bands. Where the separator has too large a share of the nodes, the graph is left in one
piece.

Cost: O(N + P log P) once for P pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from kernelfields.inference.packing import distinct_pairs, exponentials, grouped
from kernelfields.numerics.threads import even_runs

# Not by the number of threads: results do not depend on it.
_N_RANGES = 16
# A separator with more than this share of the nodes leaves too little to do side by side.
_LARGEST_SHARE = 0.2
# More connected parts of a separator for each range than this would take too many paths to join.
_MOST_PIECES = 4

#: Ranges of positions by level: those of one level have no pairs with each other.
Levels = list[list[tuple[int, int]]]


def growth_order(offsets: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Order nodes (N,) graph by graph so that all but the first of each component follow a neighbour.

    The given order is kept where it is such an order, as for the rows of a grid; else breadth first.
    """
    from kernelfields.inference.tree.passes_compiled import breadth_first

    n_positions, n_items = int(offsets[-1]), len(offsets) - 1
    starts, by_node = grouped(np.concatenate([low, high]), n_positions)
    walk, led = np.empty(n_positions, dtype=np.int64), np.zeros(n_positions, dtype=np.bool_)
    breadth_first(starts, np.concatenate([high, low])[by_node], walk, led)
    led[high] = True
    graphs = np.repeat(np.arange(n_items), np.diff(offsets))
    astray = np.bincount(graphs[~led], minlength=n_items) > 0
    return np.where(astray[graphs], walk, np.arange(n_positions))


def cut_apart(
    order: np.ndarray, low: np.ndarray, high: np.ndarray, n_ranges: int = _N_RANGES
) -> tuple[np.ndarray, Levels] | None:
    """Return the nodes of a graph anew ordered and the levels of ranges; None if the separator is large.

    ``order`` (n,) are the nodes 0 .. n - 1, each but the first of a component after a neighbour; low and high (P,)
    are the ends of pairs. The number of ranges is halved until the separator is small.
    """
    n_positions = len(order)
    rank = np.empty(n_positions, dtype=np.int64)
    rank[order] = np.arange(n_positions)
    earlier, later = np.minimum(rank[low], rank[high]), np.maximum(rank[low], rank[high])
    while n_ranges > 1:
        owner = np.searchsorted(_cuts(earlier, later, n_positions, n_ranges), np.arange(n_positions), side="right")
        separator, trunk = _separator_and_trunk(earlier, later, owner, n_ranges)
        others = ~separator & ~trunk
        if n_positions - others.sum() <= _LARGEST_SHARE * n_positions:
            first = np.flatnonzero(trunk)  # each follows one of lower rank
            middle, sizes = _branches(separator & ~trunk, trunk, earlier, later)
            begin, levels = 0, Levels()
            for parts in ([len(first)], sizes, np.bincount(owner[others])):
                ends = np.concatenate([[0], np.cumsum(parts)])
                few = len(parts) <= n_ranges
                runs = [(i, i + 1) for i in range(len(parts))] if few else even_runs(ends, n_ranges)
                levels.append([(begin + int(ends[a]), begin + int(ends[b])) for a, b in runs if ends[b] > ends[a]])
                begin += int(ends[-1])
            return order[np.concatenate([first, middle, np.flatnonzero(others)])], levels
        n_ranges //= 2
    return None


def _cuts(earlier: np.ndarray, later: np.ndarray, n_positions: int, n_ranges: int) -> np.ndarray:
    """Return the ranks where all ranges but the first begin: about equal lengths, few pairs across.

    The nodes of a grid by rows are cut between rows. The last range gives none of its nodes to the separator.
    """
    begun, ended = (np.bincount(each, minlength=n_positions) for each in (earlier, later))
    across = np.concatenate([[0], np.cumsum(begun - ended)[:-1]])
    length = (n_positions + min(np.median(across), _LARGEST_SHARE * n_positions / n_ranges)) / n_ranges
    cuts = []
    for centre in (np.arange(1, n_ranges) * length).astype(int):
        nearby = np.arange(max(1, centre - int(length / 16)), min(n_positions, centre + int(length / 16) + 1))
        cuts.append(nearby[np.lexsort((abs(nearby - centre), across[nearby]))[0]])
    return np.array(cuts)


def _separator_and_trunk(
    earlier: np.ndarray, later: np.ndarray, owner: np.ndarray, n_ranges: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each node, by its rank, is in a separator of the ranges, and in the trunk that joins its parts."""
    separator = np.zeros(len(owner), dtype=np.bool_)
    cut = owner[earlier] < owner[later]
    separator[earlier[cut]] = True
    roots = _roots(separator, earlier, later)
    if len(roots) > _MOST_PIECES * n_ranges:
        separator[later[cut]] = True
        roots = _roots(separator, earlier, later)
    follows = np.full(len(owner), -1, dtype=np.int64)
    follows[later] = earlier
    into = separator[earlier]
    follows[later[into]] = earlier[into]
    trunk = np.zeros_like(separator)
    for at in roots.tolist():
        while at >= 0 and not trunk[at]:
            trunk[at] = True
            at = follows[at]
    return separator, trunk


def _branches(
    branches: np.ndarray, trunk: np.ndarray, earlier: np.ndarray, later: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks of branches, part by part in growth orders that begin at the trunk, and the sizes of parts."""
    low, high = _within(branches, earlier, later)
    size = int(branches.sum())
    joined = coo_array((np.ones(len(low)), (low, high)), shape=(size, size))
    _, component = connected_components(joined, directed=False)
    # The trunk is one node here, before all others.
    number = np.where(trunk, 0, np.where(branches, np.cumsum(branches), -1))
    ends = np.sort(np.column_stack([number[earlier], number[later]]))
    ends = ends[(ends[:, 0] >= 0) & (ends[:, 0] < ends[:, 1])]
    order = growth_order(np.array([0, size + 1]), *ends.T)[1:] - 1
    order = order[np.argsort(component[order], kind="stable")]
    return np.flatnonzero(branches)[order], np.bincount(component)


def _within(separator: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the pairs inside a separator, whose nodes are counted by rank."""
    number = np.cumsum(separator) - 1
    inner = separator[earlier] & separator[later]
    return number[earlier[inner]], number[later[inner]]


def _roots(separator: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Return the node of lowest rank of every connected part of a separator."""
    low, high = _within(separator, earlier, later)
    size = int(separator.sum())
    _, component = connected_components(coo_array((np.ones(len(low)), (low, high)), shape=(size, size)), directed=False)
    return np.flatnonzero(separator)[np.unique(component, return_index=True)[1]]


#: Nodes from which on a graph is cut into parts that sweeps visit side by side.
LEAST_PARTED = 10_000


class PairGraph(NamedTuple):
    """Who is joined to whom, as the compiled passes read it."""

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
    """Potentials of pairs: those of pair e are logs[log_of], and exps[exp_of] = exp(that / rho - shift)."""

    logs: np.ndarray  # (tables, L, L)
    exps: np.ndarray  # (different tables and weights, L, L)
    shift: np.ndarray
    source: np.ndarray  # (P, 3), log_of, exp_of and whether the table is flipped


class GroupPairs(NamedTuple):
    """How the factors of one group lie in the pairs."""

    pair: np.ndarray  # (M,), pair of each factor
    turned: np.ndarray  # (M,), whether the first node of the factor is the child


#: Where the messages of a pair to its parent and to its child begin.
UP, DOWN = 0, 2


class Messages(NamedTuple):
    """Messages and beliefs of one call, renewed in place by sweeps; messages_compiled.py has the equations."""

    #: (P, 4, L), side by side what sweeps read together: messages to the parent, logarithms with maximum 0 at UP and
    #: their exponentials behind them, then messages to the child, likewise from DOWN on.
    pairs: np.ndarray
    saved: np.ndarray  # (P, 2, L), a copy of messages downward to go back to where a sweep raises the bound
    beliefs: np.ndarray  # (N, L), B_v
    chances: np.ndarray  # (N, L), softmax of B_v

    @classmethod
    def flat(cls, n_pairs: int, n_positions: int, n_labels: int) -> Messages:
        """Return messages that say nothing, logarithms 0 and exponentials 1, and beliefs of zero."""
        pairs = np.zeros((n_pairs, 4, n_labels))
        pairs[:, [UP + 1, DOWN + 1]] = 1.0
        beliefs, chances = np.zeros((2, n_positions, n_labels))
        return cls(pairs, np.empty((n_pairs, 2, n_labels)), beliefs, chances)


class Sources(NamedTuple):
    """Where pairs find their tables: among those of all groups end to end, then sums of tables as (parent, child)."""

    log_of: np.ndarray  # (P,)
    flipped: np.ndarray  # (P,)
    sums: np.ndarray  # (sums, most factors of a pair), 2 table + flipped, -1 where there are fewer

    def with_sums(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Return the tables (1 or M, L, L) of all groups end to end, then the sums; those of one group as they are."""
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
    """Pairs of packed graphs, in both weightings: spanning trees and all ones."""

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], least_parted: float = LEAST_PARTED):
        n_positions = int(offsets[-1])
        ends, counts, pair_of = distinct_pairs(members, n_positions)
        low, high = ends.T
        #: Graphs of at least ``least_parted`` nodes that sweeps visit in parts, and those.
        order, self.parts = ordered_parts(offsets, low, high, least_parted)
        rank = np.empty(n_positions, dtype=np.int64)
        rank[order] = np.arange(n_positions)
        parent = np.where(rank[low] < rank[high], low, high)
        up_start, by_child = grouped(low + high - parent, n_positions)
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
        down = grouped(parent, n_positions)
        self.graph = PairGraph(offsets, order, up_start, *down, parent, child, 1.0 / n_parents[child], lone)
        self._sources: dict[tuple[bool, ...], Sources] = {}

    @property
    def n_pairs(self) -> int:
        """Number of pairs of nodes that share a factor."""
        return len(self.graph.parent)

    def unweighted(self) -> PairGraph:
        """Return the graph with rho = 1 throughout."""
        return self.graph._replace(rho=np.ones(self.n_pairs))

    def sources(self, tied: tuple[bool, ...]) -> Sources:
        """Return where each pair finds its table when the groups are tied so."""
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


def ordered_parts(
    offsets: np.ndarray, low: np.ndarray, high: np.ndarray, least: float
) -> tuple[np.ndarray, dict[int, Levels]]:
    """Return a growth order of the nodes (N,), and the levels of ranges of each large graph that can be cut."""
    order, levels = growth_order(offsets, low, high), {}
    for graph in np.flatnonzero(np.diff(offsets) >= least).tolist():
        begin, end = int(offsets[graph]), int(offsets[graph + 1])
        mine = (low >= begin) & (low < end)
        cut = cut_apart(order[begin:end] - begin, low[mine] - begin, high[mine] - begin)
        if cut is not None:
            order[begin:end] = begin + cut[0]
            levels[graph] = [[(begin + first, begin + last) for first, last in ranges] for ranges in cut[1]]
    return order, levels
