"""Scaled forward-backward and Hessian recursions on packed chains, compiled.

With T_t(a,b) = exp(w_t(a,b) - shift_t) and c_t(b) = sum_a alpha_{t-1}(a) T_t(a,b) (c = 1 at a start):

    alpha_t(b)  = c_t(b) e^{u_t(b) - top_t} / scale_t          filtered probabilities, sum to one
    log Z       = sum_t (log scale_t + top_t + shift_t)
    gamma_t(b)  = m_t(b) / c_t(b)                              0 at a start
    future_t(a) = sum_b T_{t+1}(a,b) gamma_{t+1}(b)            1 at an end
    m_t(a)      = alpha_t(a) future_t(a)                       node marginals (future itself is not kept)
    X_t(a,b)    = alpha_{t-1}(a) T_t(a,b) gamma_t(b)           edge marginals

Conditional expectations of a direction's score (du, dw), no exponentials needed:

    A_t(b) = du_t(b) + 1/c_t(b) sum_a alpha_{t-1}(a) T_t(a,b) (A_{t-1}(a) + dw_t(a,b))
    B_t(a) = 1/future_t(a) sum_b T_{t+1}(a,b) gamma_{t+1}(b) (dw_{t+1}(a,b) + du_{t+1}(b) + B_{t+1}(b))
    E      = sum_b m_T(b) A_T(b),    dm_t = m_t (A_t + B_t - E)

Arrays: (N, L) float64; transfer T (E, L, L) with E = 1 or N; ``ScaledPasses`` of beliefs.py keeps them. Cost
O(N L^2) time, O(N L) memory. A sequence is flagged as troubled where a probability that is not structurally zero
leaves the range of doubles; the caller then recomputes it in the log domain.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kernelfields.inference.sums_compiled import REORDER

# Products of two numbers above this bound are still normal doubles relative to one.
TINY = 1e-250


@njit(nogil=True, cache=True, fastmath=REORDER)
def _add_weighted_rows(matrix, weights, out):
    """out += weights @ matrix, four rows at a time so that out is read and written less often."""
    size = weights.shape[0]
    whole = size - size % 4
    for a in range(0, whole, 4):
        w0, w1, w2, w3 = weights[a], weights[a + 1], weights[a + 2], weights[a + 3]
        r0, r1, r2, r3 = matrix[a], matrix[a + 1], matrix[a + 2], matrix[a + 3]
        for b in range(size):
            out[b] += w0 * r0[b] + w1 * r1[b] + w2 * r2[b] + w3 * r3[b]
    for a in range(whole, size):
        weight, row = weights[a], matrix[a]
        for b in range(size):
            out[b] += weight * row[b]


@njit(nogil=True, cache=True, fastmath=REORDER)
def _dot(row, vector):
    total = 0.0
    for b in range(vector.shape[0]):
        total += row[b] * vector[b]
    return total


@njit(nogil=True, cache=True, fastmath=REORDER)
def forward_backward(first, last, offsets, node, has_forbidden, passes, log_partition, troubled):
    """Fill the arrays above for sequences first..last-1; troubled[s] is True where doubles do not do.

    passes are ``ScaledPasses``, with transfer and shift filled and zeros elsewhere.
    """
    transfer, shift = passes.transfer, passes.shift
    alpha, inverse_predicted, marginals = passes.alpha, passes.inverse_predicted, passes.marginals
    n_labels = node.shape[1]
    stride = 0 if transfer.shape[0] == 1 else 1
    predicted = np.empty(n_labels)
    gamma = np.empty(n_labels)
    reachable = np.ones(n_labels, dtype=np.bool_)
    reached_before = np.ones(n_labels, dtype=np.bool_)
    for s in range(first, last):
        begin = offsets[s]
        end = offsets[s + 1]
        total = 0.0
        fine = True
        for t in range(begin, end):
            if t == begin:
                for b in range(n_labels):
                    predicted[b] = 1.0
                    reachable[b] = True
            else:
                for b in range(n_labels):
                    predicted[b] = 0.0
                _add_weighted_rows(transfer[t * stride], alpha[t - 1], predicted)
                total += shift[t * stride]
                if has_forbidden:
                    for b in range(n_labels):
                        reached_before[b] = reachable[b]
                        reachable[b] = False
                    for a in range(n_labels):
                        if reached_before[a]:
                            for b in range(n_labels):
                                if transfer[t * stride, a, b] > 0.0:
                                    reachable[b] = True
            top = -np.inf
            for b in range(n_labels):
                if node[t, b] > top:
                    top = node[t, b]
            if top == -np.inf:
                fine = False
                break
            scale = 0.0
            for b in range(n_labels):
                value = predicted[b] * np.exp(node[t, b] - top)
                alpha[t, b] = value
                scale += value
            if not scale > TINY:
                fine = False
                break
            inverse_scale = 1.0 / scale
            lowest = np.inf
            for b in range(n_labels):
                alpha[t, b] *= inverse_scale
                lowest = min(lowest, alpha[t, b])
            if t > begin:
                for b in range(n_labels):
                    inverse_predicted[t, b] = 1.0 / predicted[b] if predicted[b] > 0.0 else 0.0
            if lowest < TINY:
                for b in range(n_labels):
                    if node[t, b] == -np.inf:
                        reachable[b] = False
                    elif alpha[t, b] < TINY and reachable[b]:
                        fine = False
                if not fine:
                    break
            total += np.log(scale) + top
        if fine:
            for b in range(n_labels):
                marginals[end - 1, b] = alpha[end - 1, b]
            for t in range(end - 2, begin - 1, -1):
                for b in range(n_labels):
                    gamma[b] = marginals[t + 1, b] * inverse_predicted[t + 1, b]
                step = transfer[(t + 1) * stride]
                for a in range(n_labels):
                    value = _dot(step[a], gamma)
                    marginals[t, a] = alpha[t, a] * value
                    if not np.isfinite(value):
                        fine = False
        log_partition[s] = total
        troubled[s] = not fine


@njit(nogil=True, cache=True, fastmath=REORDER)
def score_expectations(first, last, offsets, d_node, moved, passes, past, ahead, d_marginals):
    """Fill past = A, ahead = du + B - E and d_marginals = dm for sequences first..last-1; moved is T * dw."""
    transfer, alpha = passes.transfer, passes.alpha
    inverse_predicted, marginals = passes.inverse_predicted, passes.marginals
    n_labels = d_node.shape[1]
    stride = 0 if transfer.shape[0] == 1 else 1
    expected = np.empty(n_labels)
    weighted = np.empty(n_labels)
    gamma = np.empty(n_labels)
    for s in range(first, last):
        begin = offsets[s]
        end = offsets[s + 1]
        for b in range(n_labels):
            past[begin, b] = d_node[begin, b]
        for t in range(begin + 1, end):
            for b in range(n_labels):
                expected[b] = 0.0
                weighted[b] = alpha[t - 1, b] * past[t - 1, b]
            _add_weighted_rows(transfer[t * stride], weighted, expected)
            _add_weighted_rows(moved[t * stride], alpha[t - 1], expected)
            for b in range(n_labels):
                past[t, b] = d_node[t, b] + expected[b] * inverse_predicted[t, b]
        mean = 0.0
        for b in range(n_labels):
            mean += marginals[end - 1, b] * past[end - 1, b]
        for b in range(n_labels):
            expected[b] = 0.0
        for t in range(end - 1, begin - 1, -1):
            if t < end - 1:
                for b in range(n_labels):
                    gamma[b] = marginals[t + 1, b] * inverse_predicted[t + 1, b]
                    weighted[b] = gamma[b] * (d_node[t + 1, b] + expected[b])  # B_{t+1} is used up here
                step, moved_step = transfer[(t + 1) * stride], moved[(t + 1) * stride]
                for a in range(n_labels):
                    value = _dot(step[a], weighted) + _dot(moved_step[a], gamma)
                    # 1 / future_t(a); a label of probability zero has no use for its expectation
                    if marginals[t, a] > 0.0:
                        expected[a] = value * alpha[t, a] / marginals[t, a]
                    else:
                        expected[a] = 0.0
            for b in range(n_labels):
                d_marginals[t, b] = marginals[t, b] * (past[t, b] + expected[b] - mean)
                ahead[t, b] = d_node[t, b] + expected[b] - mean
