"""Best labellings and marginals of packed chains in NumPy, many sequences at once, in logarithms.

    best      d_t(b) = u_t(b) + max_a (d_{t-1}(a) + w_t(a, b)), then follow the arg max backwards
    forward   log alpha_t(b) = u_t(b) + log sum_a exp(log alpha_{t-1}(a) + w_t(a, b))
    backward  log beta_t(a)  = log sum_b exp(w_{t+1}(a, b) + u_{t+1}(b) + log beta_{t+1}(b))
    marginal  p_t(b) prop. to alpha_t(b) beta_t(b)

Rows are shifted to a maximum of zero at every position, so that potentials of any size, minus infinity included, are
safe. Of equal scores the lowest label wins, as in decoding.py. A step is a few operations on all sequences that are
long enough:
a served model needs no compiler.

Arrays: node (N, L), edge (1, L, L) or (N, L, L), offsets (S + 1,). Cost: O(N L^2).
Raises InfeasibleSequence, a ValueError, naming the first sequence whose labellings are all forbidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kernelfields.inference.chain.step_passes import StepOrder
from kernelfields.inference.packing import InfeasibleSequence, first_largest

_LOWEST = np.finfo(np.float64).min
# Sums of products above this bound have lost no digits to numbers that are too small for doubles.
_SAFE = 1e-250
# Entries of tables of steps that are held at a time: 32 MB of doubles.
_AT_ONCE = 2**22


class Chains(NamedTuple):
    """Potentials of packed chains; ``first`` is the number of the first one in messages."""

    node: np.ndarray
    edge: np.ndarray
    offsets: np.ndarray
    first: int = 0

    def scores_into_positions(self, rows: np.ndarray) -> np.ndarray:
        """Return scores of the steps into some positions, (n, L, L) or (1, L, L)."""
        return self.edge if len(self.edge) == 1 else self.edge[rows]


class Beliefs(NamedTuple):
    """Log partition functions (S,), scaled log alpha and log beta (N, L), and marginals (N, L)."""

    log_partition: np.ndarray
    log_alpha: np.ndarray
    log_beta: np.ndarray
    marginals: np.ndarray


def _groups(offsets: np.ndarray, n_labels: int) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield groups of sequences, longest first, and for each step the positions of the group's sequences."""
    size = max(1, _AT_ONCE // n_labels**2)
    for begin in range(0, len(offsets) - 1, size):
        first = offsets[begin]
        order = StepOrder(offsets[begin : begin + size + 1] - first)
        yield begin + order.sequences, np.split(first + order.permutation, order.begins[1:-1])


def _shift(scores: np.ndarray) -> np.ndarray:
    """Subtract the maximum of every row, in place; return the maxima, -inf if all entries of a row are."""
    peaks = scores.max(axis=1)
    scores -= np.maximum(peaks, _LOWEST)[:, None]
    return peaks


def _raise_if_infeasible(scores: np.ndarray, first: int) -> None:
    if scores.size and scores.min() == -np.inf:
        raise InfeasibleSequence(int(np.flatnonzero(np.isneginf(scores))[0]) + first)


def best_labels(chains: Chains) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score for each sequence (S,)."""
    n_labels = chains.node.shape[1]
    labels, totals = np.empty(len(chains.node), dtype=np.int64), np.zeros(len(chains.offsets) - 1)
    pointers = np.empty((len(chains.node), n_labels), dtype=np.int32)
    for sequences, steps in _groups(chains.offsets, n_labels):
        best = chains.node[steps[0]]
        totals[sequences] += _shift(best)
        last = np.empty(len(sequences), dtype=np.int64)
        for before, rows in pairwise(steps):
            last[len(rows) : len(before)] = first_largest(best[len(rows) :])
            candidates = best[: len(rows), :, None] + chains.scores_into_positions(rows)
            pointers[rows] = first_largest(candidates)
            best = candidates.max(axis=1) + chains.node[rows]
            totals[sequences[: len(rows)]] += _shift(best)
        last[: len(best)] = first_largest(best)
        for rows in reversed(steps):
            labels[rows] = last[: len(rows)]
            last[: len(rows)] = pointers[rows, last[: len(rows)]]
    _raise_if_infeasible(totals, chains.first)
    return labels, totals


def _log_sums(weights: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return log sum_a exp(weights_a + table_ab), (n, L), for rows of weights with a maximum of zero."""
    if len(table) == 1:
        peak = max(table.max(), _LOWEST)
        sums = np.exp(weights) @ np.exp(table[0] - peak)
        logs = np.log(sums) + peak
        if sums.min() <= _SAFE:
            # Where no step leads, the logarithm of zero is right; elsewhere digits were lost.
            possible = (weights > -np.inf).astype(np.float64) @ (table[0] > -np.inf).astype(np.float64)
            lost = np.flatnonzero(((sums <= _SAFE) & (possible > 0)).any(axis=1))
            logs[lost] = _exact_log_sums(weights[lost], table)
        return logs
    return _exact_log_sums(weights, table)


def _exact_log_sums(weights: np.ndarray, table: np.ndarray) -> np.ndarray:
    joint = weights[:, :, None] + table
    peaks = np.maximum(joint.max(axis=1), _LOWEST)
    return np.log(np.exp(joint - peaks[:, None, :]).sum(axis=1)) + peaks


def infer(chains: Chains) -> Beliefs:
    """Return log partition functions and marginals."""
    log_alpha, log_beta = np.empty_like(chains.node), np.zeros_like(chains.node)
    log_partition = np.zeros(len(chains.offsets) - 1)
    with np.errstate(divide="ignore"):  # what is forbidden has the logarithm of zero
        for sequences, steps in _groups(chains.offsets, chains.node.shape[1]):
            for t, rows in enumerate(steps):
                scores = chains.node[rows]
                if t:
                    scores += _log_sums(log_alpha[rows - 1], chains.scores_into_positions(rows))
                log_partition[sequences[: len(rows)]] += _shift(scores)
                log_alpha[rows] = scores
            for rows in reversed(steps[1:]):
                ahead = chains.node[rows] + log_beta[rows]
                _shift(ahead)
                scores = _log_sums(ahead, chains.scores_into_positions(rows).transpose(0, 2, 1))
                _shift(scores)
                log_beta[rows - 1] = scores
    _raise_if_infeasible(log_partition, chains.first)
    ends = chains.offsets[1:] - 1
    log_partition += np.log(np.exp(log_alpha[ends]).sum(axis=1))
    joint = log_alpha + log_beta
    joint -= joint.max(axis=1, keepdims=True)
    marginals = np.exp(joint)
    marginals /= marginals.sum(axis=1, keepdims=True)
    return Beliefs(log_partition, log_alpha, log_beta, marginals)


def pair_marginals(chains: Chains, beliefs: Beliefs) -> np.ndarray:
    """Return p(y_{t-1} = a, y_t = b), (N, L, L), zero at the start of each sequence."""
    is_step = np.ones(len(chains.node), dtype=bool)
    is_step[chains.offsets[:-1]] = False
    rows = np.flatnonzero(is_step)
    ahead = chains.node[rows] + beliefs.log_beta[rows]
    joint = beliefs.log_alpha[rows - 1][:, :, None] + chains.scores_into_positions(rows) + ahead[:, None, :]
    joint -= joint.max(axis=(1, 2), keepdims=True, initial=_LOWEST)
    pairs = np.zeros((len(chains.node), *joint.shape[1:]))
    pairs[rows] = np.exp(joint)
    pairs[rows] /= pairs[rows].sum(axis=(1, 2), keepdims=True)
    return pairs
