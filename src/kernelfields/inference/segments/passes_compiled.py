"""Forward and backward passes over segmentations of packed chains, compiled.

A sequence of T positions is cut into segments (b, e, y), b < e <= b + D. With S_t(y) the node scores of y before t:

    begun_t(y)  = log sum_a exp( ended_t(a) + w_t(a, y) )               0 at t = 0
    ended_t(y)  = S_t(y) + log sum_d exp( g_{t-d}(y) + h(d, y) )        g = begun - S
    rest_t(a)   = log sum_y exp( w_t(a, y) + opened_t(y) )              0 at t = T
    opened_t(y) = -S_t(y) + log sum_d exp( q_{t+d}(y) + h(d, y) )       q = rest + S
    log Z       = log sum_y exp( opened_0(y) )

    p(segment b, e, y) = exp( g_b(y) + h(e - b, y) + q_e(y) - log Z )
    p(step a -> y at t) = exp( ended_t(a) + w_t(a, y) + opened_t(y) - log Z )

Node marginals are running sums of the steps into a label less those out of it. The sums over d are products of a window
of exp(g - reference) with exp(h - top), without exponentials: a reference is moved when a value rises far above it, or
when a sum leaves the range of doubles. A sum that is still too small is added up in logarithms.

Arrays: sequence s owns the T + 1 rows offsets[s] + s .. of (L, N + S) arrays, a label's values side by side.
Cost O(N L^2 + N L D) time, O(N L) memory.
"""

from __future__ import annotations

import math

import numpy as np

from kernelfields.inference.sums_compiled import most_positions
from kernelfields.numerics.compiled import INLINED, REORDER, njit

# Sums below are taken again in logarithms: what underflowed in them may count.
TINY = 1e-250
# A value this far above its reference becomes the reference, in nats.
FAR = 400.0
# Segments of a smaller log-probability are left out of the counts: of 1e9 of them nothing would be seen.
NEGLIGIBLE = -60.0


@njit(nogil=True, cache=True)
def push_into_window(logs, row, base, t, low, high, linear, reference):
    """Push the value at t into the window low..high-1 of exponentials; return the reference."""
    value = logs[row, base + t]
    if value == -np.inf:
        linear[row, t] = 0.0
    elif value - reference <= FAR:
        linear[row, t] = math.exp(value - reference)
    else:
        reference = value
        for place in range(low, high):
            linear[row, place] = math.exp(logs[row, base + place] - value)
    return reference


@njit(nogil=True, cache=True)
def rescale_window(logs, row, base, low, high, linear, reference):
    """Rescale the window low..high-1 by its largest value, and return it; unchanged if all are minus infinity."""
    top = -np.inf
    for place in range(low, high):
        top = max(top, logs[row, base + place])
    if top == -np.inf:
        return reference
    for place in range(low, high):
        linear[row, place] = math.exp(logs[row, base + place] - top)
    return top


@njit(**INLINED, fastmath=REORDER)
def window_sum(linear, row, low, weights, begin, n):
    """Return the sum of n values of a window times their weights."""
    # Views first: places that might count from the end would keep the loop out of vector registers.
    values, factors = linear[row, low : low + n], weights[row, begin : begin + n]
    total = 0.0
    for i in range(n):
        total += values[i] * factors[i]
    return total


