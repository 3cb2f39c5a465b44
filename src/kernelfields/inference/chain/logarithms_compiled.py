"""One chain in the log domain, compiled; logarithms.py has the equations and the arrays."""

from __future__ import annotations

import numpy as np
from numba import njit

from kernelfields.inference.sums_compiled import collect


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
    sums = np.array([shift, 0.0])
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
        collect(shift, sums)
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
    return sums[0] + (sums[1] + last)
