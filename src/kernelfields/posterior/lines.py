"""The objective on a line, for line searches.

Potentials are linear in theta: once those of a direction are known, values and slopes along it need inference
only (:class:`Line`). Sparse fields that keep nothing per position walk through their features at every step
instead (:class:`FusedLine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelfields.engines import Evaluation, Potentials, dot
from kernelfields.posterior.points import Direction, Point, Trial

if TYPE_CHECKING:
    from kernelfields.posterior.log_posterior import LogPosterior

#: Nats that a potential may move in the first trial of a line search.
FAR = 100.0


class Line:
    """P along point + step * direction, by inference alone."""

    def __init__(self, posterior: LogPosterior, point: Point, direction: Direction):
        self.posterior = posterior
        self.origin = point
        self.direction = direction.theta
        self.slope = dot(point.gradient, direction.theta)
        self._potentials = direction.potentials or posterior.potentials(direction.theta)
        scaled = posterior.prior_precision * direction.theta
        self._prior = (
            0.5 * dot(point.theta, posterior.prior_precision * point.theta),
            dot(point.theta, scaled),
            0.5 * dot(direction.theta, scaled),
        )
        self._last: tuple[float, float, Potentials, Evaluation] | None = None

    @property
    def reach(self) -> float:
        """The step that moves a potential by a hundred nats, as far as a first trial should go.

        Beyond some five hundred, probabilities underflow and inference in logarithms is far slower.
        """
        furthest = self._potentials.largest
        return FAR / furthest if furthest > 0 else np.inf

    def __call__(self, step: float) -> tuple[float, float]:
        """Return value and slope at a step."""
        self._last = None
        potentials = self.origin.potentials.moved(step, self._potentials)
        if not potentials.finite:
            return np.inf, np.inf
        evaluation = self.posterior.engine.evaluate(potentials)
        constant, linear, quadratic = self._prior
        value = evaluation.value + constant + step * (linear + step * quadratic)
        slope = evaluation.residual.dot(self._potentials) + linear + 2.0 * step * quadratic
        self._last = (step, value, potentials, evaluation)
        return value, slope

    def point(self, step: float) -> Point:
        """Return the point at a step, with its gradient: half a pass."""
        if self._last is None or self._last[0] != step:
            self(step)
        if self._last is None:
            raise ValueError(f"the objective is not finite at step {step!r}")
        _, value, potentials, evaluation = self._last
        self._last = None
        theta = self.origin.theta + step * self.direction
        return self.posterior.complete(Trial(theta, value, potentials, evaluation))


class FusedLine:
    """P along point + step * direction, one fused pass for each step."""

    def __init__(self, posterior: LogPosterior, point: Point, direction: Direction):
        self.posterior = posterior
        self.origin = point
        self.direction = direction.theta
        self.slope = dot(point.gradient, direction.theta)
        self._last: tuple[float, Trial] | None = None

    @property
    def reach(self) -> float:
        """The step that moves a potential by a hundred nats, for a first step from zero; else no limit."""
        if np.any(self.origin.theta):
            return np.inf
        furthest = self.posterior.largest_potential(self.direction)
        return FAR / furthest if furthest > 0 else np.inf

    def __call__(self, step: float) -> tuple[float, float]:
        """Return value and slope at a step."""
        self._last = None
        trial = self.posterior.trial(self.origin.theta + step * self.direction)
        if trial is None or trial.gradient is None:
            return np.inf, np.inf
        self._last = (step, trial)
        return trial.value, dot(trial.gradient, self.direction)

    def point(self, step: float) -> Point:
        """Return the point at a step, with its gradient."""
        if self._last is None or self._last[0] != step:
            self(step)
        if self._last is None:
            raise ValueError(f"the objective is not finite at step {step!r}")
        return self.posterior.complete(self._last[1])
