"""The compiled loop of elimination.py: the cliques that an order makes."""

import numpy as np

from kernelfields.inference.sums_compiled import copy_row
from kernelfields.numerics.compiled import njit


@njit(nogil=True, cache=True)
def eliminate(offsets, first_other, others, widest):
    """Eliminate positions 0, 1, .. in order; return later positions as (starts, flat, parents, cliques).

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
