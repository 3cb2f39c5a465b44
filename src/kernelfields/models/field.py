"""Fitted fields: terms and the family of their labellings, from data to potentials, answers and certificates.

    potentials(x) = sum_c scatter_c( z_c(view_c(x)) V_c A_c^T )

The same road serves prediction, scoring and certificates of chains, segments, graphs, several labels and single labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelfields.engines.engine import Engine
from kernelfields.inference.answers import Answers
from kernelfields.inference.chain.family import ListFamily
from kernelfields.inference.choice import FamilySpec, family_of, refuse_approximate
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.models.data_batches import batches
from kernelfields.numerics.threads import Workers
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.designs.design import kernel_quadratic_form
from kernelfields.objective.likelihoods.likelihood import labelled_objective
from kernelfields.objective.posterior import penalty, penalty_gap
from kernelfields.objective.term import Expansions, Scorer, Term


@dataclass(eq=False)
class Field:
    """All terms of a fitted field, and what decides the family of its labellings."""

    terms: list[Term]
    spec: FamilySpec
    #: What scores of new data need again and again.
    expansions: Expansions = field(default_factory=Expansions, repr=False)

    def family(self, data: Any, *, lists: bool = False) -> LabelFamily:
        """Return the family of the labellings of data; see ``family_of`` for ``lists``."""
        return family_of(data, [term.placement(data) for term in self.terms], self.spec, lists=lists)

    def potentials(self, data: Any, family: LabelFamily, workers: Workers, place: Scorer | None = None) -> Potentials:
        """Return the potentials of data, base measure not included; ``place`` computes kernels, None for here.

        Terms that share a subspace, as the labels of a multi-label field do, share the work of its kernel rows or
        features.
        """
        potentials = family.zeros()
        for terms in self._by_subspace():
            if terms[0].has_pivots and terms[0].support is None:
                parts = self.expansions.scores(terms, data, place)
            elif len(terms) == 1:
                parts = [terms[0].scores(data, workers)]
            else:
                features = terms[0].features(data)
                parts = [term.scores_of(features, term.known) for term in terms]
            for term, scores in zip(terms, parts, strict=True):
                family.add_scores(potentials, term.placement(data), scores)
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
        family = self.family(data, lists=True)
        if isinstance(family, ListFamily) and family.packed is not None:
            return Answers(data, family, self._listed_potentials(data, family, workers, place), workers)
        kernels = any(term.has_pivots and term.support is None for term in self.terms)
        there = place.device_inference(family) if place is not None and kernels else None
        if there is not None:
            return Answers(
                data, there.family, self._finite(self.potentials(data, there.family, workers, there)), workers
            )
        return Answers(data, family, self._finite(self.potentials(data, family, workers, place)), workers)

    def _listed_potentials(self, data: Any, family: ListFamily, workers: Workers, place: Engine | None) -> Potentials:
        """Return potentials of allowed labels alone; scores of others are not kept, if computed."""
        from kernelfields.models.allowed_scores import scores_of_lists

        node = scores_of_lists(self, data, family.lists, workers, place)
        pairs = [term for term in self.terms if term.labels_per_clique == 2]
        edge, steps = self.expansions.steps(pairs, self.spec)
        family.use_steps(edge, steps)
        return self._finite(Potentials(node, {EDGE: edge}))

    @staticmethod
    def _finite(potentials: Potentials) -> Potentials:
        if not potentials.finite:
            raise ValueError("scores of the inputs are not finite: they are larger than numbers can be")
        return potentials

    def batches(self, data: Any, size: int | None = None) -> Iterator[Any]:
        """Cut data into batches whose potentials fit in memory, or of about ``size``."""
        return batches(data, self.terms, self.spec, size)

    def certify(self, data: Any, workers: Workers, scope: str = "rkhs") -> Certificate:
        """Return the exact certificate on labelled data over the span or the whole RKHS; see objective/bounds.py.

        Where labels are partly known it is that of the labels as this field completes them. ValueError if inference is
        approximate.
        """
        family = self.family(data)
        refuse_approximate(family, "a certificate")
        placements = [term.placement(data) for term in self.terms]
        potentials = self.potentials(data, family, workers)
        likelihood = labelled_objective(family, data, workers)
        completed = not likelihood.convex
        if completed:
            likelihood = likelihood.frozen(potentials)  # type: ignore[assignment]
        evaluation = likelihood.evaluate(potentials)
        value, parts = evaluation.value, {}
        for term, placement in zip(self.terms, placements, strict=True):
            rows = family.clique_residuals(evaluation.residual, placement)
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
    variance, coefficients, subspace = term.prior_variance, term.known, term.span
    inputs = term.clique.view(data)
    dual = subspace.dual_coefficients(coefficients)
    norm = float(np.vdot(dual, subspace.kernel(subspace.pivots) @ dual))
    cross = float(np.vdot(subspace.apply(inputs, coefficients), residuals))
    quadratic = kernel_quadratic_form(subspace.kernel, inputs, residuals)
    return norm, norm / variance**2 + 2.0 * cross / variance + quadratic
