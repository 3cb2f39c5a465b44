"""Passes over the cliques of junction trees, compiled; see ``junction_plans`` for the layout of the tables.

Clique i with label a of its own node and entry j of its separator, children c whose separators are parts of i:

    t_i(a, j)   = u(a) + factors of i + sum_c m_c(part)
    m_i(j)      = log sum_a exp t_i(a, j),   q_i(a | j) = exp(t_i(a, j) - m_i(j))         upward
    S_c         = marginal of q_i S_i on c's separator,   S = 1 at the end of a component    downward

so p(y) is the product of the q_i, and q_i S_i are the beliefs; the way up is in ``junction_upward``. A direction
has, with r_i its own table (u and factors replaced by their derivatives, messages by E_c),

    E_i(j)      = sum_a q_i(a | j) r_i(a, j)                                               upward
    dB_i(a, j)  = q_i(a | j) ((r_i(a, j) - E_i(j)) S_i(j) + dS_i(j))                       downward
    dS_c        = marginal of dB_i on c's separator,      dS = 0 at the end of a component

Arrays: node (N, L); tables, separators flat; factors all groups' tables, flat, ``item_offset`` the start of each
item's table among them. Cost O(entries of all clique tables) for every pass. first, last: a run of graphs.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def assemble(i, layout, node, factors, item_offset, messages, table):
    """Fill clique i's table with its node, its factors and the messages of its children."""
    n_labels = layout.n_labels
    size = layout.separator_start[i + 1] - layout.separator_start[i]
    v = layout.order[i]
    for a in range(n_labels):
        table[a * size : (a + 1) * size] = node[v, a]
    for k in range(layout.item_start[i], layout.item_start[i + 1]):
        _add_part(layout, layout.item_pattern[k], factors, item_offset[k], table)
    for k in range(layout.child_start[i], layout.child_start[i + 1]):
        c = layout.children[k]
        _add_part(layout, layout.message_pattern[c], messages, layout.separator_start[c], table)


@njit(nogil=True, cache=True)
def _add_part(layout, pattern, part, start, table):
    """table += part, read through its pattern."""
    low = layout.low[layout.low_start[pattern] : layout.low_start[pattern + 1]]
    n_low = len(low)
    x = 0
    for h in range(layout.high_start[pattern], layout.high_start[pattern + 1]):
        base = start + layout.high[h]
        for k in range(n_low):
            table[x + k] += part[base + low[k]]
        x += n_low


@njit(nogil=True, cache=True)
def _sum_part(layout, pattern, table, weight, part, start):
    """part += weight * table, summed through its pattern."""
    low = layout.low[layout.low_start[pattern] : layout.low_start[pattern + 1]]
    n_low = len(low)
    x = 0
    for h in range(layout.high_start[pattern], layout.high_start[pattern + 1]):
        base = start + layout.high[h]
        for k in range(n_low):
            part[base + low[k]] += weight * table[x + k]
        x += n_low


@njit(nogil=True, cache=True)
def largest_table(layout, first, last):
    """Return the number of entries of the largest of some cliques' tables."""
    most = 1
    for i in range(first, last):
        most = max(most, layout.table_start[i + 1] - layout.table_start[i])
    return most


@njit(nogil=True, cache=True)
def _belief(i, layout, tables, separators, belief):
    """belief(a, j) = q(a | j) S(j)."""
    table = tables[layout.table_start[i] : layout.table_start[i + 1]]
    separator = separators[layout.separator_start[i] : layout.separator_start[i + 1]]
    size = len(separator)
    for a in range(layout.n_labels):
        for j in range(size):
            belief[a * size + j] = table[a * size + j] * separator[j]


