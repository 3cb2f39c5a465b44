"""Orders of nodes for belief propagation, and parts of a large graph that sweeps visit side by side.

``growth_order``: every node but the first of a connected component follows a neighbour.

``cut_apart``: the nodes in such an order are cut into ranges of about equal length. The earlier nodes of the pairs
between ranges are a separator; where these are not connected, as the layers of a breadth-first order of a grid, the
later nodes are taken as well. A path of earlier neighbours joins each of its connected parts to the others. Then

    separator in a growth order of its own, first range without it, second range without it, ..

is a growth order too, and no pair joins two of the ranges. So a sweep downward, which reads what earlier nodes sent,
and one upward, which reads what later ones did, may visit the ranges in any order, or side by side in threads: every
number is the same, however many threads there are. Where the separator has too large a share of the nodes, the graph
is left in one piece.

Cost: O(N + P log P) once for P pairs.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

# Not by the number of threads: results do not depend on it.
_N_RANGES = 16
# A separator with more than this share of the nodes leaves too little to do side by side.
_LARGEST_SHARE = 0.2
# More connected parts of a separator for each range than this would take too many paths to join.
_MOST_PIECES = 4

Ranges = list[tuple[int, int]]


def growth_order(offsets: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Order nodes (N,) graph by graph so that all but the first of each component follow a neighbour.

    The given order is kept where it is such an order, as for the rows of a grid; else breadth first.
    """
    n_positions, n_items = int(offsets[-1]), len(offsets) - 1
    graphs = np.repeat(np.arange(n_items), np.diff(offsets))
    joined = coo_array((np.ones(len(low)), (low, high)), shape=(n_positions, n_positions)).tocsr()
    _, component = connected_components(joined, directed=False)
    first = np.unique(component, return_index=True)[1]
    led = np.zeros(n_positions, dtype=bool)
    led[high] = True
    led[first] = True
    order = np.arange(n_positions)
    astray = np.unique(graphs[~led])
    if not len(astray):
        return order
    symmetric = (joined + joined.T).tocsr()
    roots = np.split(first[np.argsort(first)], np.searchsorted(np.sort(first), offsets[1:-1]))
    for graph in astray:
        rows = slice(offsets[graph], offsets[graph + 1])
        local = symmetric[rows, :][:, rows]
        walks = [
            breadth_first_order(local, root - offsets[graph], directed=False, return_predecessors=False)
            for root in roots[graph]
        ]
        order[rows] = offsets[graph] + np.concatenate(walks)
    return order


def cut_apart(
    order: np.ndarray, low: np.ndarray, high: np.ndarray, n_ranges: int = _N_RANGES
) -> tuple[np.ndarray, Ranges] | None:
    """Return the nodes of a graph anew ordered and the ranges of positions, the separator first; None if it is large.

    ``order`` (n,) are the nodes 0 .. n - 1, each but the first of a component after a neighbour; low and high (P,)
    are the ends of pairs. The number of ranges is halved until the separator is small.
    """
    n_positions = len(order)
    rank = np.empty(n_positions, dtype=np.int64)
    rank[order] = np.arange(n_positions)
    earlier, later = np.minimum(rank[low], rank[high]), np.maximum(rank[low], rank[high])
    while n_ranges > 1:
        owner = np.arange(n_positions) * n_ranges // n_positions
        separator = _joined_separator(earlier, later, owner, n_ranges)
        first = np.flatnonzero(separator)
        if len(first) <= _LARGEST_SHARE * n_positions:
            sizes = np.bincount(owner[~separator], minlength=n_ranges)
            ends = len(first) + np.concatenate([[0], np.cumsum(sizes)])
            ranges = [(0, len(first)), *((int(a), int(b)) for a, b in pairwise(ends) if b > a)]
            first = first[_inner_order(separator, earlier, later)]
            return order[np.concatenate([first, np.flatnonzero(~separator)])], ranges
        n_ranges //= 2
    return None


def _joined_separator(earlier: np.ndarray, later: np.ndarray, owner: np.ndarray, n_ranges: int) -> np.ndarray:
    """Return whether each node, by its rank, is in a separator of the ranges, connected where the graph is."""
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
    for at in roots.tolist():
        while follows[at] >= 0 and not separator[follows[at]]:
            at = follows[at]
            separator[at] = True
    return separator


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


def _inner_order(separator: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Return a growth order of the nodes of a separator, counted by rank."""
    size = int(separator.sum())
    return growth_order(np.array([0, size]), *_within(separator, earlier, later)) if size else np.zeros(0, np.int64)
