"""What a clique set outside a field could bring at most (Remark 11).

    P(theta) - min over (theta, v_c) P  <=  gap(theta) + (s_c / 2) ||g_c||^2
    g_c = Z_c^T (marginals - labels) A_c

    estimate = (1 / 2) g_c^T (C_c + I / s_c)^-1 g_c,    C_c = within-clique covariances (eq. 30)

The gradient is that of the likelihood in the coefficients of the candidate where they are zero; gap(theta) is what
is left to gain without it, zero at the optimum. The bound holds whatever the data, and is the looser the larger
s_c; the estimate, a Newton step in the candidate alone, is none, but comes nearer to what is gained. With an l1
penalty the second term of the bound is that of penalty.py.
Cost: for each structure that candidates need, one pass of inference; half a pass over the features of each.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kernelfields.engines import CliqueFeatures, Evaluation, ThreadsEngine
from kernelfields.posterior.penalty import penalty_gap

#: Makes the engine of a sample from the features of its clique sets.
EngineBuilder = Callable[[Sequence[CliqueFeatures]], ThreadsEngine]


# Curvature blocks beyond this size are not worth their square.
_LARGEST_BLOCK = 600


class Promise(NamedTuple):
    """What a clique set could bring: at most, and about."""

    bound: float
    estimate: float


class Space(Protocol):
    """What is asked of a clique set in finite coordinates."""

    name: str

    def clique_features(self, n_labels: int) -> CliqueFeatures:
        """Return what an engine needs of this set."""


def place(each: CliqueFeatures) -> Hashable:
    """Return what candidates must share to be judged by one pass of inference: their factors, tied or not."""
    return each.group, each.group is not None and each.tied_everywhere


def improvement_bounds(
    spaces: Sequence[Space],
    coefficients: Sequence[np.ndarray],
    candidates: Sequence[Space],
    engine_of: EngineBuilder,
    n_labels: int,
    together: Callable[[CliqueFeatures], Hashable] = place,
) -> dict[str, Promise]:
    """Return what each candidate could bring to a field at its optimum, at most and about."""
    present = [space.clique_features(n_labels) for space in spaces]
    parts = [each.compress(full) for each, full in zip(present, coefficients, strict=True)]
    batches: dict[Hashable, list[CliqueFeatures]] = {}
    for candidate in candidates:
        features = candidate.clique_features(n_labels)
        batches.setdefault(together(features), []).append(features)
    found: dict[str, Promise] = {}
    for batch in batches.values():
        engine = engine_of([*present, *batch])
        zeros = [np.zeros(each.shape) for each in batch]
        evaluation = engine.evaluate(engine.potentials([*parts, *zeros], range(len(present))))
        for index, each in enumerate(batch, start=len(present)):
            (slope,) = engine.pull_back(evaluation.residual, [index])
            bound = float(penalty_gap(np.zeros_like(slope), slope, each.prior_variance, each.l1))
            found[each.name] = Promise(bound, min(bound, _estimate(engine, evaluation, index, slope)))
    return {candidate.name: found[candidate.name] for candidate in candidates}


def _estimate(engine: ThreadsEngine, evaluation: Evaluation, index: int, slope: np.ndarray) -> float:
    """Return what a Newton step in one set would bring by its own model of the objective."""
    each = engine.sets[index]
    square, precision = float(np.vdot(slope, slope)), 1.0 / each.prior_variance
    if slope.size > _LARGEST_BLOCK:
        # The mean curvature for all coordinates alike, as if all labels were equally likely.
        return 0.5 * square / (engine.start_curvature(index) + precision)
    block = engine.curvature_block(evaluation, index)
    block[np.diag_indices(len(block))] += precision
    return 0.5 * float(slope.ravel() @ np.linalg.lstsq(block, slope.ravel())[0])
