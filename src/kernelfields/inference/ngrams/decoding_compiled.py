"""Best labellings and draws over the arcs of an automaton, one sequence at a time; compiled.

    F_{t-1}(s) = max_y (x_t(s, y) + F_t(target(s, y)))            the best that can follow state s at position t - 1

runs backward over arcs as sums do in passes_compiled.py; then one step forward after the other takes the best label. A
draw takes label y with probability exp(x_t(s, y) + F_t(target) - F_{t-1}(s)), F the log of sums in the place of maxima.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _best(arcs, items, begin, end, scores, node, future, best):
    """Return the largest of ``best`` and the scores of some arcs with what follows."""
    for i in range(begin, end):
        target = arcs.target[items[i]]
        best = max(best, scores[items[i]] + node[arcs.last[target]] + future[target])
    return best


@njit(nogil=True, cache=True)
def best_futures(arcs, scores, node, futures):
    """Fill F (T, S) of one sequence, node (T, L)."""
    n_states = len(arcs.fail)
    shared = np.empty(n_states)
    futures[-1] = 0.0
    for t in range(len(node) - 1, 0, -1):
        after, now, row = futures[t], futures[t - 1], node[t]
        for q in range(n_states):
            best = shared[arcs.fail[q]] if arcs.fail[q] >= 0 else -math.inf
            shared[q] = _best(
                arcs, arcs.ahead.items, arcs.ahead.begin[q], arcs.ahead.begin[q + 1], scores, row, after, best
            )
            now[q] = _best(
                arcs, arcs.own.items, arcs.own.begin[q], arcs.own.begin[q + 1], scores, row, after, shared[q]
            )


@njit(nogil=True, cache=True)
def _trace(arcs, arc_of, scores, node, futures, labels):
    """Fill the best labelling (T,), given F; return its score."""
    n_labels = node.shape[1]
    state, score = -1, 0.0
    for t in range(len(node)):
        best, chosen, step = -math.inf, -1, -1
        for y in range(n_labels):
            arc = arc_of[state, y] if t else -1
            target = arcs.target[arc] if t else y
            own = node[t, y] + (scores[arc] if t else 0.0)
            if own + futures[t, target] > best:
                best, chosen, step = own + futures[t, target], y, target
        if chosen < 0:
            return -math.inf
        score += node[t, chosen] + (scores[arc_of[state, chosen]] if t else 0.0)
        labels[t], state = chosen, step
    return score


@njit(nogil=True, cache=True)
def best_labellings(first, last, offsets, arcs, arc_of, scores, node, labels, totals):
    """Fill the best labellings (N,) of sequences first..last-1 and their scores (S,)."""
    longest = 0
    for i in range(first, last):
        longest = max(longest, offsets[i + 1] - offsets[i])
    futures = np.empty((longest, len(arcs.fail)))
    for i in range(first, last):
        rows = node[offsets[i] : offsets[i + 1]]
        best_futures(arcs, scores, rows, futures[: len(rows)])
        totals[i] = _trace(arcs, arc_of, scores, rows, futures, labels[offsets[i] : offsets[i + 1]])


@njit(nogil=True, cache=True)
def draw_labellings(arcs, arc_of, scores, node, futures, uniforms, labels):
    """Fill labellings (n, T) of one sequence, given F of sums and uniform numbers (n, T)."""
    n_labels = node.shape[1]
    weights = np.empty(n_labels)
    for k in range(len(labels)):
        state = -1
        for t in range(len(node)):
            top, total = -math.inf, 0.0
            for y in range(n_labels):
                arc = arc_of[state, y] if t else -1
                target = arcs.target[arc] if t else y
                weights[y] = node[t, y] + (scores[arc] if t else 0.0) + futures[t, target]
                top = max(top, weights[y])
            for y in range(n_labels):
                weights[y] = math.exp(weights[y] - top)
                total += weights[y]
            left, chosen = uniforms[k, t] * total, -1
            for y in range(n_labels):
                if weights[y] > 0.0:
                    chosen = y
                    left -= weights[y]
                    if left < 0.0:
                        break
            labels[k, t] = chosen
            state = arcs.target[arc_of[state, chosen]] if t else chosen
