"""Plans for junction trees: cliques, their tree, where factors and messages go, and what it will cost.

Nodes are eliminated one by one (``junction_elimination``); clique i belongs to the i-th node eliminated and holds it and
its later neighbours, sorted by position. So the separator to the parent clique, that of the first later neighbour, is
the clique without its first axis, and a table (L, .., L) of a clique is laid out as (label of i, entry of separator).

The tables of clique parts (a factor, a child's separator) are read through *patterns*: for every entry of the clique
the entry of the part. They depend on the clique's size and the positions of the part in it only, so a chain of any
length has a handful. An entry of the part is a sum over axes, so a pattern is kept as two short ones, for the leading
and for the trailing half of the axes.

Cost: planning is linear in the cliques and compiled where the natural order does; else the search for an order is done
once per distinct structure. Fails: :class:`TooWide`, before any table is made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.inference.junction_elimination import (
    eliminate,
    min_degree_order,
    min_fill_order,
    neighbour_sets,
)

# A natural order of cliques up to this size is kept without looking for a better one.
NARROW = 3
# Tables of more entries than this are worth the search for a min-fill order.
WORTH_MIN_FILL = 1_000_000
# No table of two labels per node is larger; also the digits that fit into an int64.
LARGEST_CLIQUE = 60
_DEFAULT_MEMORY = 2 * 1024.0**3


class TooWide(MemoryError):
    """Exact inference does not fit; ``reason`` says how wide and how large in half a sentence."""

    def __init__(self, reason: str):
        self.reason = reason
        super().__init__(
            f'{reason}; use method="trw", "loopy" or "mean-field", fewer labels or fewer factors, '
            "or pass a larger memory="
        )


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


class JunctionPlan(NamedTuple):
    """A layout and its size: ``width`` is the largest number of nodes in a separator."""

    layout: Layout
    width: int
    memory: float  # bytes, at its highest, in a Hessian product


def plan_junction(
    offsets: np.ndarray,
    members: Sequence[np.ndarray],
    n_labels: int,
    memory: float | None = None,
    order: np.ndarray | None = None,
) -> JunctionPlan:
    """Lay the cliques out for an order of elimination, or for the best one found.

    TooWide where the tables need more than ``memory`` bytes; ``order`` lists the nodes graph by graph.
    """
    memory = available_memory() if memory is None else float(memory)
    search = order is None
    order = np.arange(offsets[-1]) if order is None else order
    widest = max([NARROW, *(each.shape[1] for each in members if len(each))]) if search else LARGEST_CLIQUE
    starts, higher, parents, largest = eliminate(offsets, *_later_neighbours(order, members), widest)
    wide = np.flatnonzero(largest > widest)
    if wide.size and search:
        _reorder(order, wide, offsets, members, n_labels, memory)
        starts, higher, parents, largest = eliminate(offsets, *_later_neighbours(order, members), LARGEST_CLIQUE)
    graph = int(np.argmax(largest))
    clique = int(largest[graph])
    separators = np.diff(starts)
    entries = float(np.sum(float(n_labels) ** (separators + 1)))
    needed = 8.0 * (2 * entries + 4 * entries / n_labels + 2 * float(n_labels) ** clique)
    if clique > LARGEST_CLIQUE or needed > memory:
        raise TooWide(
            f"exact inference needs tables over {clique} nodes at once (graph {graph}, width {clique - 1}, "
            f"{n_labels} labels) and {_amount(needed)} in all, more than the {_amount(memory)} allowed"
        )
    layout = _lay_out(order, members, n_labels, starts, higher, parents)
    return JunctionPlan(layout, clique - 1, needed)


def available_memory() -> float:
    """Return how many bytes tables may take by default: 2 GiB, or a quarter of the machine's memory if less."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return _DEFAULT_MEMORY
    return min(_DEFAULT_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4)


