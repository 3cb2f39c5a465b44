"""Plans for junction trees: cliques, their tree, where factors and messages go, and what it will cost.

Nodes are eliminated one by one; clique i belongs to the i-th node eliminated and
holds it and its later neighbours, sorted by position. So the separator to the parent clique, that of the first
later neighbour, is the clique without its first axis, and a table (L, .., L) of a clique is laid out as (label
of i, entry of separator).

The tables of clique parts (a factor, a child's separator) are read through *patterns*: for every entry of the
clique the entry of the part. They depend on the clique's size and the positions of the part in it only, so a
chain of any length has a handful. An entry of the part is a sum over axes, so a pattern is kept as two short
ones, for the leading and for the trailing half of the axes.

Cost: planning is linear in the cliques and compiled where the natural order does; else the search for an order
is done once per distinct structure. Fails: :class:`TooWide`, before any table is made.

Elimination orders of the nodes of graphs, and the cliques that they make.

Eliminating a node v joins it with the neighbours that are still there, higher(v): the clique {v} + higher(v)
needs a table of L^(1 + |higher(v)|) entries. The width of an order is the largest |higher(v)|; the smallest over
all orders is the treewidth. Positions count nodes in the order of elimination. Two orders are tried, the cheap one
first, once per distinct structure:

    natural      the order of the rows: best for chains, also of higher order or with lags
    min-degree   always the node with the fewest neighbours; leaves go first, so trees have width 1

Cost: elimination is linear in the size of its result; the min-degree order takes about N log N for small widths. Both
stop at the first clique that is too large. Fails: :class:`TooWide` where no order keeps the tables within memory.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.inference.packing import grouped
from kernelfields.inference.sums_compiled import copy_row
from kernelfields.numerics.compiled import njit

# No table of two labels per node is larger; also the digits that fit into an int64.
LARGEST_CLIQUE = 60


class TooWide(MemoryError):
    """Exact inference does not fit; ``reason`` says how wide and how large in half a sentence."""

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(
            f'{reason}; use "trw", "loopy" or "mean-field", fewer labels or fewer factors, or allow more memory'
        )


@njit(nogil=True, cache=True)
def eliminate(offsets, first_other, others, widest):
    """Eliminate positions 0, 1, .. in order; return higher positions as (starts, flat, parents, cliques).

    others[first_other[i]:first_other[i + 1]] are later positions that share a factor with i, repeats allowed. A
    graph is left at the first clique of more than ``widest`` nodes; cliques (S,) holds the largest one seen in
    each graph.
    """
    n_nodes = offsets[-1]
    starts = np.zeros(n_nodes + 1, np.int64)
    parents = np.full(n_nodes, -1, np.int64)
    first_child = np.full(n_nodes, -1, np.int64)
    next_child = np.full(n_nodes, -1, np.int64)
    marked = np.full(n_nodes, -1, np.int64)
    flat = np.empty(max(16, 4 * n_nodes), np.int64)
    largest = np.zeros(len(offsets) - 1, np.int64)
    filled = 0
    for graph in range(len(offsets) - 1):
        done = False
        for i in range(offsets[graph], offsets[graph + 1]):
            begin = filled
            starts[i] = begin
            if done:
                continue
            marked[i] = i
            while len(flat) < filled + offsets[graph + 1] - i and len(flat) < filled + widest + 1:
                grown = np.empty(2 * len(flat), np.int64)
                copy_row(flat[:filled], grown)
                flat = grown
            child = -1
            while not done:
                if child == -1:
                    low, high = first_other[i], first_other[i + 1]
                else:
                    low, high = starts[child], starts[child + 1]
                for k in range(low, high):
                    j = others[k] if child == -1 else flat[k]
                    if marked[j] != i:
                        marked[j] = i
                        if filled - begin + 1 >= widest:
                            done = True
                            break
                        flat[filled] = j
                        filled += 1
                child = first_child[i] if child == -1 else next_child[child]
                if child == -1:
                    break
            largest[graph] = max(largest[graph], filled - begin + (2 if done else 1))
            flat[begin:filled].sort()
            if filled > begin:
                parent = flat[begin]
                parents[i] = parent
                next_child[i] = first_child[parent]
                first_child[parent] = i
            starts[i + 1] = filled
    starts[n_nodes] = filled
    return starts, flat[:filled].copy(), parents, largest


def later_neighbours(order: np.ndarray, members: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, flat): for every position the later positions of the factors that it comes first in."""
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    owners, others = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for nodes in members:
        ranks = np.sort(position[nodes], axis=1)
        owners.append(np.repeat(ranks[:, 0], ranks.shape[1] - 1))
        others.append(ranks[:, 1:].ravel())
    starts, indices = grouped(np.concatenate(owners), len(order))
    return starts, np.concatenate(others)[indices]


