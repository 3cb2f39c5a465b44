"""Value and gradient of a sparse chain field in one walk over the sequences.

Blocks of a few thousand positions are taken through scores, inference and gradient one after the other, each
thread with blocks of its own:

    gather (rows of Z, coefficients) -> potentials -> forward-backward -> residual -> scatter into the gradient

Potentials and marginals of a block live in the cache and are forgotten, so memory is the features, the
coefficients and two gradients per thread. Nothing is kept for line searches: with sparse features a second gather
costs less than inference. For one node term with a support and, at most, one term of plain transitions.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.pairs import PairScorer, PairTable
from kernelfields.objective.likelihoods.chain import ChainLikelihood, block_of_chains, blocks_of_sequences
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood
from kernelfields.objective.likelihoods.partial import CompletedLikelihood, PartialLikelihood, with_evidence
from kernelfields.objective.potentials import Potentials


class FusedPasses:
    """Passes over a field of the right kind, some ``at_once`` positions at a time; see :func:`fused_passes`."""

    def __init__(
        self,
        likelihood: ChainLikelihood | PartialLikelihood,
        node: LocalDesign,
        table: PairTable,
        edge: LocalDesign | None,
        at_once: int,
    ):
        plain = likelihood.inner if isinstance(likelihood, PartialLikelihood) else likelihood
        chains, masks = plain.chains, plain.masks
        self._node, self._table, self._edge = node, table, edge
        self._n_labels = likelihood.n_labels
        self._workers = likelihood.workers
        self._blocks = blocks_of_sequences(chains.offsets, at_once)
        blocks = [block_of_chains(chains, first, last) for first, last in self._blocks]
        self._weights = [each.position_weights for each in blocks]
        self._likelihoods = [
            with_evidence(
                ChainLikelihood(each, likelihood.n_labels, masks=masks, workers=Workers(1), at_once=each.n_positions),
                each,
            )
            for each in blocks
        ]
        self._rows = [(int(chains.offsets[first]), int(chains.offsets[last])) for first, last in self._blocks]

    def value_and_gradient(self, parts: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Return the likelihood's value and its gradient in the coefficients of each term."""
        values = np.zeros(len(self._blocks))
        edges = np.zeros((len(self._blocks), self._n_labels, self._n_labels))

        def residual(block: int, evaluation: Evaluation) -> np.ndarray:
            values[block] = evaluation.value
            edges[block] = evaluation.residual.edge[0]
            return evaluation.residual.node

        gradients = [self._walk(parts, residual, self._table)]
        if self._edge is not None:
            total = edges.sum(axis=0).reshape(1, -1)
            gradients.append(self._edge.pull_back(total))
        return float(values.sum()), gradients

    def curvature_diagonal(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return sum_t z_tf^2 p (1 - p) for every pair of the node term, (P, 1)."""

        def variances(block: int, evaluation: Evaluation) -> np.ndarray:
            marginals = self._likelihoods[block].clique_marginals(evaluation, self._node)
            return marginals * (1.0 - marginals) * self._weights[block][:, None]

        return self._walk(parts, variances, self._table.squared())

    def largest_potential(self, parts: Sequence[np.ndarray]) -> float:
        """Return the largest absolute potential."""
        scorer, features = PairScorer(self._table.layout, parts[0]), self._table.features
        largest = [float(np.abs(self._edge_scores(parts)).max())]
        for first, last in self._rows:
            scores = scorer.block(features, first, last)
            largest.append(float(np.abs(scores).max(initial=0.0)))
        return max(largest)

    def frozen(self, completed: CompletedLikelihood) -> FusedPasses:
        """Return passes over the labels as they have been completed."""
        shift, frozen = completed.shift, copy.copy(self)
        # Blocks are added up: the steps of all of them may be told to one.
        frozen._likelihoods = [
            CompletedLikelihood(
                each.inner, Potentials(shift.node[begin:end], shift.edge if begin == 0 else 0.0 * shift.edge)
            )
            for each, (begin, end) in zip(self._likelihoods, self._rows, strict=True)
        ]
        return frozen

    def tell(self, evidence: np.ndarray) -> None:
        """Put other evidence (N, L) in the place of what is known of labels."""
        for each, (begin, end) in zip(self._likelihoods, self._rows, strict=True):
            each.tell(evidence[begin:end])

    def _edge_scores(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        if self._edge is None:
            return np.zeros((1, self._n_labels, self._n_labels))
        return self._edge.scores(parts[1]).reshape(1, self._n_labels, self._n_labels)

    def _walk(self, parts: Sequence[np.ndarray], rows_of: object, table: PairTable) -> np.ndarray:
        """Scatter what ``rows_of(block, evaluation)`` gives for each block, (n, L), into one number per pair."""
        scorer, features = PairScorer(self._table.layout, parts[0]), self._table.features
        edge = self._edge_scores(parts)
        pieces = self._pieces()
        gatherers = {first: table.gatherer() for first, _ in pieces}

        def run(first: int, last: int) -> None:
            for block in range(first, last):
                begin, end = self._rows[block]
                node = scorer.block(features, begin, end)
                evaluation = self._likelihoods[block].evaluate(Potentials(node, edge))
                gatherers[first].add(begin, end, rows_of(block, evaluation))  # type: ignore[operator]

        self._workers.each(run, pieces)
        first, *others = (gatherers[start] for start, _ in pieces)
        return first.total(others)

    def _pieces(self) -> list[tuple[int, int]]:
        """Cut the blocks into a few runs per thread, fewer where a gradient for each would outweigh the data."""
        wanted = min(2 * self._workers.n_threads, self._table.affordable_copies(), len(self._blocks))
        if self._workers.n_threads == 1:
            wanted = 1
        cuts = np.linspace(0, len(self._blocks), wanted + 1).astype(int)
        return [(int(a), int(b)) for a, b in pairwise(cuts) if b > a]


def fused_passes(likelihood: Likelihood, designs: Sequence[LocalDesign], at_once: int = 4096) -> Any:
    """Return fused passes for a field of the right kind, else None."""
    node, edge = designs[0], designs[1] if len(designs) > 1 else None
    table = node.pair_table
    if table is None or node.labels_per_clique != 1 or node.positions is not None or len(designs) > 2:
        return None
    if edge is not None and not (edge.labels_per_clique == 2 and edge.tied_everywhere):
        return None
    if not isinstance(likelihood, ChainLikelihood) and not (
        isinstance(likelihood, PartialLikelihood) and isinstance(likelihood.inner, ChainLikelihood)
    ):
        return None
    if isinstance(likelihood, ChainLikelihood) and likelihood.walks_lists:
        from kernelfields.objective.likelihoods.lists import ListPasses

        return ListPasses(likelihood, table, edge)
    return FusedPasses(likelihood, node, table, edge, at_once)
