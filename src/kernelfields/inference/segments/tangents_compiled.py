"""Directional derivatives of the passes over segmentations, compiled: Hessian products and expected scores.

The derivative of a log-sum is the mean of the derivatives under its weights. For a direction (du, dw, dh) in node, edge
and duration scores, with dS_t the sums of du before t:

    rest'_t(a)   = sum_y p(y | a ends at t) (dw_t(a, y) + opened'_t(y))
    opened'_t(y) = sum_d p(d | y begins at t) (q'_{t+d}(y) + dh(d, y)) - dS_t(y)        q' = rest' + dS
    log Z'       = sum_y p(y begins at 0) opened'_0(y)                                  the expected score of a sequence
    p'(event)    = p(event) (score' of the event - log Z')                              of segments and of steps

and so in the forward pass. Arrays and windows as in passes_compiled.py; cost: twice that of the passes.
"""

from __future__ import annotations

import math

import numpy as np

from kernelfields.inference.segments.passes_compiled import NEGLIGIBLE, TINY, push_into_window, rescale_window
from kernelfields.inference.sums_compiled import most_positions
from kernelfields.numerics.compiled import INLINED, REORDER, njit


@njit(**INLINED, fastmath=REORDER)
def window_mean(linear, moved, row, low, base, weights, moved_weights, begin, n):
    """Return the sum of a window times its weights, and the sum of the derivatives of its terms."""
    values, moves = linear[row, low : low + n], moved[row, base + low : base + low + n]
    factors, moved_factors = weights[row, begin : begin + n], moved_weights[row, begin : begin + n]
    total, change = 0.0, 0.0
    for i in range(n):
        total += values[i] * factors[i]
        change += values[i] * (factors[i] * moves[i] + moved_factors[i])
    return total, change


@njit(nogil=True, cache=True)
def log_mean(logs, moved, row, low, table, moved_table, begin, n):
    """Return the mean derivative of n terms exp(logs + table), summed in logarithms; zero without terms."""
    top = -np.inf
    for i in range(n):
        top = max(top, logs[row, low + i] + table[row, begin + i])
    if top == -np.inf:
        return 0.0
    total, change = 0.0, 0.0
    for i in range(n):
        part = math.exp(logs[row, low + i] + table[row, begin + i] - top)
        total += part
        change += part * (moved[row, low + i] + moved_table[row, begin + i])
    return change / total


@njit(nogil=True, cache=True)
def step_mean(column, moved, place, step, moved_step, label, forward):
    """Return the mean derivative of the terms exp(column(a) + w(a, label)), or of w(label, a); zero without any."""
    top = -np.inf
    for a in range(len(column)):
        top = max(top, column[a, place] + (step[a, label] if forward else step[label, a]))
    if top == -np.inf:
        return 0.0
    total, change = 0.0, 0.0
    for a in range(len(column)):
        part = math.exp(column[a, place] + (step[a, label] if forward else step[label, a]) - top)
        total += part
        change += part * (moved[a, place] + (moved_step[a, label] if forward else moved_step[label, a]))
    return change / total


@njit(nogil=True, cache=True)
def backward_tangent(first, last, offsets, edge, durations, passes, moved, expected):
    """Fill moved.opened and moved.q, and log Z' of each sequence into expected (S,)."""
    ahead, opened, q = passes.ahead, passes.opened, passes.q
    n_labels, longest = durations.logs.shape
    linear = np.zeros((n_labels, most_positions(first, last, offsets) + 1))
    reference = np.empty(n_labels)
    for s in range(first, last):
        base, length = offsets[s] + s, offsets[s + 1] - offsets[s]
        reference[:] = -np.inf
        for t in range(length, -1, -1):
            high = min(length, t + longest) + 1
            for y in range(n_labels):
                n = ahead[y, base + t]
                change = 0.0
                if n > 0:
                    total, change = window_mean(linear, moved.q, y, t + 1, base, durations.weights, moved.weights, 0, n)
                    if total > TINY:
                        change /= total
                    else:
                        change = log_mean(q, moved.q, y, base + t + 1, durations.logs, moved.durations, 0, n)
                        reference[y] = rescale_window(q, y, base, t + 1, high, linear, reference[y])
                moved.opened[y, base + t] = change - moved.totals[y, base + t]
            place = offsets[s] + t if edge.shape[0] > 1 else 0
            for a in range(n_labels):
                change = 0.0
                if 0 < t < length:
                    change = step_mean(opened, moved.opened, base + t, edge[place], moved.edge[place], a, False)
                moved.q[a, base + t] = moved.totals[a, base + t] + change
                reference[a] = push_into_window(q, a, base, t, t, high, linear, reference[a])
        top, total, change = -np.inf, 0.0, 0.0
        for y in range(n_labels):
            top = max(top, opened[y, base])
        for y in range(n_labels):
            total += math.exp(opened[y, base] - top)
            change += math.exp(opened[y, base] - top) * moved.opened[y, base]
        expected[s] = change / total


