"""The weighted negative log-likelihood of labelled graphs, as a function of potentials.

value    = sum_i weight_i (log Z_i - score_i(y^i))
residual = weight * (marginals - one-hot labels)      its gradient in the potentials

Where inference is approximate, log Z and marginals are what it returns for them: with tree-reweighted messages the
value is a convex upper bound of the true one, with others it is neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.engines.clique_features import CliqueFeatures
from kernelfields.engines.graph_layout import GraphLayout
from kernelfields.engines.likelihood import Evaluation
from kernelfields.engines.placement import Placed
from kernelfields.engines.potentials import Potentials
from kernelfields.fields import Graphs
from kernelfields.inference.graph import GraphInference
from kernelfields.inference.workers import Workers


class GraphLikelihood:
    """Labelled graphs, what is to be inferred on them and how; ``forbidden`` is added before inference."""

    def __init__(
        self,
        graphs: Graphs,
        n_labels: int,
        sets: Sequence[Placed],
        inference: GraphInference,
        *,
        forbidden: Potentials | None = None,
        workers: Workers | None = None,
    ):
        if graphs.labels is None:
            raise ValueError("a likelihood needs labelled graphs")
        self.graphs = graphs
        self.n_labels = n_labels
        self.layout = GraphLayout(graphs, n_labels, sets)
        self.inference = inference
        self.approximation = None if inference.exact else inference.method
        self.workers = workers or Workers()
        #: What approximate inference said of its last answer: sentences such as that it did not converge.
        self.doubts: list[str] = []
        self._forbidden = forbidden
        self._rows = np.arange(graphs.n_positions)
        self._node_weights = graphs.position_weights
        self._factor_weights = [graphs.factor_weights(name) for name in self.layout.names]
        self._observed = [
            np.ravel_multi_index(tuple(graphs.labels[members].T), (n_labels,) * members.shape[1])
            for members in self.layout.members
        ]

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings equally likely; no labels forbidden."""
        return float(self._node_weights.sum()) * float(np.log(self.n_labels))

    @property
    def constrained(self) -> bool:
        """Whether some labellings are forbidden."""
        return self._forbidden is not None

    def clique_marginals(self, evaluation: Evaluation, each: CliqueFeatures) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, L^k)."""
        if each.group is not None:
            marginals = evaluation.beliefs.factor_marginals(self.layout.index(each.group))
            return marginals.reshape(len(marginals), each.n_configurations)
        marginals = evaluation.beliefs.node_marginals
        return marginals if each.positions is None else marginals[each.positions]

    def clique_weights(self, each: CliqueFeatures) -> np.ndarray:
        """Return the weight of every clique of a set, (n,)."""
        if each.group is not None:
            return self._factor_weights[self.layout.index(each.group)]
        return self._node_weights if each.positions is None else self._node_weights[each.positions]

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        allowed = potentials if self._forbidden is None else potentials.moved(1.0, self._forbidden)
        beliefs = self.inference.infer(
            allowed.node, list(allowed.factors), weights=self.graphs.weights, workers=self.workers
        )
        self.doubts = list(beliefs.diagnostics.get("warnings", ()))
        node_residual, factor_residuals = beliefs.gradient()
        node_residual = node_residual.copy()
        labels = self.graphs.labels
        node_residual[self._rows, labels] -= self._node_weights
        score = float(potentials.node[self._rows, labels] @ self._node_weights)
        residuals = []
        for table, gradient, observed, weights in zip(
            potentials.factors, factor_residuals, self._observed, self._factor_weights, strict=True
        ):
            flat, scores = gradient.reshape(len(gradient), -1).copy(), table.reshape(len(table), -1)
            if len(table) == len(observed):
                rows = np.arange(len(observed))
                flat[rows, observed] -= weights
                score += float(scores[rows, observed] @ weights)
            else:
                counts = np.bincount(observed, weights, minlength=flat.shape[1])
                flat[0] -= counts
                score += float(scores[0] @ counts)
            residuals.append(flat.reshape(table.shape))
        value = float(beliefs.log_partition @ self.graphs.weights) - score
        return Evaluation(value, Potentials(node_residual, *residuals), beliefs)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction; TypeError where inference is approximate."""
        node, factors = evaluation.beliefs.hessian_product(direction.node, list(direction.factors))
        return Potentials(node, *factors)