def improve_order(
    order: np.ndarray,
    wide: np.ndarray,
    offsets: np.ndarray,
    members: Sequence[np.ndarray],
    n_labels: int,
    memory: float,
) -> None:
    """Replace the order of the graphs listed by the best one found, once per distinct structure."""
    lists = [grouped(np.searchsorted(offsets, each[:, 0], side="right") - 1, len(offsets) - 1) for each in members]
    fits = LARGEST_CLIQUE
    if n_labels > 1:
        # A table and its derivative; the small number is for powers that come out a little low.
        fits = int(min(fits, max(1.0, np.log(max(memory, 16.0) / 16.0) / np.log(n_labels) + 1e-9)))
    known: dict[tuple[int, tuple[bytes, ...]], np.ndarray] = {}
    for graph in wide.tolist():
        size = int(offsets[graph + 1] - offsets[graph])
        rows = [
            each[indices[starts[graph] : starts[graph + 1]]] - offsets[graph]
            for each, (starts, indices) in zip(members, lists, strict=True)
        ]
        key = size, tuple(each.tobytes() for each in rows)
        if key not in known:
            known[key] = _best_order(graph, size, rows, n_labels, fits)
        order[offsets[graph] : offsets[graph + 1]] = offsets[graph] + known[key]


def _best_order(graph: int, size: int, rows: list[np.ndarray], n_labels: int, fits: int) -> np.ndarray:
    """Return the order whose tables have the fewest entries; TooWide if none stays within ``fits`` nodes."""
    bounds = np.array([0, size])
    narrow: list[tuple[float, np.ndarray]] = []  # entries of all tables, order

    def consider(order: np.ndarray | None) -> None:
        if order is not None:
            starts, _, _, largest = eliminate(bounds, *later_neighbours(order, rows), fits)
            if largest[0] <= fits:
                narrow.append((float(np.sum(float(n_labels) ** (np.diff(starts) + 1))), order))

    consider(np.arange(size))
    consider(min_degree_order(size, rows, fits))
    if not narrow:
        raise TooWide(
            f"exact inference needs tables over more than {fits} nodes at once (graph {graph}, width {fits} or "
            f"more, {n_labels} labels), so {amount(16.0 * float(n_labels) ** (fits + 1))} or more"
        )
    return min(narrow, key=lambda each: each[0])[1]


def min_degree_order(n_nodes: int, factors: Sequence[np.ndarray], widest: int) -> np.ndarray | None:
    """Return the nodes, fewest neighbours first; None if a clique of more than ``widest`` nodes comes up.

    ``factors`` are arrays (M, k) of nodes; of nodes with equally many neighbours the first one is taken.
    """
    neighbours: list[set[int]] = [set() for _ in range(n_nodes)]
    for u, v in _joined_nodes(factors).tolist():
        neighbours[u].add(v)
        neighbours[v].add(u)
    waiting = [(len(around), v) for v, around in enumerate(neighbours)]
    heapq.heapify(waiting)
    order: dict[int, None] = {}
    while waiting:
        degree, v = heapq.heappop(waiting)
        around = neighbours[v]
        if v in order or degree != len(around):
            continue  # an entry from before the degree changed
        if degree >= widest:
            return None
        order[v] = None
        for u in around:
            neighbours[u] |= around
            neighbours[u] -= {u, v}
            heapq.heappush(waiting, (len(neighbours[u]), u))
    return np.array(list(order), dtype=np.int64)


