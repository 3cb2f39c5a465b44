"""Distance of a solution from the optimum: certificates in the span and over the RKHS (Corollary 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.models.placed import FittedField
from kernelfields.objective import likelihoods
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.loop import Solution


def assess(posterior: LogPosterior, solution: Solution) -> FittedField:
    """Return the field at a solution, with certificates and the rounding of stored features.

    Where labels are partly known, certificates are those of the convex objective of the labels as they are completed
    here.
    """
    found, whole, coefficients = solution, posterior, posterior.blocks.expand(solution.theta)
    completed = not posterior.convex
    if not posterior.convex:
        posterior = likelihoods.completion.frozen_posterior(posterior, solution.theta)
        value = posterior.make_point(solution.theta).value
        solution = replace(solution, value=value, lower_bound=value - sum(solution.gap_parts.values()))
    datafit, designs = posterior.datafit, posterior.datafit.designs
    residual, roundings = None, []
    if any(design.term.has_pivots for design in designs):
        residual = datafit.evaluate(posterior.potentials(solution.theta)).residual
        roundings = [datafit.outside_span.rounding(residual, index, part) for index, part in enumerate(coefficients)]
    warnings: Sequence[str] = datafit.likelihood.warnings
    for partners in datafit.partners:
        warnings = partners.sentences(warnings)
    return FittedField(
        [design.term.fitted(own) for design, own in zip(designs, coefficients, strict=True)],
        replace(found, theta=np.concatenate([own.ravel() for own in coefficients])),
        # The bundle's lower bound holds within the span.
        Certificate("span", solution.value, solution.lower_bound, True, solution.gap_parts, completed),
        replace(rkhs_bound(posterior, solution, residual), completed=completed),
        roundings,
        datafit.likelihood.family,
        warnings,
        whole,
        residual,
    )


def rkhs_bound(posterior: LogPosterior, solution: Solution, residual: Any, *, exact: bool = False) -> Certificate:
    """Return a certificate over the whole RKHS: the free bound, or the exact one by streaming kernels."""
    parts, datafit = dict(solution.gap_parts), posterior.datafit
    if not any(design.term.has_pivots for design in datafit.designs):
        # Explicit features span their whole RKHS: what holds in the span holds there.
        return Certificate("rkhs", solution.value, solution.lower_bound, True, parts)
    for index, design in enumerate(datafit.designs):
        if design.term.has_pivots:
            outside = datafit.outside_span.exact if exact else datafit.outside_span.bound
            parts[design.name] += 0.5 * design.term.prior_variance * outside(residual, index)
    # The negative log-likelihood and the penalties are never negative.
    return Certificate("rkhs", solution.value, max(0.0, solution.value - sum(parts.values())), exact, parts)
