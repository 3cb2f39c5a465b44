"""Steps for objectives with an l1 penalty: L-BFGS within one orthant at a time (OWL-QN).

    Andrew and Gao (2007), Scalable training of L1-regularized log-linear models.

Within an orthant the l1 penalty is linear. The direction is the quasi-Newton one of the pseudo-gradient, without
the coordinates in which it would climb; trial points that leave the orthant are set to zero there. Every trial
needs its own potentials, half a pass, because projected points lie on no line; the first is nearly always taken.
"""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.vectors import dot
from kernelfields.objective.posterior import Direction, LogPosterior, Point
from kernelfields.solvers.lbfgs import LBFGS

SUFFICIENT_DECREASE = 1e-4
MAX_TRIALS = 40
ROUNDING = 1e-13


class OrthantLBFGS(LBFGS):
    """L-BFGS on the smooth part, kept to descent directions of the whole objective."""

    name = "owl-qn"

    def first_point(self, posterior: LogPosterior) -> np.ndarray:
        """Return the start; if made without l1, with zeros where one step of that penalty alone would undo it."""
        start = super().first_point(posterior)
        if np.any(start) and self.start is not None and not self.start.knows_l1:
            start[np.abs(start) <= posterior.l1 / posterior.metric_at(posterior.at(start))] = 0.0
        return start

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return the quasi-Newton direction, zero where it disagrees with the steepest one."""
        steepest = point.steepest
        direction = self.quasi_newton(-steepest)
        direction[direction * steepest >= 0.0] = 0.0
        return Direction(direction)

    def advance(self, point: Point, direction: Direction) -> tuple[Point | None, float]:
        """Make one projected step; the point is None when none improves the value at this precision."""
        posterior = point.posterior
        steepest = point.steepest
        orthant = np.sign(np.where(point.theta == 0.0, -steepest, point.theta))
        held = posterior.l1 > 0.0  # the others are smooth at zero and may cross it
        allowance = ROUNDING * abs(point.value)
        step, slope = 1.0, dot(steepest, direction.theta)
        for _ in range(MAX_TRIALS):
            theta = point.theta + step * direction.theta
            theta[(theta * orthant < 0.0) & held] = 0.0
            promised = dot(steepest, theta - point.theta)
            if not promised < 0.0:
                return None, 0.0
            trial = posterior.trial(theta, near=point)
            if trial is not None and trial.value <= point.value + SUFFICIENT_DECREASE * promised:
                return posterior.complete(trial), step
            if abs(promised) < allowance:
                return None, 0.0
            step = _shorter(step, slope, np.inf if trial is None else trial.value - point.value)
        return None, 0.0


def _shorter(step: float, slope: float, rise: float) -> float:
    """Return the next step to try: where the parabola through the last trial is lowest, a tenth to a half of it."""
    lowest = -0.5 * slope * step / (rise / step - slope) if np.isfinite(rise) else 0.0
    return min(max(lowest, 0.1 * step), 0.5 * step)
