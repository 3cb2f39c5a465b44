"""Value and gradient of a sparse chain field whose positions have lists of allowed labels, nothing per other label.

    gather (rows of Z, coefficients of allowed labels) -> forward-backward over lists -> residual -> scatter

The twin of fused.py where few labels are allowed: the same fields, one node term with a support and, at most, one of
plain transitions. Memory: numbers for each allowed label of each position, and a table of all steps for each thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.inference.chain.allowed import AllowedBeliefs, infer_allowed
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.lists import PairLists
from kernelfields.objective.designs.pairs import PairTable
from kernelfields.objective.likelihoods.chain import ChainLikelihood


class ListPasses:
    """Passes over labelled chains with lists of allowed labels, that of each position among them."""

    def __init__(self, likelihood: ChainLikelihood, table: PairTable, edge: LocalDesign | None):
        assert likelihood.allowed is not None
        self._likelihood, self._edge, self._lists = likelihood, edge, likelihood.allowed
        self._places = self._lists.places(likelihood.labels)
        assert self._places.min(initial=0) >= 0, "labels of a fit are allowed where they stand"
        workers, copies = likelihood.workers, table.affordable_copies()
        self._pairs = PairLists(table.features, table.support, self._lists, workers, copies)
        self._weights = likelihood.chains.position_weights
        self._entry_weights = np.repeat(self._weights, np.diff(self._lists.begin))

    def value_and_gradient(self, parts: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Return the likelihood's value and its gradient in the coefficients of each term."""
        likelihood, scores, edge = self._likelihood, self._pairs.scores(parts[0]), self._edge_scores(parts)
        beliefs = self._infer(scores, edge)
        observed = float(scores[self._places] @ self._weights) + float(np.vdot(likelihood.edge_counts, edge[0]))
        value = float(likelihood.chains.weights @ beliefs.log_partition) - observed
        residual = beliefs.entries * self._entry_weights
        residual[self._places] -= self._weights
        gradients = [self._pairs.gradient(residual)]
        if self._edge is not None:
            gradients.append(self._edge.pull_back((beliefs.steps[0] - likelihood.edge_counts).reshape(1, -1)))
        return value, gradients

    def curvature_diagonal(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return sum_t z_tf^2 p (1 - p) for every pair of the node term, (P, 1)."""
        marginals = self._infer(self._pairs.scores(parts[0]), self._edge_scores(parts)).entries
        return self._pairs.gradient(marginals * (1.0 - marginals) * self._entry_weights, squared=True)

    def largest_potential(self, parts: Sequence[np.ndarray]) -> float:
        """Return the largest absolute potential of an allowed label or a step."""
        scores, edge = self._pairs.scores(parts[0]), self._edge_scores(parts)
        return max(float(np.abs(scores).max(initial=0.0)), float(np.abs(edge).max()))

    def _infer(self, scores: np.ndarray, edge: np.ndarray) -> AllowedBeliefs:
        likelihood = self._likelihood
        if likelihood.masks is not None:
            edge = edge + likelihood.masks.edge
        weights, offsets = self._weights, likelihood.chains.offsets
        return infer_allowed(scores, edge, offsets, self._lists, position_weights=weights, workers=likelihood.workers)

    def _edge_scores(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        n_labels = self._likelihood.n_labels
        if self._edge is None:
            return np.zeros((1, n_labels, n_labels))
        return self._edge.scores(parts[1]).reshape(1, n_labels, n_labels)
