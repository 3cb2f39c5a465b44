"""Bounds on what a clique set outside a field could bring (Remark 11).

    P(theta) - min over (theta, v_c) P  <=  gap(theta) + (s_c / 2) ||g_c||^2
    g_c = Z_c^T (marginals - labels) A_c

    estimate = (1 / 2) g_c^T (C_c + I / s_c)^-1 g_c,    C_c = within-clique covariances (eq. 30)

The gradient is that of the likelihood in the coefficients of the candidate where they are zero; gap(theta) is what
is left to gain without it, zero at the optimum. The bound holds whatever the data, and is the looser the larger
s_c; the estimate, a Newton step in the candidate alone, is none, but comes nearer to what is gained. With an l1
penalty the second term of the bound is that of objective/posterior.py.
Cost: for each structure that candidates need, one pass of inference; half a pass over the features of each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kernelfields.engines.engine import Sample
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.objective.likelihoods.likelihood import Evaluation
from kernelfields.objective.posterior import penalty_gap

# Curvature blocks beyond this size are not worth their square.
_LARGEST_BLOCK = 600


class Promise(NamedTuple):
    """What a clique set could bring: at most, and about."""

    bound: float
    estimate: float


#: Given the designs of a field, cuts candidates into batches; one pass of inference judges all of a batch.
Batches = Callable[[Sequence[Design], Sequence[Design]], Iterable[Sequence[Design]]]


def by_place(present: Sequence[Design], candidates: Sequence[Design]) -> Iterable[Sequence[Design]]:
    """Return batches of candidates that share their factors, tied or not."""
    batches: dict[Hashable, list[Design]] = {}
    for design in candidates:
        key = design.group, design.group is not None and design.tied_everywhere
        batches.setdefault(key, []).append(design)
    return batches.values()


def improvement_bounds(
    present: Sequence[Design],
    coefficients: Sequence[np.ndarray],
    candidates: Sequence[Design],
    sample: Sample,
    batches: Batches = by_place,
) -> dict[str, Promise]:
    """Return what each candidate could bring to a field at its optimum, at most and about."""
    parts = [design.compress(full) for design, full in zip(present, coefficients, strict=True)]
    promises: dict[str, Promise] = {}
    for batch in batches(present, candidates):
        datafit = sample.datafit([*present, *batch])
        zeros = [np.zeros(design.shape) for design in batch]
        evaluation = datafit.evaluate(datafit.potentials([*parts, *zeros], range(len(present))))
        for index, design in enumerate(batch, start=len(present)):
            (slope,) = datafit.pull_back(evaluation.residual, [index])
            term = design.term
            bound = float(penalty_gap(np.zeros_like(slope), slope, term.prior_variance, term.l1))
            promises[design.name] = Promise(bound, min(bound, _estimate(datafit, evaluation, index, slope)))
    return {candidate.name: promises[candidate.name] for candidate in candidates}


def _estimate(datafit: Datafit, evaluation: Evaluation, index: int, slope: np.ndarray) -> float:
    """Return what a Newton step in one term would bring by its own model of the objective."""
    precision = 1.0 / datafit.designs[index].term.prior_variance
    square = float(np.vdot(slope, slope))
    if slope.size > _LARGEST_BLOCK:
        # The mean curvature for all coordinates alike, as if all labels were equally likely.
        return 0.5 * square / (datafit.start_curvature(index) + precision)
    block = datafit.curvature_block(evaluation, index)
    block[np.diag_indices(len(block))] += precision
    return 0.5 * float(slope.ravel() @ np.linalg.lstsq(block, slope.ravel())[0])
