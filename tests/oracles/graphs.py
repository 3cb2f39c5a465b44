"""Every labelling of small graphs, one by one: the oracle that other inference on graphs is tested against.

    p(y)    = exp(score(y)) / sum_y' exp(score(y'))
    m_v(b)  = sum_y p(y) 1[y_v = b],                     and likewise for the labels at each factor
    dm_v(b) = sum_y p(y) (dscore(y) - E dscore) 1[y_v = b],   dscore the score under a direction

Arrays as in ``graph``. A graph of n nodes costs O(n L^n) time and memory, so more than a million labellings are
refused. Fails: ValueError naming the graph when every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.inference.beliefs import GraphBeliefs, GraphInference
from kernelfields.inference.packing import InfeasibleGraph, check_structure
from kernelfields.numerics.threads import Workers

MOST_LABELLINGS = 1_000_000


class EnumeratedGraphs(GraphBeliefs):
    """What enumeration knows: labellings (K, n) of each graph and their probabilities (K,)."""

    inference: GraphEnumeration

    def __init__(self, inference, given, labellings, scores):
        peaks = np.array([each.max() for each in scores])
        sums = np.array([np.exp(each - peak).sum() for each, peak in zip(scores, peaks, strict=True)])
        super().__init__(inference, given, peaks + np.log(sums), np.zeros((inference.n_nodes, inference.n_labels)))
        self.labellings = labellings
        self.scores = scores
        # Subtracting the best score first keeps the digits that a large log partition would swallow.
        self.probabilities = [np.exp(s - p) / t for s, p, t in zip(scores, peaks, sums, strict=True)]
        self.node_marginals = self._counts(np.arange(inference.n_nodes)[:, None], self.probabilities)

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        return self._counts(self.inference.members[group], self.probabilities)

    def _responses(self, d_node, d_tables):
        d_scores = self.inference.scores_of(self.labellings, d_node, d_tables)
        centred = [p * (d - p @ d) for p, d in zip(self.probabilities, d_scores, strict=True)]
        node = self._counts(np.arange(len(d_node))[:, None], centred)
        return self._weighted(node, self.inference.node_graphs), [
            self._summed(group, self._counts(members, centred)) for group, members in enumerate(self.inference.members)
        ]

    def _counts(self, members: np.ndarray, masses: list[np.ndarray]) -> np.ndarray:
        """Return the mass of the labellings that have each combination of labels at each row of members."""
        n_labels, order = self.inference.n_labels, members.shape[1]
        counts = np.zeros((len(members), n_labels**order))
        for m, row in enumerate(members):
            graph = self.inference.node_graphs[row[0]]
            local = self.labellings[graph][:, row - self.inference.offsets[graph]]
            entries = local @ n_labels ** np.arange(order)[::-1]
            counts[m] = np.bincount(entries, masses[graph], n_labels**order)
        return counts.reshape(len(members), *(n_labels,) * order)


class GraphEnumeration(GraphInference):
    """Exact inference on graphs of a few nodes by going through all labellings."""

    method = "enumeration"
    exact = True
    bound = "exact"
    description = "a sum over all labellings: exact"

    def __init__(self, offsets, members, n_labels):
        super().__init__(*check_structure(offsets, members, n_labels))
        largest = int(np.diff(self.offsets).max(initial=0))
        if self.n_labels**largest > MOST_LABELLINGS:
            raise ValueError(
                f"a graph has {self.n_labels}^{largest} labellings, enumeration takes at most {MOST_LABELLINGS}"
            )

    def _infer(self, given, workers):
        labellings = [
            np.arange(self.n_labels**size)[:, None] // self.n_labels ** np.arange(size) % self.n_labels
            for size in np.diff(self.offsets).tolist()
        ]
        scores = self.scores_of(labellings, given.node, given.tables)
        for graph, each in enumerate(scores):
            if each.max() == -np.inf:
                raise InfeasibleGraph(graph)
        return EnumeratedGraphs(self, given, labellings, scores)

    def scores_of(
        self, labellings: list[np.ndarray], node: np.ndarray, factors: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the scores of the labellings (K, n) of each graph."""
        scores = [np.zeros(len(each)) for each in labellings]
        for graph, each in enumerate(labellings):
            for local, v in enumerate(range(self.offsets[graph], self.offsets[graph + 1])):
                scores[graph] += node[v, each[:, local]]
        for members, tables in zip(self.members, factors, strict=True):
            for m, row in enumerate(members):
                graph = self.node_graphs[row[0]]
                table = tables[0 if len(tables) == 1 else m]
                scores[graph] += table[tuple(labellings[graph][:, row - self.offsets[graph]].T)]
        return scores

    def _decode(self, given, workers):
        beliefs = self._infer(given, workers)
        best = [each.argmax() for each in beliefs.scores]
        labels = [each[b] for each, b in zip(beliefs.labellings, best, strict=True)]
        return np.concatenate(labels), np.array([each.max() for each in beliefs.scores])

    def _sample(self, given, n_samples, random):
        beliefs = self._infer(given, Workers(1))
        drawn = [
            each[random.choice(len(each), size=n_samples, p=p)]
            for each, p in zip(beliefs.labellings, beliefs.probabilities, strict=True)
        ]
        return np.concatenate(drawn, axis=1)
