"""The negative log-posterior of new data after a Gaussian posterior of old ones.

    P(phi) = sum_i weight_i (log Z_i - score_i(y^i)) + 1/2 ||phi - mu||^2

in coordinates phi in which the precision of the old posterior is the identity and mu its mean, which those of
models/continuation.py are.
The square of phi is the prior that solvers and bounds know; what is left, - mu . phi + ||mu||^2 / 2, is linear, so that
the likelihood with it is as convex as before: Lemma 9 and the bounds of several points hold as they stand.
"""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.vectors import dot
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.posterior import Direction, Line, LogPosterior, Point, Trial


class ContinuedPosterior(LogPosterior):
    """The objective above; the terms of the datafit have prior variances of one."""

    def __init__(self, datafit: Datafit, mean: np.ndarray):
        super().__init__(datafit)
        self.mean = mean

    def penalty(self, theta: np.ndarray) -> float:
        """Return ||theta - mu||^2 / 2."""
        return 0.5 * dot(theta - self.mean, theta - self.mean)

    def complete(self, trial: Trial) -> Point:
        """Return a trial with its gradient: half a pass."""
        point = super().complete(trial)
        point.gradient -= self.mean
        return point

    def along(self, point: Point, direction: Direction) -> Line:
        """Return the objective on a line: half a pass unless the direction's potentials are known."""
        return _ContinuedLine(self, point, direction)


class _ContinuedLine(Line):
    def __init__(self, posterior: ContinuedPosterior, point: Point, direction: Direction):
        super().__init__(posterior, point, direction)
        constant, linear, quadratic = self._prior
        mean = posterior.mean
        self._prior = constant + dot(mean, 0.5 * mean - point.theta), linear - dot(mean, direction.theta), quadratic