def _amount(n_bytes: float) -> str:
    for unit, size in (("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


def _later_neighbours(order: np.ndarray, members: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, flat): for every position the later positions of the factors that it comes first in."""
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    owners, others = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for each in members:
        ranks = np.sort(position[each], axis=1)
        owners.append(np.repeat(ranks[:, 0], ranks.shape[1] - 1))
        others.append(ranks[:, 1:].ravel())
    owner = np.concatenate(owners)
    return _grouped(owner, len(order))[0], np.concatenate(others)[np.argsort(owner, kind="stable")]


def _grouped(owner: np.ndarray, n_owners: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, indices) that list for each owner where it stands."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_owners))])
    return starts, np.argsort(owner, kind="stable")


def _reorder(
    order: np.ndarray,
    wide: np.ndarray,
    offsets: np.ndarray,
    members: Sequence[np.ndarray],
    n_labels: int,
    memory: float,
) -> None:
    """Replace the order of the graphs listed by the best one found, once per distinct structure."""
    lists = [
        _grouped(np.searchsorted(offsets, each[:, 0], side="right") - 1, len(offsets) - 1) for each in members
    ]
    fits = LARGEST_CLIQUE
    if n_labels > 1:
        fits = min(fits, max(1, int(np.log(memory / 16) / np.log(n_labels) + 1e-9)))
    known: dict[tuple[int, tuple[bytes, ...]], np.ndarray] = {}
    for graph in wide.tolist():
        size = int(offsets[graph + 1] - offsets[graph])
        rows = [
            each[found[starts[graph] : starts[graph + 1]]] - offsets[graph]
            for each, (starts, found) in zip(members, lists, strict=True)
        ]
        key = size, tuple(each.tobytes() for each in rows)
        if key not in known:
            known[key] = _best_order(graph, size, rows, n_labels, fits)
        order[offsets[graph] : offsets[graph + 1]] = offsets[graph] + known[key]


def _best_order(graph: int, size: int, rows: list[np.ndarray], n_labels: int, fits: int) -> np.ndarray:
    """Return the order whose tables have the fewest entries; TooWide if none stays within ``fits`` nodes."""
    bounds = np.array([0, size])
    found: list[tuple[float, np.ndarray]] = []

    def consider(order: np.ndarray | None) -> None:
        if order is not None:
            starts, _, _, largest = eliminate(bounds, *_later_neighbours(order, rows), fits)
            if largest[0] <= fits:
                found.append((float(np.sum(float(n_labels) ** (np.diff(starts) + 1))), order))

    neighbours = neighbour_sets(size, rows)
    consider(np.arange(size))
    consider(min_degree_order(neighbours, fits))
    if not found or min(entries for entries, _ in found) > WORTH_MIN_FILL:
        consider(min_fill_order(neighbours))
    if not found:
        raise TooWide(
            f"exact inference needs tables over more than {fits} nodes at once (graph {graph}, width {fits} or more, "
            f"{n_labels} labels), so over {_amount(16.0 * float(n_labels) ** (fits + 1))}"
        )
    return min(found, key=lambda each: each[0])[1]


def _lay_out(
    order: np.ndarray,
    members: Sequence[np.ndarray],
    n_labels: int,
    starts: np.ndarray,
    higher: np.ndarray,
    parents: np.ndarray,
) -> Layout:
    n_nodes = len(order)
    position = np.empty_like(order)
    position[order] = np.arange(n_nodes)
    sizes = np.diff(starts)
    separator_entries = np.power(n_labels, sizes)
    patterns = _Patterns(n_labels)

    # A position in the clique of i is 0 for i itself, else one more than its place among the later neighbours.
    owner = np.repeat(np.arange(n_nodes), sizes)
    keys = owner * n_nodes + higher  # rising: owners rise, and later neighbours are sorted

    def places(clique: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        found = np.searchsorted(keys, clique * n_nodes + wanted) - starts[clique] + 1
        return np.where(wanted == clique, 0, found)

    message_pattern = np.zeros(n_nodes, np.int64)
    inner = np.flatnonzero(parents >= 0)
    for size in np.unique(sizes[inner]):
        cliques = inner[sizes[inner] == size]
        part = higher[starts[cliques][:, None] + np.arange(size)]
        above = parents[cliques]
        message_pattern[cliques] = patterns.numbers(1 + sizes[above], places(above[:, None], part))
    child_start, children = _grouped(parents[inner], n_nodes)

    owners, groups, indices, used = [], [], [], []
    for group, each in enumerate(members):
        ranks = position[each]
        first = ranks.min(axis=1)
        owners.append(first)
        groups.append(np.full(len(each), group))
        indices.append(np.arange(len(each)))
        used.append(patterns.numbers(1 + sizes[first], places(first[:, None], ranks)))
    empty = [np.zeros(0, np.int64)]
    item_start, sorting = _grouped(np.concatenate([*owners, *empty]), n_nodes)
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
