"""Two passes over packed forests, compiled.

Node v with parent p(v), y its label, s that of the parent, T_v(y, s) = exp(w_v(y, s) - shift_v) at most one,
children c:

    alpha_v(y) = e^{u_v(y) - top_v} prod_c m_c(y) / scale_v          sums to one
    m_v(s)     = sum_y alpha_v(y) T_v(y, s)                          leaves to roots
    log Z      = sum_v (log scale_v + top_v + shift_v)
    gamma_v(s) = b_p(s) / m_v(s)
    b_v(y)     = alpha_v(y) sum_s T_v(y, s) gamma_v(s)               roots to leaves; b = alpha at a root
    X_v(y, s)  = alpha_v(y) T_v(y, s) gamma_v(s)                     marginals of pairs

Arrays: trees and passes are ``Trees`` and ``TreePasses`` of family.py; v uses table table_of[v] of the transfer
(tables, L, L), stored as (s, y) where flipped[v]. Cost O(N L^2) time, O(N L) memory. A graph is flagged as troubled, by
log Z = NaN, where a probability that is not structurally zero leaves the range of doubles.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference.packing import LEAST_PREDICTED, LEAST_SCALE, TINY
from kernelfields.numerics.compiled import INLINED, REORDER, njit

# A product over many children is brought back to one below this.
SMALL = 1e-50


@njit(nogil=True, cache=True)
def breadth_first(starts, neighbours, order, first):
    """Fill order (N,) with the nodes, component by component, and mark in first (N,) where one begins.

    A component begins with its first node; the neighbours of v are neighbours[starts[v] : starts[v + 1]].
    """
    seen = np.zeros(len(order), np.bool_)
    filled = 0
    for root in range(len(order)):
        if seen[root]:
            continue
        seen[root] = first[root] = True
        order[filled] = root
        head, filled = filled, filled + 1
        while head < filled:
            v = order[head]
            head += 1
            for k in range(starts[v], starts[v + 1]):
                if not seen[neighbours[k]]:
                    seen[neighbours[k]] = True
                    order[filled] = neighbours[k]
                    filled += 1


# Rows are named by an array and an index: making a view of a row costs as much as a short product.
@njit(**INLINED, fastmath=REORDER)
def _add_rows(tables, table, weights, w, out, o):
    """Add weights[w] @ tables[table] to out[o], four rows at a time to save accesses."""
    size = weights.shape[1]
    whole = size - size % 4
    for a in range(0, whole, 4):
        w0, w1, w2, w3 = weights[w, a], weights[w, a + 1], weights[w, a + 2], weights[w, a + 3]
        for b in range(size):
            out[o, b] += (
                w0 * tables[table, a, b]
                + w1 * tables[table, a + 1, b]
                + w2 * tables[table, a + 2, b]
                + w3 * tables[table, a + 3, b]
            )
    for a in range(whole, size):
        weight = weights[w, a]
        for b in range(size):
            out[o, b] += weight * tables[table, a, b]


@njit(**INLINED, fastmath=REORDER)
def _add_dots(tables, table, weights, w, out, o):
    """Add tables[table] @ weights[w] to out[o]."""
    size = weights.shape[1]
    for a in range(size):
        total = 0.0
        for b in range(size):
            total += tables[table, a, b] * weights[w, b]
        out[o, a] += total


@njit(**INLINED)
def to_parent(tables, table, flipped, weights, w, out, o):
    """Add sum_y weights(y) T(y, s) to out(s)."""
    if flipped:
        _add_dots(tables, table, weights, w, out, o)
    else:
        _add_rows(tables, table, weights, w, out, o)


@njit(**INLINED)
def to_child(tables, table, flipped, weights, w, out, o):
    """Add sum_s T(y, s) weights(s) to out(y)."""
    if flipped:
        _add_rows(tables, table, weights, w, out, o)
    else:
        _add_dots(tables, table, weights, w, out, o)


@njit(nogil=True, cache=True)
def _restrict(tables, table, flipped, reachable, v, p):
    """Exclude the labels of the parent p that no reachable label of v allows."""
    for s in range(reachable.shape[1]):
        if reachable[p, s]:
            possible = False
            for y in range(reachable.shape[1]):
                if reachable[v, y] and (tables[table, s, y] if flipped else tables[table, y, s]) > 0.0:
                    possible = True
                    break
            reachable[p, s] = possible


@njit(nogil=True, cache=True)
def _is_out_of_range(alpha, v, least, restricted, reachable):
    """Whether an entry of alpha[v] that is not structurally zero is below the least."""
    outside = False
    for b in range(alpha.shape[1]):
        outside |= alpha[v, b] < least and (not restricted or reachable[v, b])
    return outside


@njit(nogil=True, cache=True, fastmath=REORDER)
def leaves_to_roots(first, last, trees, node, passes, shift, reachable, total):
    """Fill alpha (initially one), inverse = 1/m (initially zero) and total = log Z, NaN for a troubled graph.

    reachable (N, L), true before, follows forbidden labels; with another shape nothing is forbidden.
    """
    offsets, order, parent, table_of, flipped = trees
    transfer, alpha, inverse = passes.transfer, passes.alpha, passes.inverse
    n_labels = node.shape[1]
    restricted = reachable.shape[0] == node.shape[0]
    for graph in range(first, last):
        log_sum = 0.0
        fine = True
        for k in range(offsets[graph + 1] - 1, offsets[graph] - 1, -1):
            v = order[k]
            top = -np.inf
            for b in range(n_labels):
                top = max(top, node[v, b])
            if top == -np.inf:
                fine = False
                break
            scale = 0.0
            for b in range(n_labels):
                alpha[v, b] *= np.exp(node[v, b] - top)
                scale += alpha[v, b]
            if restricted:
                for b in range(n_labels):
                    reachable[v, b] &= node[v, b] > -np.inf
            if not scale > LEAST_SCALE:
                fine = scale > TINY and not _is_out_of_range(alpha, v, LEAST_PREDICTED, restricted, reachable)
                if not fine:
                    break
            inverse_scale = 1.0 / scale
            lowest = 1.0
            for b in range(n_labels):
                alpha[v, b] *= inverse_scale
                lowest = min(lowest, alpha[v, b])
            if lowest < TINY and _is_out_of_range(alpha, v, TINY, restricted, reachable):
                fine = False
                break
            log_sum += np.log(scale) + top
            p = parent[v]
            if p < 0:
                continue
            table = table_of[v]
            to_parent(transfer, table, flipped[v], alpha, v, inverse, v)
            log_sum += shift[table]
            if restricted:
                _restrict(transfer, table, flipped[v], reachable, v, p)
            lowest, peak = 1.0, 0.0
            for s in range(n_labels):
                message = inverse[v, s]
                inverse[v, s] = 1.0 / message if message > 0.0 else 0.0
                alpha[p, s] *= message
                lowest = min(lowest, alpha[p, s])
                peak = max(peak, alpha[p, s])
            if lowest < TINY and _is_out_of_range(alpha, p, TINY, restricted, reachable):
                fine = False
                break
            if 0.0 < peak < SMALL:
                log_sum += np.log(peak)
                for s in range(n_labels):
                    alpha[p, s] /= peak
        total[graph] = log_sum if fine else np.nan


@njit(nogil=True, cache=True, fastmath=REORDER)
def roots_to_leaves(first, last, trees, passes, total):
    """Fill gamma and marginals = b (initially zero); total becomes NaN outside the range of doubles."""
    offsets, order, parent, table_of, flipped = trees
    transfer, alpha, inverse, gamma, marginals = passes
    n_labels = alpha.shape[1]
    for graph in range(first, last):
        if np.isnan(total[graph]):
            continue
        check = 0.0
        for k in range(offsets[graph], offsets[graph + 1]):
            v = order[k]
            p = parent[v]
            if p < 0:
                for b in range(n_labels):
                    marginals[v, b] = alpha[v, b]
                continue
            for s in range(n_labels):
                gamma[v, s] = marginals[p, s] * inverse[v, s]
            to_child(transfer, table_of[v], flipped[v], gamma, v, marginals, v)
            for b in range(n_labels):
                marginals[v, b] *= alpha[v, b]
                check += marginals[v, b]
        if not np.isfinite(check):
            total[graph] = np.nan


@njit(nogil=True, cache=True)
def pair_tables(first, last, pairs, transfer, alpha, gamma, out):
    """Fill out with the marginals X of pairs.

    pairs (4, M) holds the lower node of each pair, its table, whether that is (s, y), and whether out is.
    """
    n_labels = alpha.shape[1]
    for e in range(first, last):
        v, table, flipped = pairs[0, e], pairs[1, e], pairs[2, e] > 0
        for i in range(n_labels):
            for j in range(n_labels):
                y, s = (j, i) if pairs[3, e] > 0 else (i, j)
                a, b = (s, y) if flipped else (y, s)
                out[e, i, j] = alpha[v, y] * transfer[table, a, b] * gamma[v, s]
