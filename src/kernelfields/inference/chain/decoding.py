"""Best labellings, n best labellings, exact samples and entropies of packed chains.

    best      d_t(b)   = u_t(b) + max_a (d_{t-1}(a) + w_t(a, b)), then follow the arg max backwards
    n best    d_t(b)   is the list of the k best scores of prefixes that end in b: a merge of L sorted lists
    samples   y_T      ~ alpha_T(.),  y_{t-1} ~ q_t(. | y_t)  prop. to  alpha_{t-1}(.) exp w_t(., y_t)
    entropy   H_t(b)   = sum_a q_t(a | b) (H_{t-1}(a) - log q_t(a | b)),
              H        = sum_b m_T(b) (H_T(b) - log m_T(b))

where log alpha_t(b) = u_t(b) + log sum_a exp(log alpha_{t-1}(a) + w_t(a, b)). Everything is kept in the log
domain and shifted to a maximum of zero at every position, so potentials of any size, -inf included, are safe.

Arrays: node (N, L), edge (E, L, L) with E = 1 or N, offsets (S + 1,), see inference/packing.py. A sequence of
length T costs O(T L^2) time (``n_best``: O(T L^2 k)) and, per thread and beyond the result, O(T L) memory
(``n_best``: O(T L k), ``chain_entropy``: O(L)); each sample adds O(T L) time. The threads of ``workers`` share out
the sequences, without changing the result; without workers the calling thread does them all. Fails: ValueError
naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from kernelfields.inference.packing import check_potentials, check_whole, raise_if_infeasible
from kernelfields.inference.sums_compiled import shift
from kernelfields.numerics.threads import Workers


def viterbi(
    node: np.ndarray, edge: np.ndarray, offsets: np.ndarray, workers: Workers | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score per sequence (S,); ties go to the lowest label."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    labels = np.zeros(len(node), dtype=np.int64)
    scores = np.zeros(len(offsets) - 1)
    _share(workers, _viterbi, node, edge, offsets, labels, scores)
    raise_if_infeasible(scores)
    return labels, scores


def n_best(
    node: np.ndarray, edge: np.ndarray, offsets: np.ndarray, k: int, workers: Workers | None = None
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the k best labellings of every sequence, best first.

    For sequence i of length T_i: labels (k_i, T_i) and scores (k_i,), where k_i is the smaller of k and
    the number of labellings that are not forbidden.
    """
    node, edge, offsets = check_potentials(node, edge, offsets)
    check_whole("k", k)
    with np.errstate(over="ignore"):  # L^T beyond the largest float is inf, and k is the smaller one
        widths = np.minimum(np.power(float(node.shape[1]), np.diff(offsets)), k).astype(np.int64)
    widest = int(widths.max(initial=1))
    labels = np.zeros((widest, len(node)), dtype=np.int64)
    scores = np.full((len(widths), widest), -np.inf)
    _share(workers, _n_best, node, edge, offsets, widths, labels, scores)
    raise_if_infeasible(scores[:, 0])
    counts = np.count_nonzero(scores > -np.inf, axis=1)
    return (
        [labels[:count, offsets[i] : offsets[i + 1]].copy() for i, count in enumerate(counts)],
        [scores[i, :count].copy() for i, count in enumerate(counts)],
    )


def sample_chains(
    node: np.ndarray,
    edge: np.ndarray,
    offsets: np.ndarray,
    n_samples: int = 1,
    random_state: int | np.random.Generator | None = None,
    workers: Workers | None = None,
) -> np.ndarray:
    """Draw independent labellings (n_samples, N) from p(y | x)."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    check_whole("n_samples", n_samples)
    # One uniform per label, drawn before the work is shared out: threads cannot change the result.
    uniforms = np.random.default_rng(random_state).random((n_samples, len(node)))
    labels = np.zeros((n_samples, len(node)), dtype=np.int64)
    log_peaks = np.zeros(len(offsets) - 1)
    _share(workers, _sample, node, edge, offsets, uniforms, labels, log_peaks)
    raise_if_infeasible(log_peaks)
    return labels


def chain_entropy(
    node: np.ndarray, edge: np.ndarray, offsets: np.ndarray, workers: Workers | None = None
) -> np.ndarray:
    """Return the entropy in nats of p(y | x) for every sequence, (S,)."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    entropies = np.zeros(len(offsets) - 1)
    _share(workers, _entropy, node, edge, offsets, entropies)
    raise_if_infeasible(entropies)
    return entropies


