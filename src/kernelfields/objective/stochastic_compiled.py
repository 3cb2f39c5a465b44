"""Stochastic gradient steps on a sparse chain field, one sequence after another, compiled.

Per sequence: scores from the pairs of its features, forward-backward with scaling, and a step along its gradient.
What constraints forbid has a penalty of minus infinity, hence probability zero and no part in a step.

    w <- (1 - rate / s) w - rate * weight * gradient of the sequence            rate per sequence, s scaled by n

The decay of node coefficients is one running factor, ``scale``: the coefficients are scale * node. Sequences whose
probabilities leave the range of doubles are passed over; this is a start, not the fit. Their loss is infinite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

_REORDER = {"reassoc", "contract", "nsz"}


class SparseChains(NamedTuple):
    """Packed sequences with sparse features: offsets (S + 1,), labels (N,), weights (S,), and the CSR rows (N, r)."""

    offsets: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray


class WeightedPairs(NamedTuple):
    """Which weights there are: pairs of features and labels (begin, outcomes), and of labels (before, after)."""

    begin: np.ndarray
    outcomes: np.ndarray
    before: np.ndarray
    after: np.ndarray


class Penalties(NamedTuple):
    """0, or -inf for what is forbidden: steps a -> b (L, L), first labels, last labels and labels (L,)."""

    edge: np.ndarray
    start: np.ndarray
    end: np.ndarray
    label: np.ndarray


class Schedule(NamedTuple):
    """1 / (s n) of nodes and of edges; the rate of step k is rate / (1 + cooling k)."""

    node_decay: float
    edge_decay: float
    rate: float
    cooling: float


@njit(nogil=True, cache=True, fastmath=_REORDER)
def descend(order, sequences, pairs, penalties, node, edge, scale, n_steps, schedule, moving):
    """Visit the sequences in ``order``; return the new scale, the steps so far and the summed loss.

    With ``moving`` False nothing is changed, and the loss is that of the present coefficients.
    """
    offsets, labels, weights, indptr, indices, values = sequences
    begin, outcomes, before, after = pairs
    n_labels = len(penalties.label)
    longest = 0
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    scores = np.empty((longest, n_labels))
    alpha = np.empty((longest, n_labels))
    inverse = np.empty((longest, n_labels))
    marginals = np.empty((longest, n_labels))
    predicted = np.empty(n_labels)
    gamma = np.empty(n_labels)
    steps = np.zeros((n_labels, n_labels))
    transfer = np.empty((n_labels, n_labels))
    expected = np.empty((n_labels, n_labels))
    total = 0.0
    for s in order:
        start, length = offsets[s], offsets[s + 1] - offsets[s]
        for p in range(len(edge)):
            steps[before[p], after[p]] = edge[p]
        for a in range(n_labels):
            for b in range(n_labels):
                transfer[a, b] = np.exp(steps[a, b] + penalties.edge[a, b])
                expected[a, b] = 0.0
        loss, fine = 0.0, True
        for t in range(length):
            row = scores[t]
            for b in range(n_labels):
                row[b] = 0.0
            for k in range(indptr[start + t], indptr[start + t + 1]):
                f, value = indices[k], values[k]
                for p in range(begin[f], begin[f + 1]):
                    row[outcomes[p]] += value * node[p]
            for b in range(n_labels):
                row[b] = scale * row[b] + penalties.label[b]
            if t == length - 1:
                for b in range(n_labels):
                    row[b] += penalties.end[b]
            label = labels[start + t]
            if t == 0:
                for b in range(n_labels):
                    row[b] += penalties.start[b]
                    predicted[b] = 1.0
            else:
                loss -= steps[labels[start + t - 1], label]
                for b in range(n_labels):
                    predicted[b] = 0.0
                for a in range(n_labels):
                    share = alpha[t - 1, a]
                    for b in range(n_labels):
                        predicted[b] += share * transfer[a, b]
            loss -= row[label]
            # Of labels that cannot be here, scores say nothing.
            top = -np.inf
            for b in range(n_labels):
                if predicted[b] > 0.0:
                    top = max(top, row[b])
            mass = 0.0
            for b in range(n_labels):
                alpha[t, b] = predicted[b] * np.exp(row[b] - top)
                mass += alpha[t, b]
            if not (mass > 1e-280 and mass < 1e280):
                fine = False
                break
            for b in range(n_labels):
                alpha[t, b] /= mass
                inverse[t, b] = 1.0 / predicted[b] if predicted[b] > 1e-280 else 0.0
            loss += np.log(mass) + top
        if not fine:
            total = np.inf
            continue
        total += weights[s] * loss
        if not moving:
            continue
        for b in range(n_labels):
            marginals[length - 1, b] = alpha[length - 1, b]
        for t in range(length - 2, -1, -1):
            for b in range(n_labels):
                gamma[b] = marginals[t + 1, b] * inverse[t + 1, b]
            for a in range(n_labels):
                value, share = 0.0, alpha[t, a]
                for b in range(n_labels):
                    flow = transfer[a, b] * gamma[b]
                    value += flow
                    expected[a, b] += share * flow
                marginals[t, a] = share * value
        speed = schedule.rate / (1.0 + schedule.cooling * n_steps)
        n_steps += 1
        scale *= 1.0 - min(0.5, speed * schedule.node_decay)
        along = speed * weights[s] / scale
        for t in range(length):
            label = labels[start + t]
            marginals[t, label] -= 1.0
            if t > 0:
                expected[labels[start + t - 1], label] -= 1.0
            row = marginals[t]
            for k in range(indptr[start + t], indptr[start + t + 1]):
                f, value = indices[k], along * values[k]
                for p in range(begin[f], begin[f + 1]):
                    node[p] -= value * row[outcomes[p]]
        shrink = 1.0 - min(0.5, speed * schedule.edge_decay)
        for p in range(len(edge)):
            edge[p] = shrink * edge[p] - speed * weights[s] * expected[before[p], after[p]]
    return scale, n_steps, total
