"""The loops behind compat/pycrfsuite/scores.py, compiled, for frequently used taggers.

Sums run in the order of the attributes, and the first of equal scores is the maximum, so that results are equal to
those of scores.py to the last bit.
"""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.compiled import INNER, njit


@njit(nogil=True, cache=True)
def sum_weights(found, spans, scales, labels, weights, nodes):
    """Add weights to the scores (T, L) of positions; ``found`` has counts of features, then their columns."""
    given = np.frombuffer(found, dtype=np.int64)
    k = len(nodes)
    for t in range(len(nodes)):
        for _ in range(given[t]):
            column, k = given[k], k + 1
            for entry in range(spans[column, 0], spans[column, 1]):
                nodes[t, labels[entry]] += weights[entry] * scales[column]


@njit(nogil=True, cache=True)
def label(found, spans, scales, labels, weights, edge_into, n_positions):
    """Return the best labelling (T,); ``edge_into`` has rows of labels and columns of previous labels."""
    nodes = np.zeros((n_positions, len(edge_into)))
    sum_weights(found, spans, scales, labels, weights, nodes)
    return _find_best(nodes, edge_into)


@njit(**INNER)
def _find_best(nodes, edge_into):
    """Return the best labelling (T,) of scores (T, L) of positions."""
    n_positions, n_labels = nodes.shape
    pointers = np.empty((n_positions, n_labels), dtype=np.int32)
    scores, reached = nodes[0].copy(), np.empty(n_labels)
    for t in range(1, n_positions):
        for b in range(n_labels):
            best, before = scores[0] + edge_into[b, 0], 0
            for a in range(1, n_labels):
                score = scores[a] + edge_into[b, a]
                if score > best:
                    best, before = score, a
            reached[b] = best + nodes[t, b]
            pointers[t, b] = before
        scores, reached = reached, scores
    found = np.empty(n_positions, dtype=np.int64)
    label = 0
    for b in range(1, n_labels):
        if scores[b] > scores[label]:
            label = b
    for t in range(n_positions - 1, -1, -1):
        found[t] = label
        label = pointers[t, label]
    return found