def _share(workers: Workers | None, compiled: Callable[..., None], *arrays: np.ndarray) -> None:
    node, edge, offsets, *results = arrays
    pool = workers or Workers(1)
    runs = pool.runs(offsets, node.shape[1])
    pool.each(lambda first, last: compiled(node, edge, offsets, first, last, *results), runs)


@njit(nogil=True, cache=True)
def _viterbi(node, edge, offsets, first, last, labels, scores):
    n_labels = node.shape[1]
    best, previous = np.empty(n_labels), np.empty(n_labels)
    for s in range(first, last):
        start, stop = offsets[s], offsets[s + 1]
        pointers = np.empty((stop - start, n_labels), np.int32)
        shifts = np.zeros(2)
        best[:] = node[start]
        feasible = shift(best, shifts)
        for t in range(start + 1, stop):
            e = t if edge.shape[0] > 1 else 0
            pointer = pointers[t - start]
            previous[:] = best
            best[:] = -np.inf
            pointer[:] = 0
            for a in range(n_labels):  # b inside: rows of edge are contiguous
                for b in range(n_labels):
                    candidate = previous[a] + edge[e, a, b]
                    if candidate > best[b]:
                        best[b] = candidate
                        pointer[b] = a
            best += node[t]
            feasible = feasible and shift(best, shifts)
        scores[s] = shifts.sum() if feasible else -np.inf
        if feasible:
            labels[stop - 1] = np.argmax(best)
            for t in range(stop - 1, start, -1):
                labels[t - 1] = pointers[t - start, labels[t]]


@njit(nogil=True, cache=True)
def _merge(heads, lists, ranks, gains, merged, origins):
    """Write the largest entries of lists (L, k) + gains (L,), best first, each with its origin a * k + rank.

    Every list is sorted, so the next largest is among the L heads; equal ones are taken lowest a first.
    """
    n_lists, width = lists.shape
    for a in range(n_lists):
        ranks[a] = 0
        heads[a] = lists[a, 0] + gains[a]
    for r in range(width):
        top = np.argmax(heads)
        merged[r] = heads[top]
        origins[r] = top * width + ranks[top]
        if heads[top] > -np.inf:
            ranks[top] += 1
            heads[top] = lists[top, ranks[top]] + gains[top] if ranks[top] < width else -np.inf


