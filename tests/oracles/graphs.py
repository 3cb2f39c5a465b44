"""Every labelling of small graphs, with the counts of the labels at their nodes and factors.

Arrays as in inference/graphs.py. Fails: ValueError naming the graph when every labelling is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.inference import InfeasibleGraph
from tests.oracles.labellings import Labellings, all_labellings, compute_scores


class EnumeratedGraphs:
    """What enumeration knows: labellings (K, n) of each graph and their probabilities (K,)."""

    def __init__(self, graphs: GraphEnumeration, tied: list[bool], items: list[Labellings], weights=None):
        self.graphs, self.tied, self.items = graphs, tied, items
        self.weights = np.ones(graphs.n_graphs) if weights is None else np.asarray(weights)
        self.log_partition = np.array([each.log_partition for each in items])
        self.labellings, self.scores = [each.labellings for each in items], [each.scores for each in items]
        self.probabilities = [each.probabilities for each in items]
        self.node_marginals = self._counts(np.arange(graphs.n_nodes)[:, None], self.probabilities)

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        return self._counts(self.graphs.members[group], self.probabilities)

    def gradient(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the weighted marginals of nodes and factors, summed where these are tied."""
        return self._weighted_counts(self.probabilities)

    def hessian_product(self, d_node, d_tables) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the weighted covariances of all counts with the score of a direction."""
        d_scores = self.graphs.compute_scores(self.labellings, d_node, d_tables)
        return self._weighted_counts([each.response(way) for each, way in zip(self.items, d_scores, strict=True)])

    def _weighted_counts(self, masses: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        weighted = [weight * mass for weight, mass in zip(self.weights, masses, strict=True)]
        tables = [self._counts(members, weighted) for members in self.graphs.members]
        return self._counts(np.arange(self.graphs.n_nodes)[:, None], weighted), [
            table.sum(axis=0, keepdims=True) if tied else table for table, tied in zip(tables, self.tied, strict=True)
        ]

    def _counts(self, members: np.ndarray, masses: list[np.ndarray]) -> np.ndarray:
        """Return the mass of the labellings that have each combination of labels at each row of members."""
        counts = np.zeros((len(members), *(self.graphs.n_labels,) * members.shape[1]))
        for number, (graph, local) in enumerate(self.graphs.places(members)):
            counts[number] = self.items[graph].joint(local, masses[graph])
        return counts


class GraphEnumeration:
    """Exact inference on graphs of a few nodes by going through all labellings."""

    def __init__(self, offsets, members, n_labels):
        self.offsets = np.asarray(offsets)
        self.members = [np.asarray(each) for each in members]
        self.n_labels, self.n_graphs, self.n_nodes = n_labels, len(self.offsets) - 1, int(self.offsets[-1])
        self._node_graphs = np.repeat(np.arange(self.n_graphs), np.diff(self.offsets))

    def places(self, members: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return the graph of each row of members, and the numbers of the nodes there."""
        graphs = self._node_graphs[members[:, 0]].tolist()
        return [(graph, row - self.offsets[graph]) for graph, row in zip(graphs, members, strict=True)]

    def infer(self, node, factors, *, weights=None) -> EnumeratedGraphs:
        """Go through all labellings; ``weights`` (S,) weigh the graphs in gradients."""
        labellings = [all_labellings(size, self.n_labels) for size in np.diff(self.offsets).tolist()]
        scores = self.compute_scores(labellings, node, factors)
        items = [Labellings(*own, self.n_labels) for own in zip(labellings, scores, strict=True)]
        for graph, each in enumerate(items):
            if not each.possible:
                raise InfeasibleGraph(graph)
        return EnumeratedGraphs(self, [len(table) == 1 for table in factors], items, weights)

    def compute_scores(
        self, labellings: list[np.ndarray], node: np.ndarray, factors: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Return the scores of the labellings (K, n) of each graph."""
        own: list[list] = [[] for _ in labellings]
        for members, tables in zip(self.members, factors, strict=True):
            for number, (graph, local) in enumerate(self.places(members)):
                own[graph].append((local, tables[0 if len(tables) == 1 else number]))
        nodes = np.split(node, self.offsets[1:-1])
        return [compute_scores(*parts) for parts in zip(labellings, nodes, own, strict=True)]

    def decode(self, node, factors) -> tuple[np.ndarray, np.ndarray]:
        """Return the best labelling (N,), the first of equals, and its scores (S,)."""
        items = self.infer(node, factors).items
        return np.concatenate([each.best for each in items]), np.array([each.scores.max() for each in items])
