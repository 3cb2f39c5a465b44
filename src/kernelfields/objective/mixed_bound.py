"""Lower bounds on the minimum where the penalty is not quadratic: one mixture of cuts.

A cut of the likelihood part is C(theta) >= H + <D, theta> (bounds.py). For any mixture of cuts (H, D), C >= 0 among
them, with thresholds a of slopes,

    min P >= H - sum_j R_j*(-D_j),      R_j*(-d) = s_j / 2 max(|d| - a_j, 0)^2

One mixture is kept. A new cut is mixed in with the weight that makes the bound best, a concave problem in one
number. Without a Gaussian prior the bound needs |D_j| <= a_j in every coordinate. A new cut is first mixed with
C >= 0 until it has that, which near the optimum takes next to nothing; so the bound is never worse than zero.

Near the optimum gradients are about linear in theta: the one at the mean of the points, by the weights of the mixture,
is about D. Its cut alone is as good as the mixture and mostly better, by the curvature of C between the points. One
pass there tightens the bound, and carries a mixture over some coefficients to all of them (models/working_set.py).
"""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.vectors import dot
from kernelfields.objective import compiled
from kernelfields.objective.posterior import Point

_TRIALS = 30
# A mixture is the best one to within this share of the value.
_NEAR = 1e-10


class MixedBound:
    """The best lower bound from the given points; see :class:`~kernelfields.objective.bounds.LowerBound`.

    ``mean`` is the mean of the points by the weights of their cuts in the mixture; None before the first.
    """

    def __init__(self) -> None:
        self.value = 0.0
        self.mean: np.ndarray | None = None
        self._intercept = 0.0
        self._slope: np.ndarray | None = None

    def restrict(self, kept: np.ndarray) -> MixedBound:
        """Return the bound of the same objective with the coefficients outside the mask ``kept`` set to zero."""
        other = MixedBound()
        other.value, other._intercept = self.value, self._intercept
        if self._slope is not None and self.mean is not None:
            other._slope, other.mean = self._slope[kept], self.mean[kept]
        return other

    def add(self, point: Point) -> float:
        """Add the cut at a point and return the best bound."""
        posterior = point.posterior
        precision, threshold = posterior.penalty.precision, posterior.penalty.threshold
        theta = point.theta
        # In place throughout: with many labels and features, a vector may be most of the memory of a fit.
        slope = precision * theta
        np.subtract(point.gradient, slope, out=slope)
        likelihood = point.value - posterior.penalty.value(theta)
        intercept = likelihood - dot(theta, slope)
        if self._slope is None or self.mean is None:
            self._slope, self.mean = np.zeros_like(slope), np.zeros_like(slope)
        # The largest share, up to one, with |share * slope| <= threshold wherever there is no Gaussian prior.
        free = np.flatnonzero(precision == 0.0)
        free = free[np.abs(slope[free]) > threshold[free]]
        allowed = (threshold[free] / np.abs(slope[free])).min(initial=1.0)
        intercept *= allowed
        slope *= allowed
        bent = _find_exceeding(self._slope, slope, threshold)
        moved = slope
        moved -= self._slope
        own, steps, own_precision, own_threshold = (each[bent] for each in (self._slope, moved, precision, threshold))

        def bound(share: float) -> tuple[float, float]:
            height = self._intercept + share * (intercept - self._intercept)
            conjugate, change = compiled.mixture_bound(own, steps, share, own_precision, own_threshold)
            return height - conjugate, intercept - self._intercept - change

        (best, fall), share = bound(1.0), 1.0
        if fall < 0:
            low, high = 0.0, 1.0
            value, rise = bound(low)
            best, share = max((value, low), (best, high))
            for _ in range(_TRIALS if rise > 0 else 0):
                middle = low + (high - low) * rise / (rise - fall)
                value, slope_there = bound(middle)
                best, share = max((best, share), (value, middle))
                # The function is concave: it rises by no more than its slope here allows.
                if abs(slope_there) * (high - low) <= _NEAR * abs(point.value):
                    break
                # The slope at the end that stays is halved, or secants would move the other end alone.
                if slope_there > 0:
                    low, rise, fall = middle, slope_there, 0.5 * fall
                else:
                    high, fall, rise = middle, slope_there, 0.5 * rise
        self._intercept += share * (intercept - self._intercept)
        moved *= share
        self._slope += moved
        np.subtract(theta, self.mean, out=moved)
        moved *= share
        self.mean += moved
        self.value = max(self.value, best)
        return self.value


def _find_exceeding(first: np.ndarray, second: np.ndarray, threshold: np.ndarray, at_once: int = 2**16) -> np.ndarray:
    """Return the indices of entries with one of two slopes above a threshold, which contribute to a bound."""
    parts = [slice(begin, begin + at_once) for begin in range(0, len(threshold), at_once)]
    found = [np.maximum(np.abs(first[part]), np.abs(second[part])) > threshold[part] for part in parts]
    return np.flatnonzero(np.concatenate(found))
