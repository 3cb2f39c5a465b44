"""Curvature of the likelihood at a point, and how its trace moves with potentials and features, for all at once.

    J_cd     = (Z_c A_c)^T Cov (Z_d A_d)                                   the Hessian of the likelihood
    third    = (1/2) d/du tr J G                  G = sum_k sign_k r_k r_k^T, usually the covariance H^-1
    features = (1/2) d/dZ_c tr J G = sum_k sign_k (Cov Z r_k) A_c r_k^T    at fixed potentials u

Chains with one table of transitions, and labels that stand alone, are worked on by blocks of directions: see
evidence_blocks.py. Other fields take a Hessian product for each direction, and two more around the point for third
derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from kernelfields.engines import Potentials
from kernelfields.engines.likelihood import ChainLikelihood
from kernelfields.engines.softmax_likelihood import SoftmaxLikelihood
from kernelfields.estimators.evidence_blocks import BlockedChains, TraceSlopes
from kernelfields.posterior import LogPosterior, Point
from kernelfields.posterior.laplace import likelihood_hessian, meets_no_others

# Length of a step along a direction, in nats of the largest potential, for fields without blocks of directions.
_STEP = 1e-4


def curvature_matrix(point: Point) -> np.ndarray:
    """Return the Hessian J of the negative log-likelihood at a point, (size, size)."""
    if meets_no_others(point.posterior) or not works_in_blocks(point.posterior):
        return likelihood_hessian(point)
    return BlockedChains(point).hessian()


def trace_slopes(point: Point, roots: np.ndarray, signs: np.ndarray, wanted: Sequence[int]) -> TraceSlopes:
    """Return how (1/2) tr J G moves, G = sum_k signs_k roots_k roots_k^T for rows (k, size) and signs of one."""
    slopes = _slopes_in_blocks if works_in_blocks(point.posterior) else _slopes_one_by_one
    return slopes(point, roots, signs, wanted)


def works_in_blocks(posterior: LogPosterior) -> bool:
    """Whether directions can be worked on in blocks: single labels, or chains with one table of transitions."""
    likelihood = posterior.engine.likelihood
    if not isinstance(likelihood, ChainLikelihood | SoftmaxLikelihood):
        return False
    return all(
        each.support is None
        and (
            each.features is None or isinstance(each.features, np.ndarray) or scipy.sparse.issparse(each.features)
        )
        and (each.tied_everywhere if each.labels_per_clique == 2 else each.positions is None)
        for each in posterior.engine.sets
    )


def _slopes_in_blocks(point: Point, roots: np.ndarray, signs: np.ndarray, wanted: Sequence[int]) -> TraceSlopes:
    chains = BlockedChains(point)
    total: TraceSlopes | None = None
    for sign in (1.0, -1.0):
        chosen = roots[signs == sign]
        if not len(chosen):
            continue
        part = chains.slopes(chosen, wanted)
        if total is None:
            total = part if sign > 0 else _scaled(part, -1.0)
        else:
            total.potentials.add(sign, part.potentials)
            for index, own in part.features.items():
                total.features[index] += sign * own
    assert total is not None
    return total


def _scaled(slopes: TraceSlopes, factor: float) -> TraceSlopes:
    slopes.potentials.scale(factor)
    return TraceSlopes(slopes.potentials, {index: factor * own for index, own in slopes.features.items()})


def _slopes_one_by_one(point: Point, roots: np.ndarray, signs: np.ndarray, wanted: Sequence[int]) -> TraceSlopes:
    posterior, engine = point.posterior, point.posterior.engine
    total = engine.likelihood.layout.zeros()
    features = {index: np.zeros((_n_rows(posterior, index), posterior.blocks[index].shape[0])) for index in wanted}
    for root, sign in zip(roots, signs, strict=True):
        direction = posterior.potentials(root)
        step = _STEP / max(direction.largest, np.finfo(np.float64).tiny)
        for side in (1.0, -1.0):
            beside = engine.evaluate(point.potentials.moved(side * step, direction))
            total.add(0.25 * sign * side / step, engine.hessian_response(beside, direction))
        if wanted:
            response, parts = engine.hessian_response(point.evaluation, direction), posterior.split(root)
            for index in wanted:
                rows = label_rows(posterior, index, response)
                features[index] += (sign * rows) @ parts[index].T
    return TraceSlopes(total, features)


def label_rows(posterior: LogPosterior, index: int, residual: Potentials) -> np.ndarray:
    """Return a gradient in potentials at the cliques of a set, in the coordinates of its coefficients, (n, q)."""
    each = posterior.engine.sets[index]
    rows = posterior.engine.clique_residuals(residual, each)
    return rows if each.label_factor is None else rows @ each.label_factor


def _n_rows(posterior: LogPosterior, index: int) -> int:
    return int(posterior.engine.sets[index].features.shape[0])
