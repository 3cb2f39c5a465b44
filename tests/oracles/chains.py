"""Every labelling of short chains, one by one: the oracle that other inference is tested against.

    p(y)         = exp(score(y)) / sum_y' exp(score(y'))
    m_t(b)       = sum_y p(y) 1[y_t = b]
    X_t(a, b)    = sum_y p(y) 1[y_{t-1} = a, y_t = b]
    H            = -sum_y p(y) log p(y)
    dm_t(b)      = Cov(1[y_t = b], dscore(y)) = sum_y p(y) (dscore(y) - E dscore) 1[y_t = b]

and dX likewise, where dscore is the score under the direction (d_node, d_edge).

Arrays: node (N, L), edge (E, L, L) with E = 1 or N, offsets (S + 1,), see ``packing``. A sequence of
length T costs O(T L^T) time and memory, so more than a million labellings are refused.
Fails: ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelfields.inference.packing import InfeasibleSequence, check_potentials

MOST_LABELLINGS = 1_000_000


@dataclass(frozen=True)
class EnumeratedSequence:
    """The K feasible labellings of one sequence, best first.

    Equal scores are ordered by their last label, then by the one before it, and so on: the order in
    which a Viterbi pass that prefers low labels finds them.
    """

    labellings: np.ndarray  # (K, T)
    scores: np.ndarray  # (K,)
    log_probabilities: np.ndarray  # (K,)
    log_partition: float


@dataclass(frozen=True)
class EnumeratedChains:
    """What enumeration knows about packed chains of N positions in S sequences."""

    offsets: np.ndarray  # (S + 1,)
    sequences: tuple[EnumeratedSequence, ...]
    log_partition: np.ndarray  # (S,)
    node_marginals: np.ndarray  # (N, L)
    edge_marginals: np.ndarray  # (N, L, L), zero at sequence starts
    labels: np.ndarray  # (N,), the best labelling
    scores: np.ndarray  # (S,), its score
    entropy: np.ndarray  # (S,), in nats

    def hessian_product(self, d_node: np.ndarray, d_edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives (N, L), (N, L, L) of the marginals along (d_node, d_edge)."""
        d_node_marginals = np.zeros_like(self.node_marginals)
        d_edge_marginals = np.zeros_like(self.edge_marginals)
        for i, sequence in enumerate(self.sequences):
            rows = slice(self.offsets[i], self.offsets[i + 1])
            probabilities = np.exp(sequence.log_probabilities)
            d_scores = _scores(sequence.labellings, d_node[rows], _edges_of(d_edge, rows))
            centred = probabilities * (d_scores - probabilities @ d_scores)
            d_node_marginals[rows], d_edge_marginals[rows] = _counts(sequence.labellings, centred, d_node.shape[1])
        return d_node_marginals, d_edge_marginals


def enumerate_chain(node: np.ndarray, edge: np.ndarray, offsets: np.ndarray) -> EnumeratedChains:
    """Enumerate the labellings of every sequence."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    n_positions, n_labels = node.shape
    node_marginals = np.zeros((n_positions, n_labels))
    edge_marginals = np.zeros((n_positions, n_labels, n_labels))
    sequences = []
    for i in range(len(offsets) - 1):
        rows = slice(offsets[i], offsets[i + 1])
        sequence = _enumerate_sequence(i, node[rows], _edges_of(edge, rows))
        sequences.append(sequence)
        node_marginals[rows], edge_marginals[rows] = _counts(
            sequence.labellings, np.exp(sequence.log_probabilities), n_labels
        )
    best = [sequence.labellings[0] for sequence in sequences]
    return EnumeratedChains(
        offsets=offsets,
        sequences=tuple(sequences),
        log_partition=np.array([sequence.log_partition for sequence in sequences]),
        node_marginals=node_marginals,
        edge_marginals=edge_marginals,
        labels=np.concatenate(best) if best else np.zeros(0, dtype=np.int64),
        scores=np.array([sequence.scores[0] for sequence in sequences]),
        entropy=np.array([-np.exp(s.log_probabilities) @ s.log_probabilities for s in sequences]),
    )


def _enumerate_sequence(index: int, node: np.ndarray, edge: np.ndarray) -> EnumeratedSequence:
    length, n_labels = node.shape
    if n_labels**length > MOST_LABELLINGS:
        raise ValueError(
            f"sequence {index} has {n_labels}^{length} labellings, enumeration takes at most "
            f"{MOST_LABELLINGS}; use chain inference for sequences of this length"
        )
    # Counting in base L with the last position as the leading digit gives the order of ties.
    numbers = np.arange(n_labels**length)
    labellings = numbers[:, None] // n_labels ** np.arange(length) % n_labels
    scores = _scores(labellings, node, edge)
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > -np.inf]
    if order.size == 0:
        raise InfeasibleSequence(index)
    labellings, scores = labellings[order], scores[order]
    below_best = np.log(np.sum(np.exp(scores - scores[0])))
    return EnumeratedSequence(
        labellings=labellings,
        scores=scores,
        # Subtracting the best score first keeps the digits that a large log partition would swallow.
        log_probabilities=(scores - scores[0]) - below_best,
        log_partition=float(scores[0] + below_best),
    )


def _edges_of(edge: np.ndarray, rows: slice) -> np.ndarray:
    """The edge potentials (T, L, L) of one sequence."""
    length = rows.stop - rows.start
    return np.broadcast_to(edge, (length, *edge.shape[1:])) if edge.shape[0] == 1 else edge[rows]


def _scores(labellings: np.ndarray, node: np.ndarray, edge: np.ndarray) -> np.ndarray:
    scores = np.zeros(len(labellings))
    for t in range(len(node)):
        scores += node[t, labellings[:, t]]
        if t > 0:
            scores += edge[t, labellings[:, t - 1], labellings[:, t]]
    return scores


def _counts(labellings: np.ndarray, weights: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Total weight of the labellings that hold each label (T, L) and take each step (T, L, L)."""
    length = labellings.shape[1]
    nodes = np.zeros((length, n_labels))
    edges = np.zeros((length, n_labels, n_labels))
    for t in range(length):
        nodes[t] = np.bincount(labellings[:, t], weights, n_labels)
        if t > 0:
            steps = labellings[:, t - 1] * n_labels + labellings[:, t]
            edges[t] = np.bincount(steps, weights, n_labels**2).reshape(n_labels, n_labels)
    return nodes, edges
