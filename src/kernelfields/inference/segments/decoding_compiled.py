"""Decoding of segmentations of packed chains, compiled: the most probable one, the k most probable ones, and draws.

    best_t(y)  = S_t(y) + max_d ( g_{t-d}(y) + h(d, y) )        g = max_a ( best_t(a) + w_t(a, y) ) - S

The best segmentation is traced back from its end: the beginning of the best segment that ends at t is looked for again,
on the best path alone. The k best ones keep, for each position and label, the k best scores of a segment that ends
there, falling, and their origins: a duration, and the rank of the segmentation before it; for beginnings of segments
also the label before. Lists are merged one candidate after the other, and a list is left at its first candidate that is
not among the k best. Draws go forward: a label from exp(opened_0), a duration from exp(q_{t+d} + h), the next label
from exp(w + opened), and so on.

A segmentation is written as labels (N,) and a mask of the positions where segments begin (N,). Cost: O(N L^2 + N L D)
for the best one; O(N L (L + D)) for the k best, as much again for each candidate that is kept, and memory O(N L k);
O(L + D) for each segment drawn.
"""

from __future__ import annotations

import math

import numpy as np

from kernelfields.inference.sums_compiled import draw_index, most_positions
from kernelfields.numerics.compiled import INLINED, REORDER, njit

NOWHERE = -1


@njit(nogil=True, cache=True)
def _keep(values, sources, ranks, value, source, rank):
    """Insert a candidate into a falling list of the k best; equal candidates follow earlier ones."""
    place = len(values) - 1
    while place > 0 and values[place - 1] < value:
        values[place], sources[place], ranks[place] = values[place - 1], sources[place - 1], ranks[place - 1]
        place -= 1
    values[place], sources[place], ranks[place] = value, source, rank


@njit(nogil=True, cache=True)
def _clear(values, sources):
    values[:] = -np.inf
    sources[:] = NOWHERE


@njit(nogil=True, cache=True)
def k_best_segments(first, last, offsets, edge, durations, passes, k, scores, labels, begins):
    """Fill scores (S, k), falling, less the shifts, -inf beyond the last, and labels and begins (k, N)."""
    totals, reach = passes.totals, passes.reach
    n_labels = len(totals)
    shape = (n_labels, most_positions(first, last, offsets) + 1, k)
    g, ended = np.empty(shape), np.empty(shape)
    spans, before = np.empty(shape, np.int32), np.empty(shape, np.int32)
    span_ranks, before_ranks = np.empty(shape, np.int32), np.empty(shape, np.int32)
    final, final_labels, final_ranks = np.empty(k), np.empty(k, np.int32), np.empty(k, np.int32)
    for s in range(first, last):
        start, base, length = offsets[s], offsets[s] + s, offsets[s + 1] - offsets[s]
        for t in range(length + 1):
            for y in range(n_labels):
                best, sources, ranks = ended[y, t], spans[y, t], span_ranks[y, t]
                _clear(best, sources)
                for d in range(1, reach[y, base + t] + 1):
                    score = durations.logs[y, d - 1] + totals[y, base + t]
                    for rank in range(k):
                        value = g[y, t - d, rank] + score
                        if not value > best[k - 1]:
                            break
                        _keep(best, sources, ranks, value, d, rank)
            step = edge[min(start + t, len(edge) - 1)]
            for y in range(n_labels):
                best, sources, ranks = g[y, t], before[y, t], before_ranks[y, t]
                _clear(best, sources)
                if t == 0:
                    best[0] = 0.0
                for a in range(n_labels if 0 < t < length else 0):
                    for rank in range(k):
                        value = ended[a, t, rank] + step[a, y]
                        if not value > best[k - 1]:
                            break
                        _keep(best, sources, ranks, value, a, rank)
                best -= totals[y, base + t]
        _clear(final, final_labels)
        for y in range(n_labels):
            for rank in range(k):
                if not ended[y, length, rank] > final[k - 1]:
                    break
                _keep(final, final_labels, final_ranks, ended[y, length, rank], y, rank)
        for place in range(k):
            scores[s, place] = final[place]
            t, label, rank = length, final_labels[place], final_ranks[place]
            while t > 0 and final[place] > -np.inf:
                d, rank = spans[label, t, rank], span_ranks[label, t, rank]
                t -= d
                labels[place, start + t : start + t + d] = label
                begins[place, start + t : start + t + d] = False
                begins[place, start + t] = True
                label, rank = before[label, t, rank], before_ranks[label, t, rank]


