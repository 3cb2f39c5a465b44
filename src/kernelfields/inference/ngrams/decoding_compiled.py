"""Best labellings and draws over the arcs of an automaton, one sequence at a time; compiled.

    F_{t-1}(s) = max_y (x_t(s, y) + F_t(target(s, y)))            the best that can follow state s at position t - 1

runs backward over arcs as sums do in passes_compiled.py; then one step forward after the other takes the best label. A
draw takes label y with probability exp(x_t(s, y) + F_t(target) - F_{t-1}(s)), F the log of sums in the place of maxima.

    scores (A,)             of n-grams that arcs end
    edge   (1, L^2), or     of neighbours, everywhere or
           (T - 1, L^2)     into every position but the first
"""

from __future__ import annotations

import math

import numpy as np

from kernelfields.inference.sums_compiled import draw_index, most_positions
from kernelfields.numerics.compiled import njit


@njit(nogil=True, cache=True)
def _edge_row(t, edge):
    """Return the row of edge (.., L^2) with the scores of the step into position t; for t = 0 the unused first row."""
    return t - 1 if t and len(edge) > 1 else 0


@njit(nogil=True, cache=True)
def _best(arcs, items, begin, end, scores, edge, node, future, best):
    """Return the largest of ``best`` and the scores of some arcs with their best continuation."""
    for i in range(begin, end):
        arc = items[i]
        target = arcs.target[arc]
        best = max(best, scores[arc] + edge[arcs.edges[arc]] + node[arcs.last[target]] + future[target])
    return best


@njit(nogil=True, cache=True)
def best_futures(arcs, scores, edge, node, futures):
    """Fill F (T, S), the scores of best continuations, of one sequence with node (T, L)."""
    n_states = len(arcs.fail)
    shared = np.empty(n_states)
    futures[-1] = 0.0
    for t in range(len(node) - 1, 0, -1):
        after, now, row, step = futures[t], futures[t - 1], node[t], edge[_edge_row(t, edge)]
        for q in range(n_states):
            best = shared[arcs.fail[q]] if arcs.fail[q] >= 0 else -math.inf
            shared[q] = _best(
                arcs, arcs.ahead.items, arcs.ahead.begin[q], arcs.ahead.begin[q + 1], scores, step, row, after, best
            )
            now[q] = _best(
                arcs, arcs.own.items, arcs.own.begin[q], arcs.own.begin[q + 1], scores, step, row, after, shared[q]
            )


@njit(nogil=True, cache=True)
def _trace(arcs, arc_table, scores, edge, node, futures, labels):
    """Fill the best labelling (T,), given F; return its score."""
    n_labels = node.shape[1]
    state, score = -1, 0.0
    for t in range(len(node)):
        best, chosen, reached, gained, row = -math.inf, -1, -1, 0.0, _edge_row(t, edge)
        for y in range(n_labels):
            arc = arc_table[state, y] if t else -1
            target = arcs.target[arc] if t else y
            own = node[t, y] + (scores[arc] + edge[row, arcs.edges[arc]] if t else 0.0)
            if own + futures[t, target] > best:
                best, chosen, reached, gained = own + futures[t, target], y, target, own
        if chosen < 0:
            return -math.inf
        score += gained
        labels[t], state = chosen, reached
    return score


@njit(nogil=True, cache=True)
def best_labellings(first, last, offsets, arcs, arc_table, scores, edge, node, labels, totals):
    """Fill the best labellings (N,) of sequences first..last-1 and their scores (S,)."""
    futures = np.empty((most_positions(first, last, offsets), len(arcs.fail)))
    for i in range(first, last):
        rows = node[offsets[i] : offsets[i + 1]]
        steps = edge[offsets[i] - i : offsets[i + 1] - i - 1] if len(edge) > 1 and len(rows) > 1 else edge
        best_futures(arcs, scores, steps, rows, futures[: len(rows)])
        totals[i] = _trace(arcs, arc_table, scores, steps, rows, futures, labels[offsets[i] : offsets[i + 1]])


@njit(nogil=True, cache=True)
def draw_labellings(arcs, arc_table, scores, edge, node, futures, uniforms, labels):
    """Fill labellings (n, T) of one sequence, given F of sums and uniform numbers (n, T)."""
    n_labels = node.shape[1]
    weights = np.empty(n_labels)
    for k in range(len(labels)):
        state = -1
        for t in range(len(node)):
            top, row = -math.inf, _edge_row(t, edge)
            for y in range(n_labels):
                arc = arc_table[state, y] if t else -1
                target = arcs.target[arc] if t else y
                own = node[t, y] + (scores[arc] + edge[row, arcs.edges[arc]] if t else 0.0)
                weights[y] = own + futures[t, target]
                top = max(top, weights[y])
            for y in range(n_labels):
                weights[y] = math.exp(weights[y] - top)
            chosen = draw_index(weights, n_labels, uniforms[k, t])
            labels[k, t] = chosen
            state = arcs.target[arc_table[state, chosen]] if t else chosen