def _joined_nodes(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Return the pairs of nodes (n, 2) that share a factor, repeats included."""
    pairs = [
        members[:, list(pair)] for members in factors for pair in itertools.combinations(range(members.shape[1]), 2)
    ]
    return np.concatenate([np.zeros((0, 2), np.int64), *pairs])


def amount(n_bytes: float) -> str:
    """Return a number of bytes in words."""
    for unit, size in (("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


# A natural order of cliques up to this size is kept without looking for a better one.
NARROW = 3
_DEFAULT_MEMORY = 2 * 1024.0**3


class Layout(NamedTuple):
    """Cliques i = 0 .. N - 1 in the order of elimination, those of a graph side by side; read by compiled code."""

    n_labels: int
    order: np.ndarray  # (N,) node eliminated at i
    parent: np.ndarray  # (N,) clique that takes the message, -1 for the last one of a component
    table_start: np.ndarray  # (N + 1,) entries of clique tables
    separator_start: np.ndarray  # (N + 1,) entries of separator tables
    scope_start: np.ndarray  # (N + 1,)
    scopes: np.ndarray  # nodes of each separator, in the order of its axes
    child_start: np.ndarray  # (N + 1,)
    children: np.ndarray
    message_pattern: np.ndarray  # (N,) where the entries of i's separator are in its parent's table
    item_start: np.ndarray  # (N + 1,) factors that clique i takes up
    item_group: np.ndarray
    item_factor: np.ndarray
    item_pattern: np.ndarray
    high_start: np.ndarray  # (P + 1,) patterns: entry = high[h] + low[l] at h * len(low) + l
    high: np.ndarray
    low_start: np.ndarray  # (P + 1,)
    low: np.ndarray

    def of_cliques(self, first: int, last: int) -> Layout:
        """Return the layout with the tables of some cliques counted from zero; those of others must not be read."""
        starts = []
        for whole in (self.table_start, self.separator_start):
            part = np.empty_like(whole)  # what is not written takes no memory
            part[first : last + 1] = whole[first : last + 1] - whole[first]
            starts.append(part)
        return self._replace(table_start=starts[0], separator_start=starts[1])


class JunctionPlan(NamedTuple):
    """A layout and its size: ``width`` is the largest number of nodes in a separator."""

    layout: Layout
    width: int
    memory: float  # bytes of the tables of all graphs, at their highest, in a Hessian product


def plan_junction(
    offsets: np.ndarray,
    members: Sequence[np.ndarray],
    n_labels: int,
    memory: float | None = None,
    order: np.ndarray | None = None,
) -> JunctionPlan:
    """Lay the cliques out for an order of elimination, or for the best one found.

    TooWide where the tables of a graph need more than ``memory`` bytes; ``order`` lists the nodes graph by graph.
    """
    memory = available_memory() if memory is None else float(memory)
    search = order is None
    order = np.arange(offsets[-1]) if order is None else order
    widest = max([NARROW, *(each.shape[1] for each in members if len(each))]) if search else LARGEST_CLIQUE
    starts, higher, parents, largest = eliminate(offsets, *later_neighbours(order, members), widest)
    wide = np.flatnonzero(largest > widest)
    if wide.size and search:
        improve_order(order, wide, offsets, members, n_labels, memory)
        starts, higher, parents, largest = eliminate(offsets, *later_neighbours(order, members), LARGEST_CLIQUE)
    entries = np.add.reduceat(float(n_labels) ** (np.diff(starts) + 1), offsets[:-1])
    needed = 8.0 * (2 * entries + 4 * entries / n_labels + 2 * float(n_labels) ** largest)
    graph = int(np.argmax(np.where(largest > LARGEST_CLIQUE, np.inf, needed)))
    if largest[graph] > LARGEST_CLIQUE or needed[graph] > memory:
        raise TooWide(
            f"exact inference needs tables over {largest[graph]} nodes at once (graph {graph}, width "
            f"{largest[graph] - 1}, {n_labels} labels) and {amount(needed[graph])} for the graph, more than the "
            f"{amount(memory)} allowed"
        )
    layout = _lay_out(order, members, n_labels, starts, higher, parents)
    scratch = 16.0 * float(n_labels) ** int(largest.max())
    return JunctionPlan(layout, int(largest.max()) - 1, float(np.sum(16 * entries + 32 * entries / n_labels)) + scratch)


def available_memory() -> float:
    """Return how many bytes tables may take by default: 2 GiB, or a quarter of the machine's memory if less."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return _DEFAULT_MEMORY
    return min(_DEFAULT_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4)


def _lay_out(
    order: np.ndarray,
    members: Sequence[np.ndarray],
    n_labels: int,
    starts: np.ndarray,
    higher: np.ndarray,
    parents: np.ndarray,
) -> Layout:
    n_positions = len(order)
    position = np.empty_like(order)
    position[order] = np.arange(n_positions)
    sizes = np.diff(starts)
    separator_entries = np.power(n_labels, sizes)
    patterns = _Patterns(n_labels)

    # A position in the clique of i is 0 for i itself, else one more than its place among the later neighbours.
    owner = np.repeat(np.arange(n_positions), sizes)
    keys = owner * n_positions + higher  # rising: owners rise, and later neighbours are sorted

    def places(clique: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        later = np.searchsorted(keys, clique * n_positions + wanted) - starts[clique] + 1
        return np.where(wanted == clique, 0, later)

    message_pattern = np.zeros(n_positions, np.int64)
    inner = np.flatnonzero(parents >= 0)
    for size in np.unique(sizes[inner]):
        cliques = inner[sizes[inner] == size]
        part = higher[starts[cliques][:, None] + np.arange(size)]
        above = parents[cliques]
        message_pattern[cliques] = patterns.numbers(1 + sizes[above], places(above[:, None], part))
    child_start, children = grouped(parents[inner], n_positions)

    owners, groups, indices, used = [], [], [], []
    for group, nodes in enumerate(members):
        ranks = position[nodes]
        first = ranks.min(axis=1)
        owners.append(first)
        groups.append(np.full(len(nodes), group))
        indices.append(np.arange(len(nodes)))
        used.append(patterns.numbers(1 + sizes[first], places(first[:, None], ranks)))
    empty = [np.zeros(0, np.int64)]
    item_start, sorting = grouped(np.concatenate([*owners, *empty]), n_positions)
    return Layout(
        n_labels,
        order,
        parents,
        np.concatenate([[0], np.cumsum(separator_entries * n_labels)]),
        np.concatenate([[0], np.cumsum(separator_entries)]),
        starts,
        order[higher],
        child_start,
        inner[children],
        message_pattern,
        item_start,
        np.concatenate([*groups, *empty])[sorting],
        np.concatenate([*indices, *empty])[sorting],
        np.concatenate([*used, *empty])[sorting],
        *patterns.arrays(),
    )


class _Patterns:
    """The distinct patterns, numbered as they come."""

    def __init__(self, n_labels: int):
        self._n_labels = n_labels
        self._numbers: dict[tuple[int, ...], int] = {}
        self._high: list[np.ndarray] = []
        self._low: list[np.ndarray] = []

    def numbers(self, clique_sizes: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the pattern of each part: places (n, k) are the clique's axes that the part's axes are."""
        rows = np.column_stack([clique_sizes, places])
        if rows.shape[1] <= 10:  # as digits of one number, which sort ten times as fast as rows
            codes = rows @ (LARGEST_CLIQUE + 1) ** np.arange(rows.shape[1])
            _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        else:
            _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return np.array([self._number(tuple(row)) for row in rows[first].tolist()], np.int64)[inverse.ravel()]

    def _number(self, key: tuple[int, ...]) -> int:
        if key not in self._numbers:
            size, *places = key
            steps = np.zeros(size, np.int64)
            steps[places] = self._n_labels ** np.arange(len(places))[::-1]
            leading = size // 2
            self._numbers[key] = len(self._high)
            self._high.append(_digit_sums(steps[:leading], self._n_labels))
            self._low.append(_digit_sums(steps[leading:], self._n_labels))
        return self._numbers[key]

    def arrays(self) -> list[np.ndarray]:
        """Return high_start, high, low_start, low."""
        result = []
        for parts in (self._high, self._low):
            result += [np.concatenate([[0], np.cumsum([len(each) for each in parts])]).astype(np.int64)]
            result += [np.concatenate([np.zeros(0, np.int64), *parts])]
        return result


def _digit_sums(steps: np.ndarray, n_labels: int) -> np.ndarray:
    """Return sum_k digit_k(n) steps_k for n = 0, 1, .. of len(steps) digits in base n_labels."""
    sums = np.zeros(1, np.int64)
    for step in steps:
        sums = (sums[:, None] + step * np.arange(n_labels)).ravel()
    return sums
