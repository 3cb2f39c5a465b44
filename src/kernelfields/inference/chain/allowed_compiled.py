"""Passes over chains of which each position has a list of allowed labels, compiled.

The equations are those of scaled_compiled.py and decoding.py, with sums over the labels A_t of a list instead of all:

    c_t(b)      = sum over a in A_{t-1} of alpha_{t-1}(a) T_t(a, b)          b in A_t
    future_t(a) = sum over b in A_{t+1} of T_{t+1}(a, b) gamma_{t+1}(b)
    edge(a, b) += weight alpha_t(a) T_{t+1}(a, b) gamma_{t+1}(b)             one table, or one for each position

Arrays: begin (N + 1,) and labels (A,) of fields/allowed.py; scores, alpha, marginals and what else belongs to an
allowed label of a position, (A,); transfer (E, L, L) with E = 1 or N. Cost: sum_t |A_{t-1}| |A_t|. A sequence is
flagged as troubled where a probability that is not structurally zero leaves the range of doubles; ``in_logarithms``
computes it again.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from kernelfields.inference.packing import LEAST_PREDICTED, LEAST_SCALE, TINY
from kernelfields.inference.sums_compiled import REORDER, shift


@njit(nogil=True, cache=True, fastmath=REORDER)
def forward_backward(
    first, last, offsets, allowed, scores, tables, shifts, passes, has_forbidden, log_partition, troubled, weights
):
    """Fill passes (alpha, inverse of c, marginals) for sequences first..last-1 and add to the tables of steps.

    ``allowed`` are begin and labels; ``tables`` (E, L, L, 1 or 2) hold the transfer and, beside it, where steps are
    added up, if they are: what is looked up together lies in one line of the cache. weights (S,).
    """
    begin, labels = allowed
    alpha, inverse, marginals = passes
    stride = 0 if tables.shape[0] == 1 else 1
    width, counted = tables.shape[1], tables.shape[3] == 2
    predicted, gamma = np.empty(width), np.empty(width)
    reachable, reached_before = np.ones(width), np.ones(width)
    for s in range(first, last):
        total = 0.0
        fine = True
        for t in range(offsets[s], offsets[s + 1]):
            lo, hi = begin[t], begin[t + 1]
            size = hi - lo
            top = -math.inf
            for i in range(lo, hi):
                top = max(top, scores[i])
            if top == -math.inf:
                fine = False
                break
            if t == offsets[s]:
                for j in range(size):
                    predicted[j] = 1.0
                    reachable[j] = 1.0
            else:
                step = tables[t * stride]
                before = begin[t - 1]
                for j in range(size):
                    predicted[j] = 0.0
                for i in range(before, lo):
                    row, weight = step[labels[i]], alpha[i]
                    for j in range(size):
                        predicted[j] += weight * row[labels[lo + j], 0]
                total += shifts[t * stride]
                if has_forbidden:
                    for i in range(lo - before):
                        reached_before[i] = reachable[i]
                    for j in range(size):
                        reachable[j] = 0.0
                        for i in range(lo - before):
                            if reached_before[i] > 0.0 and step[labels[before + i], labels[lo + j], 0] > 0.0:
                                reachable[j] = 1.0
                else:
                    for j in range(size):
                        reachable[j] = 1.0
            scale = 0.0
            for j in range(size):
                alpha[lo + j] = predicted[j] * math.exp(scores[lo + j] - top)
                scale += alpha[lo + j]
            fine = scale > TINY
            if not scale > LEAST_SCALE:
                for j in range(size):
                    if alpha[lo + j] < LEAST_PREDICTED and reachable[j] > 0.0 and scores[lo + j] > -math.inf:
                        fine = False
            if not fine:
                break
            inverse_scale = 1.0 / scale
            for j in range(size):
                alpha[lo + j] *= inverse_scale
                inverse[lo + j] = 1.0 / predicted[j] if alpha[lo + j] > 0.0 else 0.0
                if alpha[lo + j] > 0.0 and predicted[j] < LEAST_PREDICTED:
                    fine = False
                if alpha[lo + j] < TINY:
                    if scores[lo + j] == -math.inf:
                        reachable[j] = 0.0
                    elif reachable[j] > 0.0:
                        fine = False
            if not fine:
                break
            total += math.log(scale) + top
        if fine:
            end = offsets[s + 1] - 1
            for i in range(begin[end], begin[end + 1]):
                marginals[i] = alpha[i]
            for t in range(end, offsets[s], -1):
                lo, hi, before = begin[t], begin[t + 1], begin[t - 1]
                size = hi - lo
                step = tables[t * stride]
                for j in range(size):
                    gamma[j] = marginals[lo + j] * inverse[lo + j]
                for i in range(before, lo):
                    row = step[labels[i]]
                    weight = weights[s] * alpha[i]
                    future = 0.0
                    if counted:
                        for j in range(size):
                            product = row[labels[lo + j], 0] * gamma[j]
                            future += product
                            row[labels[lo + j], 1] += weight * product
                    else:
                        for j in range(size):
                            future += row[labels[lo + j], 0] * gamma[j]
                    marginals[i] = alpha[i] * future
        log_partition[s] = total
        troubled[s] = not fine


@njit(nogil=True, cache=True)
def _log_sum(values, size):
    top = -np.inf
    for i in range(size):
        top = max(top, values[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(size):
        total += math.exp(values[i] - top)
    return top + math.log(total)


@njit(nogil=True, cache=True)
def in_logarithms(s, offsets, allowed, scores, log_edge, marginals, edge, weight):
    """Fill marginals of one sequence and add to ``edge``; return log Z, minus infinity if it has no path."""
    begin, labels = allowed
    stride = 0 if log_edge.shape[0] == 1 else 1
    first, end = offsets[s], offsets[s + 1]
    base, entries = begin[first], begin[end] - begin[first]
    forward = np.empty(entries)
    joint = np.empty(log_edge.shape[1])
    sums = np.zeros(2)
    for i in range(begin[first], begin[first + 1]):
        forward[i - base] = scores[i]
    for t in range(first, end):
        lo, hi = begin[t], begin[t + 1]
        if t > first:
            before = begin[t - 1]
            step = log_edge[t * stride]
            for j in range(lo, hi):
                for i in range(before, lo):
                    joint[i - before] = forward[i - base] + step[labels[i], labels[j]]
                forward[j - base] = scores[j] + _log_sum(joint, lo - before)
        if not shift(forward[lo - base : hi - base], sums):
            return -np.inf
    lo = begin[end - 1]
    last = _log_sum(forward[lo - base :], begin[end] - lo)
    for i in range(lo, begin[end]):
        marginals[i] = math.exp(forward[i - base] - last)
    for t in range(end - 1, first, -1):
        before, lo, hi = begin[t - 1], begin[t], begin[t + 1]
        step, table = log_edge[t * stride], edge[t * stride]
        # log of the normaliser of each pair of neighbours, from the side of the one that is known.
        for i in range(before, lo):
            marginals[i] = 0.0
        for j in range(lo, hi):
            for i in range(before, lo):
                joint[i - before] = forward[i - base] + step[labels[i], labels[j]]
            norm = _log_sum(joint, lo - before)
            if norm == -np.inf:
                continue
            for i in range(before, lo):
                pair = math.exp(joint[i - before] - norm) * marginals[j]
                marginals[i] += pair
                table[labels[i], labels[j]] += weight * pair
    return sums[0] + (sums[1] + last)


@njit(nogil=True, cache=True)
def viterbi(first, last, offsets, allowed, scores, edge, pointers, best_labels, best_scores):
    """Fill the best labels (N,) and scores (S,) of sequences first..last-1; ties go to the lowest label."""
    begin, labels = allowed
    stride = 0 if edge.shape[0] == 1 else 1
    width = edge.shape[1]
    best, following = np.empty(width), np.empty(width)
    for s in range(first, last):
        sums = np.zeros(2)
        size, possible = 0, True
        for t in range(offsets[s], offsets[s + 1]):
            lo, hi = begin[t], begin[t + 1]
            if t == offsets[s]:
                for i in range(lo, hi):
                    following[i - lo] = scores[i]
            else:
                before, step = begin[t - 1], edge[t * stride]
                for j in range(lo, hi):
                    top, from_where = -np.inf, 0
                    for i in range(before, lo):
                        value = best[i - before] + step[labels[i], labels[j]]
                        if value > top:
                            top, from_where = value, i - before
                    following[j - lo] = top + scores[j]
                    pointers[j] = from_where
            size = hi - lo
            if not shift(following[:size], sums):
                possible = False
                break
            for i in range(size):
                best[i] = following[i]
        best_scores[s] = sums[0] + sums[1] if possible else -np.inf
        if possible:
            place = 0
            for i in range(size):
                if best[i] > best[place]:
                    place = i
            for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
                best_labels[t] = labels[begin[t] + place]
                place = pointers[begin[t] + place]


@njit(nogil=True, cache=True)
def max_marginals(first, last, offsets, allowed, scores, edge, out):
    """Fill out (A,) with the score of the best labelling that has a label, less that of the best of all."""
    begin, labels = allowed
    stride = 0 if edge.shape[0] == 1 else 1
    for s in range(first, last):
        start, end = offsets[s], offsets[s + 1]
        for i in range(begin[start], begin[start + 1]):
            out[i] = scores[i]
        for t in range(start + 1, end):
            step = edge[t * stride]
            for j in range(begin[t], begin[t + 1]):
                top = -np.inf
                for i in range(begin[t - 1], begin[t]):
                    top = max(top, out[i] + step[labels[i], labels[j]])
                out[j] = top + scores[j]
        peak = -np.inf
        for i in range(begin[end - 1], begin[end]):
            peak = max(peak, out[i])
        for i in range(begin[end - 1], begin[end]):
            out[i] -= peak
        # ahead(a) is what the best continuation adds: the best whole labelling less the best prefix that ends in a.
        ahead = np.zeros(edge.shape[1])
        behind = np.zeros(edge.shape[1])
        for t in range(end - 1, start, -1):
            step = edge[t * stride]
            for i in range(begin[t - 1], begin[t]):
                top = -np.inf
                for j in range(begin[t], begin[t + 1]):
                    top = max(top, step[labels[i], labels[j]] + scores[j] + ahead[j - begin[t]])
                behind[i - begin[t - 1]] = top
            for i in range(begin[t - 1], begin[t]):
                ahead[i - begin[t - 1]] = behind[i - begin[t - 1]]
                out[i] += ahead[i - begin[t - 1]] - peak


@njit(nogil=True, cache=True)
def lost_rows(offsets, allowed, possible, out):
    """Fill out (S,) with the row up to which no path of possible steps (L, L) leads, -1 where one does."""
    begin, labels = allowed
    reached, following = np.zeros(possible.shape[0], np.bool_), np.zeros(possible.shape[0], np.bool_)
    for s in range(len(offsets) - 1):
        out[s] = -1
        for t in range(offsets[s], offsets[s + 1]):
            lo, hi = begin[t], begin[t + 1]
            some = False
            for j in range(lo, hi):
                following[j - lo] = t == offsets[s]
                if t > offsets[s]:
                    for i in range(begin[t - 1], lo):
                        if reached[i - begin[t - 1]] and possible[labels[i], labels[j]]:
                            following[j - lo] = True
                            break
                some = some or following[j - lo]
            for j in range(hi - lo):
                reached[j] = following[j]
            if not some:
                out[s] = t
                break
