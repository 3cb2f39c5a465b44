"""Elimination of nodes in a given order, and the cliques that it makes.

Eliminating a node v joins it with the neighbours that are still there, higher(v): the clique {v} + higher(v)
needs a table of L^(1 + |higher(v)|) entries. The width of an order is the largest |higher(v)|; the smallest over
all orders is the treewidth. Positions count nodes in the order of elimination. Cost: linear in the size of the
result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

# No table of two labels per node is larger; also the digits that fit into an int64.
LARGEST_CLIQUE = 60


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
                grown[:filled] = flat[:filled]
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
    for each in members:
        ranks = np.sort(position[each], axis=1)
        owners.append(np.repeat(ranks[:, 0], ranks.shape[1] - 1))
        others.append(ranks[:, 1:].ravel())
    owner = np.concatenate(owners)
    return grouped(owner, len(order))[0], np.concatenate(others)[np.argsort(owner, kind="stable")]


def grouped(owner: np.ndarray, n_owners: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, indices) that list for each owner where it stands."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n_owners))])
    return starts, np.argsort(owner, kind="stable")
