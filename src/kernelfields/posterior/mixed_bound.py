"""A lower bound on the minimum where the penalty is not a square: l1, or no Gaussian prior.

Every point visited gives a cut C(theta) >= h + <d, theta> of the likelihood part, and C >= 0 is one as well. For
any mixture of cuts (H, D)

    min P >= H - sum_j R_j*(-D_j),      R*(-d) = s/2 max(|d| - l1, 0)^2      (see penalty.py)

One mixture is kept. A new cut is mixed in with the weight that makes the bound best, a concave problem in one
number. Without a Gaussian prior the bound needs |D_j| <= l1 in every coordinate. A new cut is first mixed with
C >= 0 until it has that, which near the optimum takes next to nothing; so the bound is never worse than zero.
"""

from __future__ import annotations

import numpy as np

from kernelfields.engines import dot
from kernelfields.posterior.points import Point

_TRIALS = 30


class MixedBound:
    """The best lower bound over the points added so far; see :class:`~kernelfields.posterior.LowerBound`."""

    def __init__(self) -> None:
        self.value = 0.0
        self._intercept = 0.0
        self._slope: np.ndarray | None = None

    def add(self, point: Point) -> float:
        """Mix in the cut at a point and return the best bound."""
        from kernelfields.posterior.compiled_bounds import largest_share, mixture_bound

        posterior = point.posterior
        precision, l1 = posterior.prior_precision, posterior.l1
        theta = point.theta
        slope = point.gradient - precision * theta
        likelihood = point.value - posterior.penalty(theta)
        intercept = likelihood - dot(theta, slope)
        if self._slope is None:
            self._slope = np.zeros_like(slope)
        allowed = largest_share(slope, precision, l1)
        intercept *= allowed
        slope *= allowed
        moved = slope - self._slope

        def bound(share: float) -> tuple[float, float]:
            height = self._intercept + share * (intercept - self._intercept)
            conjugate, change = mixture_bound(self._slope, moved, share, precision, l1)
            return height - conjugate, intercept - self._intercept - change

        low, high = 0.0, 1.0
        best, share = bound(high)[0], high
        if bound(high)[1] < 0:
            for _ in range(_TRIALS):
                middle = 0.5 * (low + high)
                value, rise = bound(middle)
                if value > best:
                    best, share = value, middle
                low, high = (middle, high) if rise > 0 else (low, middle)
        if best >= self.value or share > 0:
            self._intercept += share * (intercept - self._intercept)
            self._slope += share * moved
        self.value = max(self.value, best)
        return self.value
