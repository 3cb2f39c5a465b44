"""The weighted negative log-likelihood of labels that meet no others: multinomial logistic regression.

value    = sum_i weight_i (log sum_y exp u_i(y) - u_i(y_i))
residual = weight_i (p_i - one-hot y_i),    Hessian response = weight_i p_i (d_i - p_i . d_i)

Arrays: potentials u (n, L), labels (n,), weights (n,). Cost O(n L). Within-clique covariances are all there are:
the curvature block of eq. 30 is the whole Hessian of a set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.fields.graphs import Graphs
from kernelfields.inference.answers import SingleAnswers, infer_labels
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood
from kernelfields.objective.likelihoods.partial import with_evidence
from kernelfields.objective.potentials import Placed, Potentials

# Rows whose features are computed at once when predicting.
_BATCH_ROWS = 20_000


class SingleLayout:
    """The potentials of n labels that meet no others, (n, L)."""

    def __init__(self, n_positions: int, n_labels: int):
        self.n_positions = n_positions
        self.n_labels = n_labels

    def zeros(self) -> Potentials:
        """Return potentials of zero."""
        return Potentials(np.zeros((self.n_positions, self.n_labels)))

    def add_scores(self, potentials: Potentials, term: Placed, scores: np.ndarray) -> None:
        """Add the scores of a set's cliques, (n, L), or one row for all of them."""
        potentials.node[...] += scores

    def clique_residuals(self, residual: Potentials, term: Placed) -> np.ndarray:
        """Return a gradient in potentials at the cliques of a set, (n, L); summed over them if it is tied."""
        rows = residual.node
        return rows.sum(axis=0, keepdims=True) if term.tied_everywhere else rows


class SoftmaxLikelihood:
    """Labels of n inputs, each by itself."""

    approximation: str | None = None
    inference = None
    constrained = False
    convex = True
    #: Labels meet no others: within-clique covariances are all there are.
    single_labels = True

    def __init__(self, labels: np.ndarray, n_labels: int, weights: np.ndarray, workers: Workers | None = None):
        self.labels = labels
        self.n_labels = n_labels
        self.weights = weights
        self.workers = workers or Workers()
        self.doubts: list[str] = []
        self.layout = SingleLayout(len(labels), n_labels)
        self._rows = np.arange(len(labels))

    @property
    def value_at_zero(self) -> float:
        """The value where all labels are equally likely."""
        return float(self.weights.sum()) * float(np.log(self.n_labels))

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labels, (n, L)."""
        return evaluation.beliefs.node_marginals

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every input, (n,)."""
        return self.weights

    def chain_beliefs(self, evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return offsets, weights, marginals and joint marginals of steps: chains of one position each."""
        no_steps = np.zeros((1, self.n_labels, self.n_labels))
        offsets = np.arange(len(self.labels) + 1)
        return offsets, self.weights, evaluation.beliefs.node_marginals, no_steps

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        beliefs = infer_labels(potentials.node)
        scores = potentials.node[self._rows, self.labels]
        value = float((beliefs.log_partition - scores) @ self.weights)
        residual = beliefs.node_marginals.copy()
        residual[self._rows, self.labels] -= 1.0
        residual *= self.weights[:, None]
        return Evaluation(value, Potentials(residual), beliefs)

    def weighed(self, weights: np.ndarray) -> SoftmaxLikelihood:
        """Return the likelihood of the same inputs with other weights, (n,)."""
        return SoftmaxLikelihood(self.labels, self.n_labels, weights, self.workers)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""
        marginals, moved = evaluation.beliefs.node_marginals, direction.node
        expected = np.einsum("ij,ij->i", marginals, moved)
        return Potentials(self.weights[:, None] * marginals * (moved - expected[:, None]))


@dataclass(frozen=True, eq=False)
class SingleStructure:
    """Labels that meet no others: data are graphs of one node each."""

    n_labels: int

    def layout(self, data: Graphs, placed: Sequence[Placed]) -> SingleLayout:
        """Return where scores go: one row for every input."""
        return SingleLayout(data.n_positions, self.n_labels)

    def plan(self, data: Graphs, layout: Any = None) -> None:
        """Return None: there is one way."""

    def likelihood(self, data: Graphs, placed: Sequence[Placed], workers: Workers, plan: Any = None) -> Likelihood:
        """Return the likelihood of labelled inputs."""
        return with_evidence(SoftmaxLikelihood(data.labels, self.n_labels, data.weights, workers), data)

    def constrained(self, data: Graphs, layout: Any, potentials: Potentials) -> Potentials:
        """Return the potentials: nothing is forbidden."""
        return potentials

    def answers(
        self, data: Graphs, layout: Any, potentials: Potentials, workers: Workers, plan: Any = None
    ) -> SingleAnswers:
        """Return what can be asked of inputs with potentials."""
        return SingleAnswers(data, potentials.node)

    def batches(self, data: Graphs, terms: Sequence[Any], size: int | None = None) -> Iterator[Graphs]:
        """Cut inputs into batches of ``size`` rows, whose features fit in memory."""
        size = size or _BATCH_ROWS
        if data.n_positions <= size:
            yield data
            return
        for begin in range(0, data.n_positions, size):
            yield data.subset(slice(begin, begin + size))
