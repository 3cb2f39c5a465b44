"""Parts of a large graph that sweeps visit side by side: a separator first, then parts that it keeps apart.

The nodes of a graph in an order in which each follows a neighbour (pair_layout.py) are cut into ranges of about equal
length. A node with a neighbour in a later range joins the separator, and so does a path of earlier neighbours from each
node of the separator that does not follow another one. Then

    separator, first range without it, second range without it, ..

is again an order in which every node but the first of a component follows a neighbour, and no pair joins two of the
ranges. So a sweep downward, which reads what earlier nodes sent, and one upward, which reads what later ones did, may
visit the ranges in any order, or side by side in threads: every number is the same, however many threads there are.

Where the separator has too large a share of the nodes, the graph is left in one piece. Cost: O(N + P) once for P pairs;
for each sweep, handing the parts to the threads.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit

# Not by the number of threads: results do not depend on it.
_N_RANGES = 16
# A separator with more than this share of the nodes leaves too little to do side by side.
_LARGEST_SHARE = 0.2

Ranges = list[tuple[int, int]]


def cut_apart(
    order: np.ndarray, low: np.ndarray, high: np.ndarray, n_ranges: int = _N_RANGES
) -> tuple[np.ndarray, Ranges] | None:
    """Return the nodes of a graph anew ordered and the ranges of positions, the separator first; None if it is large.

    ``order`` (n,) are the nodes 0 .. n - 1, each but the first of a component after a neighbour; low and high (P,)
    are the ends of pairs. The number of ranges is halved until the separator is small.
    """
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    earlier, later = np.minimum(rank[low], rank[high]), np.maximum(rank[low], rank[high])
    while n_ranges > 1:
        owner = np.arange(len(order)) * n_ranges // len(order)
        separator = np.zeros(len(order), dtype=np.bool_)
        separator[earlier[owner[earlier] < owner[later]]] = True
        _join_separator(separator, earlier, later)
        size = int(separator.sum())
        if size <= _LARGEST_SHARE * len(order):
            ends = size + np.concatenate([[0], np.cumsum(np.bincount(owner[~separator], minlength=n_ranges))])
            ranges = [(0, size), *((int(a), int(b)) for a, b in pairwise(ends) if b > a)]
            return order[np.argsort(np.where(separator, -1, owner), kind="stable")], ranges
        n_ranges //= 2
    return None


@njit(cache=True)
def _join_separator(separator, earlier, later):
    """Add nodes, by their ranks, so that each of a separator follows another one, unless it has none to follow."""
    follows = np.full(len(separator), -1, np.int64)  # a neighbour before, one of the separator where there is one
    for e in range(len(earlier)):
        if follows[later[e]] < 0 or not separator[follows[later[e]]]:
            follows[later[e]] = earlier[e]
    for first in range(len(separator)):
        at = first
        while separator[at] and follows[at] >= 0 and not separator[follows[at]]:
            at = follows[at]
            separator[at] = True
