"""Chain inference in plain NumPy and in the log domain: the twin that compiled passes are tested against.

The forward and backward recursions in logarithms, for packed chains and without compiled code.

Arrays: node (N, L), edge (E, L, L) with E = 1 or N, offsets (S + 1,), see inference/packing.py. Cost
O(N L^2) time and memory, with a Python loop over positions.
Fails: ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kernelfields.inference.packing import InfeasibleSequence, check_offsets, check_potentials


@dataclass(frozen=True)
class ReferenceBeliefs:
    """Marginals and conditionals of packed chains; arrays of steps are zero at sequence starts."""

    log_partition: np.ndarray  # (S,)
    node_marginals: np.ndarray  # (N, L): p(y_t = b | x)
    edge_marginals: np.ndarray  # (N, L, L): p(y_{t-1} = a, y_t = b | x)
    backward_weights: np.ndarray  # (N, L, L): p(y_{t-1} = a | y_t = b, x_1..t), 0 where impossible
    forward_weights: np.ndarray  # (N, L, L): p(y_t = b | y_{t-1} = a, x), 0 where impossible


def reference_beliefs(node: np.ndarray, edge: np.ndarray, offsets: np.ndarray) -> ReferenceBeliefs:
    """Run the forward and the backward pass over every sequence."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    n_positions, n_labels = node.shape
    edge = np.broadcast_to(edge, (n_positions, n_labels, n_labels))
    beliefs = ReferenceBeliefs(
        log_partition=np.zeros(len(offsets) - 1),
        node_marginals=np.zeros((n_positions, n_labels)),
        edge_marginals=np.zeros((n_positions, n_labels, n_labels)),
        backward_weights=np.zeros((n_positions, n_labels, n_labels)),
        forward_weights=np.zeros((n_positions, n_labels, n_labels)),
    )
    for i in range(len(offsets) - 1):
        start, stop = int(offsets[i]), int(offsets[i + 1])
        shifts = [float(node[start].max())]
        if shifts[0] == -np.inf:
            raise InfeasibleSequence(i)
        log_alpha = node[start] - shifts[0]
        for t in range(start + 1, stop):
            joint = log_alpha[:, None] + edge[t]
            beliefs.backward_weights[t] = _softmax(joint, axis=0)
            log_alpha = node[t] + _log_sum(joint, axis=0)
            shifts.append(float(log_alpha.max()))
            if shifts[-1] == -np.inf:
                raise InfeasibleSequence(i)
            log_alpha -= shifts[-1]
        beliefs.log_partition[i] = math.fsum([*shifts, float(_log_sum(log_alpha, axis=0))])

        beliefs.node_marginals[stop - 1] = _softmax(log_alpha, axis=0)
        log_beta = np.zeros(n_labels)
        for t in range(stop - 1, start, -1):
            joint = edge[t] + node[t] + log_beta
            beliefs.forward_weights[t] = _softmax(joint, axis=1)
            log_beta = _log_sum(joint, axis=1)
            log_beta -= log_beta.max()
            beliefs.edge_marginals[t] = beliefs.backward_weights[t] * beliefs.node_marginals[t]
            beliefs.node_marginals[t - 1] = beliefs.edge_marginals[t].sum(axis=1)
    return beliefs


def reference_hessian_product(
    beliefs: ReferenceBeliefs, d_node: np.ndarray, d_edge: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivatives (N, L), (N, L, L) of the marginals along d_node (N, L), d_edge (E, L, L)."""
    marginals, pairs = beliefs.node_marginals, beliefs.edge_marginals
    offsets = check_offsets(offsets, len(marginals))
    if d_node.shape != marginals.shape:
        raise ValueError(f"d_node must have the shape {marginals.shape} of the node potentials, got {d_node.shape}")
    if d_edge.shape not in ((1, *pairs.shape[1:]), pairs.shape):
        raise ValueError(
            f"d_edge must have shape {(1, *pairs.shape[1:])} or {pairs.shape}, got {d_edge.shape}; "
            "write d_edge[None] for a single matrix"
        )
    d_edge = np.broadcast_to(d_edge, pairs.shape)
    d_marginals, d_pairs = np.zeros_like(marginals), np.zeros_like(pairs)
    before = np.array(d_node, dtype=np.float64)  # A_t
    after = np.zeros_like(before)  # B_t
    for start, stop in pairwise(offsets):
        for t in range(start + 1, stop):
            before[t] += np.sum(beliefs.backward_weights[t] * (before[t - 1][:, None] + d_edge[t]), axis=0)
        for t in range(stop - 1, start, -1):
            after[t - 1] = np.sum(beliefs.forward_weights[t] * (d_edge[t] + d_node[t] + after[t]), axis=1)
        expected = marginals[stop - 1] @ before[stop - 1]
        d_marginals[start:stop] = marginals[start:stop] * (before[start:stop] + after[start:stop] - expected)
        for t in range(start + 1, stop):
            deviation = before[t - 1][:, None] + d_edge[t] + d_node[t] + after[t] - expected
            d_pairs[t] = pairs[t] * deviation
    return d_marginals, d_pairs


def _log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    """Log of the sum of exponentials, -inf where every value is -inf."""
    peak = _finite_peak(values, axis)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(values - peak), axis=axis)) + np.squeeze(peak, axis=axis)


def _softmax(values: np.ndarray, axis: int) -> np.ndarray:
    """Exponentials normalised to sum to one, all zero where every value is -inf."""
    weights = np.exp(values - _finite_peak(values, axis))
    total = np.sum(weights, axis=axis, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def _finite_peak(values: np.ndarray, axis: int) -> np.ndarray:
    # -inf minus -inf is NaN; a peak of 0 lets exp(-inf) = 0 speak for itself.
    peak = np.max(values, axis=axis, keepdims=True)
    return np.where(np.isneginf(peak), 0.0, peak)