@njit(nogil=True, cache=True)
def downward(first, last, offsets, layout, tables, separators, node_marginals):
    """Fill separators (zeros before) with S, and the marginals of nodes."""
    scratch = np.empty(largest_table(layout, offsets[first], offsets[last]))
    for i in range(offsets[last] - 1, offsets[first] - 1, -1):
        begin = layout.separator_start[i]
        size = layout.separator_start[i + 1] - begin
        if layout.parent[i] < 0:
            separators[begin] = 1.0
        belief = scratch[: layout.n_labels * size]
        _belief(i, layout, tables, separators, belief)
        v = layout.order[i]
        for a in range(layout.n_labels):
            node_marginals[v, a] = belief[a * size : (a + 1) * size].sum()
        for k in range(layout.child_start[i], layout.child_start[i + 1]):
            c = layout.children[k]
            _sum_part(layout, layout.message_pattern[c], belief, 1.0, separators, layout.separator_start[c])


@njit(nogil=True, cache=True)
def _deliver(i, layout, belief, weight, targets, shared, own_sums, shared_sums):
    """Sum a clique's table into its factors': targets[k] is where, shared[k] in which; -1 for not wanted."""
    for k in range(layout.item_start[i], layout.item_start[i + 1]):
        if targets[k] >= 0:
            sums = shared_sums if shared[k] else own_sums
            _sum_part(layout, layout.item_pattern[k], belief, weight, sums, targets[k])


@njit(nogil=True, cache=True)
def factor_sums(first, last, offsets, layout, tables, separators, weights, targets, shared, own_sums, shared_sums):
    """Add the marginals of factors, times the weights of their graphs, to own_sums and shared_sums."""
    scratch = np.empty(largest_table(layout, offsets[first], offsets[last]))
    for graph in range(first, last):
        for i in range(offsets[graph], offsets[graph + 1]):
            if layout.item_start[i + 1] > layout.item_start[i]:
                belief = scratch[: layout.table_start[i + 1] - layout.table_start[i]]
                _belief(i, layout, tables, separators, belief)
                _deliver(i, layout, belief, weights[graph], targets, shared, own_sums, shared_sums)


@njit(nogil=True, cache=True)
def score_expectations(
    first, last, offsets, layout, d_node, d_factors, item_offset, tables, expected, centres, responses
):
    """Fill responses with r and expected with E less its mean, centres: else it would grow with the graph."""
    for i in range(offsets[first], offsets[last]):
        begin, end = layout.table_start[i], layout.table_start[i + 1]
        table, response = tables[begin:end], responses[begin:end]
        assemble(i, layout, d_node, d_factors, item_offset, expected, response)
        mean = expected[layout.separator_start[i] : layout.separator_start[i + 1]]
        size = len(mean)
        mean[:] = 0.0
        for a in range(layout.n_labels):
            for j in range(size):
                mean[j] += table[a * size + j] * response[a * size + j]
        centres[i] = mean.mean()
        mean -= centres[i]


@njit(nogil=True, cache=True)
def belief_responses(
    first,
    last,
    offsets,
    layout,
    tables,
    separators,
    expected,
    centres,
    responses,
    d_separators,
    weights,
    d_marginals,
    targets,
    shared,
    own_sums,
    shared_sums,
):
    """Turn responses into dB; fill d_separators (zeros before), and add to the sums as ``factor_sums`` does."""
    for graph in range(first, last):
        weight = weights[graph]
        for i in range(offsets[graph + 1] - 1, offsets[graph] - 1, -1):
            begin, end = layout.table_start[i], layout.table_start[i + 1]
            table, response = tables[begin:end], responses[begin:end]
            begin, end = layout.separator_start[i], layout.separator_start[i + 1]
            size = end - begin
            mean, separator, moved = expected[begin:end], separators[begin:end], d_separators[begin:end]
            v, centre = layout.order[i], centres[i]
            for a in range(layout.n_labels):
                total = 0.0
                for j in range(size):
                    x = a * size + j
                    response[x] = table[x] * ((response[x] - centre - mean[j]) * separator[j] + moved[j])
                    total += response[x]
                d_marginals[v, a] = weight * total
            for k in range(layout.child_start[i], layout.child_start[i + 1]):
                c = layout.children[k]
                _sum_part(
                    layout, layout.message_pattern[c], response, 1.0, d_separators, layout.separator_start[c]
                )
            _deliver(i, layout, response, weight, targets, shared, own_sums, shared_sums)
