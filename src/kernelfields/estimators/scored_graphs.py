"""Graphs with the potentials of a fitted field, and all that can be asked of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cached_property

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernelfields.engines import Potentials
from kernelfields.fields import Graphs
from kernelfields.inference.graph import GraphBeliefs, GraphInference
from kernelfields.inference.workers import Workers


class ScoredGraphs:
    """Graphs, their potentials (what is forbidden included) and how they are inferred."""

    def __init__(self, graphs: Graphs, potentials: Potentials, inference: GraphInference, workers: Workers):
        self.graphs = graphs
        self.potentials = potentials
        self.inference = inference
        self.workers = workers
        self._arrays = (potentials.node, list(potentials.factors))

    @cached_property
    def beliefs(self) -> GraphBeliefs:
        """Marginals and log partition functions, computed when first asked for."""
        beliefs = self.inference.infer(*self._arrays, workers=self.workers)
        warn_of_doubts(beliefs.diagnostics.get("warnings", ()), stacklevel=6)
        return beliefs

    def factor_marginals(self, name: str) -> np.ndarray:
        """Return the marginals of the labels at a group of factors, (M, L, .., L)."""
        return self.beliefs.factor_marginals([factors.name for factors in self.graphs.factors].index(name))

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each graph, (N,)."""
        return self.inference.decode(*self._arrays, workers=self.workers)[0]

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw labellings, (n_samples, N)."""
        return self.inference.sample(*self._arrays, n_samples, random)

    def entropies(self) -> np.ndarray:
        """Return the entropy of each graph, (S,): log Z minus the expected score."""
        expected = _expected(self.beliefs.node_marginals, self.potentials.node)
        factors = [
            _expected(self.beliefs.factor_marginals(index), table)
            for index, table in enumerate(self.potentials.factors)
        ]
        return np.maximum(self.beliefs.log_partition - self._totals(expected, factors), 0.0)

    def label_scores(self, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labelling of each graph, (S,); minus infinity where it is forbidden."""
        nodes = self.potentials.node[np.arange(len(labels)), labels]
        factors = []
        for group, table in zip(self.graphs.factors, self.potentials.factors, strict=True):
            rows = np.arange(len(table)) if len(table) == group.n_factors else np.zeros(1, dtype=np.int64)
            factors.append(table[(rows, *labels[group.members].T)])
        return self._totals(nodes, factors)

    def _totals(self, nodes: np.ndarray, factors: list[np.ndarray]) -> np.ndarray:
        """Add up figures of nodes and factors over each graph, (S,)."""
        totals = np.add.reduceat(nodes, self.graphs.starts)
        for group, parts in zip(self.graphs.factors, factors, strict=True):
            owners = np.repeat(np.arange(self.graphs.n_graphs), group.counts)
            totals += np.bincount(owners, parts, minlength=self.graphs.n_graphs)
        return totals


def warn_of_doubts(doubts: Iterable[str], stacklevel: int) -> None:
    """Pass on what approximate inference said of its answer."""
    for doubt in doubts:
        warnings.warn(doubt, ConvergenceWarning, stacklevel=stacklevel)


def _expected(marginals: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the expected score of each row; what is forbidden has no share."""
    products = np.where(marginals > 0.0, marginals * np.where(np.isneginf(scores), 0.0, scores), 0.0)
    return products.reshape(len(products), -1).sum(axis=1)
