"""Fitted fields: terms and the family of their labellings, from data to potentials, answers and certificates.

    potentials(x) = sum_c scatter_c( z_c(view_c(x)) V_c A_c^T )

Prediction, scoring and certificates of chains, segments, graphs, several labels and single labels are computed alike.
Data are cut into batches of whole items whose potentials and features fit in memory. Where lists restrict the labels,
only the scores of allowed labels are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from kernelfields.data.allowed import AllowedLabels
from kernelfields.data.chains import Chains
from kernelfields.engines.engine import Engine, PackedData
from kernelfields.inference import families
from kernelfields.inference.answers import Answers
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.choice import FamilySpec, family_of, has_long_reach, has_only_ngrams, refuse_approximate
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.threads import Workers
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.designs.pairs import SupportScorer
from kernelfields.objective.likelihoods.likelihood import labelled_objective
from kernelfields.objective.penalty import term_gap, term_penalty
from kernelfields.objective.term import Expansions, Scorer, Term

# Positions of sequences in a batch, and bytes of their scores of single labels and of steps.
_POSITIONS = 200_000
_NODE_BYTES, _EDGE_BYTES = 512 * 2**20, 256 * 2**20
# Values in a batch: potentials of graphs, features and potentials of instances; rows of single inputs.
_GRAPH_VALUES, _INSTANCE_VALUES, _ROWS = 32 * 2**20, 16 * 2**20, 20_000
# Bytes of the scores of all labels that are computed at a time where lists restrict the labels.
_TABLE_BYTES = 64 * 2**20


@dataclass(eq=False)
class Field:
    """All terms of a fitted field, and what decides the family of its labellings."""

    terms: list[Term]
    spec: FamilySpec
    #: What scores of new data need again and again.
    expansions: Expansions = field(default_factory=Expansions, repr=False)

    def family(self, data: PackedData, *, lists: bool = False) -> LabelFamily:
        """Return the family of the labellings of data; see ``family_of`` for ``lists``."""
        return family_of(data, [term.placement(data) for term in self.terms], self.spec, lists=lists)

    def potentials(
        self, data: PackedData, family: LabelFamily, workers: Workers, place: Scorer | None = None
    ) -> Potentials:
        """Return the potentials of data, base measure not included; ``place`` computes kernels, None for here.

        Terms that share a subspace, as the labels of a multi-label field do, share the work of its kernel rows or
        features.
        """
        potentials = family.zeros()
        for terms in self._by_subspace():
            if terms[0].has_pivots:
                parts = self.expansions.scores(terms, data, place)
            elif len(terms) == 1:
                parts = [terms[0].scores(data, workers)]
            else:
                features = terms[0].features(data)
                parts = [term.scores_of(features, term.known) for term in terms]
            for term, scores in zip(terms, parts, strict=True):
                family.arrangement.add_scores(potentials, term.placement(data), scores)
        return potentials

    def _by_subspace(self) -> list[list[Term]]:
        """Return the terms that can share their work; a support of pairs is a term's own."""
        groups: dict[int, list[Term]] = {}
        for term in self.terms:
            groups.setdefault(id(term.support.sharer(term.subspace)), []).append(term)
        return list(groups.values())

    def answers(self, data: PackedData, workers: Workers, place: Engine | None = None) -> Answers:
        """Return the answers for data, inferred where ``place`` computes kernels if it can."""
        filled = data.filled
        family, potentials = self._inferred(filled, workers, place)
        return Answers(filled, family, self._finite(potentials), workers, asked=data)

    def _inferred(self, data: PackedData, workers: Workers, place: Engine | None) -> tuple[LabelFamily, Potentials]:
        """Return the family by which answers about data are inferred, and potentials of it."""
        if not data.n_positions:
            return families.SingleFamily(0, self.spec.n_labels), Potentials(np.zeros((0, self.spec.n_labels)))
        family = self.family(data, lists=True)
        if data.allowed.restrict and isinstance(family, families.ListFamily) and family.packed is not None:
            return family, self._listed_potentials(data, family, workers, place)
        kernels = any(term.has_pivots for term in self.terms)
        there = place.device_inference(family) if place is not None and kernels else None
        if there is not None:
            return there, self.potentials(data, there, workers, there)
        return family, self.potentials(data, family, workers, place)

    def _listed_potentials(
        self, data: PackedData, family: families.ListFamily, workers: Workers, place: Engine | None
    ) -> Potentials:
        """Return potentials of allowed labels alone; scores of others are not kept, if computed."""
        node = self._scores_of_lists(data, family.lists, workers, place)
        pairs = [term for term in self.terms if term.labels_per_clique == 2]
        edge, steps = self.expansions.steps(pairs, self.spec)
        family.use_steps(edge, steps)
        return Potentials(node, {EDGE: edge})

    def _scores_of_lists(
        self, data: PackedData, lists: AllowedLabels, workers: Workers, place: Engine | None
    ) -> np.ndarray:
        """Return the scores of allowed labels, (A,).

        Weights of observed pairs are gathered for allowed labels alone; other terms score all labels of a few sequences
        at a time.
        """
        nodes = [term for term in self.terms if term.labels_per_clique == 1]
        scorers = [term.scorer for term in nodes if not term.tied_everywhere]
        gathered = [scorer for scorer in scorers if isinstance(scorer, SupportScorer)]
        if len(gathered) == len(nodes) and all(term.placement(data).positions is None for term in nodes):
            views = [term.clique.view(data) for term in nodes]
            parts = [own.listed_scores(view, lists, workers) for own, view in zip(gathered, views, strict=True)]
            return reduce(np.add, parts) if parts else np.zeros(len(lists.labels))
        tables, row = [], 0
        for batch in self.batches(data, max(1, _TABLE_BYTES // (8 * lists.n_labels))):
            assert isinstance(batch, Chains), "lists are of the labels of chains"
            dense = ChainFamily(batch.offsets, lists.n_labels)
            potentials = self.potentials(batch, dense, workers, place)
            tables.append(lists[row : row + batch.n_positions].taken(potentials.node))
            row += batch.n_positions
        return np.concatenate(tables)

    @staticmethod
    def _finite(potentials: Potentials) -> Potentials:
        if not potentials.finite:
            raise ValueError("scores of the inputs are not finite: they are larger than numbers can be")
        return potentials

    def batches(self, data: PackedData, size: int | None = None) -> Iterator[PackedData]:
        """Cut packed data into batches of whole items.

        ``size`` is about how many positions, rows or values of potentials a batch has; None for as many as fit in
        memory.
        """
        sizes, limit = self._sizes(data)
        limit = size or limit
        ends = np.concatenate([[0], np.cumsum(sizes)])
        begin, n_items = 0, len(sizes)
        while begin < n_items:
            last = int(np.searchsorted(ends, ends[begin] + limit, side="right")) - 1
            end = min(max(last, begin + 1), n_items)
            yield data if end - begin == n_items else data.subset(slice(begin, end))
            begin = end

    def _sizes(self, data: PackedData) -> tuple[np.ndarray, int]:
        """Return the size of every item, (S,), and the largest size of a batch."""
        terms, spec = self.terms, self.spec
        if spec.kind == "single":
            return data.lengths, _ROWS
        if spec.kind == "instances":
            rank = max(term.subspace.rank for term in terms if not term.tied_everywhere)
            tied = all(term.tied_everywhere for term in terms if term.group is not None)
            values_of_instance = rank + 4 * spec.n_names + (0 if tied else 8 * len(spec.pairs))
            return np.ones(len(data.lengths), dtype=np.int64), max(1, _INSTANCE_VALUES // values_of_instance)
        if spec.kind == "graph":
            graphs: Any = data
            values = data.lengths * spec.n_labels
            for factors in graphs.factors:
                values = values + factors.counts * spec.n_labels**factors.labels_per_clique
            return values, _GRAPH_VALUES
        return data.lengths, _positions_of_chains(terms, spec.n_labels)

    def certify(
        self, data: PackedData, workers: Workers, scope: str = "rkhs", place: Engine | None = None
    ) -> Certificate:
        """Return the exact certificate on labelled data over the span or the whole RKHS; see objective/bounds.py.

        Where labels are partly known it is that of the labels as this field completes them. ``place`` computes kernels,
        None for here. ValueError if inference is approximate.
        """
        family = self.family(data)
        refuse_approximate(family, "a certificate")
        placements = [term.placement(data) for term in self.terms]
        potentials = self.potentials(data, family, workers, place)
        objective = labelled_objective(family, data, workers)
        likelihood = objective.frozen(potentials)
        evaluation = likelihood.evaluate(potentials)
        value, parts = evaluation.value, {}
        for term, placement in zip(self.terms, placements, strict=True):
            rows = family.arrangement.residuals(evaluation.residual, placement)
            residuals, variance = term.in_coordinates(rows), term.prior_variance
            if term.has_pivots and scope == "rkhs":
                norm, gradient = _rkhs_norm_and_gradient(term, data, residuals, place or Engine())
                value += 0.5 * norm / variance
                parts[term.name] = 0.5 * variance * max(gradient, 0.0)
            else:
                slope = term.slope(data, residuals, likelihood.workers)
                value += term_penalty(term, term.known)
                known, slope = term.free_coefficients(term.known), term.free_coefficients(slope)
                parts[term.name] = term_gap(term, known, slope)
        # The objective is never negative: all that is known where a prior is missing and the parts are infinite.
        return Certificate(scope, value, max(0.0, value - sum(parts.values())), True, parts, not objective.convex)


def _positions_of_chains(terms: Sequence[Term], n_labels: int) -> int:
    limit = max(1, min(_POSITIONS, _NODE_BYTES // (8 * n_labels)))
    terms = [term for term in terms if not term.clique.of_segments]
    reach = max((term.reach for term in terms if not term.tied_everywhere), default=0)
    if reach or (has_long_reach(terms) and not has_only_ngrams(terms)):
        # Beside n-grams, edges that see inputs are the largest tables; else those of the junction tree are.
        reach = reach if has_only_ngrams(terms) else max(term.reach for term in terms)
        limit = max(1, min(limit, _EDGE_BYTES // (8 * n_labels ** (reach + 1))))
    return limit


def _rkhs_norm_and_gradient(term: Term, data: PackedData, residuals: np.ndarray, place: Engine) -> tuple[float, float]:
    """Return ||f||^2 and the squared norm of the gradient of one term, in the whole RKHS."""
    variance, coefficients, subspace = term.prior_variance, term.known, term.span
    inputs = term.clique.view(data)
    dual = subspace.dual_coefficients(coefficients)
    norm = float(np.vdot(dual, subspace.kernel(subspace.pivots) @ dual))
    cross = float(np.vdot(subspace.apply(inputs, coefficients), residuals))
    quadratic = term.quadratic_form(inputs, residuals, place.quadratic_form)
    return norm, norm / variance**2 + 2.0 * cross / variance + quadratic
