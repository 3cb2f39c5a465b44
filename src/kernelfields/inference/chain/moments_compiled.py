"""Means and squares of the scores of many directions on packed chains, given one label or two; compiled.

A direction gives a labelling the score s = sum_t x_t, x_t = d_t(y_t) + e(y_{t-1}, y_t). With x~ = x - E x, p the
marginals of labels and q those of steps:

    F_t(a) = E[sum_{s<=t} x~_s | y_t = a]  = sum_b P(y_{t-1} = b | y_t = a) (F_{t-1}(b) + x~_t(b, a))
    B_t(a) = E[sum_{s>t}  x~_s | y_t = a]  = sum_b P(y_{t+1} = b | y_t = a) (B_{t+1}(b) + x~_{t+1}(a, b))
    response of the marginals              = p_t(a) (F_t(a) + B_t(a))                  second cumulants
    V_t(a) = E[(sum_{s<=t} x~_s)^2 | y_t = a], W_t(a) = E[(sum_{s>t} x~_s)^2 | y_t = a]
    response to second order               = p_t(a) (V + 2 F B + W - Var s)            third cumulants

Third cumulants are wanted summed over directions only, so V and W have no column of their own. Labels that stand
alone are chains of length one. Arrays: d (N, L, C), e (L, L, C), marginals (N, L), steps (N, L, L). Cost
O(N L^2 C), most of it in matrix products.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelfields.inference.sums_compiled import copy_row, most_positions
from kernelfields.numerics.compiled import INLINED, REORDER, njit

# Directions worked on at a time: a few rows of them stay in a cache.
_COLUMNS = 256
#: What directions say of steps: nothing, e, or each of them one entry of the table, in order (C = L^2).
NO_STEPS, GIVEN_STEPS, SINGLE_STEPS = 0, 1, 2


class _Columns(NamedTuple):
    """Directions first .. first + C - 1 of all, and their expectations in one sequence of length T."""

    node: np.ndarray  # (N, L, all directions), d
    edge: np.ndarray  # (L, L, all directions), e
    kind: int  # what directions say of steps
    first: int
    forward: np.ndarray  # (T, L, C), F
    means: np.ndarray  # (T, C), E x
    backward: np.ndarray  # (L, C), B of the position at hand


class _Squares(NamedTuple):
    """Expected squares in one sequence of length T, summed over directions."""

    past: np.ndarray  # (T, L), V
    ahead: np.ndarray  # (L,), W of the position at hand
    moved_ahead: np.ndarray  # (L,), W of the one before
    own: np.ndarray  # (L,), (d_t - E x_t)^2
    steps: np.ndarray  # (L, L), e^2
    along: np.ndarray  # (T, L, L), e(a, b) (d_t(b) - E x_t)
    cross: np.ndarray  # (T, L, L), F_{t-1}(a) (d_t(b) - E x_t + e(a, b))
    met: np.ndarray  # (L, L), F_{t-1}(a) B_t(b)


@njit(**INLINED, fastmath=REORDER)
def _shares(t, backward, marginals, steps, shares):
    """Fill P(y_{t-1} = b | y_t = a), or backward P(y_t = b | y_{t-1} = a), as (a, b)."""
    n_labels = marginals.shape[1]
    for a in range(n_labels):
        mass = marginals[t - 1, a] if backward else marginals[t, a]
        # A label of probability zero has no use for its expectations.
        inverse = 1.0 / mass if mass > 0.0 else 0.0
        for b in range(n_labels):
            shares[a, b] = (steps[t, a, b] if backward else steps[t, b, a]) * inverse


@njit(**INLINED, fastmath=REORDER)
def _add_steps(backward, shares, edge, kind, first, rows):
    """Add the expected scores of a step to row a: sum_b shares(a, b) e(b, a), or e(a, b) backward."""
    n_labels, n_columns = rows.shape
    for a in range(n_labels):
        row = rows[a]
        for b in range(n_labels):
            share = shares[a, b]
            if kind == SINGLE_STEPS:
                place = (a * n_labels + b if backward else b * n_labels + a) - first
                if 0 <= place < n_columns:
                    row[place] += share
            else:
                score = edge[a, b] if backward else edge[b, a]
                for k in range(n_columns):
                    row[k] += share * score[first + k]


@njit(**INLINED, fastmath=REORDER)
def _centre(t, columns, mean, centred):
    """Fill d_t(b) - E x_t, (L, C)."""
    for b in range(centred.shape[0]):
        source, row = columns.node[t, b], centred[b]
        for k in range(len(row)):
            row[k] = source[columns.first + k] - mean[k]


@njit(**INLINED, fastmath=REORDER)
def _step_products(columns, before, centred, here, there):
    """Add e(a, b) . centred(b) to ``here`` and e(a, b) . before(a) to ``there``, (L, L) each."""
    n_labels, n_columns = centred.shape
    for a in range(n_labels):
        left = before[a]
        for b in range(n_labels):
            right, score, one, other = centred[b], columns.edge[a, b, columns.first :], 0.0, 0.0
            for k in range(n_columns):
                one += score[k] * right[k]
                other += score[k] * left[k]
            here[a, b] += one
            there[a, b] += other


@njit(**INLINED, fastmath=REORDER)
def _past_squares(t, begin, shares, columns, centred, squares):
    """Fill V_t, and the products for W_{t-1}."""
    past = squares.past
    for a in range(len(centred)):
        row = columns.forward[0, a] if t == begin else centred[a]
        squares.own[a] = _dot(row, row)
        past[t - begin, a] = squares.own[a] if t == begin else 0.0
    if t == begin:
        return
    before, cross, along = columns.forward[t - begin - 1], squares.cross[t - begin], squares.along[t - begin]
    np.dot(before, centred.T, cross)
    along[:] = 0.0
    if columns.kind == GIVEN_STEPS:
        _step_products(columns, before, centred, along, cross)
    # c (c + 2 before) for c = centred + e, summed over directions.
    for a in range(len(centred)):
        for b in range(len(centred)):
            square = squares.own[a] + squares.steps[b, a] + 2.0 * (along[b, a] + cross[b, a])
            past[t - begin, a] += shares[a, b] * (past[t - begin - 1, b] + square)


@njit(**INLINED, fastmath=REORDER)
def _step_squares(t, begin, weight, steps, shares, columns, centred, squares, variance, edge_third):
    """Add to the third cumulants of the step into t, and to W_{t-1}."""
    backward, before = columns.backward, columns.forward[t - begin - 1]
    past, ahead, cross, along = squares.past[t - begin - 1], squares.ahead, squares.cross[t - begin], squares.along
    np.dot(before, backward.T, squares.met)
    for b in range(len(centred)):
        own = _dot(centred[b], centred[b]) + 2.0 * _dot(centred[b], backward[b])
        for a in range(len(centred)):
            square = own + squares.steps[a, b] + 2.0 * along[t - begin, a, b]
            if columns.kind == GIVEN_STEPS:
                square += 2.0 * _dot(backward[b], columns.edge[a, b, columns.first :])
            spread = past[a] + ahead[b] + square + 2.0 * (cross[a, b] + squares.met[a, b]) - variance
            edge_third[a, b] += weight * steps[t, a, b] * spread
            squares.moved_ahead[a] += shares[a, b] * (ahead[b] + square)


@njit(**INLINED, fastmath=REORDER)
def _dot(left, right):
    """Return the inner product of a row with the first entries of another."""
    total = 0.0
    for k in range(len(left)):
        total += left[k] * right[k]
    return total


@njit(nogil=True, cache=True, fastmath=REORDER)
def score_moments(
    offsets, weights, marginals, steps, node, edge, kind, squares, keep, before, after, node_third, edge_third
):
    """Overwrite ``node`` with the weighted response of the marginals to each of its directions.

    ``kind`` says what directions give to steps. With ``squares`` sums over directions are added to ``node_third``
    (N, L) and ``edge_third`` (L, L). With ``keep``, before and after (N, L, C) are filled with F_{t-1}(a) and
    B_t(b) + d_t(b) - E x_t: with e(a, b) they add up to the expected score given a step from a to b into t.
    """
    n_labels, n_columns = node.shape[1], node.shape[2]
    longest = most_positions(0, len(offsets) - 1, offsets)
    past = np.zeros((longest, n_labels))
    ahead = np.zeros(n_labels)
    moved_ahead = np.zeros(n_labels)
    shares, step_squares, met = (
        np.zeros((n_labels, n_labels)),
        np.zeros((n_labels, n_labels)),
        np.zeros((n_labels, n_labels)),
    )
    kept = longest if squares else 0
    along, cross = np.zeros((kept, n_labels, n_labels)), np.zeros((kept, n_labels, n_labels))
    expected = _Squares(past, ahead, moved_ahead, np.zeros(n_labels), step_squares, along, cross, met)
    for first in range(0, n_columns, _COLUMNS):
        width = min(_COLUMNS, n_columns - first)
        forward = np.empty((longest, n_labels, width))
        means = np.empty((longest, width))
        backward = np.empty((n_labels, width))
        moved = np.empty((n_labels, width))
        centred = np.empty((n_labels, width))
        columns = _Columns(node, edge, kind, first, forward, means, backward)
        if squares and kind == GIVEN_STEPS:
            for a in range(n_labels):
                for b in range(n_labels):
                    step_squares[a, b] = _dot(edge[a, b, first : first + width], edge[a, b, first : first + width])
        for s in range(len(offsets) - 1):
            begin, end, weight = offsets[s], offsets[s + 1], weights[s]
            for t in range(begin, end):
                here, mean = forward[t - begin], means[t - begin]
                if t > begin:
                    _shares(t, False, marginals, steps, shares)
                    np.dot(shares, forward[t - begin - 1], here)
                    if kind != NO_STEPS:
                        _add_steps(False, shares, edge, kind, first, here)
                else:
                    here[:] = 0.0
                mean[:] = 0.0
                for a in range(n_labels):
                    row, source, share = here[a], node[t, a], marginals[t, a]
                    for k in range(width):
                        row[k] += source[first + k]
                        mean[k] += share * row[k]
                for a in range(n_labels):
                    row = here[a]
                    for k in range(width):
                        row[k] -= mean[k]
                if squares:
                    _centre(t, columns, mean, centred)
                    _past_squares(t, begin, shares, columns, centred, expected)
            variance = 0.0
            for a in range(n_labels):
                variance += marginals[end - 1, a] * past[end - 1 - begin, a]
            backward[:] = 0.0
            ahead[:] = 0.0
            for t in range(end - 1, begin - 1, -1):
                here, mean = forward[t - begin], means[t - begin]
                if squares:
                    for a in range(n_labels):
                        spread = past[t - begin, a] + 2.0 * _dot(here[a], backward[a]) + ahead[a] - variance
                        node_third[t, a] += weight * marginals[t, a] * spread
                    moved_ahead[:] = 0.0
                if t > begin:
                    _shares(t, True, marginals, steps, shares)
                    if squares:
                        _centre(t, columns, mean, centred)
                        _step_squares(t, begin, weight, steps, shares, columns, centred, expected, variance, edge_third)
                # Responses go where directions were; x~_t + B_t takes the place of B_t, for the step before.
                for a in range(n_labels):
                    row, behind, out, share = here[a], backward[a], node[t, a], weight * marginals[t, a]
                    for k in range(width):
                        direction = out[first + k]
                        out[first + k] = share * (row[k] + behind[k])
                        behind[k] += direction - mean[k]
                if t > begin:
                    if keep:
                        for a in range(n_labels):
                            copy_row(forward[t - begin - 1, a], before[t, a, first:])
                            copy_row(backward[a], after[t, a, first:])
                    np.dot(shares, backward, moved)
                    if kind != NO_STEPS:
                        _add_steps(True, shares, edge, kind, first, moved)
                    for a in range(n_labels):
                        copy_row(moved[a], backward[a])
                    copy_row(moved_ahead, ahead)
