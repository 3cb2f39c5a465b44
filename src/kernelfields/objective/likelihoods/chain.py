"""The weighted negative log-likelihood of labelled chains, and chains as a label structure.

    value    = sum_i weight_i (log Z_i - score_i(y^i))
    residual = weight * (marginals - one-hot labels)      its gradient in the potentials

Where only neighbours meet, forward and backward passes infer chains; where labels meet in n-grams that see no inputs,
an automaton does (likelihoods/ngrams.py); where other cliques reach further, the chains are seen as graphs and a
junction tree does (likelihoods/graph.py).

Beliefs are three arrays as large as the potentials, and most points that a fit visits need none of them: more than a
few thousand positions are inferred in blocks of whole sequences, of which value and residual are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.fields.chains import Chains
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.fields.reading import SEQUENCES
from kernelfields.inference.answers import ChainAnswers, LongChainAnswers, NgramAnswers
from kernelfields.inference.beliefs import GraphInference
from kernelfields.inference.chain.allowed import AllowedBeliefs, infer_allowed, rows_without_path, worth_lists
from kernelfields.inference.chain.beliefs import ChainBeliefs, infer_chains
from kernelfields.numerics.threads import Workers
from kernelfields.objective.designs.memory import check_transitions_fit
from kernelfields.objective.likelihoods.graph import (
    chain_graphs,
    forbidden_potentials,
    long_chain_likelihood,
    plan_chains,
)
from kernelfields.objective.likelihoods.likelihood import CountedLabellings, Evaluation, Likelihood
from kernelfields.objective.likelihoods.partial import with_evidence
from kernelfields.objective.potentials import ChainLayout, GraphLayout, NgramLayout, Placed, Potentials

# Per-position transition scores of a batch stay below this many bytes.
_EDGE_BYTES = 256 * 2**20
_BATCH_POSITIONS = 200_000
# So do scores of single labels.
_NODE_BYTES = 512 * 2**20
_NEIGHBOURS = (None, "lag1")
# Potentials of positions that are inferred at once where beliefs are not kept; fewer, down to the second number, if
# threads would have nothing to do.
_BLOCK_VALUES, _FEWEST_VALUES = 2**15, 2**13


class ChainLikelihood(CountedLabellings):
    """Labelled chains with constraints; ``tied`` says whether one transition matrix serves all positions.

    Beyond ``at_once`` positions (None: enough to be fast), beliefs are inferred again if somebody asks for them.
    """

    approximation: str | None = None
    inference = None
    convex = True

    def __init__(
        self,
        chains: Chains,
        n_labels: int,
        *,
        tied: bool = True,
        masks: ConstraintMasks | None = None,
        workers: Workers | None = None,
        at_once: int | None = None,
    ):
        if chains.labels is None:
            raise ValueError("a likelihood needs labelled chains")
        self.chains = chains
        self.labels = chains.labels
        self.n_labels = n_labels
        self.layout = ChainLayout(chains.n_positions, n_labels, tied=tied)
        self.workers = workers or Workers()
        self.doubts: list[str] = []
        self._rows = np.arange(chains.n_positions)
        self._steps = np.flatnonzero(~chains.is_start)
        weights = chains.position_weights
        # None stands for weights that are all one, the usual case, where no product is needed.
        self._weights = None if np.all(weights == 1.0) else weights
        self.masks = masks if masks is not None and masks.any else None
        self.allowed = self._narrowest(chains.allowed)
        self.constrained = self.masks is not None or self.allowed is not None
        #: Whether inference walks lists of allowed labels.
        self.walks_lists = self.allowed is not None and worth_lists(self.allowed)
        #: The weighted number of observed steps a -> b, (L, L).
        self.edge_counts = self._count_edges()
        # A table of all steps for each of many small blocks would outweigh lists.
        usual = positions_at_once(chains.n_positions, n_labels, self.workers.n_threads)
        self._at_once = at_once or (chains.n_positions if self.walks_lists else usual)

    @cached_property
    def _node_mask(self) -> np.ndarray:
        """Penalties of every position, (N, L), for constrained fields."""
        if self.allowed is not None:
            return self.allowed.penalties()
        assert self.masks is not None
        return self.masks.apply(np.zeros((self.chains.n_positions, self.n_labels)), self.chains.offsets)

    def _narrowest(self, allowed: AllowedLabels | None) -> AllowedLabels | None:
        """Return lists of allowed labels without those that constraints forbid where they stand."""
        return allowed if allowed is None or self.masks is None else without_forbidden(allowed, self.masks, self.chains)

    def narrowed(self, evidence: np.ndarray) -> ChainLikelihood:
        """Return the same given evidence (N, L) that leaves few labels: inference then walks those alone."""
        possible = AllowedLabels.of_mask(evidence > -np.inf)
        if self.allowed is not None or not worth_lists(possible):
            return self
        chains = replace(self.chains, allowed=possible)
        return ChainLikelihood(chains, self.n_labels, tied=self.layout.tied, masks=self.masks, workers=self.workers)

    def _count_edges(self) -> np.ndarray:
        """Return the weighted number of observed steps a -> b, (L, L)."""
        counts = np.zeros((self.n_labels, self.n_labels))
        weights = 1.0 if self._weights is None else self._weights[self._steps]
        np.add.at(counts, (self.labels[self._steps - 1], self.labels[self._steps]), weights)
        return counts

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, L^k)."""
        marginals = (
            evaluation.beliefs.node_marginals
            if term.labels_per_clique == 1
            else evaluation.beliefs.edge_marginals().reshape(self.chains.n_positions, -1)
        )
        return marginals if term.positions is None else marginals[term.positions]

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,)."""
        weights = self.chains.position_weights
        return weights if term.positions is None else weights[term.positions]

    def chain_beliefs(self, evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return offsets (S + 1,), weights (S,), marginals (N, L) and joint marginals of steps (N, L, L)."""
        beliefs = evaluation.beliefs
        return self.chains.offsets, self.chains.weights, beliefs.node_marginals, beliefs.edge_marginals()

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value and residual at the given potentials, and beliefs, inferred later if there are many."""
        if len(self._blocks) > 1:
            return self._evaluate_in_blocks(potentials)
        node, edge = potentials.node, potentials.edge
        beliefs = self.infer(potentials)
        value = float(beliefs.log_partition @ self.chains.weights) - self._observed_score(node, edge)
        node_residual, edge_residual = beliefs.gradient()
        if node_residual is beliefs.node_marginals:
            node_residual = node_residual.copy()
        node_residual[self._rows, self.labels] -= 1.0 if self._weights is None else self._weights
        if self.layout.tied:
            edge_residual = edge_residual - self.edge_counts
        else:
            weights = 1.0 if self._weights is None else self._weights[self._steps]
            edge_residual[self._steps, self.labels[self._steps - 1], self.labels[self._steps]] -= weights
        return Evaluation(value, Potentials(node_residual, edge_residual), beliefs)

    def infer(self, potentials: Potentials) -> ChainBeliefs | AllowedBeliefs:
        """Return the beliefs at the given potentials."""
        node, edge = potentials.node, potentials.edge
        if self.masks is not None:
            edge = edge + self.masks.edge
        if self.allowed is not None and self.walks_lists:
            return infer_allowed(
                self.allowed.taken(node),
                edge,
                self.chains.offsets,
                self.allowed,
                position_weights=self._weights,
                workers=self.workers,
            )
        if self.constrained:
            node = node + self._node_mask
        return infer_chains(
            node,
            edge,
            self.chains.offsets,
            position_weights=self._weights,
            workers=self.workers,
            check=False,
        )

    @cached_property
    def _blocks(self) -> list[tuple[slice, ChainLikelihood]]:
        """The rows of each block and the likelihood of its sequences."""
        offsets, runs = self.chains.offsets, blocks_of_sequences(self.chains.offsets, self._at_once)
        if len(runs) == 1:
            return [(slice(0, self.chains.n_positions), self)]
        blocks = []
        for first, last in runs:
            chains = block_of_chains(self.chains, first, last)
            inner = ChainLikelihood(
                chains,
                self.n_labels,
                tied=self.layout.tied,
                masks=self.masks,
                workers=Workers(1),
                at_once=chains.n_positions,
            )
            blocks.append((slice(int(offsets[first]), int(offsets[last])), inner))
        return blocks

    def _evaluate_in_blocks(self, potentials: Potentials) -> Evaluation:
        node, tied = np.empty_like(potentials.node), self.layout.tied
        edge = np.empty((len(self._blocks), *potentials.edge.shape[1:]) if tied else potentials.edge.shape)
        values = np.empty(len(self._blocks))

        def run(first: int, last: int) -> None:
            for index in range(first, last):
                rows, block = self._blocks[index]
                table = potentials.edge if tied else potentials.edge[rows]
                evaluation = block.evaluate(Potentials(potentials.node[rows], table))
                values[index], node[rows] = evaluation.value, evaluation.residual.node
                edge[slice(index, index + 1) if tied else rows] = evaluation.residual.edge

        self.workers.each(run, [(index, index + 1) for index in range(len(self._blocks))])
        residual = Potentials(node, edge.sum(axis=0, keepdims=True) if tied else edge)
        return _UnkeptBeliefs(float(values.sum()), residual, self, potentials)

    def _observed_score(self, node: np.ndarray, edge: np.ndarray) -> float:
        observed = node[self._rows, self.labels]
        score = float(observed.sum() if self._weights is None else observed @ self._weights)
        if self.layout.tied:
            return score + float(np.vdot(self.edge_counts, edge[0]))
        steps = edge[self._steps, self.labels[self._steps - 1], self.labels[self._steps]]
        return score + float(steps.sum() if self._weights is None else steps @ self._weights[self._steps])

    def weighed(self, weights: np.ndarray) -> ChainLikelihood:
        """Return the likelihood of the same chains with other weights, (S,)."""
        chains = replace(self.chains, weights=weights)
        return ChainLikelihood(chains, self.n_labels, tied=self.layout.tied, masks=self.masks, workers=self.workers)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""
        return Potentials(*evaluation.beliefs.hessian_product(direction.node, direction.edge))


class _UnkeptBeliefs(Evaluation):
    """An evaluation whose beliefs are inferred when they are first asked for."""

    def __init__(self, value: float, residual: Potentials, likelihood: ChainLikelihood, potentials: Potentials):
        self.value, self.residual = value, residual
        self._likelihood, self._potentials = likelihood, potentials

    @cached_property
    def beliefs(self) -> ChainBeliefs | AllowedBeliefs:
        """Marginals and what Hessian products need."""
        return self._likelihood.infer(self._potentials)


def positions_at_once(n_positions: int, n_labels: int, n_threads: int) -> int:
    """Return the positions of a block whose potentials stay in the cache while every thread has blocks to infer."""
    values = n_positions * n_labels
    n_blocks = max(1, values // _BLOCK_VALUES, min(2 * n_threads, values // _FEWEST_VALUES))
    return max(1, n_positions // n_blocks)


def blocks_of_sequences(offsets: np.ndarray, at_once: int) -> list[tuple[int, int]]:
    """Cut sequences into runs of about ``at_once`` positions, at least one sequence each."""
    n_blocks = max(1, int(offsets[-1]) // at_once)
    targets = np.linspace(0, offsets[-1], n_blocks + 1)
    cuts = np.unique(np.searchsorted(offsets, targets))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


def block_of_chains(chains: Chains, first: int, last: int) -> Chains:
    """Return labels, evidence and weights of some sequences, without their inputs."""
    begin, end = chains.offsets[first], chains.offsets[last]
    offsets = chains.offsets[first : last + 1] - begin
    evidence = None if chains.evidence is None else chains.evidence[begin:end]
    allowed = None if chains.allowed is None else chains.allowed[begin:end]
    labels, weights = chains.labels[begin:end], chains.weights[first:last]
    return Chains(np.empty((end - begin, 0)), offsets, labels, weights, evidence, allowed)


@dataclass(frozen=True, eq=False)
class ChainStructure:
    """Labels of chains, some labellings of which ``masks`` forbid."""

    n_labels: int
    masks: ConstraintMasks

    @cached_property
    def forbids(self) -> bool:
        """Whether some labellings are forbidden."""
        return self.masks.any

    def check_labels(self, chains: Chains, classes: np.ndarray) -> None:
        """Raise ValueError at the first label of chains that is forbidden where it stands."""
        self._check_allowed(chains)
        if chains.allowed is not None and chains.evidence is None:
            outside = np.flatnonzero(~chains.allowed.within(chains.labels))
            if outside.size:
                label = classes[chains.labels[outside[0]]].item()
                place = SEQUENCES.place(chains.offsets, int(outside[0]))
                raise ValueError(f"{place}: label {label!r} is not among those that are allowed there.")
        if self.forbids:
            assert chains.labels is not None
            if chains.evidence is None:
                self.masks.check_labels(chains.labels, chains.offsets, classes)
            else:
                self.masks.check_evidence(chains.evidence, chains.offsets)

    def check_lengths(self, chains: Chains) -> None:
        """Raise ValueError at the first chain whose length, or whose allowed labels, leave it no labelling."""
        self._check_allowed(chains)
        if self.forbids:
            self.masks.check_lengths(chains.lengths)

    def _check_allowed(self, chains: Chains) -> None:
        """Raise ValueError at the first position up to which allowed labels, and what is known, leave no labelling."""
        if chains.allowed is None:
            return
        if chains.allowed.n_labels != self.n_labels:
            raise ValueError(f"{chains.allowed.n_labels} labels may be allowed, and the field has {self.n_labels}")
        rows = self.lost(chains, chains.evidence if isinstance(chains.evidence, np.ndarray) else None)
        if (broken := np.flatnonzero(rows >= 0)).size:
            row = int(rows[broken[0]])
            what = "and what y says " if chains.evidence is not None else ""
            raise ValueError(
                f"{SEQUENCES.place(chains.offsets, row)}: the labels that are allowed {what}up to here leave no "
                "labelling. Allow more labels there or drop a constraint."
            )

    def lost(self, chains: Chains, evidence: np.ndarray | None) -> np.ndarray:
        """Return for each chain the row up to which it has no labelling, given evidence (N, L); -1 where it has one."""
        if chains.allowed is None:
            assert evidence is not None
            return self.masks.contradictions(evidence, chains.offsets)
        allowed = without_forbidden(chains.allowed, self.masks, chains)
        if evidence is not None:
            allowed = allowed.kept(allowed.taken(evidence) > -np.inf)
        if not self.masks.edge.any() and np.diff(allowed.begin).all():
            return np.full(chains.n_sequences, -1)
        return rows_without_path(allowed, chains.offsets, self.masks.edge == 0)

    def lists(self, chains: Chains) -> AllowedLabels | None:
        """Return the labels that chains may have, where walking them costs less than all labels; else None."""
        if chains.allowed is None:
            return None
        allowed = without_forbidden(chains.allowed, self.masks, chains)
        return allowed if worth_lists(allowed) else None

    def layout(self, chains: Chains, placed: Sequence[Placed]) -> ChainLayout | NgramLayout | GraphLayout:
        """Return where scores go: node and edge; n-grams; groups of factors if others meet that are not neighbours."""
        if only_ngrams(placed):
            return NgramLayout(chains.n_positions, chains.n_sequences, self.n_labels, placed)
        if reaches_far(placed):
            return GraphLayout(chain_graphs(chains, (term.group for term in placed)), self.n_labels, placed)
        return ChainLayout.of_terms(chains.n_positions, self.n_labels, placed)

    def plan(self, chains: Chains, layout: Any = None) -> GraphInference | None:
        """Return the automaton of n-grams or the junction trees of a layout of graphs; None where neighbours meet."""
        if isinstance(layout, NgramLayout):
            from kernelfields.inference.ngrams.inference import NgramInference

            return NgramInference(chains.offsets, self.n_labels, layout.ngrams)
        return plan_chains(layout.graphs, self.n_labels) if isinstance(layout, GraphLayout) else None

    def likelihood(
        self, chains: Chains, placed: Sequence[Placed], workers: Workers, plan: GraphInference | None = None
    ) -> Likelihood:
        """Return the likelihood of labelled chains; MemoryError if transitions of every position do not fit."""
        likelihood = self._labelled(chains, placed, workers, plan)
        return likelihood if chains.evidence is None else with_evidence(likelihood, chains)

    def _labelled(
        self, chains: Chains, placed: Sequence[Placed], workers: Workers, plan: GraphInference | None
    ) -> Likelihood:
        """Return the likelihood of the labels of chains, whatever else is known of them."""
        masks = self.masks if self.forbids else None
        if only_ngrams(placed):
            from kernelfields.objective.likelihoods.ngrams import NgramLikelihood

            layout = NgramLayout(chains.n_positions, chains.n_sequences, self.n_labels, placed)
            if not layout.tied:
                check_transitions_fit(chains.n_positions, self.n_labels)
            inference: Any = plan or self.plan(chains, layout)
            return NgramLikelihood(chains, layout, inference, masks=masks, workers=workers)
        if reaches_far(placed):
            if chains.allowed is not None:
                _refuse_far(None)
            return long_chain_likelihood(chains, placed, self.n_labels, masks=self.masks, workers=workers)
        tied = ChainLayout.of_terms(chains.n_positions, self.n_labels, placed).tied
        if not tied:
            check_transitions_fit(chains.n_positions, self.n_labels)
        return ChainLikelihood(chains, self.n_labels, tied=tied, masks=masks, workers=workers)

    def constrained(self, chains: Chains, layout: Any, potentials: Potentials) -> Potentials:
        """Return potentials with the penalties of the constraints; the nodes are changed in place."""
        if chains.allowed is not None:
            _refuse_far(layout)
            node = potentials.node + without_forbidden(chains.allowed, self.masks, chains).penalties()
            return Potentials(node, potentials.edge + self.masks.edge)
        if not self.forbids:
            return potentials
        if isinstance(layout, NgramLayout):
            node, edge = self.masks.apply(potentials.node, chains.offsets), potentials.edge + self.masks.edge
            return Potentials(node, edge, *potentials.factors[1:])
        if isinstance(layout, GraphLayout):
            forbidden = forbidden_potentials(layout, self.masks)
            return potentials if forbidden is None else potentials.moved(1.0, forbidden)
        return Potentials(self.masks.apply(potentials.node, chains.offsets), potentials.edge + self.masks.edge)

    def answers(
        self,
        chains: Chains,
        layout: Any,
        potentials: Potentials,
        workers: Workers,
        plan: GraphInference | None = None,
    ) -> ChainAnswers | NgramAnswers | LongChainAnswers:
        """Return what can be asked of chains with potentials, constraints included."""
        if isinstance(layout, NgramLayout):
            names = ["lag1", *(str(name) for name, _ in layout.groups)]
            ngrams: Any = plan or self.plan(chains, layout)
            return NgramAnswers(chains, names, potentials.node, potentials.factors, ngrams, workers)
        if not isinstance(layout, GraphLayout):
            return ChainAnswers(chains, potentials.node, potentials.edge, workers)
        plan = plan or plan_chains(layout.graphs, self.n_labels)
        return LongChainAnswers(chains, layout.graphs, potentials.node, potentials.factors, plan, workers)

    def batches(self, chains: Chains, terms: Sequence[Any], size: int | None = None) -> Iterator[Chains]:
        """Cut chains into batches of whole sequences whose potentials fit in memory, ``size`` positions each."""
        limit = size or max(1, min(_BATCH_POSITIONS, _NODE_BYTES // (8 * self.n_labels)))
        reach = max((term.clique.steps_back[0] for term in terms if not term.tied_everywhere), default=0)
        if reach or (reaches_far(terms) and not only_ngrams(terms)):
            # Beside n-grams, edges that see inputs are the largest tables; else those of the junction tree are.
            reach = reach if only_ngrams(terms) else max(term.clique.steps_back[0] for term in terms)
            limit = max(1, min(limit, _EDGE_BYTES // (8 * self.n_labels ** (reach + 1))))
        begin = 0
        while begin < chains.n_sequences:
            last = int(np.searchsorted(chains.offsets, chains.offsets[begin] + limit, side="right")) - 1
            end = min(max(last, begin + 1), chains.n_sequences)
            yield chains if end - begin == chains.n_sequences else chains.subset(slice(begin, end))
            begin = end


def only_ngrams(placed: Sequence[Any]) -> bool:
    """Whether labels that are not neighbours meet in n-grams alone, and those see no inputs."""
    far = [term for term in placed if term.group not in _NEIGHBOURS]
    return bool(far) and all(term.group.startswith("order") and term.tied_everywhere for term in far)


def _refuse_far(layout: Any) -> None:
    """Raise where labels meet that are not neighbours: lists of allowed labels are for chains of neighbours."""
    if not isinstance(layout, ChainLayout):
        raise ValueError(
            "allowed is for fields in which neighbours alone meet, and this one has cliques of longer reach: leave "
            "them out, or say what is allowed by constraints"
        )


def without_forbidden(allowed: AllowedLabels, masks: ConstraintMasks, chains: Chains) -> AllowedLabels:
    """Return lists of allowed labels without those that constraints forbid everywhere, first or last."""
    if not (masks.label.any() or masks.start.any() or masks.end.any()):
        return allowed
    rows, labels = allowed.rows, allowed.labels
    is_end = np.zeros(chains.n_positions, dtype=bool)
    is_end[chains.ends] = True
    barred = masks.label[labels] < 0
    barred |= chains.is_start[rows] & (masks.start[labels] < 0)
    barred |= is_end[rows] & (masks.end[labels] < 0)
    return allowed.kept(~barred) if barred.any() else allowed


def reaches_far(placed: Sequence[Any]) -> bool:
    """Whether labels meet that are not neighbours."""
    return any(term.group not in _NEIGHBOURS for term in placed)
