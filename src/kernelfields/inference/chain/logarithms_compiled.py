"""One chain in the log domain, compiled: the equations of reference.py, for chains that doubles cannot hold.

Arrays: node (T, L), edge (1 or T, L, L); results as in ReferenceBeliefs, for a single sequence. Cost: O(T L^2)
exponentials and memory.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _peak(values):
    top = -np.inf
    for value in values:
        top = max(top, value)
    return top


@njit(nogil=True, cache=True)
def _normalise(values, weights):
    """Fill weights with exp(values) over their sum, zeros if all are -inf; return the log of the sum."""
    top = _peak(values)
    if top == -np.inf:
        weights[:] = 0.0
        return -np.inf
    total = 0.0
    for i in range(len(values)):
        weights[i] = np.exp(values[i] - top)
        total += weights[i]
    for i in range(len(values)):
        weights[i] /= total
    return top + np.log(total)


@njit(nogil=True, cache=True)
def log_domain_beliefs(node, edge, marginals, pairs, backward, forward):
    """Fill the arrays for one sequence; return log Z, minus infinity if every labelling is forbidden."""
    length, n_labels = node.shape
    stride = 0 if edge.shape[0] == 1 else 1
    joint = np.empty(n_labels)
    weights = np.empty(n_labels)
    log_alpha = np.empty(n_labels)
    following = np.empty(n_labels)
    shift = _peak(node[0])
    if shift == -np.inf:
        return shift
    # Shifts are summed with a correction for what rounding drops, as math.fsum would.
    total, dropped = shift, 0.0
    for b in range(n_labels):
        log_alpha[b] = node[0, b] - shift
    for t in range(1, length):
        step = edge[t * stride]
        for b in range(n_labels):
            for a in range(n_labels):
                joint[a] = log_alpha[a] + step[a, b]
            following[b] = node[t, b] + _normalise(joint, weights)
            for a in range(n_labels):
                backward[t, a, b] = weights[a]
        shift = _peak(following)
        if shift == -np.inf:
            return shift
        for b in range(n_labels):
            log_alpha[b] = following[b] - shift
        moved = total + shift
        dropped += (total - moved) + shift if abs(total) >= abs(shift) else (shift - moved) + total
        total = moved
    last = _normalise(log_alpha, marginals[length - 1])
    log_beta = np.zeros(n_labels)
    for t in range(length - 1, 0, -1):
        step = edge[t * stride]
        for a in range(n_labels):
            for b in range(n_labels):
                joint[b] = step[a, b] + node[t, b] + log_beta[b]
            following[a] = _normalise(joint, forward[t, a])
        shift = _peak(following)
        for a in range(n_labels):
            log_beta[a] = following[a] - shift
            marginals[t - 1, a] = 0.0
            for b in range(n_labels):
                pairs[t, a, b] = backward[t, a, b] * marginals[t, b]
                marginals[t - 1, a] += pairs[t, a, b]
    return total + (dropped + last)
