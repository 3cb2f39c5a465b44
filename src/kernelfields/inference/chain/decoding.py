"""Best labellings, n best labellings and exact samples of packed chains.

    best      d_t(b)   = u_t(b) + max_a (d_{t-1}(a) + w_t(a, b)), then follow the arg max backwards
    n best    d_t(b)   is the list of the k best scores of prefixes that end in b: a merge of L sorted lists
    samples   y_T      ~ alpha_T(.),  y_{t-1} ~ q_t(. | y_t)  prop. to  alpha_{t-1}(.) exp w_t(., y_t)

Scores are shifted to a maximum of zero at every position, so potentials of any size, -inf included, are safe. Samples
come from the arrays of scaled_compiled.py.

Arrays: node (N, L), edge (E, L, L) with E = 1 or N, offsets (S + 1,), see inference/packing.py. A sequence of
length T costs O(T L^2) time (``n_best``: O(T L^2 k)) and, per thread and beyond the result, O(T L) memory
(``n_best``: O(T L k)); each sample takes O(T L) time. The threads of ``workers`` share out the sequences, without
changing the result; without workers the calling thread does them all. Fails: ValueError naming the sequence when every
labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelfields.inference.packing import check_potentials, raise_if_infeasible
from kernelfields.inference.sums_compiled import best_steps, copy_row, drawn, first_largest, shift
from kernelfields.numerics.compiled import njit
from kernelfields.numerics.parameters import check_count
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
    check_count(k, "k")
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
        copy_row(node[start], best)
        feasible = shift(best, shifts)
        for t in range(start + 1, stop):
            e = t if edge.shape[0] > 1 else 0
            pointer = pointers[t - start]
            copy_row(best, previous)
            best_steps(previous, edge[e], best, pointer)
            best += node[t]
            feasible = feasible and shift(best, shifts)
        scores[s] = shifts.sum() if feasible else -np.inf
        if feasible:
            labels[stop - 1] = first_largest(best)
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
        copy_row(node[start], best[:, 0])
        shifts = np.zeros(2)
        feasible = shift(best, shifts)
        for t in range(start + 1, stop):
            e = t if edge.shape[0] > 1 else 0
            previous = best.copy()
            for b in range(n_labels):
                _merge(heads, previous, ranks, edge[e, :, b], best[b], origins[t - start, b])
                # A loop: numba takes longer to compile sums of arrays, with texts for shapes that do not fit.
                for r in range(width):
                    best[b, r] += node[t, b]
            feasible = feasible and shift(best, shifts)
        if not feasible:
            continue  # the scores stay -inf
        ends = np.empty(width, np.int32)
        _merge(heads, best, ranks, no_gains, scores[s, :width], ends)
        for r in range(width):
            scores[s, r] += shifts[0] + shifts[1]
            if scores[s, r] == -np.inf:
                break
            origin = ends[r]
            for t in range(stop - 1, start, -1):
                labels[r, t] = origin // width
                origin = origins[t - start, origin // width, origin % width]
            labels[r, start] = origin // width


@njit(nogil=True, cache=True)
def draw_backward(first, last, offsets, passes, uniforms, labels):
    """Fill labels (n, N) of sequences first..last-1; passes are ``ScaledPasses``, uniforms (n, N) in [0, 1) decide."""
    transfer, alpha = passes.transfer, passes.alpha
    n_labels = alpha.shape[1]
    weights = np.empty(n_labels)
    for s in range(first, last):
        for i in range(len(labels)):
            for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
                copy_row(alpha[t], weights)
                if t < offsets[s + 1] - 1:
                    step = transfer[t + 1 if transfer.shape[0] > 1 else 0]
                    for a in range(n_labels):
                        weights[a] *= step[a, labels[i, t + 1]]
                labels[i, t] = drawn(weights, n_labels, uniforms[i, t])