@njit(nogil=True, cache=True)
def _n_best(node, edge, offsets, first, last, widths, labels, scores):
    n_labels = node.shape[1]
    heads, ranks = np.empty(n_labels), np.empty(n_labels, np.int64)
    no_gains = np.zeros(n_labels)
    for s in range(first, last):
        start, stop = offsets[s], offsets[s + 1]
        width = widths[s]
        origins = np.empty((stop - start, n_labels, width), np.int32)
        best = np.full((n_labels, width), -np.inf)
        best[:, 0] = node[start]
        shifts = np.zeros(2)
        feasible = shift(best, shifts)
        for t in range(start + 1, stop):
            e = t if edge.shape[0] > 1 else 0
            previous = best.copy()
            for b in range(n_labels):
                _merge(heads, previous, ranks, edge[e, :, b], best[b], origins[t - start, b])
                best[b] += node[t, b]
            feasible = feasible and shift(best, shifts)
        if not feasible:
            continue  # the scores stay -inf
        ends = np.empty(width, np.int32)
        _merge(heads, best, ranks, no_gains, scores[s, :width], ends)
        scores[s, :width] += shifts.sum()
        for r in range(width):
            if scores[s, r] == -np.inf:
                break
            origin = ends[r]
            for t in range(stop - 1, start, -1):
                labels[r, t] = origin // width
                origin = origins[t - start, origin // width, origin % width]
            labels[r, start] = origin // width


@njit(nogil=True, cache=True)
def _weigh(log_alpha, gains, weights):
    """Set weights to exp(log_alpha + gains - peak); return the peak and their sum."""
    peak = -np.inf
    for a in range(len(weights)):
        weights[a] = log_alpha[a] + gains[a]
        peak = max(peak, weights[a])
    total = 0.0
    for a in range(len(weights)):
        weights[a] = np.exp(weights[a] - peak) if weights[a] > -np.inf else 0.0
        total += weights[a]
    return peak, total


@njit(nogil=True, cache=True)
def _draw(weights, total, uniform):
    """The first label whose cumulative weight exceeds uniform * total, never one of weight zero."""
    cumulative, label = 0.0, 0
    for a in range(len(weights)):
        if weights[a] > 0.0:
            cumulative += weights[a]
            label = a
            if cumulative > uniform * total:
                break
    return label


@njit(nogil=True, cache=True)
def _sample(node, edge, offsets, first, last, uniforms, labels, log_peaks):
    n_labels = node.shape[1]
    weights, no_gains = np.empty(n_labels), np.zeros(n_labels)
    for s in range(first, last):
        start, stop = offsets[s], offsets[s + 1]
        log_alpha = node[start:stop].copy()
        shifts = np.zeros(2)
        feasible = shift(log_alpha[0], shifts)
        for t in range(start + 1, stop):
            e = t if edge.shape[0] > 1 else 0
            for b in range(n_labels):
                peak, total = _weigh(log_alpha[t - 1 - start], edge[e, :, b], weights)
                log_alpha[t - start, b] += peak + np.log(total) if total > 0.0 else -np.inf
            feasible = feasible and shift(log_alpha[t - start], shifts)
        log_peaks[s] = shifts.sum() if feasible else -np.inf
        for i in range(len(labels) if feasible else 0):
            _, total = _weigh(log_alpha[stop - 1 - start], no_gains, weights)
            labels[i, stop - 1] = _draw(weights, total, uniforms[i, stop - 1])
            for t in range(stop - 1, start, -1):
                e = t if edge.shape[0] > 1 else 0
                _, total = _weigh(log_alpha[t - 1 - start], edge[e, :, labels[i, t]], weights)
                labels[i, t - 1] = _draw(weights, total, uniforms[i, t - 1])


@njit(nogil=True, cache=True)
def _mix(entropies, log_alpha, gains, weights, peak, total):
    """Entropy of a label drawn in proportion to weights, plus the mean of what each label leaves open."""
    mixed = 0.0
    for a in range(len(weights)):
        if weights[a] > 0.0:
            mixed += weights[a] * (entropies[a] + peak - log_alpha[a] - gains[a])
    return mixed / total + np.log(total) if total > 0.0 else 0.0


@njit(nogil=True, cache=True)
def _entropy(node, edge, offsets, first, last, results):
    n_labels = node.shape[1]
    weights, no_gains = np.empty(n_labels), np.zeros(n_labels)
    entropies, previous_entropies = np.zeros(n_labels), np.zeros(n_labels)
    log_alpha, previous = np.empty(n_labels), np.empty(n_labels)
    for s in range(first, last):
        start, stop = offsets[s], offsets[s + 1]
        log_alpha[:] = node[start]
        entropies[:] = 0.0
        shifts, open_nats = np.zeros(2), np.zeros(2)
        feasible = shift(log_alpha, shifts)
        for t in range(start + 1, stop):
            e = t if edge.shape[0] > 1 else 0
            previous[:] = log_alpha
            previous_entropies[:] = entropies
            for b in range(n_labels):
                peak, total = _weigh(previous, edge[e, :, b], weights)
                log_alpha[b] = node[t, b] + peak + np.log(total) if total > 0.0 else -np.inf
                entropies[b] = _mix(previous_entropies, previous, edge[e, :, b], weights, peak, total)
            feasible = feasible and shift(log_alpha, shifts) and shift(entropies, open_nats)
        results[s] = -np.inf
        if feasible:
            peak, total = _weigh(log_alpha, no_gains, weights)
            results[s] = open_nats.sum() + _mix(entropies, log_alpha, no_gains, weights, peak, total)
