"""L-BFGS for objectives with an l1 penalty, within one orthant at a time.

    Andrew and Gao (2007), Scalable training of L1-regularized log-linear models: orthants (OWL-QN).
    Schmidt (2010), Graphical model structure learning with l1-regularization: two metrics (PSSgb).

Within an orthant the l1 penalty is linear. Among coefficients that are not zero the direction is the quasi-Newton one,
by the parts of the pairs that belong to them; a coefficient that is zero moves along the pseudo-gradient over gamma D.
So none of them bends the path of the others, and few pairs are enough. Trial points that leave the orthant are set to
zero there. Every trial needs its own potentials, half a pass, because projected points lie on no line; the first is
nearly always taken.
"""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.vectors import dot
from kernelfields.objective.posterior import Direction, Point
from kernelfields.solvers.lbfgs import LBFGS, StochasticStart
from kernelfields.solvers.loop import MAX_TRIALS, ROUNDING, SUFFICIENT_DECREASE

# The coefficients that are not zero change, and of each remembered step only their part counts.
_MEMORY_AFTER_START = 50


class OrthantLBFGS(LBFGS):
    """L-BFGS for an l1 penalty, one orthant at a time.

    Coefficients that are not zero take quasi-Newton steps, the others steepest descent. Fields with ``l1`` use it by
    themselves.

    Parameters
    ----------
    memory : int, optional
        How many steps are remembered.
    start : StochasticStart, optional
        Where to begin; zero by default.
    pairs : object, optional
        Steps to go on with.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = ChainCRF("linear", prior_variance=1.0, l1=0.1).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> crf.solution_.solver
    'owl-qn'
    """

    name = "owl-qn"

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return the quasi-Newton direction of nonzero coefficients, and the steepest one of the others.

        Parameters
        ----------
        point : Point
            The present coefficients.
        relative_gap : float
            How near they are to the minimum.

        Returns
        -------
        Direction
            The direction.
        """
        self.set_coordinates(point)
        free = (point.theta != 0.0) | (point.posterior.penalty.threshold == 0.0)
        return self._within_reach(point, self.quasi_newton(-point.steepest, free))

    def _step(self, point: Point, direction: Direction) -> tuple[Point | None, float]:
        """Return the point of one projected step and its length; None if no step improves the value."""
        posterior = point.posterior
        steepest = point.steepest
        orthant = np.sign(np.where(point.theta == 0.0, -steepest, point.theta))
        held = posterior.penalty.threshold > 0.0  # the others are smooth at zero and may cross it
        allowance = ROUNDING * abs(point.value)
        step, slope = 1.0, dot(steepest, direction.theta)
        for _ in range(MAX_TRIALS):
            theta = point.theta + step * direction.theta
            theta[(theta * orthant < 0.0) & held] = 0.0
            # What walls cut off may have been what made a long step a descent.
            promised = dot(steepest, theta - point.theta)
            trial = posterior.trial(theta, near=point) if promised < 0.0 else None
            if trial is not None and trial.value <= point.value + SUFFICIENT_DECREASE * promised:
                return posterior.complete(trial), step
            if -step * slope < allowance:
                return None, 0.0
            step = _shorter(step, slope, np.inf if trial is None else trial.value - point.value)
        return None, 0.0


def _shorter(step: float, slope: float, rise: float) -> float:
    """Return the next step to try: the minimum of the parabola through the last trial, within a tenth to a half."""
    lowest = -0.5 * slope * step / (rise / step - slope) if np.isfinite(rise) else 0.0
    return min(max(lowest, 0.1 * step), 0.5 * step)


def within_orthants(solver: object, tol: float, random: np.random.Generator | None) -> OrthantLBFGS:
    """Return the rule for a penalty that is not smooth; ValueError for a solver without such a rule."""
    if isinstance(solver, OrthantLBFGS):
        return solver
    if isinstance(solver, LBFGS):
        return OrthantLBFGS(solver.memory, solver.start)
    if solver == "lbfgs":
        return OrthantLBFGS()
    if solver == "sgd+lbfgs":
        return OrthantLBFGS(_MEMORY_AFTER_START, StochasticStart(random_state=random, close=tol))
    raise ValueError(f"with l1 the objective is not smooth, and only solver='lbfgs' minimizes it; got {solver!r}")
