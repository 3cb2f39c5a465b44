"""Fitted fields: terms and the structure of their labels, from data to potentials, answers and certificates.

    potentials(x) = sum_c scatter_c( z_c(view_c(x)) V_c A_c^T ) + constraints

The same road serves prediction, scoring and certificates of chains, graphs, several labels and single labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelfields.engines.engine import Engine
from kernelfields.inference.answers import Answers
from kernelfields.numerics.threads import Workers
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.designs.design import kernel_quadratic_form
from kernelfields.objective.likelihoods.graph import refuse_approximate
from kernelfields.objective.likelihoods.likelihood import LabelStructure, Layout
from kernelfields.objective.posterior import penalty, penalty_gap
from kernelfields.objective.potentials import Potentials
from kernelfields.objective.term import Expansions, Scorer, Term


@dataclass(eq=False)
class Field:
    """All terms of a fitted field, and which labels meet in it."""

    terms: list[Term]
    structure: LabelStructure
    #: What scores of new data need again and again.
    expansions: Expansions = field(default_factory=Expansions, repr=False)

    def layout(self, data: Any) -> Layout:
        """Return where the scores of the terms go in the potentials of data."""
        return self.structure.layout(data, [term.placement(data) for term in self.terms])

    def potentials(self, data: Any, layout: Layout, workers: Workers, place: Scorer | None = None) -> Potentials:
        """Return the potentials of data, constraints not included; ``place`` computes kernels, None for here.

        Terms that share a subspace, as the labels of a multi-label field do, share the work of its kernel rows or
        features.
        """
        potentials = layout.zeros()
        for terms in self._by_subspace():
            if terms[0].has_pivots and terms[0].support is None:
                parts = self.expansions.scores(terms, data, place)
            elif len(terms) == 1:
                parts = [terms[0].scores(data, workers)]
            else:
                features = terms[0].features(data)
                parts = [term.scores_of(features, term.known) for term in terms]
            for term, scores in zip(terms, parts, strict=True):
                layout.add_scores(potentials, term.placement(data), scores)
        return potentials

    def _by_subspace(self) -> list[list[Term]]:
        """Return the terms that can share their work; a constant or a support of pairs is a term's own."""
        groups: dict[int, list[Term]] = {}
        for term in self.terms:
            own = term.tied_everywhere or term.support is not None
            groups.setdefault(id(term) if own else id(term.subspace), []).append(term)
        return list(groups.values())

    def answers(self, data: Any, workers: Workers, place: Engine | None = None) -> Answers:
        """Return what can be asked of data, inferred where ``place`` computes kernels if it can."""
        layout = self.layout(data)
        if getattr(data, "allowed", None) is not None:
            return self._allowed_answers(data, layout, workers, place)
        kernels = any(term.has_pivots and term.support is None for term in self.terms)
        there = place.residence(self.structure, layout) if place is not None and kernels else None
        if there is not None:
            potentials = self._finite(self.potentials(data, there.layout, workers, there))
            return there.answers(self.structure, data, potentials, workers)
        potentials = self._finite(self.potentials(data, layout, workers, place))
        return self.structure.answers(data, layout, self.structure.constrained(data, layout, potentials), workers)

    def _allowed_answers(self, data: Any, layout: Any, workers: Workers, place: Any) -> Answers:
        """Return answers about chains with lists of allowed labels; scores of others are not kept, if computed."""
        structure: Any = self.structure
        lists = structure.lists(data) if getattr(layout, "tied", None) is True else None
        if lists is None:
            potentials = self._finite(self.potentials(data, layout, workers, place))
            return structure.answers(data, layout, structure.constrained(data, layout, potentials), workers)
        from kernelfields.inference.answers import AllowedAnswers
        from kernelfields.models.allowed_scores import scores_of_lists

        scores = scores_of_lists(self, data, lists, workers, place)
        self._finite(Potentials(scores))
        pairs = [term for term in self.terms if term.labels_per_clique == 2]
        return AllowedAnswers(data, lists, scores, self.expansions.steps(pairs, structure.masks.edge), workers)

    @staticmethod
    def _finite(potentials: Potentials) -> Potentials:
        if not potentials.finite:
            raise ValueError("scores of the inputs are not finite: they are larger than numbers can be")
        return potentials

    def batches(self, data: Any, size: int | None = None) -> Iterator[Any]:
        """Cut data into batches whose potentials fit in memory, or of about ``size``."""
        return self.structure.batches(data, self.terms, size)

    def certify(self, data: Any, workers: Workers, scope: str = "rkhs") -> Certificate:
        """Return the exact certificate on labelled data over the span or the whole RKHS; see objective/bounds.py.

        Where labels are partly known it is that of the labels as this field completes them. ValueError if inference is
        approximate.
        """
        layout = self.layout(data)
        plan = self.structure.plan(data, layout)
        refuse_approximate(plan, "a certificate")
        placements = [term.placement(data) for term in self.terms]
        likelihood = self.structure.likelihood(data, placements, workers, plan)
        potentials = self.potentials(data, layout, workers)
        completed = not likelihood.convex
        if completed:
            likelihood = likelihood.frozen(potentials)  # type: ignore[attr-defined]
        evaluation = likelihood.evaluate(potentials)
        value, parts = evaluation.value, {}
        for term, placement in zip(self.terms, placements, strict=True):
            rows = likelihood.layout.clique_residuals(evaluation.residual, placement)
            residuals, variance = term.in_coordinates(rows), term.prior_variance
            if term.has_pivots and scope == "rkhs":
                norm, gradient = _rkhs_norm_and_gradient(term, data, residuals)
                value += 0.5 * norm / variance
                parts[term.name] = 0.5 * variance * max(gradient, 0.0)
            else:
                slope = term.slope(data, residuals, likelihood.workers)
                value += penalty(term.known, variance, term.l1)
                parts[term.name] = penalty_gap(term.known, slope, variance, term.l1)
        # The objective is never negative: all that is known where a prior is missing and the parts are infinite.
        return Certificate(scope, value, max(0.0, value - sum(parts.values())), True, parts, completed)


def _rkhs_norm_and_gradient(term: Term, data: Any, residuals: np.ndarray) -> tuple[float, float]:
    """Return ||f||^2 and the squared norm of the gradient of one term, in the whole RKHS."""
    variance, coefficients, subspace = term.prior_variance, term.known, term.subspace
    inputs = term.clique.view(data)
    dual = subspace.dual_coefficients(coefficients)
    norm = float(np.vdot(dual, subspace.kernel(subspace.pivots) @ dual))
    cross = float(np.vdot(subspace.apply(inputs, coefficients), residuals))
    quadratic = kernel_quadratic_form(subspace.kernel, inputs, residuals)
    return norm, norm / variance**2 + 2.0 * cross / variance + quadratic
