"""Every labelling of the short sequences of packed chains.

Arrays: node (N, L), edge (E, L, L) with E = 1 or N, offsets (S + 1,), see ``packing``.
Fails: ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kernelfields.inference import InfeasibleSequence
from kernelfields.inference.packing import check_potentials
from tests.oracles.labellings import Labellings, compute_scores


class EnumeratedChains:
    """What enumeration knows about packed chains of N positions in S sequences.

    ``sequences`` hold the labellings that are possible, best first, ``labels`` (N,) and ``scores`` (S,) the best one,
    ``edge_marginals`` (N, L, L) are zero at sequence starts.
    """

    def __init__(self, sequences: list[Labellings]):
        self.sequences = sequences
        self.log_partition = np.array([each.log_partition for each in sequences])
        self.entropy = np.array([each.entropy for each in sequences])
        self.labels = np.concatenate([each.best for each in sequences])
        self.scores = np.array([each.scores[0] for each in sequences])
        self.node_marginals, self.edge_marginals = self._counts([each.probabilities for each in sequences])

    def hessian_product(self, d_node: np.ndarray, d_edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives (N, L), (N, L, L) of the marginals along (d_node, d_edge)."""
        bounds = pairwise(np.cumsum([0, *(each.labellings.shape[1] for each in self.sequences)]))
        along = [_scored(d_node, d_edge, *own) for own in bounds]
        return self._counts(
            [
                each.response(compute_scores(each.labellings, *way))
                for each, way in zip(self.sequences, along, strict=True)
            ]
        )

    def _counts(self, masses: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the mass of the labellings that hold each label (N, L) and take each step (N, L, L)."""
        nodes, edges = [], []
        for own, mass in zip(self.sequences, masses, strict=True):
            length = own.labellings.shape[1]
            nodes += [own.joint((t,), mass) for t in range(length)]
            edges += [np.zeros((own.n_labels, own.n_labels)), *(own.joint((t - 1, t), mass) for t in range(1, length))]
        return np.array(nodes), np.array(edges)


def enumerate_chain(node: np.ndarray, edge: np.ndarray, offsets: np.ndarray) -> EnumeratedChains:
    """Enumerate the labellings of every sequence."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    sequences = [Labellings.of(*_scored(node, edge, begin, end)) for begin, end in pairwise(offsets.tolist())]
    for number, each in enumerate(sequences):
        if not each.possible:
            raise InfeasibleSequence(number)
    return EnumeratedChains([each.best_first() for each in sequences])


def _scored(node: np.ndarray, edge: np.ndarray, begin: int, end: int) -> tuple[np.ndarray, list]:
    """Return the node scores and the factors of one sequence."""
    tables = edge[[0] * (end - begin)] if len(edge) == 1 else edge[begin:end]
    return node[begin:end], [((t - 1, t), tables[t]) for t in range(1, end - begin)]