@njit(nogil=True, cache=True)
def log_sum(logs, row, low, table, begin, n):
    """Return the logarithm of the sum of exp(logs + table) over n places."""
    top = -np.inf
    for i in range(n):
        top = max(top, logs[row, low + i] + table[row, begin + i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(n):
        total += math.exp(logs[row, low + i] + table[row, begin + i] - top)
    return top + math.log(total)


@njit(nogil=True, cache=True)
def exponentials(column, place, out):
    """Fill out with exp(column[:, place] - top); return top, zero if all are minus infinity."""
    top = -np.inf
    for y in range(len(out)):
        top = max(top, column[y, place])
    if top == -np.inf:
        top = 0.0
    for y in range(len(out)):
        out[y] = math.exp(column[y, place] - top)
    return top


@njit(nogil=True, cache=True)
def transfer(edge, t, out):
    """Fill out (L, L) with exp(edge - top); return top."""
    step = edge[t] if edge.shape[0] > 1 else edge[0]
    top = step.max()
    if top == -np.inf:
        top = 0.0
    for a in range(len(out)):
        for b in range(len(out)):
            out[a, b] = math.exp(step[a, b] - top)
    return top


@njit(nogil=True, cache=True)
def step_sum(column, place, edge, t, label, forward):
    """Return log sum_a exp(column(a) + w(a, label)), or over w(label, a) if not forward, in logarithms."""
    step = edge[t] if edge.shape[0] > 1 else edge[0]
    top = -np.inf
    for a in range(len(column)):
        top = max(top, column[a, place] + (step[a, label] if forward else step[label, a]))
    if top == -np.inf:
        return top
    total = 0.0
    for a in range(len(column)):
        total += math.exp(column[a, place] + (step[a, label] if forward else step[label, a]) - top)
    return top + math.log(total)


@njit(nogil=True, cache=True)
def sum_segment_scores(first, last, offsets, node, longest, passes, shifts):
    """Fill totals S_t, and reaches: the longest segments that end, or begin, at t.

    Of every position the largest score is taken away, and their sum put into shifts (S,).
    """
    totals, reach, ahead = passes.totals, passes.reach, passes.ahead
    n_labels = node.shape[1]
    for s in range(first, last):
        begin, base = offsets[s], offsets[s] + s
        length = offsets[s + 1] - begin
        shifts[s] = 0.0
        for y in range(n_labels):
            totals[y, base] = 0.0
            reach[y, base] = 0
            ahead[y, base + length] = 0
        for t in range(length):
            top = node[begin + t].max()
            if top == -np.inf:
                top = 0.0
            shifts[s] += top
            for y in range(n_labels):
                score = node[begin + t, y]
                allowed = score > -np.inf
                totals[y, base + t + 1] = totals[y, base + t] + (score - top if allowed else 0.0)
                reach[y, base + t + 1] = min(longest, reach[y, base + t] + 1) if allowed else 0
        for t in range(length - 1, -1, -1):
            for y in range(n_labels):
                allowed = node[begin + t, y] > -np.inf
                ahead[y, base + t] = min(longest, ahead[y, base + t + 1] + 1) if allowed else 0


@njit(nogil=True, cache=True)
def add_up_scores(first, last, offsets, scores, out):
    """Fill out (L, N + S) with the sums of scores (N, L) before each position of their sequence."""
    for s in range(first, last):
        begin, base = offsets[s], offsets[s] + s
        for y in range(scores.shape[1]):
            out[y, base] = 0.0
            for t in range(offsets[s + 1] - begin):
                out[y, base + t + 1] = out[y, base + t] + scores[begin + t, y]


@njit(nogil=True, cache=True)
def backward(first, last, offsets, edge, durations, passes, log_partition):
    """Fill opened and q, and log Z less the shifts, for sequences first..last-1."""
    totals, ahead, opened, q = passes.totals, passes.ahead, passes.opened, passes.q
    logs, weights, tops = durations.logs, durations.weights, durations.tops
    n_labels, longest = logs.shape
    linear = np.zeros((n_labels, most_positions(first, last, offsets) + 1))
    reference = np.empty(n_labels)
    steps, values = np.empty((n_labels, n_labels)), np.empty(n_labels)
    step_top = transfer(edge, 0, steps)
    for s in range(first, last):
        base, length = offsets[s] + s, offsets[s + 1] - offsets[s]
        reference[:] = -np.inf
        for t in range(length, -1, -1):
            high = min(length, t + longest) + 1
            for y in range(n_labels):
                n = ahead[y, base + t]
                value = -np.inf
                if n > 0:
                    total = window_sum(linear, y, t + 1, weights, 0, n)
                    if total > TINY:
                        value = reference[y] + tops[y] + math.log(total)
                    else:
                        value = log_sum(q, y, base + t + 1, logs, 0, n)
                        reference[y] = rescale_window(q, y, base, t + 1, high, linear, reference[y])
                opened[y, base + t] = value - totals[y, base + t]
            if 0 < t < length:
                if edge.shape[0] > 1:
                    step_top = transfer(edge, offsets[s] + t, steps)
                top = exponentials(opened, base + t, values)
            for a in range(n_labels):
                after = 0.0
                if 0 < t < length:
                    total = 0.0
                    for y in range(n_labels):
                        total += steps[a, y] * values[y]
                    if total > TINY:
                        after = step_top + top + math.log(total)
                    else:
                        after = step_sum(opened, base + t, edge, offsets[s] + t, a, False)
                q[a, base + t] = totals[a, base + t] + after
                reference[a] = push_into_window(q, a, base, t, t, high, linear, reference[a])
        top = exponentials(opened, base, values)
        log_partition[s] = top + math.log(values.sum()) if values.sum() > 0.0 else -np.inf


@njit(**INLINED, fastmath=REORDER)
def add_counts(counts, row, begin, linear, low, weights, factor, n):
    """Add the expected segments that end at one position to the counts of their durations, the longest first."""
    values, factors = linear[row, low : low + n], weights[row, begin : begin + n]
    target = counts[row, begin : begin + n]
    for i in range(n):
        target[i] += values[i] * factors[i] * factor


@njit(nogil=True, cache=True)
def forward(first, last, offsets, edge, durations, sequence_weights, passes, log_partition, marginals, sums):
    """Fill ended and g, marginals (N, L), and add expected durations and steps to sums, after ``backward``.

    sums.durations (L, D) is in the order of the reversed durations; sums.steps is (1 or N, L, L).
    """
    totals, reach, opened, q = passes.totals, passes.reach, passes.opened, passes.q
    ended, g = passes.ended, passes.g
    logs, weights, tops = durations.reversed_logs, durations.reversed_weights, durations.tops
    n_labels, longest = logs.shape
    linear = np.zeros((n_labels, most_positions(first, last, offsets) + 1))
    reference, flow = np.empty(n_labels), np.empty(n_labels)
    steps, before, after = np.empty((n_labels, n_labels)), np.empty(n_labels), np.empty(n_labels)
    step_top = transfer(edge, 0, steps)
    for s in range(first, last):
        base, length, log_z = offsets[s] + s, offsets[s + 1] - offsets[s], log_partition[s]
        weight = sequence_weights[s]
        reference[:] = -np.inf
        for t in range(length + 1):
            low = max(0, t - longest)
            for y in range(n_labels):
                n = reach[y, base + t]
                value, rest = -np.inf, q[y, base + t] - log_z
                if n > 0:
                    total = window_sum(linear, y, t - n, weights, longest - n, n)
                    if total > TINY:
                        value = reference[y] + tops[y] + math.log(total)
                        if value + rest > NEGLIGIBLE:
                            factor = weight * math.exp(reference[y] + tops[y] + rest)
                            add_counts(sums.durations, y, longest - n, linear, t - n, weights, factor, n)
                    else:
                        value = log_sum(g, y, base + t - n, logs, longest - n, n)
                        reference[y] = rescale_window(g, y, base, low, t, linear, reference[y])
                        if value + rest > NEGLIGIBLE:
                            for i in range(n):
                                part = g[y, base + t - n + i] + logs[y, longest - n + i] + rest
                                sums.durations[y, longest - n + i] += weight * math.exp(part)
                ended[y, base + t] = value + totals[y, base + t]
            inner = 0 < t < length
            if inner:
                if edge.shape[0] > 1:
                    step_top = transfer(edge, offsets[s] + t, steps)
                top = exponentials(ended, base + t, before)
                # At most e^FAR: then what underflows is nothing.
                gain = step_top + top + exponentials(opened, base + t, after) - log_z
            for y in range(n_labels):
                begun = 0.0
                if inner:
                    total = 0.0
                    for a in range(n_labels):
                        total += before[a] * steps[a, y]
                    if total > TINY:
                        begun = step_top + top + math.log(total)
                    else:
                        begun = step_sum(ended, base + t, edge, offsets[s] + t, y, True)
                g[y, base + t] = begun - totals[y, base + t]
                reference[y] = push_into_window(g, y, base, t, low, t + 1, linear, reference[y])
            if t == 0:
                for y in range(n_labels):
                    flow[y] = math.exp(opened[y, base] - log_z)
            elif inner:
                place = offsets[s] + t if sums.steps.shape[0] > 1 else 0
                table = edge[offsets[s] + t] if edge.shape[0] > 1 else edge[0]
                scale = math.exp(min(gain, FAR))
                for a in range(n_labels):
                    for y in range(n_labels):
                        if gain <= FAR:
                            chance = before[a] * steps[a, y] * after[y] * scale
                        else:
                            chance = math.exp(ended[a, base + t] + table[a, y] + opened[y, base + t] - log_z)
                        sums.steps[place, a, y] += weight * chance
                        flow[y] += chance
                        flow[a] -= chance
            if t < length:
                total = 0.0
                for y in range(n_labels):
                    flow[y] = max(flow[y], 0.0)
                    total += flow[y]
                for y in range(n_labels):
                    # What rounding adds up along a sequence is taken away.
                    flow[y] /= total
                    marginals[offsets[s] + t, y] = flow[y]
