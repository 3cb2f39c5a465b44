"""Coordinate ascent of mean field and its lower bound, compiled; see mean_field.py.

A factor of order two costs L^2 per visit, one of order k L^k. Entries of weight zero are skipped, so a forbidden
combination that has no probability costs nothing, and one that has some makes a label impossible.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _add_expected(incidence, f, place, n_labels, tables, q, out):
    """out(b) += E[table of f | b at the place], the other nodes distributed by q."""
    begin, first = incidence.start[f], incidence.table_start[f]
    order = incidence.start[f + 1] - begin
    if order == 2:
        others = q[incidence.nodes[begin + 1 - place]]
        step, stride = (1, n_labels) if place == 0 else (n_labels, 1)
        for a in range(n_labels):
            weight, at = others[a], first + a * step
            if weight > 0.0:
                for b in range(n_labels):
                    out[b] += weight * tables[at + b * stride]
        return
    for entry in range(n_labels**order):
        rest, weight, ours = entry, 1.0, 0
        for j in range(order - 1, -1, -1):
            label = rest % n_labels
            rest //= n_labels
            if j == place:
                ours = label
            else:
                weight *= q[incidence.nodes[begin + j], label]
        if weight > 0.0:
            out[ours] += weight * tables[first + entry]


@njit(nogil=True, cache=True)
def ascend(first, last, incidence, node, tables, tolerance, max_iter, q, report):
    """Renew q node by node in graphs first..last-1 until it rests.

    report (S, 4) gets bound, sweeps, change, converged.
    """
    n_labels = node.shape[1]
    scores = np.empty(n_labels)
    for g in range(first, last):
        sweeps, change = 0, np.inf
        while change > tolerance and sweeps < max_iter:
            sweeps += 1
            change = 0.0
            for v in range(incidence.offsets[g], incidence.offsets[g + 1]):
                for b in range(n_labels):
                    scores[b] = node[v, b]
                for k in range(incidence.node_start[v], incidence.node_start[v + 1]):
                    _add_expected(incidence, incidence.factor_of[k], incidence.place_of[k], n_labels, tables, q, scores)
                top, total = -np.inf, 0.0
                for b in range(n_labels):
                    top = max(top, scores[b])
                if top == -np.inf:
                    continue  # every label meets a forbidden combination that has probability: leave it
                for b in range(n_labels):
                    scores[b] = np.exp(scores[b] - top)
                    total += scores[b]
                for b in range(n_labels):
                    fresh = scores[b] / total
                    change = max(change, abs(fresh - q[v, b]))
                    q[v, b] = fresh
        report[g, 0] = _bound(g, incidence, node, tables, q)
        report[g, 1] = sweeps
        report[g, 2] = change
        report[g, 3] = change <= tolerance


@njit(nogil=True, cache=True)
def _bound(g, incidence, node, tables, q):
    """E_q score + entropy of q: a lower bound on log Z for any q."""
    n_labels = node.shape[1]
    expected = np.empty(n_labels)
    total = 0.0
    for v in range(incidence.offsets[g], incidence.offsets[g + 1]):
        for b in range(n_labels):
            expected[b] = node[v, b]
        for k in range(incidence.node_start[v], incidence.node_start[v + 1]):
            if incidence.place_of[k] == 0:  # each factor once, at its first node
                _add_expected(incidence, incidence.factor_of[k], 0, n_labels, tables, q, expected)
        for b in range(n_labels):
            if q[v, b] > 0.0:
                total += q[v, b] * (expected[b] - np.log(q[v, b]))
    return total
