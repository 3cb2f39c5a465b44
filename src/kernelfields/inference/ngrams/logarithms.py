"""Inference over an automaton in logarithms, one sequence at a time: the reference, for potentials of any size.

With F_t(s) the log of the sum over all continuations of state s at position t, x the score of arc and label:

    F_{t-1}(s) = log sum_y exp(x_t(s, y) + F_t(target(s, y))),       F_T = 0
    P_t(y | s) = exp(x_t(s, y) + F_t(target(s, y)) - F_{t-1}(s))
    p_t(s', y) = sum over s with target(s, y) = s' of p_{t-1}(s) P_t(y | s)

and derivatives along a direction by the rules of calculus. Probabilities are only multiplied and added, so that none
that matters underflows. Arrays: node (T, L); scores (T, A), those of the arcs into every position, the first row
unused. Cost O(T S L) in NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kernelfields.inference.ngrams.automaton import NgramAutomaton


class SequenceBeliefs(NamedTuple):
    """Log Z, or the expected score of a direction; marginals (T, L) and arcs (T, A), or their derivatives."""

    log_partition: float
    marginals: np.ndarray
    arcs: np.ndarray


def log_futures(automaton: NgramAutomaton, scores: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return F, (T, S)."""
    arc_table = automaton.arc_table
    targets = automaton.arcs.target[arc_table]
    futures = np.zeros((len(node), automaton.n_states))
    for t in range(len(node) - 1, 0, -1):
        futures[t - 1] = _log_sum(scores[t][arc_table] + node[t] + futures[t][targets])
    return futures


def infer_in_logarithms(
    automaton: NgramAutomaton,
    scores: np.ndarray,
    node: np.ndarray,
    direction: tuple[np.ndarray, np.ndarray] | None = None,
) -> SequenceBeliefs:
    """Return the beliefs of one sequence; log Z is minus infinity if every labelling is forbidden.

    With a ``direction`` in scores and node, return derivatives of marginals and arcs along it.
    """
    n_labels, n_states, arc_table = automaton.n_labels, automaton.n_states, automaton.arc_table
    targets = automaton.arcs.target[arc_table]
    d_scores, d_node = direction or (np.zeros_like(scores), np.zeros_like(node))
    futures = log_futures(automaton, scores, node)
    d_futures = np.zeros_like(futures)
    shares = np.zeros((len(node), n_states, n_labels))
    for t in range(len(node) - 1, 0, -1):
        with np.errstate(invalid="ignore"):
            shares[t] = np.exp(scores[t][arc_table] + node[t] + futures[t][targets] - futures[t - 1][:, None])
        shares[t][np.isneginf(futures[t - 1])] = 0.0
        slopes = d_scores[t][arc_table] + d_node[t] + d_futures[t][targets]
        d_futures[t - 1] = np.sum(shares[t] * slopes, axis=1)
    first = node[0] + futures[0, :n_labels]
    log_partition = float(_log_sum(first[None])[0])
    marginals, arcs = np.zeros_like(node), np.zeros((len(node), automaton.n_arcs))
    if log_partition == -np.inf:
        return SequenceBeliefs(log_partition, marginals, arcs)
    states: np.ndarray = np.zeros(n_states)
    d_states: np.ndarray = np.zeros(n_states)
    states[:n_labels] = np.exp(first - log_partition)
    slope = d_node[0] + d_futures[0, :n_labels]
    mean = float(states[:n_labels] @ slope)
    d_states[:n_labels] = states[:n_labels] * (slope - mean)
    marginals[0] = (states if direction is None else d_states)[:n_labels]
    for t in range(1, len(node)):
        joint = states[:, None] * shares[t]
        slopes = d_scores[t][arc_table] + d_node[t] + d_futures[t][targets] - d_futures[t - 1][:, None]
        d_joint = d_states[:, None] * shares[t] + joint * slopes
        states = np.bincount(targets.ravel(), joint.ravel(), n_states).astype(np.float64, copy=False)
        d_states = np.bincount(targets.ravel(), d_joint.ravel(), n_states).astype(np.float64, copy=False)
        chosen = joint if direction is None else d_joint
        marginals[t] = chosen.sum(axis=0)
        arcs[t] = np.bincount(arc_table.ravel(), chosen.ravel(), automaton.n_arcs)
    return SequenceBeliefs(log_partition if direction is None else mean, marginals, arcs)


def _log_sum(rows: np.ndarray) -> np.ndarray:
    """Return log-sum-exp of each row; minus infinity if all entries are."""
    top = rows.max(axis=1, keepdims=True)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return (safe + np.log(np.exp(rows - safe).sum(axis=1, keepdims=True)))[:, 0]
