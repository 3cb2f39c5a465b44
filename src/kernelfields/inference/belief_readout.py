"""What messages say: marginals of nodes and pairs, and labellings; compiled.

    p_uv(y | x)  proportional to exp(w_uv(x, y) / rho_uv + B_v(y) - down_uv(y))      child v given its parent u
    m_v(y)       = sum_{u in pa(v)} rho_uv sum_x m_u(x) p_uv(y | x)                trees; softmax of B_v at roots
    X_uv(x, y)   = m_u(x) p_uv(y | x)

With the weights of spanning trees (m, X) is the gradient of the bound while the messages downward are held; loopy
beliefs use the softmax of B_v as m_v. Arrays as in ``belief_propagation_compiled``. Cost: O(P L^2).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kernelfields.inference.belief_messages import exclude
from kernelfields.inference.belief_propagation_compiled import ROUNDING, descend, sweep_up

# Max-product sweeps end after so many that hardly lower the bound.
_IDLE = 5


@njit(nogil=True, cache=True)
def _follow(tables, e, rho, x, cavity, out):
    """out(y) = p(y at the child | x at the parent), zero where x is impossible."""
    size = len(cavity)
    logs = tables.logs[tables.log_of[e]]
    turned = tables.flipped[e]
    top = -np.inf
    for y in range(size):
        out[y] = (logs[y, x] if turned else logs[x, y]) / rho + cavity[y]
        top = max(top, out[y])
    total = 0.0
    for y in range(size):
        out[y] = np.exp(out[y] - top) if top > -np.inf else 0.0
        total += out[y]
    if total > 0.0:
        for y in range(size):
            out[y] /= total


@njit(nogil=True, cache=True)
def tree_marginals(first, last, graph, tables, down, beliefs, marginals):
    """Replace the marginals of all nodes but roots by averages over their parents: the gradient of the bound."""
    size = beliefs.shape[1]
    cavity, chance = np.empty(size), np.empty(size)
    for g in range(first, last):
        for k in range(graph.offsets[g], graph.offsets[g + 1]):
            v = graph.order[k]
            if graph.up_start[v] == graph.up_start[v + 1]:
                continue
            for y in range(size):
                marginals[v, y] = 0.0
            for e in range(graph.up_start[v], graph.up_start[v + 1]):
                u, rho = graph.parent[e], graph.rho[e]
                exclude(beliefs[v], down[0, e], cavity)
                for x in range(size):
                    if marginals[u, x] > 0.0:
                        _follow(tables, e, rho, x, cavity, chance)
                        for y in range(size):
                            marginals[v, y] += rho * marginals[u, x] * chance[y]


@njit(nogil=True, cache=True)
def pair_marginals(first, last, pair_of, turned, graph, tables, down, beliefs, marginals, weights, tied, out):
    """Fill out[j] with the marginals of factor j, or add all to out[0], weighted by factor, where tied."""
    size = beliefs.shape[1]
    cavity, chance = np.empty(size), np.empty(size)
    for j in range(first, last):
        e = pair_of[j]
        u, v = graph.parent[e], graph.child[e]
        row = out[0 if tied else j]
        exclude(beliefs[v], down[0, e], cavity)
        for x in range(size):
            mass = marginals[u, x]
            if mass == 0.0:
                continue
            if tied and len(weights) > 0:
                mass *= weights[j]
            _follow(tables, e, graph.rho[e], x, cavity, chance)
            for y in range(size):
                if turned[j]:
                    row[y, x] += mass * chance[y]
                else:
                    row[x, y] += mass * chance[y]


@njit(nogil=True, cache=True)
def _label(graph, g, tables, node, up, labels):
    """Label graph g node by node, given the labels of parents and what children say; return the score."""
    size = node.shape[1]
    given, ahead = np.empty(size), np.empty(size)
    score = 0.0
    for k in range(graph.offsets[g], graph.offsets[g + 1]):
        v = graph.order[k]
        for x in range(size):
            given[x] = node[v, x]
            ahead[x] = 0.0
        for e in range(graph.up_start[v], graph.up_start[v + 1]):
            logs, y = tables.logs[tables.log_of[e]], labels[graph.parent[e]]
            for x in range(size):
                given[x] += logs[x, y] if tables.flipped[e] else logs[y, x]
        for j in range(graph.down_start[v], graph.down_start[v + 1]):
            e = graph.down[j]
            for x in range(size):
                ahead[x] += graph.rho[e] * up[0, e, x]
        best = 0
        for x in range(1, size):
            if given[x] + ahead[x] > given[best] + ahead[best]:
                best = x
        labels[v] = best
        score += given[best]
    return score


@njit(nogil=True, cache=True)
def best_labels(
    first, last, graph, tables, tolerance, max_iter, node, up, down, saved, beliefs, chances, trial, labels, bounds
):
    """Label graphs first..last-1 by max-product sweeps; bounds (S,) lie above the best scores."""
    for g in range(first, last):
        rows = slice(graph.offsets[g], graph.offsets[g + 1])
        bound = sweep_up(graph, g, tables, True, node, up, down, beliefs, chances)
        score, sweeps, idle, moved = -np.inf, 0, 0, True
        labels[rows] = 0
        while bound > -np.inf:
            reached = _label(graph, g, tables, node, up, trial)
            if reached > score or sweeps == 0:
                score = reached
                labels[rows] = trial[rows]
            slack = ROUNDING * (1.0 + abs(bound)) * (graph.offsets[g + 1] - graph.offsets[g])
            if graph.forest[g] or score >= bound - slack or sweeps >= max_iter or idle >= _IDLE or not moved:
                break
            sweeps += 1
            fresh, _, moved = descend(graph, g, tables, True, 0.0, node, up, down, saved, beliefs, chances, bound)
            idle = idle + 1 if bound - fresh < tolerance * (1.0 + abs(bound)) else 0
            bound = fresh
        bounds[g] = bound
