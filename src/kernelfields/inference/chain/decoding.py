"""Best labellings and exact samples of packed chains.

    best      d_t(b)   = u_t(b) + max_a (d_{t-1}(a) + w_t(a, b)), then follow the arg max backwards
    samples   y_T      ~ alpha_T(.),  y_{t-1} ~ q_t(. | y_t)  prop. to  alpha_{t-1}(.) exp w_t(., y_t)

Scores are shifted to a maximum of zero at every position, so potentials of any size, -inf included, are safe. Samples
come from the arrays of scaled_compiled.py.

Arrays: node (N, L), edge (E, L, L) with E = 1 or N, offsets (S + 1,), see inference/packing.py. A sequence of
length T costs O(T L^2) time and, per thread and beyond the result, O(T L) memory; each sample takes O(T L) time. The
threads of ``workers`` share out the sequences, without changing the result; without workers the calling thread does
them all. Raises ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference.packing import check_potentials, raise_if_infeasible
from kernelfields.inference.sums_compiled import best_steps, copy_row, draw_index, first_largest, shift
from kernelfields.numerics.compiled import njit
from kernelfields.numerics.threads import Workers


def viterbi(
    node: np.ndarray, edge: np.ndarray, offsets: np.ndarray, workers: Workers | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score per sequence (S,); the lowest label wins among equals."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    labels = np.zeros(len(node), dtype=np.int64)
    scores = np.zeros(len(offsets) - 1)
    pool = workers or Workers(1)
    pool.each(
        lambda first, last: _viterbi(node, edge, offsets, first, last, labels, scores),
        pool.runs(offsets, node.shape[1]),
    )
    raise_if_infeasible(scores)
    return labels, scores


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
def draw_backward(first, last, offsets, passes, uniforms, labels):
    """Fill samples (n, N) of sequences first..last-1 from ``ScaledPasses`` and uniform numbers (n, N)."""
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
                labels[i, t] = draw_index(weights, n_labels, uniforms[i, t])