@njit(**INLINED, fastmath=REORDER)
def add_moved_counts(counts, moved_counts, row, begin, linear, low, base, moved, weights, factor, rest, n):
    """Add expected segments that end at one position to counts, with derivatives less those of durations."""
    values, moves = linear[row, low : low + n], moved[row, base + low : base + low + n]
    factors = weights[row, begin : begin + n]
    target, moved_target = counts[row, begin : begin + n], moved_counts[row, begin : begin + n]
    for i in range(n):
        chance = values[i] * factors[i] * factor
        target[i] += chance
        moved_target[i] += chance * (moves[i] + rest)


@njit(nogil=True, cache=True)
def forward_tangent(
    first, last, offsets, edge, durations, sequence_weights, passes, log_partition, moved, expected, marginals, sums
):
    """Fill the derivatives of the marginals (N, L), and add the derivatives of durations and steps to sums.

    sums.durations (L, D), of the reversed durations, get the counts themselves, sums.moved their derivatives, from
    which counts times dh are missing; sums.steps (1 or N, L, L) get derivatives.
    """
    reach, opened, q, ended, g = passes.reach, passes.opened, passes.q, passes.ended, passes.g
    logs, weights, tops = durations.reversed_logs, durations.reversed_weights, durations.tops
    n_labels, longest = logs.shape
    linear = np.zeros((n_labels, most_positions(first, last, offsets) + 1))
    reference, flow = np.empty(n_labels), np.empty(n_labels)
    for s in range(first, last):
        base, length, log_z = offsets[s] + s, offsets[s + 1] - offsets[s], log_partition[s]
        weight = sequence_weights[s]
        reference[:] = -np.inf
        for t in range(length + 1):
            low = max(0, t - longest)
            for y in range(n_labels):
                n, begin = reach[y, base + t], longest - reach[y, base + t]
                change = 0.0
                rest, moved_rest = q[y, base + t] - log_z, moved.q[y, base + t] - expected[s]
                if n > 0:
                    total, change = window_mean(
                        linear, moved.g, y, t - n, base, weights, moved.reversed_weights, begin, n
                    )
                    if total > TINY:
                        change /= total
                        if reference[y] + tops[y] + math.log(total) + rest > NEGLIGIBLE:
                            factor = weight * math.exp(reference[y] + tops[y] + rest)
                            add_moved_counts(
                                sums.durations,
                                sums.moved,
                                y,
                                begin,
                                linear,
                                t - n,
                                base,
                                moved.g,
                                weights,
                                factor,
                                moved_rest,
                                n,
                            )
                    else:
                        change = log_mean(g, moved.g, y, base + t - n, logs, moved.reversed_durations, begin, n)
                        reference[y] = rescale_window(g, y, base, low, t, linear, reference[y])
                        for i in range(n):
                            chance = weight * math.exp(g[y, base + t - n + i] + logs[y, begin + i] + rest)
                            sums.durations[y, begin + i] += chance
                            sums.moved[y, begin + i] += chance * (moved.g[y, base + t - n + i] + moved_rest)
                moved.ended[y, base + t] = change + moved.totals[y, base + t]
            inner = 0 < t < length
            place = offsets[s] + t if edge.shape[0] > 1 else 0
            for y in range(n_labels):
                change = 0.0
                if inner:
                    change = step_mean(ended, moved.ended, base + t, edge[place], moved.edge[place], y, True)
                moved.g[y, base + t] = change - moved.totals[y, base + t]
                reference[y] = push_into_window(g, y, base, t, low, t + 1, linear, reference[y])
            if t == 0:
                for y in range(n_labels):
                    chance = math.exp(opened[y, base] - log_z)
                    flow[y] = chance * (moved.opened[y, base] - expected[s])
            elif inner:
                for a in range(n_labels):
                    for y in range(n_labels):
                        chance = math.exp(ended[a, base + t] + edge[place, a, y] + opened[y, base + t] - log_z)
                        score = moved.ended[a, base + t] + moved.edge[place, a, y] + moved.opened[y, base + t]
                        change = chance * (score - expected[s])
                        sums.steps[place, a, y] += weight * change
                        flow[y] += change
                        flow[a] -= change
            if t < length:
                for y in range(n_labels):
                    marginals[offsets[s] + t, y] = flow[y]
