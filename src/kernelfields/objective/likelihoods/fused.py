"""Value and gradient of a sparse chain field in one pass over the sequences.

Blocks of a few thousand positions are taken through scores, inference and gradient one after the other, each
thread with blocks of its own:

    gather (rows of Z, coefficients) -> potentials -> forward-backward -> residual -> scatter into the gradient

Potentials and marginals of a block live in the cache and are forgotten, so memory is the features, the
coefficients and two gradients per thread. Where probabilities leave the range of doubles, as on far trials of a line
search, inference needs tables of all steps of a block: blocks are so short that a table has two million entries.
Nothing is kept for line searches: with sparse features a second gather costs less than inference. For one node term
with a support and, at most, one term of plain transitions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.inference.chain.family import ChainFamily, blocks_of_sequences
from kernelfields.inference.chain.list_family import ListFamily
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.threads import Workers
from kernelfields.objective.datafit import Datafit, choose_objective
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.designs.supports import PairScorer, PairTable, merge_runs
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood, Objective
from kernelfields.objective.likelihoods.lists import ListPasses
from kernelfields.objective.likelihoods.partial_likelihood import PartialLikelihood

# Positions of a block: enough to be worth a call, few enough for the cache, and for tables of its steps.
_FEWEST_POSITIONS, _MOST_POSITIONS, _TABLE_ENTRIES = 256, 4096, 2**21


class FusedPasses:
    """Passes over a suitable field, about ``at_once`` positions at a time; see :func:`make_fused_passes`."""

    def __init__(
        self,
        likelihood: Likelihood | PartialLikelihood,
        node: LocalDesign,
        table: PairTable,
        edge: LocalDesign | None,
        at_once: int,
    ):
        family, chains = likelihood.family, likelihood.data
        assert isinstance(family, ChainFamily)
        assert isinstance(chains, Chains)
        self._node, self._table, self._edge = node, table, edge
        self._n_labels = likelihood.n_labels
        self._workers = likelihood.workers
        self._blocks = blocks_of_sequences(chains.offsets, at_once)
        blocks = [block_of_chains(chains, first, last) for first, last in self._blocks]
        self._weights = [block.position_weights for block in blocks]
        self._likelihoods: Sequence[Objective] = [
            choose_objective(family.part(first, last), block, Workers(1))
            for block, (first, last) in zip(blocks, self._blocks, strict=True)
        ]
        self._rows = [(int(chains.offsets[first]), int(chains.offsets[last])) for first, last in self._blocks]

    def value_and_gradient(self, parts: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Return the likelihood's value and its gradient in the coefficients of each term."""
        runs = self._runs()
        values = np.zeros(len(self._blocks))
        edges = np.zeros((len(runs), self._n_labels, self._n_labels))
        run_of = np.repeat(np.arange(len(runs)), [last - first for first, last in runs])

        def residual(block: int, evaluation: Evaluation) -> np.ndarray:
            values[block] = evaluation.value
            edges[run_of[block]] += evaluation.residual.edge[0]
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

        return self._walk(parts, variances, self._table.square_entries())

    def largest_potential(self, parts: Sequence[np.ndarray]) -> float:
        """Return the largest absolute potential."""
        scorer, features = PairScorer(self._table.layout, parts[0]), self._table.features
        largest = [float(np.abs(self._edge_scores(parts)).max())]
        for first, last in self._rows:
            scores = scorer.block(features, first, last)
            largest.append(float(np.abs(scores).max(initial=0.0)))
        return max(largest)

    def with_targets(self, completed: Likelihood) -> FusedPasses:
        """Return passes over the completed labels as targets."""
        targets, frozen = completed.observed, copy.copy(self)
        assert isinstance(targets, Potentials)
        # Blocks whose items all weigh nothing have no targets and no part in any sum.
        kept = [n for n, (first, last) in enumerate(self._blocks) if completed.weights[first:last].any()] or [0]
        frozen._blocks, frozen._rows = [self._blocks[n] for n in kept], [self._rows[n] for n in kept]
        # Blocks are added up: the steps of all of them may belong to one.
        frozen._likelihoods = [
            Likelihood(
                self._likelihoods[n].family,
                Potentials(targets.node[begin:end], {EDGE: targets.edge if n == kept[0] else 0.0 * targets.edge}),
                completed.weights[first:last],
                self._likelihoods[n].workers,
            )
            for n, (first, last), (begin, end) in zip(kept, frozen._blocks, frozen._rows, strict=True)
        ]
        frozen._weights = [block.weights[block.family.position_items] for block in frozen._likelihoods]
        return frozen

    def set_log_weights(self, log_weights: np.ndarray) -> None:
        """Set other log-weights (N, L) of the labels."""
        for block, (begin, end) in zip(self._likelihoods, self._rows, strict=True):
            assert isinstance(block, PartialLikelihood)
            block.set_log_weights(log_weights[begin:end])

    def _edge_scores(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        if self._edge is None:
            return np.zeros((1, self._n_labels, self._n_labels))
        return self._edge.scores(parts[1]).reshape(1, self._n_labels, self._n_labels)

    def _walk(
        self, parts: Sequence[np.ndarray], rows_of: Callable[[int, Evaluation], np.ndarray], table: PairTable
    ) -> np.ndarray:
        """Sum ``rows_of(block, evaluation)``, (n, L), over all blocks, to one number per pair."""
        scorer, features = PairScorer(self._table.layout, parts[0]), self._table.features
        edge = self._edge_scores(parts)

        def residuals(first: int, last: int) -> Iterator[tuple[int, int, np.ndarray]]:
            for block in range(first, last):
                begin, end = self._rows[block]
                node = scorer.block(features, begin, end)
                evaluation = self._likelihoods[block].evaluate(Potentials(node, {EDGE: edge}))
                yield begin, end, rows_of(block, evaluation)

        return table.gradient(residuals, self._runs(), self._workers)

    def _runs(self) -> list[tuple[int, int]]:
        """Split the blocks into a few runs per thread, fewer if their gradients would exceed the data."""
        n_threads = self._workers.n_threads
        most = 1 if n_threads == 1 else min(2 * n_threads, self._table.affordable_copies())
        return merge_runs(list(pairwise(range(len(self._blocks) + 1))), most)


def block_of_chains(chains: Chains, first: int, last: int) -> Chains:
    """Return labels, complete or partial, and weights of some sequences, without their inputs."""
    begin, end = chains.offsets[first], chains.offsets[last]
    offsets = chains.offsets[first : last + 1] - begin
    partial = None if chains.partial is None else chains.partial[begin:end]
    labels, weights = chains.required_labels[begin:end], chains.weights[first:last]
    return Chains(np.empty((end - begin, 0)), offsets, labels, weights, partial)


#: Passes that compute value and gradient together and keep nothing per position.
Passes: TypeAlias = FusedPasses | ListPasses


def choose_fused_passes(datafit: Datafit) -> Passes | None:
    """Return passes of a datafit without storage per position, for sparse fields with a support; else None.

    They are made once: a datafit whose labels are completed has those of the first with other labels.
    """
    if datafit.fused is None and datafit.is_local:
        datafit.fused = make_fused_passes(datafit.likelihood, datafit.designs)
    return datafit.fused


def make_fused_passes(
    likelihood: Objective, designs: Sequence[LocalDesign], at_once: int | None = None
) -> Passes | None:
    """Return fused passes for a suitable field, else None; ``at_once`` positions, None for the default number."""
    node, edge = designs[0], designs[1] if len(designs) > 1 else None
    table = node.pair_table
    if table is None or node.labels_per_clique != 1 or node.positions is not None or len(designs) > 2:
        return None
    if edge is not None and not (edge.labels_per_clique == 2 and edge.is_constant):
        return None
    family, data = likelihood.family, likelihood.data
    if not isinstance(family, ChainFamily) or not isinstance(data, Chains):
        return None
    if isinstance(likelihood, Likelihood) and isinstance(family, ListFamily) and data.partial is None:
        return ListPasses(likelihood, table, edge)
    if isinstance(likelihood, Likelihood | PartialLikelihood):
        most = min(_MOST_POSITIONS, max(_FEWEST_POSITIONS, _TABLE_ENTRIES // likelihood.n_labels**2))
        return FusedPasses(likelihood, node, table, edge, most if at_once is None else at_once)
    return None
