"""Exact certificates of fitted fields on labelled data, over the span of their features or the whole RKHS."""

from __future__ import annotations

import numpy as np

from kernelfields.engines.engine import Engine, PackedData
from kernelfields.inference.choice import refuse_approximate
from kernelfields.models.field import Field
from kernelfields.numerics.threads import Workers
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.datafit import choose_objective
from kernelfields.objective.designs.design import kernel_quadratic_form
from kernelfields.objective.designs.pairs import QuadraticForm
from kernelfields.objective.penalty import term_gap, term_penalty
from kernelfields.objective.term import Term


def certify(
    field: Field, data: PackedData, workers: Workers, scope: str = "rkhs", place: Engine | None = None
) -> Certificate:
    """Return the exact certificate on labelled data over the span or the whole RKHS; see objective/bounds.py.

    Where labels are partly known it is that of the labels as this field completes them. ``place`` computes kernels,
    None for here. ValueError if inference is approximate.
    """
    family = field.family(data)
    refuse_approximate(family, "a certificate")
    placements = [term.placement(data) for term in field.terms]
    potentials = field.potentials(data, family, workers, place)
    objective = choose_objective(family, data, workers)
    likelihood = objective.majorize(potentials)
    evaluation = likelihood.evaluate(potentials)
    value, parts = evaluation.value, {}
    for term, placement in zip(field.terms, placements, strict=True):
        rows = family.arrangement.residuals(evaluation.residual, placement)
        residuals, variance = term.to_coordinates(rows), term.prior_variance
        if term.has_pivots and scope == "rkhs":
            form = kernel_quadratic_form if place is None else place.quadratic_form
            norm, gradient = _rkhs_norm_and_gradient(term, data, residuals, form)
            value += 0.5 * norm / variance
            parts[term.name] = 0.5 * variance * max(gradient, 0.0)
        else:
            slope = term.slope(data, residuals, likelihood.workers)
            value += term_penalty(term, term.known)
            known, slope = term.free_coefficients(term.known), term.free_coefficients(slope)
            parts[term.name] = term_gap(term, known, slope)
    # The objective is never negative: all that is known where a prior is missing and the parts are infinite.
    return Certificate(scope, value, max(0.0, value - sum(parts.values())), True, parts, not objective.convex)


def _rkhs_norm_and_gradient(
    term: Term, data: PackedData, residuals: np.ndarray, form: QuadraticForm
) -> tuple[float, float]:
    """Return ||f||^2 and the squared norm of the gradient of one term, in the whole RKHS."""
    variance, coefficients, subspace = term.prior_variance, term.known, term.span
    inputs = term.clique.view(data)
    dual = subspace.dual_coefficients(coefficients)
    norm = float(np.vdot(dual, subspace.kernel(subspace.pivots) @ dual))
    cross = float(np.vdot(subspace.apply(inputs, coefficients), residuals))
    quadratic = term.quadratic_form(inputs, residuals, form)
    return norm, norm / variance**2 + 2.0 * cross / variance + quadratic
