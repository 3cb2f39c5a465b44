"""A fitted graph field: from graphs to potentials, the same road for prediction, scoring and certificates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernelfields.engines import GraphLayout, GraphLikelihood
from kernelfields.estimators.fitted_sets import FittedSet, certify_sets, graph_potentials
from kernelfields.estimators.laplace_samples import LaplaceSamples, sampled_potentials
from kernelfields.estimators.scored_graphs import ScoredGraphs
from kernelfields.fields import Graphs
from kernelfields.inference.graph import GraphInference, plan_inference
from kernelfields.inference.workers import Workers
from kernelfields.posterior.certificate import Certificate

# Potentials of a batch of graphs stay below about this many numbers.
_BATCH_VALUES = 32 * 2**20


@dataclass
class GraphModel:
    """All clique sets of a fitted graph field; ``inference`` is how new graphs are inferred."""

    sets: list[FittedSet]
    n_labels: int
    inference: Any

    def plan(self, graphs: Graphs) -> GraphInference:
        """Return how some graphs are inferred."""
        return plan_graphs(graphs, self.n_labels, self.inference)

    def scored(self, graphs: Graphs, workers: Workers) -> ScoredGraphs:
        """Return graphs with their potentials, ready for questions."""
        _, potentials = graph_potentials(self.sets, graphs, graphs, self.n_labels, workers)
        return ScoredGraphs(graphs, potentials, self.plan(graphs), workers)

    def sampled(self, graphs: Graphs, samples: LaplaceSamples, workers: Workers) -> Iterator[ScoredGraphs]:
        """Yield graphs with the potentials of each sample of coefficients."""
        layout = GraphLayout(graphs, self.n_labels, [each.placement(graphs) for each in self.sets])
        plan = self.plan(graphs)
        for potentials in sampled_potentials(self.sets, graphs, layout, samples):
            yield ScoredGraphs(graphs, potentials, plan, workers)

    def batches(self, graphs: Graphs) -> Iterator[Graphs]:
        """Cut graphs into batches whose potentials fit in memory, whole graphs each."""
        values = graphs.lengths * self.n_labels
        for factors in graphs.factors:
            values = values + factors.counts * self.n_labels**factors.labels_per_clique
        begin, total = 0, 0
        for index, count in enumerate(values.tolist()):
            if total and total + count > _BATCH_VALUES:
                yield graphs.subset(slice(begin, index))
                begin, total = index, 0
            total += count
        yield graphs if begin == 0 else graphs.subset(slice(begin, graphs.n_graphs))

    def certify(self, graphs: Graphs, workers: Workers, scope: str = "rkhs") -> Certificate:
        """Return the exact certificate over the span or the whole RKHS; ValueError if inference is approximate."""
        plan = self.plan(graphs)
        refuse_approximate(plan, "a certificate")
        _, potentials = graph_potentials(self.sets, graphs, graphs, self.n_labels, workers)
        placements = [each.placement(graphs) for each in self.sets]
        likelihood = GraphLikelihood(graphs, self.n_labels, placements, plan, workers=workers)
        return certify_sets(self.sets, graphs, likelihood, likelihood.evaluate(potentials), scope)


def plan_graphs(graphs: Graphs, n_labels: int, method: Any) -> GraphInference:
    """Return how graphs are inferred by a method, or by the one "auto" chooses."""
    return plan_inference(graphs.offsets, [factors.members for factors in graphs.factors], n_labels, method)


def refuse_without_value(plan: GraphInference) -> None:
    """Raise ValueError if inference has no log partition function, which a fit needs."""
    if plan.method == "gibbs":
        raise ValueError(
            "inference='gibbs' estimates marginals and no log partition function, which a fit needs: fit with "
            "'trw', 'loopy' or 'mean-field', then set_params(inference='gibbs') to predict by sampling"
        )


def refuse_approximate(plan: GraphInference, what: str) -> None:
    """Raise ValueError if inference is approximate."""
    if not plan.exact:
        raise ValueError(
            f"{what} needs exact inference, and these graphs are inferred by {plan.method!r}, which is "
            f"approximate ({plan.description})"
        )
