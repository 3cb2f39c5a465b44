"""The gradient of the log evidence in the logarithms of prior variances and kernel parameters.

    log E = -P(v; p) - (1/2) log det(I + D J(v; p)),        v = v(p) the mode

The mode moves with the parameters, and the curvature J with the mode. With H = D^-1 + J:

    d log E / d log s_c = ||v_c||^2 / (2 s_c) - (1/2) (n_c - tr (H^-1)_cc / s_c) - (1/2) tr H^-1 dJ,
                          dv = H^-1 (v_c / s_c)
    d log E / d log p   = -<residual, dZ v> - (1/2) tr H^-1 dJ,
                          dv = -H^-1 d(gradient)            for a kernel parameter p

dJ is the central difference of J along (p, v) in steps of STEP of log p, with pivots kept (see
evidence_parameters.py); so are dZ v and d(gradient). Nothing is fitted again for a gradient. Cost for each
parameter: two curvatures, see posterior/laplace.py. With probes the traces are estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kernelfields.estimators.evidence_parameters import VARIANCE, FieldParameter
from kernelfields.posterior import LogPosterior
from kernelfields.posterior.laplace import Laplace

STEP = 1e-4


def evidence_gradient(
    laplace: Laplace,
    parameters: Sequence[FieldParameter],
    moved_posterior: Callable[[int, float], LogPosterior],
) -> np.ndarray:
    """Return d log E / d log p for every parameter.

    ``moved_posterior(i, step)`` is the objective with the logarithm of parameter i moved by a step.
    """
    traces = laplace.variance_traces()
    return np.array(
        [
            _variance_slope(laplace, parameter.index, traces[parameter.index])
            if parameter.name == VARIANCE
            else _kernel_slope(laplace, moved_posterior(number, STEP), moved_posterior(number, -STEP))
            for number, parameter in enumerate(parameters)
        ]
    )


def _variance_slope(laplace: Laplace, index: int, trace: float) -> float:
    posterior, mode = laplace.posterior, laplace.mode
    block = posterior.blocks[index]
    variance, own = block.prior_variance, mode[block.rows]
    pull = np.zeros_like(mode)
    pull[block.rows] = own / variance
    moved = laplace.covariance_products(pull[None])[0]
    change = laplace.curvature_change(posterior.at(mode + STEP * moved), posterior.at(mode - STEP * moved))
    direct = 0.5 * float(own @ own) / variance - 0.5 * (len(own) - trace / variance)
    return direct - 0.5 * change / (2.0 * STEP)


def _kernel_slope(laplace: Laplace, ahead: LogPosterior, behind: LogPosterior) -> float:
    mode = laplace.mode
    after, before = ahead.at(mode), behind.at(mode)
    moved = -laplace.covariance_products((after.gradient - before.gradient)[None])[0] / (2.0 * STEP)
    potentials = after.potentials.moved(-1.0, before.potentials)
    direct = -laplace.point.evaluation.residual.dot(potentials) / (2.0 * STEP)
    change = laplace.curvature_change(ahead.at(mode + STEP * moved), behind.at(mode - STEP * moved))
    return direct - 0.5 * change / (2.0 * STEP)
