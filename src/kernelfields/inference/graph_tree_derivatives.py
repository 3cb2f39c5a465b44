"""Derivatives of the marginals of packed forests, and tables of pairs, compiled; see ``graph_trees_compiled``.

A direction (du, dw) has conditional expectations r_v(y) of what lies at and below v, and E_v(s) of r_v + dw_v:

    r_v(y)     = du_v(y) + sum_c E_c(y) E_v(s)     = 1/m_v(s) sum_y alpha_v(y) T_v(y, s) (r_v(y) + dw_v(y, s))
    delta_v(s) = db_p(s) / m_v(s) - gamma_v(s) E_v(s) db_v(y)    = b_v(y) r_v(y) + alpha_v(y) sum_s T_v(y, s)
    (gamma_v(s) dw_v(y, s) + delta_v(s)) dX_v(y, s) = alpha_v(y) T_v(y, s) (gamma_v(s) (r_v(y) + dw_v(y, s)) +
    delta_v(s)),    db = b (r - E r) at a root

r_v and E_v are used with the same constant taken off, or they would grow with the tree. Arrays: (N, L); transfer
and moved = transfer * dw (tables, L, L). Cost O(N L^2) time, O(N L) memory; no exponentials.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kernelfields.inference.graph_trees_compiled import REORDER, to_child, to_parent


@njit(nogil=True, cache=True, fastmath=REORDER)
def tree_responses(
    first,
    last,
    offsets,
    order,
    parent,
    table_of,
    flipped,
    transfer,
    moved,
    alpha,
    inverse,
    gamma,
    marginals,
    rest,
    delta,
    d_marginals,
):
    """Fill rest = r (the direction of nodes before), delta and d_marginals = db (zeros before).

    moved = transfer * dw.
    """
    n_labels = alpha.shape[1]
    weighted = np.empty((1, n_labels))
    for k in range(offsets[last] - 1, offsets[first] - 1, -1):
        v = order[k]
        p = parent[v]
        if p < 0:
            continue
        table = table_of[v]
        for b in range(n_labels):
            weighted[0, b] = alpha[v, b] * rest[v, b]
        # delta is E until the way down
        to_parent(transfer, table, flipped[v], weighted, 0, delta, v)
        to_parent(moved, table, flipped[v], alpha, v, delta, v)
        centre = 0.0
        for s in range(n_labels):
            delta[v, s] *= inverse[v, s]
            centre += delta[v, s]
        centre /= n_labels
        for s in range(n_labels):
            rest[v, s] -= centre
            delta[v, s] -= centre
            rest[p, s] += delta[v, s]
    for k in range(offsets[first], offsets[last]):
        v = order[k]
        p = parent[v]
        if p < 0:
            mean = 0.0
            for b in range(n_labels):
                mean += marginals[v, b] * rest[v, b]
            for b in range(n_labels):
                d_marginals[v, b] = marginals[v, b] * (rest[v, b] - mean)
            continue
        table = table_of[v]
        for s in range(n_labels):
            delta[v, s] = d_marginals[p, s] * inverse[v, s] - gamma[v, s] * delta[v, s]
        to_child(transfer, table, flipped[v], delta, v, d_marginals, v)
        to_child(moved, table, flipped[v], gamma, v, d_marginals, v)
        for b in range(n_labels):
            d_marginals[v, b] = marginals[v, b] * rest[v, b] + alpha[v, b] * d_marginals[v, b]


@njit(nogil=True, cache=True)
def pair_tables(
    first, last, child, reversed_pair, table_of, flipped, transfer, moved, alpha, rest, gamma, delta, out
):
    """Fill out with X, or with dX where moved has tables; child[e] is the lower node of pair e.

    reversed_pair[e] says that the parent is the first of its two nodes: out[e] is laid out as (s, y).
    """
    n_labels = alpha.shape[1]
    derivative = moved.shape[0] > 0
    for e in range(first, last):
        v = child[e]
        table, turned = table_of[v], flipped[v]
        for i in range(n_labels):
            for j in range(n_labels):
                y, s = (j, i) if reversed_pair[e] else (i, j)
                a, b = (s, y) if turned else (y, s)
                if derivative:
                    value = transfer[table, a, b] * (gamma[v, s] * rest[v, y] + delta[v, s])
                    value += moved[table, a, b] * gamma[v, s]
                else:
                    value = transfer[table, a, b] * gamma[v, s]
                out[e, i, j] = alpha[v, y] * value
