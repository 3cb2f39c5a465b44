"""A fitted multi-label field: from inputs to potentials of labels, for prediction, scoring and certificates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.engines import GraphLayout, GraphLikelihood
from kernelfields.estimators.fitted_sets import FittedSet, certify_sets, graph_potentials
from kernelfields.estimators.graph_model import refuse_approximate
from kernelfields.estimators.laplace_samples import LaplaceSamples, sampled_potentials
from kernelfields.estimators.multilabel_graphs import Edge, plan_instances
from kernelfields.estimators.scored_graphs import ScoredGraphs
from kernelfields.fields.label_cliques import LabelledInstances
from kernelfields.inference.workers import Workers
from kernelfields.posterior import Certificate

# Features, potentials and marginals of a batch of instances stay below about this many numbers.
_BATCH_VALUES = 16 * 2**20


@dataclass
class MultiLabelModel:
    """A fitted multi-label field: its clique sets, the pairs of labels that meet, and how they are inferred."""

    sets: list[FittedSet]
    n_labels: int
    pairs: dict[str, Edge]
    inference: Any

    @property
    def tied(self) -> bool:
        """Whether pairs of labels do not depend on the inputs."""
        return all(each.tied_everywhere for each in self.sets if each.clique.group is not None)

    def batches(self, inputs: Any, labels: np.ndarray | None = None) -> Iterator[LabelledInstances]:
        """Cut instances into batches whose features and potentials fit in memory."""
        rank = max(each.subspace.rank for each in self.sets if not each.tied_everywhere)
        size = max(1, _BATCH_VALUES // (rank + 4 * self.n_labels + (0 if self.tied else 8 * len(self.pairs))))
        for begin in range(0, inputs.shape[0], size):
            rows = slice(begin, begin + size)
            yield LabelledInstances.build(
                inputs[rows], self.n_labels, self.pairs, None if labels is None else labels[rows]
            )

    def scored(self, instances: LabelledInstances, workers: Workers) -> ScoredGraphs:
        """Return instances with their potentials, ready for questions."""
        _, potentials = graph_potentials(self.sets, instances, instances.graphs, 2, workers)
        plan = plan_instances(instances, self.inference, tied=self.tied)
        return ScoredGraphs(instances.graphs, potentials, plan, workers)

    def sampled(
        self, instances: LabelledInstances, samples: LaplaceSamples, workers: Workers
    ) -> Iterator[ScoredGraphs]:
        """Yield instances with the potentials of each sample of coefficients."""
        layout = GraphLayout(instances.graphs, 2, [each.placement(instances) for each in self.sets])
        plan = plan_instances(instances, self.inference, tied=self.tied)
        for potentials in sampled_potentials(self.sets, instances, layout, samples):
            yield ScoredGraphs(instances.graphs, potentials, plan, workers)

    def certify(self, instances: LabelledInstances, workers: Workers, scope: str) -> Certificate:
        """Return the exact certificate over the span or the whole RKHS; ValueError if inference is approximate."""
        plan = plan_instances(instances, self.inference, tied=self.tied)
        refuse_approximate(plan, "a certificate")
        _, potentials = graph_potentials(self.sets, instances, instances.graphs, 2, workers)
        placements = [each.placement(instances) for each in self.sets]
        likelihood = GraphLikelihood(instances.graphs, 2, placements, plan, workers=workers)
        return certify_sets(self.sets, instances, likelihood, likelihood.evaluate(potentials), scope)
