"""The gradient of the log evidence in the logarithms of prior variances and kernel parameters.

    log E = -P(v; p) - (1/2) log det(I + D J(v; p)),        v = v(p) the mode,    H = D^-1 + J

The mode moves with the parameters, and the curvature J with mode and features. Everything that does not depend on
the parameter is computed once (implicit differentiation, backward): with T = (1/2) tr H^-1 J,

    t  = Z^T (dT / d potentials) A,    w = H^-1 t
    d log E / d log s_c = ||v_c||^2 / (2 s_c) - (1/2) (n_c - tr (H^-1)_cc / s_c) - <w_c, v_c> / s_c
    d log E / d log p   = <dZ_c / d log p, G_c>
    G_c = -dT/dZ_c + residual A (w - v)^T + (Cov Z w - dT/d potentials) A v^T         residual = marginals - labels

dZ is a central difference of features in steps of STEP of log p, pivots kept (see evidence_parameters.py): two
kernel matrices for each kernel parameter, nothing else. Cost of the rest: that of a few Hessians, however many
parameters there are. With probes the traces are estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis.subspace import row_blocks
from kernelfields.estimators.evidence_curvature import label_rows, trace_slopes
from kernelfields.estimators.evidence_parameters import VARIANCE, FieldParameter, moved_subspace
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.posterior.laplace import Laplace

STEP = 1e-4


def evidence_gradient(
    laplace: Laplace,
    roots: np.ndarray,
    signs: np.ndarray,
    spaces: Sequence[CliqueSpace],
    parameters: Sequence[FieldParameter],
    logs: np.ndarray,
) -> np.ndarray:
    """Return d log E / d log p for every parameter; ``spaces`` are those of the parameters ``logs``.

    The rows r_k (k, size) of ``roots`` and signs of one have sum_k sign_k r_k r_k^T = H^-1, or close to it.
    """
    posterior, mode = laplace.posterior, laplace.mode
    wanted = sorted({parameter.index for parameter in parameters if parameter.name != VARIANCE})
    slopes = trace_slopes(laplace.point, roots, signs, wanted)
    adjoint = laplace.covariance_products(posterior.flatten(posterior.engine.pull_back(slopes.potentials))[None])[
        0
    ]
    response = posterior.engine.hessian_response(laplace.point.evaluation, posterior.potentials(adjoint))
    response.add(-1.0, slopes.potentials)
    at_mode, at_adjoint = posterior.split(mode), posterior.split(adjoint)
    features = {}
    for index in wanted:
        residual = label_rows(posterior, index, laplace.point.evaluation.residual)
        features[index] = residual @ (at_adjoint[index] - at_mode[index]).T
        features[index] += label_rows(posterior, index, response) @ at_mode[index].T
        features[index] -= slopes.features[index]
    variances = signs @ np.square(roots)
    gradient = np.empty(len(parameters))
    for number, parameter in enumerate(parameters):
        index = parameter.index
        if parameter.name == VARIANCE:
            rows, variance = posterior.blocks[index].rows, posterior.blocks[index].prior_variance
            squares = 0.5 * (mode[rows] @ mode[rows] + variances[rows].sum()) - adjoint[rows] @ mode[rows]
            gradient[number] = squares / variance - 0.5 * len(mode[rows])
        else:
            compress = posterior.engine.sets[index].compress
            gradient[number] = _along_features(
                spaces[index], parameter.name, logs[number], features[index], compress
            )
    return gradient


def _along_features(
    space: CliqueSpace, name: str, log: float, slopes: np.ndarray, compress: Callable[[Any], Any]
) -> float:
    """Return <dZ / d log p, slopes> for features Z of a kernel and one of its parameters."""
    ahead, behind = (moved_subspace(space, name, float(np.exp(log + step))) for step in (STEP, -STEP))
    total = 0.0
    for rows in row_blocks(len(slopes), slopes.shape[1]):
        # A difference of float32 kernels would be noise.
        inputs = space.inputs[rows].astype(np.float64, copy=False)
        change = compress((ahead.features(inputs) - behind.features(inputs)).T)
        own = slopes[rows].T
        total += float(change.multiply(own).sum() if scipy.sparse.issparse(change) else np.vdot(change, own))
    return total / (2.0 * STEP)
