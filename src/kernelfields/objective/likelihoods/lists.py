"""Value and gradient of a sparse chain field with lists of allowed labels, without storage for other labels.

    gather (rows of Z, coefficients of allowed labels) -> forward-backward over lists -> residual -> scatter

The twin of fused.py where few labels are allowed: the same fields, one node term with a support and, at most, one of
plain transitions. Memory: numbers for each allowed label of each position, matches of steps that have a coefficient
(inference/chain/lists.py), and the expected steps of each thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.inference.chain.list_family import ListFamily
from kernelfields.inference.chain.lists import ListedSums, infer_lists
from kernelfields.inference.chain.scored_steps import ScoredSteps, StepBlocks, should_list_steps
from kernelfields.inference.potentials import EDGE, Statistics
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.supports import PairLists, PairTable
from kernelfields.objective.likelihoods.likelihood import Likelihood


class ListPasses:
    """Passes over labelled chains with lists of allowed labels that contain the true labels."""

    def __init__(self, likelihood: Likelihood, table: PairTable, edge: LocalDesign | None):
        family, chains, observed = likelihood.family, likelihood.data, likelihood.observed
        assert isinstance(family, ListFamily)
        assert isinstance(chains, Chains)
        assert isinstance(observed, Statistics)
        self._family, self._edge, self._workers = family, edge, likelihood.workers
        self._places = family.lists.places(chains.required_labels)
        assert self._places.min(initial=0) >= 0, "labels of a fit are allowed where they stand"
        self._pairs = PairLists(table.features, table.support, family.lists, self._workers, table.affordable_copies())
        counts = np.zeros(family.n_labels**2)
        places, amounts = observed.entries[EDGE]
        counts[places] = amounts
        self._steps = _scored_steps(family, counts, edge, self._workers)
        self._weights, self._item_weights = chains.position_weights, chains.weights
        self._entry_weights = np.repeat(self._weights, np.diff(family.lists.begin))

    def value_and_gradient(self, parts: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Return the likelihood's value and its gradient in the coefficients of each term."""
        scores = self._pairs.scores(parts[0])
        edge = self._steps.scores(parts[1:])
        sums = self._infer(scores, edge)
        observed = float(scores[self._places] @ self._weights) + self._steps.observed(edge)
        value = float(self._item_weights @ sums.log_partition) - observed
        residual = sums.entries * self._entry_weights
        residual[self._places] -= self._weights
        gradients = [self._pairs.gradient(residual)]
        if self._edge is not None:
            assert sums.steps is not None
            gradients.append(self._steps.gradient(sums.steps))
        return value, gradients

    def curvature_diagonal(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return sum_t z_tf^2 p (1 - p) for every pair of the node term, (P, 1)."""
        marginals = self._infer(self._pairs.scores(parts[0]), self._steps.scores(parts[1:])).entries
        return self._pairs.gradient(marginals * (1.0 - marginals) * self._entry_weights, squared=True)

    def largest_potential(self, parts: Sequence[np.ndarray]) -> float:
        """Return the largest absolute potential of an allowed label or a step."""
        scores, edge = self._pairs.scores(parts[0]), self._steps.scores(parts[1:])
        return max(float(np.abs(scores).max(initial=0.0)), float(np.abs(edge).max(initial=0.0)))

    def _infer(self, scores: np.ndarray, edge: np.ndarray) -> ListedSums:
        steps, family = self._steps, self._family
        if steps.penalties is not None:
            edge = edge + steps.penalties
        settings = {"weights": self._item_weights, "workers": self._workers}
        return infer_lists(scores, edge, family.offsets, family.lists, listed=steps.blocks, **settings)  # type: ignore[arg-type]


class _TableSteps:
    """A table of the scores of all steps, (1, L, L)."""

    blocks = None

    def __init__(self, family: ListFamily, counts: np.ndarray, edge: LocalDesign | None):
        self._n_labels, self._counts, self._edge = family.n_labels, counts, edge
        self.penalties = None if family.base is None else family.base.step

    def scores(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scores of steps at the coefficients of the term."""
        n_labels = self._n_labels
        if self._edge is None:
            return np.zeros((1, n_labels, n_labels))
        return self._edge.scores(parts[0]).reshape(1, n_labels, n_labels)

    def observed(self, edge: np.ndarray) -> float:
        """Return the weighted scores of the steps of the labels."""
        return float(self._counts @ edge.reshape(-1))

    def gradient(self, expected: np.ndarray) -> np.ndarray:
        """Return the gradient in the coefficients of the term."""
        assert self._edge is not None
        return self._edge.pull_back((expected.reshape(-1) - self._counts)[None])


class _ListedSteps:
    """Scores of the steps ``own`` with a coefficient, and of the forbidden steps, (P,)."""

    def __init__(self, family: ListFamily, counts: np.ndarray, own: np.ndarray, workers: Workers):
        n_labels, step = family.n_labels, None if family.base is None else family.base.step
        barred = np.empty(0, dtype=np.int64) if step is None else np.flatnonzero(step)
        outcomes = np.union1d(own, barred)
        self._own = np.searchsorted(outcomes, own)
        self._size = len(outcomes)
        self._counts = counts[outcomes]
        self.penalties = None if step is None else step.reshape(-1)[outcomes]
        self.blocks = StepBlocks(ScoredSteps(outcomes, n_labels), family.lists, family.offsets, workers)

    def scores(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the scores of steps at the coefficients of the term, if there is one."""
        scores = np.zeros(self._size)
        if parts:
            scores[self._own] = np.ravel(parts[0])
        return scores

    def observed(self, edge: np.ndarray) -> float:
        """Return the weighted scores of the steps of the labels."""
        return float(self._counts @ edge)

    def gradient(self, expected: np.ndarray) -> np.ndarray:
        """Return the gradient in the coefficients of the term."""
        return (expected - self._counts)[self._own, None]


def _scored_steps(
    family: ListFamily, counts: np.ndarray, edge: LocalDesign | None, workers: Workers
) -> _TableSteps | _ListedSteps:
    """Return the steps of a field; only scored steps if they are few."""
    step, n_steps = None if family.base is None else family.base.step, family.n_labels**2
    forbidden = 0 if step is None else int(np.count_nonzero(step))
    n_scored = 0 if edge is None else edge.term.pairs.count(n_steps)
    if not should_list_steps(n_scored + forbidden, family.n_labels):
        return _TableSteps(family, counts, edge)
    own = np.empty(0, dtype=np.int64) if edge is None else edge.term.pairs.labellings(n_steps)
    return _ListedSteps(family, counts, own, workers)
