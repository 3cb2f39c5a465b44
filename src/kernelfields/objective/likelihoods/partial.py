"""Likelihoods of labels that are partly known, made of the likelihood of any label structure.

With evidence q, log-weights log q for single labels (fields/evidence.py), and u the potentials:

    value    = sum_i weight_i ( log Z_i(u) - log Z_i(u + log q) )
    residual = weight * (marginals - marginals given q)
    response = (Hessian of log Z at u) d - (Hessian of log Z at u + log q) d

A likelihood F of labels y, value F(u) = sum_i weight_i (log Z_i(u) - score_i(y^i)), is all that this needs. For any y
that the evidence allows, score and constraints cancel:

    value = F(u) - F(u + log q) - sum_t weight_t log q_t(y_t),      residual = F'(u) - F'(u + log q)

so chains, graphs, several labels and single labels, on threads or a device, share one class. The value is a difference
of convex functions. Frozen at some u', the second one is replaced by its tangent, marginals tau given q at u':

    value = F(u) - <F'(u' + log q), u>,      residual = F'(u) - F'(u' + log q)

which is convex, lies above the value up to a constant, touches it at u', and has the same gradient there: minimising it
is a step of CCCP, that is EM. Targets tau that a user gives enter in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelfields.fields.soft_targets import SoftRows
from kernelfields.objective.likelihoods.likelihood import Evaluation


class WrappedLikelihood:
    """What is asked of the likelihood of labels as it is."""

    def __init__(self, inner: Any):
        self.inner = inner
        self.n_labels = inner.n_labels
        self.workers = inner.workers
        self.layout = inner.layout
        self.inference = inner.inference
        self.approximation = inner.approximation
        self.constrained = inner.constrained
        #: None where products with the potentials stay on this machine.
        self.device = getattr(inner, "device", None)

    @property
    def single_labels(self) -> bool:
        """Whether labels meet no others."""
        return getattr(self.inner, "single_labels", False)

    @property
    def doubts(self) -> list[str]:
        """What approximate inference said of its last answer."""
        return self.inner.doubts

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings that are allowed equally likely."""
        return float(self.evaluate(self.layout.zeros()).value)

    def clique_marginals(self, evaluation: Evaluation, term: Any) -> Any:
        """Return the probabilities of the labellings of a term's cliques, (n, L^k); nothing known of the labels."""
        return self.inner.clique_marginals(self.free(evaluation), term)

    def clique_weights(self, term: Any) -> Any:
        """Return the weight of every clique of a term, (n,)."""
        return self.inner.clique_weights(term)

    def chain_beliefs(self, evaluation: Evaluation) -> Any:
        """Return offsets, weights, marginals and joint marginals of steps of chains."""
        return self.inner.chain_beliefs(self.free(evaluation))

    def free(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluation of ``inner`` behind one of these, where nothing is known of the labels."""
        return evaluation.beliefs

    def evaluate(self, potentials: Any) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        raise NotImplementedError


class PartialLikelihood(WrappedLikelihood):
    """Labels of which the evidence of ``data`` (N, L) tells something; ``inner`` has any of them.

    ``placed`` puts an array with a row for each position where the potentials are. Beliefs are pairs of evaluations: of
    the field, and of the field given the evidence.
    """

    convex = False

    def __init__(self, inner: Any, data: Any, placed: Callable[[np.ndarray], Any] | None = None):
        super().__init__(inner)
        self._labels, self._weights = data.labels, data.position_weights
        self._rows = np.arange(data.n_positions)
        self._placed = placed
        self.tell(data.evidence)

    def tell(self, evidence: np.ndarray) -> None:
        """Put other evidence (N, L) in the place of what is known."""
        #: The weighted log q of the labels of ``inner``.
        self._known_score = float(evidence[self._rows, self._labels] @ self._weights)
        # Where evidence leaves few labels, inference given it may walk those alone.
        narrowed = getattr(self.inner, "narrowed", None)
        self._informed = self.inner if narrowed is None else narrowed(evidence)
        self._evidence = evidence if self._placed is None else self._placed(evidence)

    def completed(self, potentials: Any) -> np.ndarray:
        """Return the weighted probabilities of single labels given the evidence, (N, L); of this process only."""
        completed = self._informed.evaluate(self._given(potentials)).residual.node.copy()
        completed[self._rows, self._labels] += self._weights
        return np.maximum(completed, 0.0)

    def _given(self, potentials: Any) -> Any:
        """Return potentials with the evidence in them."""
        return type(potentials)(potentials.node + self._evidence, *potentials.arrays[1:])

    def evaluate(self, potentials: Any) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        free, given = self.inner.evaluate(potentials), self._informed.evaluate(self._given(potentials))
        residual = free.residual.moved(-1.0, given.residual)
        return Evaluation(free.value - given.value - self._known_score, residual, (free, given))

    def free(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluation of ``inner`` behind one of these, where nothing is known of the labels."""
        return evaluation.beliefs[0]

    def hessian_response(self, evaluation: Evaluation, direction: Any) -> Any:
        """Return the Hessian in the potentials, which may be indefinite, times a direction."""
        free, given = (self.inner.hessian_response(each, direction) for each in evaluation.beliefs)
        return free.moved(-1.0, given)

    def frozen(self, potentials: Any) -> CompletedLikelihood:
        """Return the convex likelihood of the labels as they are completed at some potentials."""
        return CompletedLikelihood(self.inner, self._informed.evaluate(self._given(potentials)).residual)


class CompletedLikelihood(WrappedLikelihood):
    """Targets in the place of labels; ``shift`` is how much they are above those of ``inner``, as potentials."""

    convex = True

    def __init__(self, inner: Any, shift: Any):
        super().__init__(inner)
        self.shift = shift

    def evaluate(self, potentials: Any) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        free = self.inner.evaluate(potentials)
        value = free.value - self.shift.dot(potentials)
        return Evaluation(value, free.residual.moved(-1.0, self.shift), free)

    def hessian_response(self, evaluation: Evaluation, direction: Any) -> Any:
        """Return the Hessian in the potentials times a direction."""
        return self.inner.hessian_response(evaluation.beliefs, direction)


def with_evidence(likelihood: Any, data: Any, placed: Callable[[np.ndarray], Any] | None = None) -> Any:
    """Return the likelihood of data whose labels are partly known; that of the labels where they all are.

    ``placed`` puts an array with a row for each position where the potentials are.
    """
    if data.evidence is None:
        return likelihood
    if isinstance(data.evidence, SoftRows):
        return CompletedLikelihood(likelihood, _above_labels(likelihood.layout, data, placed))
    return PartialLikelihood(likelihood, data, placed)


def _above_labels(layout: Any, data: Any, placed: Callable[[np.ndarray], Any] | None) -> Any:
    """Return how much targets are above the labels of data, as potentials: weighted, and summed where these are."""
    soft, weights, rows = data.evidence, data.position_weights, np.arange(data.n_positions)
    node = soft.node.copy()
    node[rows, data.labels] -= 1.0
    node *= weights[:, None]
    shift = layout.zeros()
    if len(shift.arrays) == 1:
        return type(shift)(node)
    if not isinstance(getattr(layout, "tied", None), bool) or soft.edge is None:
        raise ValueError("SoftTargets are for single labels, and for chains in which neighbours alone meet")
    after = np.flatnonzero(~data.is_start)
    edge = soft.edge.copy()
    edge[after, data.labels[after - 1], data.labels[after]] -= 1.0
    edge *= weights[:, None, None]
    summed = edge.sum(axis=0, keepdims=True) if layout.tied else edge
    if placed is None:
        return type(shift)(node, summed)
    return type(shift)(placed(node), shift.arrays[1].new_tensor(summed) if layout.tied else placed(edge))
