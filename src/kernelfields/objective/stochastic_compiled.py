"""Stochastic ascent of the dual of a sparse chain field, one sequence after another, compiled.

Per sequence: scores from the pairs of its features, forward-backward with scaling, and a step. What constraints forbid
or lists do not allow has a penalty of minus infinity, hence probability zero and no part in a step. Sequences whose
probabilities leave the range of doubles are passed over; this is a start, not the fit. Their loss is infinite.

A step moves the marginals mu_i kept for the sequence towards those that the coefficients give it, p_i:

    mu_i <- mu_i + a (p_i - mu_i),   d = sum_i weight_i Z_i^T (y_i - mu_i),   w = s soft(d, l1),   soft shrinks by l1
    a = 2 F / (2 F + q),   F = weight sum (mu - p)^2 / (mu + p),   q = s ||weight Z_i^T (mu_i - p_i)||^2

Entropy is gained about as F (1 - (1 - a)^2), F being near the divergence of mu_i from p_i, and a^2 q / 2 lost at most.
Only coefficients that are not zero before or after count in q. Where labels are partly known, y_i is what they are
given that: marginals t_i of their own, which move with mu_i, so that F and q are of t_i - mu_i (``ascend_partly``). At
a fixed point the gradient of the objective vanishes, convex or not (dual coordinate ascent without a dual).

    Shalev-Shwartz (2016), SDCA without duality, regularization, and individual convexity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelfields.numerics.compiled import INLINED, REORDER, njit


class SparseChains(NamedTuple):
    """Packed sequences with sparse features: offsets (S + 1,), labels (N,), weights (S,), and the CSR rows (N, r).

    ``first`` and ``allowed`` are the lists of data/allowed.py, empty where all labels are allowed.
    """

    offsets: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    first: np.ndarray
    allowed: np.ndarray


class WeightedPairs(NamedTuple):
    """The pairs with weights: of features and labels (begin, outcomes), and of labels (before, after)."""

    begin: np.ndarray
    outcomes: np.ndarray
    before: np.ndarray
    after: np.ndarray


class Penalties(NamedTuple):
    """0, or -inf for forbidden steps a -> b (L, L), first labels, last labels and labels (L,)."""

    edge: np.ndarray
    start: np.ndarray
    end: np.ndarray
    label: np.ndarray


class Priors(NamedTuple):
    """s and l1 of the coefficients of nodes and of edges."""

    node_variance: float
    node_l1: float
    edge_variance: float
    edge_l1: float


class Dual(NamedTuple):
    """d of nodes (P,) and edges (E,), mu of positions (N, L), summed mu of steps (S, E), and the rest of F (S,).

    ``targets`` (N, L) are t; sums of steps are of mu - t. Where labels are known, there are none.
    """

    node: np.ndarray
    edge: np.ndarray
    marginals: np.ndarray
    step_sums: np.ndarray
    gaps: np.ndarray
    targets: np.ndarray


class Room(NamedTuple):
    """Scratch arrays for the inference of one sequence: positions by labels, and labels by labels."""

    scores: np.ndarray
    alpha: np.ndarray
    inverse: np.ndarray
    marginals: np.ndarray
    predicted: np.ndarray
    steps: np.ndarray
    transfer: np.ndarray
    expected: np.ndarray


@njit(nogil=True, cache=True)
def _room(order, offsets, n_labels):
    longest = 0
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    shape, square = (longest, n_labels), (n_labels, n_labels)
    return Room(
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(shape),
        np.empty(n_labels),
        np.zeros(square),
        np.empty(square),
        np.empty(square),
    )


@njit(**INLINED, fastmath=REORDER)
def _forward(room, length, penalties):
    """Fill alpha from scores (n, L) and steps; return log Z, infinite outside the range of doubles."""
    scores, alpha, predicted, transfer = room.scores, room.alpha, room.predicted, room.transfer
    n_labels = len(predicted)
    for a in range(n_labels):
        for b in range(n_labels):
            transfer[a, b] = np.exp(room.steps[a, b] + penalties.edge[a, b])
    log_partition = 0.0
    for t in range(length):
        row = scores[t]
        for b in range(n_labels):
            row[b] += penalties.label[b]
        if t == length - 1:
            for b in range(n_labels):
                row[b] += penalties.end[b]
        if t == 0:
            for b in range(n_labels):
                row[b] += penalties.start[b]
                predicted[b] = 1.0
        else:
            for b in range(n_labels):
                predicted[b] = 0.0
            for a in range(n_labels):
                share = alpha[t - 1, a]
                for b in range(n_labels):
                    predicted[b] += share * transfer[a, b]
        # Scores of labels that cannot be here have no meaning.
        top = -np.inf
        for b in range(n_labels):
            if predicted[b] > 0.0:
                top = max(top, row[b])
        mass = 0.0
        for b in range(n_labels):
            alpha[t, b] = predicted[b] * np.exp(row[b] - top)
            mass += alpha[t, b]
        if not (mass > 1e-280 and mass < 1e280):
            return np.inf
        for b in range(n_labels):
            alpha[t, b] /= mass
            room.inverse[t, b] = 1.0 / predicted[b] if predicted[b] > 1e-280 else 0.0
        log_partition += np.log(mass) + top
    return log_partition


@njit(nogil=True, cache=True)
def _score(room, labels):
    """Return the score of labels; after the forward pass, minus infinity for forbidden labels."""
    total = 0.0
    for t in range(len(labels)):
        total += room.scores[t, labels[t]]
        if t > 0:
            total += room.steps[labels[t - 1], labels[t]]
    return total


@njit(**INLINED, fastmath=REORDER)
def _backward(room, length):
    """Fill marginals, and their sums over the steps."""
    alpha, marginals, transfer, expected, gamma = (
        room.alpha,
        room.marginals,
        room.transfer,
        room.expected,
        room.predicted,
    )
    n_labels = len(gamma)
    expected[:] = 0.0
    for b in range(n_labels):
        marginals[length - 1, b] = alpha[length - 1, b]
    for t in range(length - 2, -1, -1):
        for b in range(n_labels):
            gamma[b] = marginals[t + 1, b] * room.inverse[t + 1, b]
        for a in range(n_labels):
            value, share = 0.0, alpha[t, a]
            for b in range(n_labels):
                flow = transfer[a, b] * gamma[b]
                value += flow
                expected[a, b] += share * flow
            marginals[t, a] = share * value


@njit(inline="always")
def _soft(value, l1):
    if value > l1:
        return value - l1
    return value + l1 if value < -l1 else 0.0


@njit(nogil=True, cache=True)
def _most_pairs(order, sequences, begin):
    """Return the largest number of pairs in a sequence, repetitions included."""
    most = 0
    for s in order:
        met = 0
        for k in range(sequences.indptr[sequences.offsets[s]], sequences.indptr[sequences.offsets[s + 1]]):
            f = sequences.indices[k]
            met += begin[f + 1] - begin[f]
        most = max(most, met)
    return most


@njit(**INLINED, fastmath=REORDER)
def _fill_scores(room, s, sequences, pairs, dual, priors):
    """Fill the scores of the positions and of the steps of sequence ``s``."""
    offsets, _, _, indptr, indices, values, first, allowed = sequences
    begin, outcomes, before, after = pairs
    start, scores, node, edge = offsets[s], room.scores, dual.node, dual.edge
    variance, l1 = priors.node_variance, priors.node_l1
    for p in range(len(edge)):
        room.steps[before[p], after[p]] = priors.edge_variance * _soft(edge[p], priors.edge_l1)
    for t in range(offsets[s + 1] - start):
        row = scores[t]
        row[:] = 0.0 if len(first) == 0 else -np.inf
        if len(first):
            for i in range(first[start + t], first[start + t + 1]):
                row[allowed[i]] = 0.0
        for k in range(indptr[start + t], indptr[start + t + 1]):
            f, value = indices[k], values[k] * variance
            for p in range(begin[f], begin[f + 1]):
                row[outcomes[p]] += value * _soft(node[p], l1)


@njit(**INLINED, fastmath=REORDER)
def _add_change(row, position, weight, n_met, met, sequences, pairs, change):
    """Add the change of d by a row of mu - p (L,); return the number of pairs so far."""
    indptr, indices, values = sequences.indptr, sequences.indices, sequences.values
    begin, outcomes = pairs.begin, pairs.outcomes
    for k in range(indptr[position], indptr[position + 1]):
        f, value = indices[k], weight * values[k]
        for p in range(begin[f], begin[f + 1]):
            if change[p] == 0.0:
                met[n_met] = p
                n_met += 1
            change[p] += value * row[outcomes[p]]
    return n_met


@njit(**INLINED, fastmath=REORDER)
def _move_coefficients(room, s, weight, gap, met, pairs, dual, priors, change, edge_change):
    """Move d and the sums of steps by the best step for a gap F; return the step."""
    before, after, node, edge, expected = pairs.before, pairs.after, dual.node, dual.edge, room.expected
    l1, square = priors.node_l1, 0.0
    for j in range(len(met)):
        moved = change[met[j]]
        if abs(node[met[j]]) > l1 or abs(node[met[j]] + moved) > l1:
            square += moved * moved
    lost = priors.node_variance * square
    square = 0.0
    for p in range(len(edge)):
        edge_change[p] = moved = weight * (dual.step_sums[s, p] - expected[before[p], after[p]])
        if abs(edge[p]) > priors.edge_l1 or abs(edge[p] + moved) > priors.edge_l1:
            square += moved * moved
    lost += priors.edge_variance * square
    step = 2.0 * gap / (2.0 * gap + lost) if gap > 0.0 else 1.0
    dual.gaps[s] = gap * (1.0 - step) ** 2
    for j in range(len(met)):
        node[met[j]] += step * change[met[j]]
        change[met[j]] = 0.0
    for p in range(len(edge)):
        edge[p] += step * edge_change[p]
        dual.step_sums[s, p] += step * (expected[before[p], after[p]] - dual.step_sums[s, p])
    return step


@njit(nogil=True, cache=True, fastmath=REORDER)
def ascend(order, sequences, pairs, penalties, dual, priors, change):
    """Visit the sequences in ``order``, with known labels; return the summed loss and the mean step.

    ``change`` (P,) is zero, and is again after: room for the change that one sequence would make in d.
    """
    offsets, n_labels = sequences.offsets, len(penalties.label)
    room = _room(order, offsets, n_labels)
    edge_change = np.empty(len(dual.edge))
    met = np.empty(_most_pairs(order, sequences, pairs.begin), np.int64)
    total, steps = 0.0, 0.0
    for s in order:
        start, end, weight = offsets[s], offsets[s + 1], sequences.weights[s]
        length = end - start
        _fill_scores(room, s, sequences, pairs, dual, priors)
        loss = _forward(room, length, penalties) - _score(room, sequences.labels[start:end])
        if not abs(loss) < np.inf:
            total = np.inf
            continue
        total += weight * loss
        _backward(room, length)
        gap, n_met = 0.0, 0
        for t in range(length):
            row, kept = room.marginals[t], dual.marginals[start + t]
            for b in range(n_labels):
                away, both = kept[b] - row[b], kept[b] + row[b] + 1e-12
                gap += away * away / both
                row[b] = away
            n_met = _add_change(row, start + t, weight, n_met, met, sequences, pairs, change)
        step = _move_coefficients(room, s, weight, weight * gap, met[:n_met], pairs, dual, priors, change, edge_change)
        steps += step
        for t in range(length):
            for b in range(n_labels):
                dual.marginals[start + t, b] -= step * room.marginals[t, b]
    return total, steps / max(1, len(order))


@njit(nogil=True, cache=True, fastmath=REORDER)
def ascend_partly(known, order, sequences, pairs, penalties, dual, priors, change):
    """Visit sequences whose labels have log-weights ``known`` (N, L); see :func:`ascend`."""
    offsets, n_labels = sequences.offsets, len(penalties.label)
    room, given = _room(order, offsets, n_labels), _room(order, offsets, n_labels)
    edge_change = np.empty(len(dual.edge))
    met = np.empty(_most_pairs(order, sequences, pairs.begin), np.int64)
    total, steps = 0.0, 0.0
    for s in order:
        start, weight = offsets[s], sequences.weights[s]
        length = offsets[s + 1] - start
        _fill_scores(room, s, sequences, pairs, dual, priors)
        loss = _forward(room, length, penalties)
        # Loops: numba takes longer to compile arrays that are assigned, with texts for shapes that do not fit.
        for a in range(n_labels):
            for b in range(n_labels):
                given.steps[a, b] = room.steps[a, b]
        for t in range(length):
            for b in range(n_labels):
                given.scores[t, b] = room.scores[t, b] + known[start + t, b]
        loss = loss - _forward(given, length, penalties) if loss < np.inf else loss
        if not abs(loss) < np.inf:
            total = np.inf
            continue
        total += weight * loss
        _backward(room, length)
        _backward(given, length)
        for a in range(n_labels):
            for b in range(n_labels):
                room.expected[a, b] -= given.expected[a, b]
        gap, n_met = 0.0, 0
        for t in range(length):
            row, kept = room.marginals[t], dual.marginals[start + t]
            for b in range(n_labels):
                away, both = kept[b] - row[b], kept[b] + row[b] + 1e-12
                target = given.marginals[t, b] = dual.targets[start + t, b] - given.marginals[t, b]
                away -= target
                gap += away * away / both
                row[b] = away
            n_met = _add_change(row, start + t, weight, n_met, met, sequences, pairs, change)
        step = _move_coefficients(room, s, weight, weight * gap, met[:n_met], pairs, dual, priors, change, edge_change)
        steps += step
        for t in range(length):
            for b in range(n_labels):
                away = room.marginals[t, b] + given.marginals[t, b]
                dual.targets[start + t, b] -= step * given.marginals[t, b]
                dual.marginals[start + t, b] -= step * away
    return total, steps / max(1, len(order))
