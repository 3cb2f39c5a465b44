"""The weighted negative log-likelihood of labels that meet no others: multinomial logistic regression.

value    = sum_i weight_i (log sum_y exp u_i(y) - u_i(y_i))
residual = weight_i (p_i - one-hot y_i),    Hessian response = weight_i p_i (d_i - p_i . d_i)

Arrays: potentials u (n, L), labels (n,), weights (n,). Cost O(n L). Within-clique covariances are all there are:
the curvature block of eq. 30 is the whole Hessian of a set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelfields.engines.clique_features import CliqueFeatures
from kernelfields.engines.likelihood import Evaluation
from kernelfields.engines.placement import Placed
from kernelfields.engines.potentials import Potentials
from kernelfields.inference.workers import Workers


class SingleLayout:
    """The potentials of n labels that meet no others, (n, L)."""

    def __init__(self, n_positions: int, n_labels: int):
        self.n_positions = n_positions
        self.n_labels = n_labels

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        return Potentials(np.zeros((self.n_positions, self.n_labels)))

    def add_scores(self, potentials: Potentials, each: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L), or one row for all of them."""
        potentials.node[...] += scores

    def clique_residuals(self, residual: Potentials, each: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L); summed over them if it is tied."""
        rows = residual.node
        return rows.sum(axis=0, keepdims=True) if each.tied_everywhere else rows


@dataclass
class LabelBeliefs:
    """Probabilities of single labels, (n, L), and the log of their normaliser, (n,)."""

    log_partition: np.ndarray
    node_marginals: np.ndarray


class SoftmaxLikelihood:
    """Labels of n inputs, each by itself."""

    approximation: str | None = None
    constrained = False

    def __init__(self, labels: np.ndarray, n_labels: int, weights: np.ndarray, workers: Workers | None = None):
        self.labels = labels
        self.n_labels = n_labels
        self.weights = weights
        self.workers = workers or Workers()
        self.layout = SingleLayout(len(labels), n_labels)
        self._rows = np.arange(len(labels))

    @property
    def value_at_zero(self) -> float:
        """The value where all labels are equally likely."""
        return float(self.weights.sum()) * float(np.log(self.n_labels))

    def clique_marginals(self, evaluation: Evaluation, each: CliqueFeatures) -> np.ndarray:
        """Return the probabilities of the labels, (n, L)."""
        return evaluation.beliefs.node_marginals

    def clique_weights(self, each: CliqueFeatures) -> np.ndarray:
        """Return the weight of every input, (n,)."""
        return self.weights

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        beliefs = infer_labels(potentials.node)
        scores = potentials.node[self._rows, self.labels]
        value = float((beliefs.log_partition - scores) @ self.weights)
        residual = beliefs.node_marginals.copy()
        residual[self._rows, self.labels] -= 1.0
        residual *= self.weights[:, None]
        return Evaluation(value, Potentials(residual), beliefs)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""
        marginals, moved = evaluation.beliefs.node_marginals, direction.node
        expected = np.einsum("ij,ij->i", marginals, moved)
        return Potentials(self.weights[:, None] * marginals * (moved - expected[:, None]))


def infer_labels(potentials: np.ndarray) -> LabelBeliefs:
    """Return the probabilities of single labels, (n, L) potentials."""
    top = potentials.max(axis=1, keepdims=True)
    marginals = np.exp(potentials - top)
    total = marginals.sum(axis=1, keepdims=True)
    marginals /= total
    return LabelBeliefs((top + np.log(total)).ravel(), marginals)
