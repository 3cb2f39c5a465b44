"""Plans for junction trees: cliques, their tree, the places of factors and messages, and the cost.

Nodes are eliminated one by one, see elimination.py; clique i belongs to the i-th node eliminated and holds it and its
later neighbours, sorted by position. So the separator to the parent clique, that of the first later neighbour, is the
clique without its first axis, and a table (L, .., L) of a clique is laid out as (label of i, entry of separator).

The tables of clique parts (a factor, a child's separator) are read through *patterns*: for every entry of the
clique the entry of the part. They depend on the clique's size and the positions of the part in it only, so a
chain of any length has a handful. An entry of the part is a sum over axes, so a pattern is kept as two short
ones, for the leading and for the trailing half of the axes.

Cost: planning is linear in the cliques and compiled where the natural order does; else the search for an order
is done once per distinct structure. Raises :class:`TooWide`, before any table is made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.inference.junction.elimination import (
    LARGEST_CLIQUE,
    TooWide,
    eliminate_nodes,
    format_bytes,
    improve_order,
)
from kernelfields.inference.packed_graphs import group_places

# A natural order of cliques up to this size is kept without looking for a better one.
NARROW = 3
_DEFAULT_MEMORY = 2 * 1024.0**3


class Layout(NamedTuple):
    """Cliques i = 0 .. N - 1 in the order of elimination, graph by graph, for compiled code."""

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

    def select_cliques(self, first: int, last: int) -> Layout:
        """Return the layout with the tables of some cliques counted from zero; other tables are invalid."""
        starts = []
        for whole in (self.table_start, self.separator_start):
            part = np.empty_like(whole)  # what is not written takes no memory
            part[first : last + 1] = whole[first : last + 1] - whole[first]
            starts.append(part)
        return self._replace(table_start=starts[0], separator_start=starts[1])


class JunctionPlan(NamedTuple):
    """A layout with its memory and ``width``, the largest number of nodes in a separator."""

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
    """Lay out the cliques of an order of elimination, or of the best one found.

    TooWide where the tables of a graph need more than ``memory`` bytes; ``order`` lists the nodes graph by graph.
    """
    memory = default_table_memory() if memory is None else float(memory)
    search = order is None
    order = np.arange(offsets[-1]) if order is None else order
    widest = max([NARROW, *(each.shape[1] for each in members if len(each))]) if search else LARGEST_CLIQUE
    starts, higher, parents, largest = eliminate_nodes(order, offsets, members, widest)
    wide = np.flatnonzero(largest > widest)
    if wide.size and search:
        improve_order(order, wide, offsets, members, n_labels, memory)
        starts, higher, parents, largest = eliminate_nodes(order, offsets, members, LARGEST_CLIQUE)
    entries = np.add.reduceat(float(n_labels) ** (np.diff(starts) + 1), offsets[:-1])
    needed = 8.0 * (2 * entries + 4 * entries / n_labels + 2 * float(n_labels) ** largest)
    graph = int(np.argmax(np.where(largest > LARGEST_CLIQUE, np.inf, needed)))
    if largest[graph] > LARGEST_CLIQUE or needed[graph] > memory:
        raise TooWide(
            f"exact inference needs tables over {largest[graph]} nodes at once (graph {graph}, width "
            f"{largest[graph] - 1}, {n_labels} labels) and {format_bytes(needed[graph])} for the graph, more than the "
            f"{format_bytes(memory)} allowed"
        )
    layout = _lay_out(order, members, n_labels, starts, higher, parents)
    scratch = 16.0 * float(n_labels) ** int(largest.max())
    return JunctionPlan(layout, int(largest.max()) - 1, float(np.sum(16 * entries + 32 * entries / n_labels)) + scratch)


def default_table_memory() -> float:
    """Return the default memory of tables in bytes: 2 GiB, or a quarter of the machine's memory if less."""
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
    child_start, children = group_places(parents[inner], n_positions)

    owners, groups, indices, used = [], [], [], []
    for group, nodes in enumerate(members):
        ranks = position[nodes]
        first = ranks.min(axis=1)
        owners.append(first)
        groups.append(np.full(len(nodes), group))
        indices.append(np.arange(len(nodes)))
        used.append(patterns.numbers(1 + sizes[first], places(first[:, None], ranks)))
    empty = [np.zeros(0, np.int64)]
    item_start, sorting = group_places(np.concatenate([*owners, *empty]), n_positions)
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
    """The distinct patterns, numbered in the order of their first use."""

    def __init__(self, n_labels: int):
        self._n_labels = n_labels
        self._numbers: dict[tuple[int, ...], int] = {}
        self._high: list[np.ndarray] = []
        self._low: list[np.ndarray] = []

    def numbers(self, clique_sizes: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the pattern of each part: places (n, k) are the clique's axes of the part's axes."""
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
