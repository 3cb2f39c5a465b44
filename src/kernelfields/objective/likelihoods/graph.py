"""The weighted negative log-likelihood of labelled graphs, and three label structures made of graphs.

    value    = sum_i weight_i (log Z_i - score_i(y^i))
    residual = weight * (marginals - one-hot labels)      its gradient in the potentials

Where inference is approximate, log Z and marginals are what it returns for them: with tree-reweighted messages the
value is a convex upper bound of the true one, with others it is neither.

    GraphStructure       graphs as they are given, inferred by a method or by the one "auto" chooses
    InstanceStructure    several yes-or-no labels of an instance: a small graph each, all of one structure
    chain_graphs         chains whose labels meet across more than one step: pairs (t-k, t), triples (t-2, t-1, t).
                         A junction tree of width 1 + the longest reach infers them exactly: O(N L^(reach + 1))
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelfields.fields.chains import Chains
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.fields.graphs import Graphs
from kernelfields.fields.label_cliques import LabelledInstances
from kernelfields.inference.answers import GraphAnswers
from kernelfields.inference.beliefs import GraphInference
from kernelfields.inference.plan import plan_inference
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.memory import check_pairs_fit
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood
from kernelfields.objective.likelihoods.partial import with_evidence
from kernelfields.objective.potentials import GraphLayout, Placed, Potentials

# Potentials of a batch of graphs, features and potentials of one of instances, stay below about this many numbers.
_GRAPH_BATCH_VALUES = 32 * 2**20
_INSTANCE_BATCH_VALUES = 16 * 2**20
# Labels up to which a table of all labellings beats any junction tree.
_SMALL_TABLE = 14
# With tables of pairs that depend on the inputs, one for each instance, tables of labellings are, too.
_MOST_LABELS = {True: 20, False: 16}
# Tables of one instance that a search for the graph of labels allows: those of about 9 labels at once.
_SEARCHED_BYTES = 2.0**17
_KINDS = ("lag", "order")

Edge = tuple[int, int]


class GraphLikelihood:
    """Labelled graphs, what is to be inferred on them and how; ``forbidden`` is added before inference."""

    convex = True

    def __init__(
        self,
        graphs: Graphs,
        n_labels: int,
        placed: Sequence[Placed],
        inference: GraphInference,
        *,
        forbidden: Potentials | None = None,
        workers: Workers | None = None,
    ):
        if graphs.labels is None:
            raise ValueError("a likelihood needs labelled graphs")
        self.n_labels = n_labels
        self.layout = GraphLayout(graphs, n_labels, placed)
        self.inference = inference
        self.approximation = None if inference.exact else inference.method
        self.workers = workers or Workers()
        #: What approximate inference said of its last answer: sentences such as that it did not converge.
        self.doubts: list[str] = []
        self._forbidden = forbidden
        self._rows = np.arange(graphs.n_positions)
        self._weigh(graphs)
        self._observed = [
            np.ravel_multi_index(tuple(graphs.labels[members].T), (n_labels,) * members.shape[1])
            for members in self.layout.members
        ]

    def _weigh(self, graphs: Graphs) -> None:
        self.graphs = graphs
        self._node_weights = graphs.position_weights
        self._factor_weights = [graphs.factor_weights(name) for name in self.layout.names]

    def weighed(self, weights: np.ndarray) -> GraphLikelihood:
        """Return the likelihood of the same graphs with other weights, (S,)."""
        weighed = copy.copy(self)
        weighed._weigh(replace(self.graphs, weights=weights))
        return weighed

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings equally likely; no labels forbidden."""
        return float(self._node_weights.sum()) * float(np.log(self.n_labels))

    @property
    def constrained(self) -> bool:
        """Whether some labellings are forbidden."""
        return self._forbidden is not None

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, L^k)."""
        if term.group is not None:
            marginals = evaluation.beliefs.factor_marginals(self.layout.index(term.group))
            # Not -1: a group may have no factors, all sequences being too short for one.
            return marginals.reshape(len(marginals), math.prod(marginals.shape[1:]))
        marginals = evaluation.beliefs.node_marginals
        return marginals if term.positions is None else marginals[term.positions]

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,)."""
        if term.group is not None:
            return self._factor_weights[self.layout.index(term.group)]
        return self._node_weights if term.positions is None else self._node_weights[term.positions]

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        allowed = potentials if self._forbidden is None else potentials.moved(1.0, self._forbidden)
        beliefs = self.inference.infer(
            allowed.node, list(allowed.factors), weights=self.graphs.weights, workers=self.workers
        )
        self.doubts = list(beliefs.diagnostics.get("warnings", ()))
        node_residual, factor_residuals = beliefs.gradient()
        node_residual = node_residual.copy()
        labels = self.graphs.labels
        node_residual[self._rows, labels] -= self._node_weights
        score = float(potentials.node[self._rows, labels] @ self._node_weights)
        residuals = []
        for table, gradient, observed, weights in zip(
            potentials.factors, factor_residuals, self._observed, self._factor_weights, strict=True
        ):
            size = math.prod(table.shape[1:])
            flat, scores = gradient.reshape(len(gradient), size).copy(), table.reshape(len(table), size)
            if len(table) == len(observed):
                rows = np.arange(len(observed))
                flat[rows, observed] -= weights
                score += float(scores[rows, observed] @ weights)
            else:
                counts = np.bincount(observed, weights, minlength=flat.shape[1])
                flat[0] -= counts
                score += float(scores[0] @ counts)
            residuals.append(flat.reshape(table.shape))
        value = float(beliefs.log_partition @ self.graphs.weights) - score
        return Evaluation(value, Potentials(node_residual, *residuals), beliefs)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction; TypeError where inference is approximate."""
        node, factors = evaluation.beliefs.hessian_product(direction.node, list(direction.factors))
        return Potentials(node, *factors)


def chain_graphs(chains: Chains, groups: Iterable[str | None]) -> Graphs:
    """Return chains as graphs with the named groups of factors; neighbours are always among them."""
    names = {group for group in groups if group is not None} | {"lag1"}
    lags, orders = (sorted(int(name.removeprefix(kind)) for name in names if name.startswith(kind)) for kind in _KINDS)
    return Graphs.from_chains(chains, lags=lags, orders=orders)


def plan_chains(graphs: Graphs, n_labels: int) -> GraphInference:
    """Return exact inference on such graphs."""
    members = [factors.members for factors in graphs.factors]
    return plan_inference(graphs.offsets, members, n_labels, "junction")


def forbidden_potentials(layout: GraphLayout, masks: ConstraintMasks | None) -> Potentials | None:
    """Return the penalties of constraints as potentials; None if nothing is forbidden."""
    if masks is None or not masks.any:
        return None
    forbidden = layout.zeros()
    masks.apply(forbidden.node, layout.graphs.offsets)
    forbidden.factors[layout.index("lag1")][...] += masks.edge
    return forbidden


def long_chain_likelihood(
    chains: Chains,
    placed: Sequence[Placed],
    n_labels: int,
    *,
    masks: ConstraintMasks | None,
    workers: Workers | None,
) -> GraphLikelihood:
    """Return the likelihood of labelled chains with cliques of any reach."""
    graphs = chain_graphs(chains, (term.group for term in placed))
    forbidden = forbidden_potentials(GraphLayout(graphs, n_labels, placed), masks)
    inference = plan_chains(graphs, n_labels)
    return GraphLikelihood(graphs, n_labels, placed, inference, forbidden=forbidden, workers=workers)


@dataclass(frozen=True, eq=False)
class GraphStructure:
    """Labels of graphs; ``method`` is a name or options of inference, "auto" for the first exact one that fits."""

    n_labels: int
    method: Any = "auto"

    def layout(self, graphs: Graphs, placed: Sequence[Placed]) -> GraphLayout:
        """Return where scores go: nodes, and one table or one each for every group of factors."""
        return GraphLayout(graphs, self.n_labels, placed)

    def plan(self, graphs: Graphs, layout: Any = None) -> GraphInference:
        """Return how graphs are inferred."""
        members = [factors.members for factors in graphs.factors]
        return plan_inference(graphs.offsets, members, self.n_labels, self.method)

    def likelihood(
        self, graphs: Graphs, placed: Sequence[Placed], workers: Workers, plan: GraphInference | None = None
    ) -> Likelihood:
        """Return the likelihood of labelled graphs; ValueError where inference has no partition function."""
        plan = plan or self.plan(graphs)
        refuse_without_value(plan)
        return with_evidence(GraphLikelihood(graphs, self.n_labels, placed, plan, workers=workers), graphs)

    def constrained(self, graphs: Graphs, layout: Any, potentials: Potentials) -> Potentials:
        """Return the potentials: nothing is forbidden."""
        return potentials

    def answers(
        self,
        graphs: Graphs,
        layout: GraphLayout,
        potentials: Potentials,
        workers: Workers,
        plan: GraphInference | None = None,
    ) -> GraphAnswers:
        """Return what can be asked of graphs with potentials."""
        plan = plan or self.plan(graphs, layout)
        return GraphAnswers(graphs, graphs, potentials.node, potentials.factors, plan, workers)

    def batches(self, graphs: Graphs, terms: Sequence[Any], size: int | None = None) -> Iterator[Graphs]:
        """Cut graphs into batches of whole graphs whose potentials, ``size`` values, fit in memory."""
        values = graphs.lengths * self.n_labels
        for factors in graphs.factors:
            values = values + factors.counts * self.n_labels**factors.labels_per_clique
        begin, total = 0, 0
        for index, count in enumerate(values.tolist()):
            if total and total + count > (size or _GRAPH_BATCH_VALUES):
                yield graphs.subset(slice(begin, index))
                begin, total = index, 0
            total += count
        yield graphs if begin == 0 else graphs.subset(slice(begin, graphs.n_graphs))


@dataclass(frozen=True, eq=False)
class InstanceStructure:
    """``n_names`` yes-or-no labels of every instance; ``pairs`` names those that may meet, ``method`` infers them.

    Labels meet in the pairs that some term scores.
    """

    n_names: int
    pairs: Mapping[str, Edge]
    method: Any = "auto"

    #: Each label is 0 or 1.
    n_labels = 2

    def layout(self, instances: LabelledInstances, placed: Sequence[Placed]) -> GraphLayout:
        """Return where scores go: labels, and one table or one each for every pair of them."""
        return GraphLayout(self._meeting(instances, placed).graphs, 2, placed)

    def _meeting(self, instances: LabelledInstances, placed: Sequence[Placed]) -> LabelledInstances:
        groups = dict.fromkeys(term.group for term in placed if term.group is not None)
        return instances.with_pairs({name: self.pairs[name] for name in groups})

    def plan(self, instances: LabelledInstances, layout: Any = None) -> GraphInference | None:
        """Return how the labels of a layout are inferred."""
        if layout is None:
            return None
        graphs, tied = layout.graphs, all(layout.tied)
        members = [factors.members for factors in graphs.factors]
        return plan_labels(graphs.offsets, members, self.n_names, self.method, tied=tied)

    def likelihood(
        self,
        instances: LabelledInstances,
        placed: Sequence[Placed],
        workers: Workers,
        plan: GraphInference | None = None,
    ) -> Likelihood:
        """Return the likelihood of labelled instances; MemoryError where tables of every instance do not fit."""
        layout = self.layout(instances, placed)
        if not all(layout.tied):
            check_pairs_fit(instances.n_instances, len(layout.names))
        plan = self.plan(instances, layout)
        assert plan is not None
        refuse_without_value(plan)
        return with_evidence(GraphLikelihood(layout.graphs, 2, placed, plan, workers=workers), instances)

    def constrained(self, instances: LabelledInstances, layout: Any, potentials: Potentials) -> Potentials:
        """Return the potentials: nothing is forbidden."""
        return potentials

    def answers(
        self,
        instances: LabelledInstances,
        layout: GraphLayout,
        potentials: Potentials,
        workers: Workers,
        plan: GraphInference | None = None,
    ) -> GraphAnswers:
        """Return what can be asked of instances with potentials."""
        plan = plan or self.plan(instances, layout)
        assert plan is not None
        return GraphAnswers(instances, layout.graphs, potentials.node, potentials.factors, plan, workers)

    def batches(
        self, instances: LabelledInstances, terms: Sequence[Any], size: int | None = None
    ) -> Iterator[LabelledInstances]:
        """Cut instances into batches whose features and potentials fit in memory, ``size`` instances each."""
        if size is None:
            rank = max(term.subspace.rank for term in terms if not term.tied_everywhere)
            tied = all(term.tied_everywhere for term in terms if term.group is not None)
            each = rank + 4 * self.n_names + (0 if tied else 8 * len(self.pairs))
            size = max(1, _INSTANCE_BATCH_VALUES // each)
        for begin in range(0, instances.n_instances, size):
            yield instances.subset(slice(begin, begin + size))


def plan_labels(
    offsets: np.ndarray, members: Sequence[np.ndarray], n_names: int, method: Any, *, tied: bool
) -> GraphInference:
    """Return how instances with K labels are inferred: by a named method, or by the one "auto" chooses.

    "auto": "tree" for forests; else "table", a table of all labellings, for few labels; else "junction" where the
    graph is narrow enough, "table" where it still fits, and "trw", which is approximate.
    """
    from kernelfields.inference.table.inference import LabelTables

    if isinstance(method, str) and method == "table":
        return LabelTables(offsets, members, 2)
    if not (isinstance(method, str) and method == "auto") or len(members) == 0:
        return plan_inference(offsets, members, 2, method)
    if not _has_circle(offsets, members):
        return plan_inference(offsets, members, 2, "tree")
    if n_names <= _SMALL_TABLE:
        return LabelTables(offsets, members, 2)
    chosen = plan_inference(offsets, members, 2, "auto")
    # A table of all labellings is two halves of K / 2 labels, multiplied by fast matrix products.
    narrow = chosen.exact and chosen.plan.width < n_names // 2  # type: ignore[attr-defined]
    return chosen if narrow or n_names > _MOST_LABELS[tied] else LabelTables(offsets, members, 2)


def labels_fit(
    n_names: int, edges: Sequence[Edge], method: Any, *, n_instances: int, tied: bool, each: float = _SEARCHED_BYTES
) -> bool:
    """Whether labels that meet along some edges are inferred without approximation, as a search for edges asks.

    Junction trees may have tables of ``each`` bytes for an instance: a search makes many fits. Methods that are
    approximate, or are no name, take any edges.
    """
    members = [np.array([edge]) for edge in edges]
    if method == "tree":
        return not _has_circle(np.array([0, n_names]), members)
    if method not in ("auto", "junction") or (method == "auto" and n_names <= _MOST_LABELS[tied]):
        return True
    from kernelfields.inference.junction.plan import TooWide, available_memory, plan_junction

    try:
        plan_junction(np.array([0, n_names]), members, 2, min(each, available_memory() / n_instances))
    except TooWide:
        return False
    return True


def _has_circle(offsets: np.ndarray, members: Sequence[np.ndarray]) -> bool:
    """Whether the edges of one instance, the same for all, hold a circle."""
    root = list(range(int(offsets[1])))
    for pairs in members:
        ends = []
        for node in pairs[0].tolist():
            while root[node] != node:
                node = root[node]
            ends.append(node)
        if ends[0] == ends[1]:
            return True
        root[ends[0]] = ends[1]
    return False


def refuse_without_value(plan: GraphInference) -> None:
    """Raise ValueError if inference has no log partition function, which a fit needs."""
    if plan.method == "gibbs":
        raise ValueError(
            "inference='gibbs' estimates marginals and no log partition function, which a fit needs: fit with "
            "'trw', 'loopy' or 'mean-field', then set_params(inference='gibbs') to predict by sampling"
        )


def refuse_approximate(plan: GraphInference | None, what: str) -> None:
    """Raise ValueError if inference is approximate."""
    if plan is not None and not plan.exact:
        raise ValueError(
            f"{what} needs exact inference, and these graphs are inferred by {plan.method!r}, which is "
            f"approximate ({plan.description})"
        )
