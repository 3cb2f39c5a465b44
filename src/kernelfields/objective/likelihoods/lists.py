"""Value and gradient of a sparse chain field whose positions have lists of allowed labels, nothing per other label.

    gather (rows of Z, coefficients of allowed labels) -> forward-backward over lists -> residual -> scatter

The twin of fused.py where few labels are allowed: the same fields, one node term with a support and, at most, one of
plain transitions. Memory: numbers for each allowed label of each position, matches of steps that have a coefficient
(inference/chain/allowed_steps.py), and the expected steps of each thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.inference.chain.allowed import AllowedBeliefs, infer_allowed
from kernelfields.inference.chain.allowed_steps import ScoredSteps, StepBlocks, worth_listing
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.lists import PairLists
from kernelfields.objective.designs.pairs import PairTable, Support
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
        self._steps = _scored_steps(likelihood, edge)
        self._weights = likelihood.chains.position_weights
        self._entry_weights = np.repeat(self._weights, np.diff(self._lists.begin))

    def value_and_gradient(self, parts: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Return the likelihood's value and its gradient in the coefficients of each term."""
        likelihood, scores = self._likelihood, self._pairs.scores(parts[0])
        edge = self._steps.scores(parts[1:])
        beliefs = self._infer(scores, edge)
        observed = float(scores[self._places] @ self._weights) + self._steps.observed(edge)
        value = float(likelihood.chains.weights @ beliefs.log_partition) - observed
        residual = beliefs.entries * self._entry_weights
        residual[self._places] -= self._weights
        gradients = [self._pairs.gradient(residual)]
        if self._edge is not None:
            gradients.append(self._steps.gradient(beliefs.steps))
        return value, gradients

    def curvature_diagonal(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return sum_t z_tf^2 p (1 - p) for every pair of the node term, (P, 1)."""
        marginals = self._infer(self._pairs.scores(parts[0]), self._steps.scores(parts[1:])).entries
        return self._pairs.gradient(marginals * (1.0 - marginals) * self._entry_weights, squared=True)

    def largest_potential(self, parts: Sequence[np.ndarray]) -> float:
        """Return the largest absolute potential of an allowed label or a step."""
        scores, edge = self._pairs.scores(parts[0]), self._steps.scores(parts[1:])
        return max(float(np.abs(scores).max(initial=0.0)), float(np.abs(edge).max(initial=0.0)))

    def _infer(self, scores: np.ndarray, edge: np.ndarray) -> AllowedBeliefs:
        likelihood, steps = self._likelihood, self._steps
        if steps.penalties is not None:
            edge = edge + steps.penalties
        return infer_allowed(
            scores,
            edge,
            likelihood.chains.offsets,
            self._lists,
            listed=steps.blocks,
            position_weights=self._weights,
            workers=likelihood.workers,
        )


class _TableSteps:
    """A table of the scores of all steps, (1, L, L)."""

    blocks = None

    def __init__(self, likelihood: ChainLikelihood, edge: LocalDesign | None):
        self._likelihood, self._edge = likelihood, edge
        self.penalties = None if likelihood.masks is None else likelihood.masks.edge

    def scores(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scores of steps at the coefficients of the term."""
        n_labels = self._likelihood.n_labels
        if self._edge is None:
            return np.zeros((1, n_labels, n_labels))
        return self._edge.scores(parts[0]).reshape(1, n_labels, n_labels)

    def observed(self, edge: np.ndarray) -> float:
        """Return the weighted scores of the steps that labels take."""
        return float(np.vdot(self._likelihood.edge_counts, edge[0]))

    def gradient(self, expected: np.ndarray) -> np.ndarray:
        """Return the gradient in the coefficients of the term."""
        assert self._edge is not None
        return self._edge.pull_back((expected[0] - self._likelihood.edge_counts).reshape(1, -1))


class _ListedSteps:
    """Scores of the steps that a support names, and of those that constraints forbid, (P,)."""

    def __init__(self, likelihood: ChainLikelihood, support: Support | None):
        n_labels, masks = likelihood.n_labels, likelihood.masks
        own = np.empty(0, dtype=np.int64) if support is None else support.outcomes.astype(np.int64)
        barred = np.empty(0, dtype=np.int64) if masks is None else np.flatnonzero(masks.edge)
        outcomes = np.union1d(own, barred)
        self._own = np.searchsorted(outcomes, own)
        self._size = len(outcomes)
        self._counts = likelihood.edge_counts.reshape(-1)[outcomes]
        self.penalties = None if masks is None else masks.edge.reshape(-1)[outcomes]
        steps = ScoredSteps(outcomes, n_labels)
        assert likelihood.allowed is not None
        self.blocks = StepBlocks(steps, likelihood.allowed, likelihood.chains.offsets, likelihood.workers)

    def scores(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scores of steps at the coefficients of the term, if there is one."""
        scores = np.zeros(self._size)
        if parts:
            scores[self._own] = np.ravel(parts[0])
        return scores

    def observed(self, edge: np.ndarray) -> float:
        """Return the weighted scores of the steps that labels take."""
        return float(self._counts @ edge)

    def gradient(self, expected: np.ndarray) -> np.ndarray:
        """Return the gradient in the coefficients of the term."""
        return (expected - self._counts)[self._own, None]


def _scored_steps(likelihood: ChainLikelihood, edge: LocalDesign | None) -> _TableSteps | _ListedSteps:
    """Return the steps of a field: those that have a score alone where these are few of many."""
    support = None if edge is None else edge.term.support
    if edge is None or support is not None:
        forbidden = 0 if likelihood.masks is None else np.count_nonzero(likelihood.masks.edge)
        known = 0 if support is None else support.size
        if worth_listing(known + int(forbidden), likelihood.n_labels):
            return _ListedSteps(likelihood, support)
    return _TableSteps(likelihood, edge)
