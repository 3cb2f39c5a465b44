"""Covariances of all pairs of positions of packed chains, and what features and steps make of them; compiled.

    C_tu(a, b)   = P(y_t = a, y_u = b) - p_t(a) p_u(b),     P(y_t, y_u) = P(y_t, y_{u-1}) P(y_u | y_{u-1})
    seen         = sum_u C_tu(a, b) z_u                       covariance with features of all positions
    past         = sum over s <= t of Cov(y_t = a, (y_{s-1}, y_s) = (c, d)) = P(y_{s-1} = c | y_s = d) C_ts(a, d)
    both         = past + the same over s > t, P(y_s = d | y_{s-1} = c) C_t,s-1(a, c)

Nothing is weighted. Arrays: marginals (N, L), steps (N, L, L), features z (N, r). A sequence of length T costs
O(T^2 L^3) time and T^2 L^2 memory: less than directions one by one (moments_compiled.py) while T < 2 L.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelfields.inference.sums_compiled import copy_row, most_positions
from kernelfields.numerics.compiled import INLINED, REORDER, njit


class Room(NamedTuple):
    """Arrays of one sequence, of at most T positions."""

    onward: np.ndarray  # (T, L, L), P(y_s = d | y_{s-1} = c) as (c, d), zero at the start
    back: np.ndarray  # (T, L, L), P(y_{s-1} = c | y_s = d) as (c, d), zero at the start
    joint: np.ndarray  # (2, L, L), to work in
    covariances: np.ndarray  # (T, L, T, L), C


@njit(nogil=True, cache=True)
def _room(offsets, n_labels):
    longest = most_positions(0, len(offsets) - 1, offsets)
    table, pairs = (longest, n_labels, n_labels), (longest, n_labels, longest, n_labels)
    return Room(np.empty(table), np.empty(table), np.empty((2, n_labels, n_labels)), np.empty(pairs))


@njit(**INLINED, fastmath=REORDER)
def _fill(begin, end, marginals, steps, room):
    """Fill the arrays of the sequence of positions begin..end-1."""
    onward, back, joint, covariances = room
    n_labels = marginals.shape[1]
    onward[0] = 0.0
    back[0] = 0.0
    for s in range(begin + 1, end):
        for c in range(n_labels):
            # A label of probability zero has no use for its expectations.
            inverse = 1.0 / marginals[s - 1, c] if marginals[s - 1, c] > 0.0 else 0.0
            for d in range(n_labels):
                onward[s - begin, c, d] = steps[s, c, d] * inverse
                back[s - begin, c, d] = steps[s, c, d] / marginals[s, d] if marginals[s, d] > 0.0 else 0.0
    for t in range(end - begin):
        here, now = marginals[begin + t], 0
        joint[0] = 0.0
        for a in range(n_labels):
            joint[0, a, a] = here[a]
        for u in range(t, end - begin):
            there = marginals[begin + u]
            if u > t:
                np.dot(joint[now], onward[u], joint[1 - now])
                now = 1 - now
            for a in range(n_labels):
                for b in range(n_labels):
                    value = joint[now, a, b] - here[a] * there[b]
                    covariances[t, a, u, b] = value
                    covariances[u, b, t, a] = value


@njit(nogil=True, cache=True, fastmath=REORDER)
def covariances_with_features(offsets, marginals, steps, features, seen):
    """Fill ``seen`` (N, L, L, r) with covariances of labels a <= b with features."""
    n_labels, rank = marginals.shape[1], features.shape[1]
    room = _room(offsets, n_labels)
    covariances = room.covariances
    for sequence in range(len(offsets) - 1):
        begin, end = offsets[sequence], offsets[sequence + 1]
        _fill(begin, end, marginals, steps, room)
        for t in range(begin, end):
            for a in range(n_labels):
                for b in range(a, n_labels):
                    row = seen[t, a, b]
                    row[:] = 0.0
                    for u in range(begin, end):
                        weight, own = covariances[t - begin, a, u - begin, b], features[u]
                        for j in range(rank):
                            row[j] += weight * own[j]


@njit(nogil=True, cache=True, fastmath=REORDER)
def covariances_with_steps(offsets, marginals, steps, past, both):
    """Fill ``past`` and ``both`` (N, L, L, L) with covariances of labels with summed steps."""
    n_labels = marginals.shape[1]
    room = _room(offsets, n_labels)
    onward, back, covariances = room.onward, room.back, room.covariances
    for sequence in range(len(offsets) - 1):
        begin, end = offsets[sequence], offsets[sequence + 1]
        _fill(begin, end, marginals, steps, room)
        for t in range(end - begin):
            for a in range(n_labels):
                before, whole = past[begin + t, a], both[begin + t, a]
                before[:] = 0.0
                for s in range(1, t + 1):
                    own = covariances[t, a, s]
                    for c in range(n_labels):
                        for d in range(n_labels):
                            before[c, d] += back[s, c, d] * own[d]
                for c in range(n_labels):
                    copy_row(before[c], whole[c])
                for s in range(t + 1, end - begin):
                    for c in range(n_labels):
                        weight = covariances[t, a, s - 1, c]
                        for d in range(n_labels):
                            whole[c, d] += weight * onward[s, c, d]
