"""A fitted chain field: from inputs to potentials, the same road for prediction, scoring and certificates.

potentials(x) = sum_c scatter_c( z_c(view_c(x)) V_c A_c^T ) + constraints
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelfields.engines import ChainLayout, ChainLikelihood, Engine, GraphLayout, Potentials
from kernelfields.estimators.fitted_sets import FittedSet, certify_sets, graph_potentials
from kernelfields.estimators.laplace_samples import LaplaceSamples, sampled_potentials
from kernelfields.estimators.long_chains import (
    chain_graphs,
    forbidden_potentials,
    long_chain_likelihood,
    plan_chains,
    reaches_far,
)
from kernelfields.estimators.scored_chains import ScoredChains, ScoredLongChains
from kernelfields.estimators.scored_graphs import ScoredGraphs
from kernelfields.fields import Chains, ConstraintMasks, Graphs
from kernelfields.inference.workers import Workers
from kernelfields.posterior.certificate import Certificate

# Per-position transition scores of a batch stay below this many bytes.
_EDGE_BYTES = 256 * 2**20
_BATCH_POSITIONS = 200_000


@dataclass
class FieldModel:
    """All clique sets of a fitted chain field and its constraints."""

    sets: list[FittedSet]
    n_labels: int
    masks: ConstraintMasks

    @property
    def reaches_far(self) -> bool:
        """Whether labels meet that are not neighbours."""
        return reaches_far(each.clique.group for each in self.sets)

    @property
    def tied(self) -> bool:
        """Whether one transition matrix serves all positions."""
        return all(each.tied_everywhere for each in self.sets if each.clique.labels_per_clique == 2)

    def potentials(
        self,
        chains: Chains,
        *,
        constrained: bool = True,
        workers: Workers | None = None,
        engine: Engine | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return node (N, L) and edge (1 or N, L, L) potentials of chains whose neighbours alone meet."""
        workers = workers or Workers(1)
        layout = ChainLayout(chains.n_positions, self.n_labels, tied=self.tied)
        potentials = layout.zeros()
        for each in self.sets:
            layout.add_scores(potentials, each.placement(chains), each.scores(chains, workers, engine))
        return self._constrained(chains, potentials) if constrained else (potentials.node, potentials.edge)

    def long_potentials(
        self, chains: Chains, *, constrained: bool = True, workers: Workers | None = None
    ) -> tuple[Graphs, Potentials]:
        """Return chains as graphs with factors for cliques of any reach, and their potentials."""
        graphs = chain_graphs(chains, (each.clique.group for each in self.sets))
        layout, potentials = graph_potentials(self.sets, chains, graphs, self.n_labels, workers or Workers(1))
        forbidden = forbidden_potentials(layout, self.masks) if constrained else None
        return graphs, potentials if forbidden is None else potentials.moved(1.0, forbidden)

    def scored(
        self, chains: Chains, workers: Workers, engine: Engine | None = None
    ) -> ScoredChains | ScoredLongChains:
        """Return chains with their potentials, ready for questions."""
        if self.reaches_far:
            graphs, potentials = self.long_potentials(chains, workers=workers)
            inference = plan_chains(graphs, self.n_labels)
            return ScoredLongChains(chains, ScoredGraphs(graphs, potentials, inference, workers))
        return ScoredChains(chains, *self.potentials(chains, workers=workers, engine=engine), workers)

    def sampled(
        self, chains: Chains, samples: LaplaceSamples, workers: Workers
    ) -> Iterator[ScoredChains | ScoredLongChains]:
        """Yield chains with the potentials of each sample of coefficients."""
        if self.reaches_far:
            placements = [each.placement(chains) for each in self.sets]
            graphs = chain_graphs(chains, (each.group for each in placements))
            layout = GraphLayout(graphs, self.n_labels, placements)
            forbidden, inference = forbidden_potentials(layout, self.masks), plan_chains(graphs, self.n_labels)
            for potentials in sampled_potentials(self.sets, chains, layout, samples):
                if forbidden is not None:
                    potentials.add(1.0, forbidden)
                yield ScoredLongChains(chains, ScoredGraphs(graphs, potentials, inference, workers))
            return
        near = ChainLayout(chains.n_positions, self.n_labels, tied=self.tied)
        for potentials in sampled_potentials(self.sets, chains, near, samples):
            yield ScoredChains(chains, *self._constrained(chains, potentials), workers)

    def _constrained(self, chains: Chains, potentials: Potentials) -> tuple[np.ndarray, np.ndarray]:
        node, edge = potentials.node, potentials.edge
        if self.masks.any:
            self.masks.apply(node, chains.offsets)
            edge = edge + self.masks.edge
        return node, edge

    def batches(self, chains: Chains) -> Iterator[Chains]:
        """Cut chains into batches whose potentials fit in memory, whole sequences each."""
        limit = _BATCH_POSITIONS
        if self.reaches_far or not self.tied:
            reach = max(each.clique.steps_back[0] for each in self.sets)
            limit = max(1, min(limit, _EDGE_BYTES // (8 * self.n_labels ** (reach + 1))))
        begin = 0
        while begin < chains.n_sequences:
            reach = int(np.searchsorted(chains.offsets, chains.offsets[begin] + limit, side="right")) - 1
            end = min(max(reach, begin + 1), chains.n_sequences)
            yield chains if end - begin == chains.n_sequences else chains.subset(slice(begin, end))
            begin = end

    def certify(self, chains: Chains, workers: Workers, scope: str = "rkhs") -> Certificate:
        """Return the exact certificate over the span or the whole RKHS."""
        if self.reaches_far:
            placements = [each.placement(chains) for each in self.sets]
            far = long_chain_likelihood(chains, placements, self.n_labels, masks=self.masks, workers=workers)
            _, potentials = self.long_potentials(chains, constrained=False, workers=workers)
            return certify_sets(self.sets, chains, far, far.evaluate(potentials), scope)
        likelihood = ChainLikelihood(chains, self.n_labels, tied=self.tied, masks=self.masks, workers=workers)
        evaluation = likelihood.evaluate(Potentials(*self.potentials(chains, constrained=False)))
        return certify_sets(self.sets, chains, likelihood, evaluation, scope)
