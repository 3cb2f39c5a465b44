"""Compiled sweeps that look at one node at a time: iterated conditional modes, mean field, and a draw
given all others.

Arrays: incidence as in base.py, tables (all entries,), node (N, L), labels (N,). A forbidden entry is
counted, not added, so that a labelling that breaks fewer rules can be preferred among those of score -inf.
Functions named by a range visit the nodes first..last-1 once. Random numbers come from one 64-bit state per graph
(splitmix64): the same on any number of threads.

Coordinate ascent of mean field and its lower bound are those of mean_field.py. A factor of order two costs L^2 per
visit, one of order k L^k. Entries of weight zero are skipped, so a forbidden combination that has no probability costs
nothing, and one that has some makes a label impossible.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from kernelfields.inference.sums_compiled import draw_index
from kernelfields.numerics.compiled import njit


@njit(nogil=True, cache=True)
def _add_expected(incidence, f, place, n_labels, tables, q, out):
    """Add E[table of f | b at the place] to out(b), the other nodes distributed by q."""
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
    """Renew q node by node in graphs first..last-1 until it converges.

    report (S, 4) gets bound, sweeps, change, converged.
    """
    for g in range(first, last):
        begin, end = incidence.offsets[g], incidence.offsets[g + 1]
        sweeps, change = 0, np.inf
        while change > tolerance and sweeps < max_iter:
            sweeps += 1
            change = ascend_range(begin, end, incidence, node, tables, q)
        report[g, 0] = bound_range(begin, end, incidence, node, tables, q)
        report[g, 1] = sweeps
        report[g, 2] = change
        report[g, 3] = change <= tolerance


@njit(nogil=True, cache=True)
def ascend_range(first, last, incidence, node, tables, q):
    """Renew q node by node; return the largest change."""
    n_labels = node.shape[1]
    scores, change = np.empty(n_labels), 0.0
    for v in range(first, last):
        for b in range(n_labels):
            scores[b] = node[v, b]
        for k in range(incidence.node_start[v], incidence.node_start[v + 1]):
            _add_expected(incidence, incidence.factor_of[k], incidence.find_place[k], n_labels, tables, q, scores)
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
    return change


@njit(nogil=True, cache=True)
def bound_range(first, last, incidence, node, tables, q):
    """Return the share of nodes in E_q score + entropy of q: a lower bound on log Z for any q."""
    n_labels = node.shape[1]
    expected = np.empty(n_labels)
    total = 0.0
    for v in range(first, last):
        for b in range(n_labels):
            expected[b] = node[v, b]
        for k in range(incidence.node_start[v], incidence.node_start[v + 1]):
            if incidence.find_place[k] == 0:  # each factor once, at its first node
                _add_expected(incidence, incidence.factor_of[k], 0, n_labels, tables, q, expected)
        for b in range(n_labels):
            if q[v, b] > 0.0:
                total += q[v, b] * (expected[b] - np.log(q[v, b]))
    return total


# Sweeps of the search for an allowed labelling; the penalty of a broken rule grows in each round of them.
_SEARCH_SWEEPS = 1000
_ROUND = 50
_LARGEST_PENALTY = 5.0
_MOST_CLIMBING_SWEEPS = 1000


@njit(nogil=True, cache=True)
def uniform(state):
    """Advance the state (1,) and return a number in [0, 1)."""
    state[0] += uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    z = z ^ (z >> uint64(31))
    return (z >> uint64(11)) * (1.0 / 9007199254740992.0)


@njit(nogil=True, cache=True)
def locate(incidence, f, place, labels, n_labels):
    """Return the entries of factor f for given labels of its other nodes: (first, stride)."""
    first, stride, ours = incidence.table_start[f], 1, 1
    begin = incidence.start[f]
    for j in range(incidence.start[f + 1] - begin - 1, -1, -1):
        if j == place:
            ours = stride
        else:
            first += labels[incidence.nodes[begin + j]] * stride
        stride *= n_labels
    return first, ours


@njit(nogil=True, cache=True)
def label_scores(v, incidence, node, tables, labels, scores, broken):
    """Fill scores (finite parts) and broken (number of forbidden entries) of the labels of v, given the others."""
    n_labels = node.shape[1]
    for b in range(n_labels):
        scores[b] = 0.0
        broken[b] = 0
        if node[v, b] == -np.inf:
            broken[b] = 1
        else:
            scores[b] = node[v, b]
    for k in range(incidence.node_start[v], incidence.node_start[v + 1]):
        first, stride = locate(incidence, incidence.factor_of[k], incidence.find_place[k], labels, n_labels)
        for b in range(n_labels):
            entry = tables[first + b * stride]
            if entry == -np.inf:
                broken[b] += 1
            else:
                scores[b] += entry


@njit(nogil=True, cache=True)
def iterated_modes(first, last, incidence, node, tables, labels):
    """Give each node its best label given the others until nothing changes; fewer broken rules come first."""
    for g in range(first, last):
        for _ in range(_MOST_CLIMBING_SWEEPS):
            if not mode_range(incidence.offsets[g], incidence.offsets[g + 1], incidence, node, tables, labels):
                break


@njit(nogil=True, cache=True)
def mode_range(first, last, incidence, node, tables, labels):
    """Give each node its best label given the others; return whether a label changed."""
    n_labels = node.shape[1]
    scores, broken = np.empty(n_labels), np.empty(n_labels)
    moved = False
    for v in range(first, last):
        label_scores(v, incidence, node, tables, labels, scores, broken)
        best = labels[v]
        for b in range(n_labels):
            # A gain that is only rounding could go round in circles.
            gain = scores[b] - scores[best]
            better = gain > 1e-12 * (1.0 + abs(scores[best]))
            if broken[b] < broken[best] or (broken[b] == broken[best] and better):
                best = b
        if best != labels[v]:
            labels[v] = best
            moved = True
    return moved


@njit(nogil=True, cache=True)
def labelling_scores(first, last, incidence, node, tables, labels, scores):
    """Fill scores (S,) of the labelling."""
    for g in range(first, last):
        scores[g] = score_range(incidence.offsets[g], incidence.offsets[g + 1], incidence, node, tables, labels)


@njit(nogil=True, cache=True)
def score_range(first, last, incidence, node, tables, labels):
    """Return the share of nodes in the score of a labelling."""
    n_labels = node.shape[1]
    total = 0.0
    for v in range(first, last):
        total += node[v, labels[v]]
        for k in range(incidence.node_start[v], incidence.node_start[v + 1]):
            if incidence.find_place[k] == 0:  # each factor once, at its first node
                begin, stride = locate(incidence, incidence.factor_of[k], 0, labels, n_labels)
                total += tables[begin + labels[v] * stride]
    return total


@njit(nogil=True, cache=True)
def draw(v, incidence, node, tables, labels, penalty, weight, state, scores, broken, chances):
    """Draw a new label for v given the others; scores, broken and chances (L,) are scratch arrays.

    Scores count times weight, and each forbidden entry takes off the penalty.
    """
    n_labels = node.shape[1]
    label_scores(v, incidence, node, tables, labels, scores, broken)
    top = -np.inf
    for b in range(n_labels):
        scores[b] *= weight
        if broken[b] > 0:
            scores[b] -= penalty * broken[b]
        top = max(top, scores[b])
    for b in range(n_labels):
        chances[b] = np.exp(scores[b] - top)
    labels[v] = draw_index(chances, n_labels, uniform(state))


@njit(nogil=True, cache=True)
def penalised_search(first, last, incidence, node, tables, labels, scores):
    """Search an allowed labelling of graphs of score -inf: by Gibbs sweeps that count broken rules only."""
    n_labels = node.shape[1]
    local, broken, chances = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    state = np.empty(1, np.uint64)
    for g in range(first, last):
        state[0] = g
        sweep = 0
        while scores[g] == -np.inf and sweep < _SEARCH_SWEEPS:
            sweep += 1
            penalty = _LARGEST_PENALTY * (sweep % _ROUND) / _ROUND
            for v in range(incidence.offsets[g], incidence.offsets[g + 1]):
                draw(v, incidence, node, tables, labels, penalty, 0.0, state, local, broken, chances)
            labelling_scores(g, g + 1, incidence, node, tables, labels, scores)
        if sweep > 0:
            iterated_modes(g, g + 1, incidence, node, tables, labels)
            labelling_scores(g, g + 1, incidence, node, tables, labels, scores)
