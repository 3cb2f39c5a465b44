"""The prior's part of the objective, coefficient by coefficient, and its conjugate.

    R(v)    = v^2 / (2 s) + l1 |v|
    R*(-d)  = s / 2 max(|d| - l1, 0)^2             0 or infinity where s is infinite

For a convex C with gradient d at v, the Fenchel-Young gap R(v) + R*(-d) + v d >= 0, summed over coefficients, is
what the objective C + R could still lose, at most (Lemma 9 for l1 = 0: s/2 (d + v/s)^2).
"""

from __future__ import annotations

import numpy as np


def penalty(coefficients: np.ndarray, prior_variance: float, l1: float = 0.0) -> float:
    """Return the sum of R over coefficients."""
    squares = float(np.vdot(coefficients, coefficients)) / (2.0 * prior_variance)
    return squares + (l1 * float(np.abs(coefficients).sum()) if l1 else 0.0)


def penalty_gap(coefficients: np.ndarray, slope: np.ndarray, prior_variance: float, l1: float = 0.0) -> float:
    """Return the sum of Fenchel-Young gaps for the gradient ``slope`` of the likelihood; infinity if unbounded."""
    if not l1 and np.isfinite(prior_variance):
        gradient = slope + coefficients / prior_variance
        return 0.5 * prior_variance * float(np.vdot(gradient, gradient))
    excess = np.maximum(np.abs(slope) - l1, 0.0)
    if np.isfinite(prior_variance):
        conjugate = 0.5 * prior_variance * float(np.vdot(excess, excess))
    else:
        conjugate = np.inf if np.any(excess > 0) else 0.0
    return max(0.0, penalty(coefficients, prior_variance, l1) + float(np.vdot(coefficients, slope)) + conjugate)