@njit(**INLINED, fastmath={*REORDER, "nnan"})
def _largest(logs, row, low, table, begin, n):
    values, scores = logs[row, low : low + n], table[row, begin : begin + n]
    top = -np.inf
    for i in range(n):
        value = values[i] + scores[i]
        top = value if value > top else top
    return top


@njit(nogil=True, cache=True)
def _find_predecessor(ended, place, step, label):
    """Return the label before a segment and the score with it."""
    chosen, top = 0, -np.inf
    for a in range(len(ended)):
        if ended[a, place] + step[a, label] > top:
            chosen, top = a, ended[a, place] + step[a, label]
    return chosen, top


@njit(nogil=True, cache=True)
def best_segments(first, last, offsets, edge, durations, passes, scores, labels, begins):
    """Fill labels and begins of the best segmentation, and its score less the shifts; minus infinity for none."""
    totals, reach, ended, g = passes.totals, passes.reach, passes.ended, passes.g
    logs = durations.reversed_logs
    n_labels, longest = logs.shape
    for s in range(first, last):
        start, base, length = offsets[s], offsets[s] + s, offsets[s + 1] - offsets[s]
        for t in range(length + 1):
            for y in range(n_labels):
                n, origin = reach[y, base + t], base + t
                ended[y, origin] = totals[y, origin] + _largest(g, y, origin - n, logs, longest - n, n)
            for y in range(n_labels):
                begun = 0.0
                if t > 0:
                    step = edge[min(start + t, len(edge) - 1)]
                    begun = _find_predecessor(ended, base + t, step, y)[1]
                g[y, base + t] = begun - totals[y, base + t]
        label, t = 0, length
        for y in range(n_labels):
            if ended[y, base + t] > ended[label, base + t]:
                label = y
        scores[s] = ended[label, base + t]
        while t > 0 and scores[s] > -np.inf:
            n = reach[label, base + t]
            top, chosen = -np.inf, n
            for d in range(1, n + 1):
                value = g[label, base + t - d] + logs[label, longest - d]
                if value > top:
                    top, chosen = value, d
            for place in range(start + t - chosen, start + t):
                labels[place] = label
                begins[place] = False
            t -= chosen
            begins[start + t] = True
            if t > 0:
                label = _find_predecessor(ended, base + t, edge[min(start + t, len(edge) - 1)], label)[0]


@njit(nogil=True, cache=True)
def draw_segments(first, last, offsets, edge, durations, passes, uniforms, labels, begins):
    """Fill labels and begins, (N,), of one draw for each sequence; uniforms (N + S, 2) in [0, 1) decide."""
    ahead, opened, q = passes.ahead, passes.opened, passes.q
    logs = durations.logs
    n_labels, longest = logs.shape
    weights = np.empty(max(n_labels, longest))
    for s in range(first, last):
        start, base, length = offsets[s], offsets[s] + s, offsets[s + 1] - offsets[s]
        t, label = 0, -1
        while t < length:
            step = edge[min(start + t, len(edge) - 1)]
            top = -np.inf
            for y in range(n_labels):
                weights[y] = opened[y, base + t] + (step[label, y] if label >= 0 else 0.0)
                top = max(top, weights[y])
            for y in range(n_labels):
                weights[y] = math.exp(weights[y] - top)
            label = draw_index(weights, n_labels, uniforms[base + t, 0])
            n, top = ahead[label, base + t], -np.inf
            for d in range(n):
                weights[d] = q[label, base + t + 1 + d] + logs[label, d]
                top = max(top, weights[d])
            for d in range(n):
                weights[d] = math.exp(weights[d] - top)
            duration = 1 + draw_index(weights, n, uniforms[base + t, 1])
            for place in range(start + t, start + t + duration):
                labels[place] = label
                begins[place] = place == start + t
            t += duration
