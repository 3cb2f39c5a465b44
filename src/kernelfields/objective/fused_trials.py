"""Objectives of sparse fields with value and gradient from one pass, and nothing stored per position.

    value, gradient at theta    one fused pass (likelihoods/fused.py): no potentials, no residual
    a line                      one pass for each of its steps; a second one must be worth it
    the first guess             shortened until no potential moves by more than some nats: half a pass

With sparse features a second gather costs less than inference does, and memory is that of the features.
"""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.vectors import dot
from kernelfields.objective.likelihoods.fused import Passes, choose_fused_passes
from kernelfields.objective.posterior import FAR, AnyLine, Direction, LogPosterior, Point, Trial, Trials


def prefer_fused_passes(posterior: LogPosterior) -> None:
    """Replace the trials of a posterior by fused passes, if the field allows it."""
    passes = choose_fused_passes(posterior.datafit)
    if passes is not None:
        posterior.trials = FusedTrials(passes)


class FusedTrials(Trials):
    """Trials with their gradients, by passes without storage per position."""

    fused = True

    def __init__(self, passes: Passes):
        self._passes = passes

    def trial(self, posterior: LogPosterior, theta: np.ndarray, near: Point | None = None) -> Trial | None:
        """Return value and gradient at theta; None if they are not finite."""
        if not np.isfinite(theta.sum()):
            return None
        value, parts = self._passes.value_and_gradient(posterior.blocks.split(theta))
        posterior.datafit.passes += 1.0
        gradient = posterior.blocks.flatten(parts)
        gradient += posterior.penalty.gradient(theta)
        value += posterior.penalty.value(theta)
        return Trial(theta, value, None, None, gradient) if np.isfinite(value) else None

    def make_line(self, posterior: LogPosterior, point: Point, direction: Direction) -> AnyLine:
        """Return the objective on a line."""
        return FusedLine(self, posterior, point, direction)

    def limit_direction(self, point: Point, direction: np.ndarray, nats: float) -> np.ndarray:
        """Shorten a guessed direction in place, to limit the change of potentials."""
        direction *= min(1.0, nats / max(self.largest_potential(point.posterior, direction), nats))
        return direction

    def curvature_diagonals(self, point: Point) -> list[np.ndarray | None]:
        """Return the diagonal of the likelihood's Hessian in the first term, of sparse features."""
        parts = point.posterior.blocks.split(point.theta)
        return [self._passes.curvature_diagonal(parts), *[None] * (len(parts) - 1)]

    def with_objective(self, posterior: LogPosterior) -> Trials:
        """Return trials of the objective of completed labels."""
        prefer_fused_passes(posterior)
        return posterior.trials

    def largest_potential(self, posterior: LogPosterior, theta: np.ndarray) -> float:
        """Return the largest absolute potential of theta, by a fused pass."""
        posterior.datafit.passes += 0.5
        return self._passes.largest_potential(posterior.blocks.split(theta))


class FusedLine(AnyLine):
    """P along a line, one fused pass for each step."""

    def __init__(self, trials: FusedTrials, posterior: LogPosterior, point: Point, direction: Direction):
        super().__init__(posterior, point, direction)
        self._trials = trials

    @property
    def reach(self) -> float:
        """The step that moves a potential by a hundred nats, for a first step from zero; else no limit."""
        if np.any(self.origin.theta):
            return np.inf
        furthest = self._trials.largest_potential(self.posterior, self.direction)
        return FAR / furthest if furthest > 0 else np.inf

    def _try(self, step: float) -> None:
        """Store the trial at a step, and its slope, if they are finite."""
        trial = self.posterior.trial(self.origin.theta + step * self.direction)
        if trial is not None and trial.gradient is not None:
            self._last = (step, trial, dot(trial.gradient, self.direction))
