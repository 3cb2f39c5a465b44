"""Every labelling of small graphs, one by one: the oracle that other inference on graphs is tested against.

    p(y)    = exp(score(y)) / sum_y' exp(score(y'))
    m_v(b)  = sum_y p(y) 1[y_v = b],                     and likewise for the labels at each factor
    dm_v(b) = sum_y p(y) (dscore(y) - E dscore) 1[y_v = b],   dscore the score under a direction

Arrays as in inference/graphs.py. A graph of n nodes costs O(n L^n) time and memory, so more than a million labellings
are refused. Fails: ValueError naming the graph when every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.inference.packing import InfeasibleGraph

MOST_LABELLINGS = 1_000_000


class EnumeratedGraphs:
    """What enumeration knows: labellings (K, n) of each graph and their probabilities (K,)."""

    def __init__(self, graphs, tied, labellings, scores, weights=None):
        peaks = np.array([each.max() for each in scores])
        sums = np.array([np.exp(each - peak).sum() for each, peak in zip(scores, peaks, strict=True)])
        self.graphs = graphs
        self.tied = tied
        self.weights = np.ones(graphs.n_graphs) if weights is None else np.asarray(weights)
        self.log_partition = peaks + np.log(sums)
        self.labellings = labellings
        self.scores = scores
        # Subtracting the best score first keeps the digits that a large log partition would swallow.
        self.probabilities = [np.exp(s - p) / t for s, p, t in zip(scores, peaks, sums, strict=True)]
        self.node_marginals = self._counts(np.arange(graphs.n_nodes)[:, None], self.probabilities)

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        return self._counts(self.graphs.members[group], self.probabilities)

    def gradient(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the weighted marginals of nodes and factors, summed where these are tied."""
        return self._weighted_counts(self.probabilities)

    def hessian_product(self, d_node, d_tables) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the weighted covariances of all counts with the score of a direction."""
        d_scores = self.graphs.scores_of(self.labellings, d_node, d_tables)
        return self._weighted_counts([p * (d - p @ d) for p, d in zip(self.probabilities, d_scores, strict=True)])

    def _weighted_counts(self, masses: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        weighted = [weight * mass for weight, mass in zip(self.weights, masses, strict=True)]
        tables = [self._counts(members, weighted) for members in self.graphs.members]
        return self._counts(np.arange(self.graphs.n_nodes)[:, None], weighted), [
            table.sum(axis=0, keepdims=True) if tied else table for table, tied in zip(tables, self.tied, strict=True)
        ]

    def _counts(self, members: np.ndarray, masses: list[np.ndarray]) -> np.ndarray:
        """Return the mass of the labellings that have each combination of labels at each row of members."""
        n_labels, order = self.graphs.n_labels, members.shape[1]
        counts = np.zeros((len(members), n_labels**order))
        for m, row in enumerate(members):
            graph = self.graphs.node_graphs[row[0]]
            local = self.labellings[graph][:, row - self.graphs.offsets[graph]]
            entries = local @ n_labels ** np.arange(order)[::-1]
            counts[m] = np.bincount(entries, masses[graph], n_labels**order)
        return counts.reshape(len(members), *(n_labels,) * order)


class GraphEnumeration:
    """Exact inference on graphs of a few nodes by going through all labellings."""

    def __init__(self, offsets, members, n_labels):
        self.offsets = np.asarray(offsets)
        self.members = [np.asarray(each) for each in members]
        self.n_labels, self.n_graphs, self.n_nodes = n_labels, len(self.offsets) - 1, int(self.offsets[-1])
        self.node_graphs = np.repeat(np.arange(self.n_graphs), np.diff(self.offsets))
        largest = int(np.diff(self.offsets).max(initial=0))
        if self.n_labels**largest > MOST_LABELLINGS:
            raise ValueError(
                f"a graph has {self.n_labels}^{largest} labellings, enumeration takes at most {MOST_LABELLINGS}"
            )

    def infer(self, node, factors, *, weights=None) -> EnumeratedGraphs:
        """Go through all labellings; ``weights`` (S,) weigh the graphs in gradients."""
        labellings = [
            np.arange(self.n_labels**size)[:, None] // self.n_labels ** np.arange(size) % self.n_labels
            for size in np.diff(self.offsets).tolist()
        ]
        scores = self.scores_of(labellings, node, factors)
        for graph, each in enumerate(scores):
            if each.max() == -np.inf:
                raise InfeasibleGraph(graph)
        return EnumeratedGraphs(self, [len(table) == 1 for table in factors], labellings, scores, weights)

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

    def decode(self, node, factors) -> tuple[np.ndarray, np.ndarray]:
        """Return the best labelling (N,), the first of equals, and its scores (S,)."""
        beliefs = self.infer(node, factors)
        best = [each.argmax() for each in beliefs.scores]
        labels = [each[b] for each, b in zip(beliefs.labellings, best, strict=True)]
        return np.concatenate(labels), np.array([each.max() for each in beliefs.scores])

    def sample(self, node, factors, n_samples, random) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        beliefs, random = self.infer(node, factors), np.random.default_rng(random)
        drawn = [
            each[random.choice(len(each), size=n_samples, p=p)]
            for each, p in zip(beliefs.labellings, beliefs.probabilities, strict=True)
        ]
        return np.concatenate(drawn, axis=1)
