"""The k most probable segmentations of packed chains, compiled.

For each place and label the k best scores with which a segment can have ended there, falling, and where they come
from: a duration, and the rank of what came before it; so for beginnings with the label before. Lists are merged one
candidate after the other, and a list is left at its first candidate that is not among the k best.

Cost O(N L (L + D)) and as much again for each candidate that is kept; memory O(N L k).
"""

from __future__ import annotations

import numpy as np
from numba import njit

NOWHERE = -1


@njit(nogil=True, cache=True)
def _keep(values, sources, ranks, value, source, rank):
    """Put a candidate into a falling list of the k best; equals stay behind those that came first."""
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
    """Fill scores (S, k), falling, less the shifts, -inf where there are less than k, and labels and begins (k, N)."""
    totals, reach, means = passes.totals, passes.reach, passes.means
    n_labels = len(totals)
    room, by_means = 1, means.shape[1] > 0
    for s in range(first, last):
        room = max(room, offsets[s + 1] - offsets[s] + 1)
    shape = (n_labels, room, k)
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
                    if by_means:
                        score += (means[y, base + t] - means[y, base + t - d]) / d
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
