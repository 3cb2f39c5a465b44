"""The loop of all solvers: direction, line search, lower bound, stop; and its Solution.

A solver is a *rule* that proposes a direction at a point (and may learn from accepted steps). The loop owns
everything else, so that every solver is stopped by the same certificate, can be interrupted, and reports the
same :class:`Solution`.

The line search takes a step a when

    P(a) <= P(0) + c1 a slope(0) + rounding      and      |slope(a)| <= c2 |slope(0)|

The function on the line is convex, so a positive slope (or a value above P(0)) bounds the minimiser from above
and a negative one from below; the next trial is the secant root inside the bracket, or beyond the last one while
nothing bounds it from above. Where one end moves twice in a row, the slope at the other is halved (the Illinois
rule): far from the minimiser the likelihood is close to piecewise linear, and plain secants would crawl. Trials cost
inference but no pass over the features, so the search may be fairly exact (c2 = 0.4).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from kernelfields import objective
from kernelfields.numerics.vectors import dot
from kernelfields.objective.bounds import Bounded, LowerBound, relative_gap
from kernelfields.objective.posterior import AnyLine, Direction, LogPosterior, Point

#: Why a solver stopped, and what to do about it.
REASONS = {
    "gap": "the duality gap is below tol",
    "stationary": "the objective is flat to within tol; it is not convex, so this is one minimum of several",
    "settled": "the value hardly falls any more; with l1 or approximate inference its lower bound follows late, and "
    "tol=1e-3 waits for it",
    "max_iter": "max_iter iterations were made before the gap fell below tol; raise max_iter or tol",
    "precision": "no step improves the objective at this precision; the gap reached is what the features' "
    "float type allows (dtype='float64' goes further)",
    "interrupted": "interrupted; the best estimate so far was kept",
    "callback": "a callback asked to stop",
    "given": "its weights were read from a file of another program",
    "early": "the development set did not improve for five iterations; the best fit was kept",
}


@dataclass(frozen=True)
class Iteration(Bounded):
    """One iteration of a fit: the argument of callbacks, and an entry of ``solution_.history``.

    Parameters
    ----------
    iteration : int
        The number of the iteration.
    passes : float
        Passes over the data so far.
    seconds : float
        Time so far.
    value : float
        The objective.
    lower_bound : float
        The best lower bound of its minimum so far.
    gradient_norm : float
        The norm of the gradient.
    step : float
        The length of the step.
    coefficient_norm : float, default 0.0
        The norm of the coefficients.
    tol : float, optional
        The relative gap that ends the fit.
    bounded : bool, default True
        Whether the gap is one to the minimum; of an objective that is not convex, it measures how flat that is here.
    working_gap : float, optional
        The relative gap among the coefficients of a working set, or of a basis that grows.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> seen = []
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1, callbacks=[seen.append]).fit(X, y)
    >>> seen[-1].value <= seen[0].value
    True
    """

    iteration: int
    passes: float
    seconds: float
    value: float
    lower_bound: float
    gradient_norm: float
    step: float
    coefficient_norm: float = 0.0
    #: The relative gap at which the fit ends; None where something else ends it.
    tol: float | None = None
    #: Whether the gap is one to the minimum; of an objective that is not convex, it measures how flat that is here.
    bounded: bool = True
    #: The relative gap among the coefficients of a working set, or of a basis that grows, all others zero; None where
    #: none are left out.
    working_gap: float | None = None


@dataclass
class Solution(Bounded):
    """The result of a solver: coefficients, their gap, and the history; ``solution_`` of an estimator.

    Parameters
    ----------
    theta : array
        All coefficients.
    solver : str
        The solver.
    value : float
        The objective.
    lower_bound : float
        A lower bound of its minimum (Lemma 9).
    gradient_norm : float
        The norm of the gradient.
    iterations : int
        Iterations.
    passes : float
        Passes over the data.
    seconds : float
        Time.
    reason : str
        Why the solver stopped: "gap", "settled", "stationary", "max_iter", "precision" or "interrupted".
    history : list of Iteration, optional
        All iterations.
    gap_parts : dict, optional
        What each clique set adds to the gap.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> crf.solution_.converged
    True
    >>> crf.solution_.lower_bound <= crf.solution_.value
    True
    """

    theta: np.ndarray = field(repr=False)
    solver: str
    value: float
    lower_bound: float
    gradient_norm: float
    iterations: int
    passes: float
    seconds: float
    reason: str
    history: list[Iteration] = field(repr=False, default_factory=list)
    #: (s_c / 2) ||grad_c||^2 of each clique set at the last point.
    gap_parts: dict[str, float] = field(repr=False, default_factory=dict)

    @property
    def converged(self) -> bool:
        """Whether the gap, or the gradient of an objective without one, fell below the tolerance."""
        return self.reason in ("gap", "settled", "stationary")

    def with_tolerance(self, tol: float) -> Solution:
        """Return the solution, as converged if its gap is within a looser tolerance.

        Parameters
        ----------
        tol : float
            The relative gap.

        Returns
        -------
        Solution
            The solution.
        """
        short = self.reason in ("max_iter", "precision") and self.relative_gap <= tol
        return replace(self, reason="gap") if short else self

    @property
    def message(self) -> str:
        """The reason for the end of the solver, in words."""
        return REASONS[self.reason]


#: By the cut at one point, all that there is where an objective is not convex, a fit seems so much further from its end
#: than by several cuts: where these give tol, the last one alone gives about 5 to 11 tol.
SINGLE_CUT = 5.0
#: The largest relative gap at which a fit may end because the gap itself is small.
COARSEST = 3e-2
#: With an l1 penalty the bound is loose long after the value has settled. Where a gap may be enough, a fit also ends
#: when so many iterations bring less than a tenth of it and 1 % of the value, and the relative gap is at most COARSEST
#: or the bound is stuck: neither the gap nor its bound has changed by the factor STEADY.
SETTLED_AFTER, STEADY = 10, 0.9
#: The same with approximate inference: values are known to within what that leaves out, and sweeps are dear.
APPROXIMATELY_SETTLED_AFTER = 3
# Bytes of a cut from which on fewer are kept.
_LARGE_CUT = 16 * 2**20
SUFFICIENT_DECREASE = 1e-4
SLOPE_REDUCTION = 0.4
MAX_TRIALS = 40
LEAST_GROWTH, MAX_GROWTH = 1.2, 4.0
# Near the optimum a decrease is smaller than the rounding of the value itself: the slope decides alone.
ROUNDING = 1e-13


@dataclass
class _End:
    step: float
    slope: float


def search(
    line: AnyLine, value: float, first_step: float = 1.0, slope_reduction: float = SLOPE_REDUCTION
) -> float | None:
    """Return an acceptable step, or None if rounding prevents one."""
    if not line.slope < 0:
        return None
    earlier = low = _End(0.0, line.slope)
    high = None
    step, fallback, last_moved = first_step, None, None
    allowance = ROUNDING * abs(value)
    for _ in range(MAX_TRIALS):
        trial, slope = line(step)
        enough = trial <= value + SUFFICIENT_DECREASE * step * line.slope + allowance
        if enough and abs(slope) <= slope_reduction * abs(line.slope):
            return step
        if enough and trial < value:  # not by the allowance alone, or steps of nothing would go on for ever
            fallback = step
        if not np.isfinite(trial) or slope > 0 or not enough:
            if last_moved is high and high is not None:
                low.slope /= 2.0
            last_moved = high = _End(step, slope)
        else:
            if last_moved is low and high is not None:
                high.slope /= 2.0
            earlier, low = low, _End(step, slope)
            last_moved = low
        following = _next_trial(low, high, earlier)
        if following == step or (high is not None and high.step - low.step <= 1e-12 * high.step):
            break
        step = following
    return fallback


def _next_trial(low: _End, high: _End | None, earlier: _End) -> float:
    if high is None:
        # Where the slope would vanish if it went on to rise as between the last two steps.
        rise = (low.slope - earlier.slope) / (low.step - earlier.step)
        root = low.step - low.slope / rise if rise > 0 else np.inf
        return float(np.clip(root, LEAST_GROWTH * low.step, MAX_GROWTH * low.step))
    width = high.step - low.step
    if np.isfinite(high.slope) and high.slope > 0:
        root = low.step + width * low.slope / (low.slope - high.slope)
        return float(np.clip(root, low.step + 0.05 * width, high.step - 0.05 * width))
    return low.step + (0.1 if not np.isfinite(high.slope) else 0.5) * width


class DirectionRule(ABC):
    """The direction of a step: the base class of all solvers, which differ in nothing else.

    Derive from it, and write ``direction``. The loop, the line search, the lower bound and the end are shared
    (:func:`minimize`).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> from kernelfields.objective.posterior import Direction
    >>> from kernelfields.solvers import DirectionRule
    >>> class SteepestDescent(DirectionRule):
    ...     name = "steepest descent"
    ...     def direction(self, point, relative_gap):
    ...         return Direction(-point.gradient)
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1, solver=SteepestDescent()).fit(X, y)
    >>> crf.solution_.solver
    'steepest descent'
    """

    name: str
    #: Whether directions come from dense factorisations: BLAS then spreads them over threads.
    factors_matrices = False
    #: How exact line searches are to be: the share of the first slope that may be left.
    slope_reduction = SLOPE_REDUCTION

    def prepare(self, posterior: LogPosterior) -> None:  # noqa: B027 - most solvers have nothing to check
        """Check the problem before any work.

        Parameters
        ----------
        posterior : LogPosterior
            The objective.
        """

    def first_point(self, posterior: LogPosterior) -> np.ndarray:
        """Return the initial point, unless the caller gives one.

        Parameters
        ----------
        posterior : LogPosterior
            The objective.

        Returns
        -------
        array
            The coefficients.
        """
        return np.zeros(posterior.size)

    @abstractmethod
    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return a descent direction at a point.

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

    def advance(self, point: Point, direction: Direction) -> tuple[Point | None, float]:
        """Make one step by a line search.

        Parameters
        ----------
        point : Point
            The present coefficients.
        direction : Direction
            A descent direction.

        Returns
        -------
        point : Point or None
            The new point; None if no step improves the value any more.
        step : float
            The length of the step.
        """
        line = point.posterior.make_line(point, direction)
        step = search(line, point.value, min(1.0, line.reach), self.slope_reduction)
        return (None, 0.0) if step is None else (line.point(step), step)


class Bound(Protocol):
    """The best lower bound of the minimum of an objective, from the points of a fit."""

    value: float

    def add(self, point: Point) -> float:
        """Add a point, and return the best bound."""


#: Called after each iteration; returning True stops the fit.
Watcher = Callable[[Iteration], object]


class Monitor(Protocol):
    """An observer of all points, which may stop the fit, and names the best point by a measure of its own."""

    best: Point | None

    def __call__(self, point: Point) -> bool:
        """Record a point; True to stop."""


#: Called after each iteration with a function that returns the Solution as an interrupt there would leave it.
Keeper = Callable[[Callable[[], Solution]], None]


def ends(reached: Bounded, tol: float, enough: float) -> bool:
    """Whether a fit has converged: by the relative gap, or by the absolute gap if that is small enough."""
    return reached.relative_gap <= tol or (reached.gap <= enough and reached.relative_gap <= COARSEST)


def ending_gap(value: float, tol: float, enough: float) -> float:
    """Return the relative gap that ends a fit with this value."""
    return max(tol, min(COARSEST, enough / max(abs(value), 1e-300)))


def has_settled(before: Iteration, after: Iteration, tol: float, enough: float) -> bool:
    """Whether several iterations have brought too little to continue; never if no gap is small enough."""
    value = abs(after.value)
    little = min(max(tol * value, 0.1 * enough), 0.01 * value) if enough else 0.0
    if before.value - after.value >= little:
        return False
    stuck = after.gap > STEADY * before.gap and STEADY * after.lower_bound <= before.lower_bound
    return stuck or after.relative_gap <= COARSEST or not after.bounded


def minimize(
    posterior: LogPosterior,
    rule: DirectionRule,
    *,
    start: np.ndarray | None = None,
    tol: float = 1e-3,
    enough: float = 0.0,
    max_iter: int = 1000,
    watch: Watcher | None = None,
    monitor: Monitor | None = None,
    keep: Keeper | None = None,
    bound: Bound | None = None,
) -> Solution:
    """Minimise the negative log-posterior until the relative duality gap is below ``tol``.

    An interrupt (Ctrl-C) ends the loop like any other reason: the last accepted point is returned. The value never
    increases from step to step.

    Parameters
    ----------
    posterior : LogPosterior
        The objective.
    rule : DirectionRule
        The solver.
    start : array, optional
        The coefficients to start from; those of the rule by default.
    tol : float, default 1e-3
        The relative gap that ends the fit.
    enough : float, default 0.0
        A gap in nats that ends it, too.
    max_iter : int, default 1000
        The most iterations.
    watch : callable, optional
        Called with each Iteration; returning True stops the fit.
    monitor : Monitor, optional
        Sees every point, and says which one was best by a measure of its own.
    keep : callable, optional
        Called after each iteration with a function that returns the Solution as an interrupt there would leave it.
    bound : LowerBound, optional
        A bound of this objective to go on with.

    Returns
    -------
    Solution
        The last point, which is the best one, unless a ``monitor`` prefers another.

    See Also
    --------
    resolve_solver : Makes a rule of a name.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> from kernelfields.objective.posterior import LogPosterior
    >>> from kernelfields.solvers import NewtonCG, minimize
    >>> objectives = []
    >>> class Noting(NewtonCG):
    ...     def prepare(self, posterior):
    ...         objectives.append(posterior)
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1, solver=Noting()).fit(X, y)
    >>> solution = minimize(objectives[0], NewtonCG(), tol=1e-8)
    >>> solution.relative_gap < 1e-8
    True
    """
    begin = time.perf_counter()
    passes_before = posterior.passes
    rule.prepare(posterior)
    slack = 1.0 if posterior.convex else SINGLE_CUT
    history: list[Iteration] = []
    point: Point | None = None
    proved: Bound

    def record(point: Point, step: float) -> bool:
        """Record a point; True if a callback wants to stop."""
        for partners in posterior.datafit.partners:
            partners.save_iteration(point.theta)
        history.append(
            Iteration(
                iteration=len(history),
                passes=posterior.passes - passes_before,
                seconds=time.perf_counter() - begin,
                value=point.value,
                lower_bound=proved.add(point),
                gradient_norm=float(np.sqrt(dot(point.steepest, point.steepest))),
                step=step,
                coefficient_norm=float(np.sqrt(dot(point.theta, point.theta))),
                tol=ending_gap(point.value, slack * tol, slack * enough),
                bounded=posterior.convex,
            )
        )
        return bool(watch(history[-1])) if watch is not None else False

    def is_settled() -> bool:
        """Whether the last iterations have brought too little."""
        after = APPROXIMATELY_SETTLED_AFTER if posterior.penalty.smooth else SETTLED_AFTER
        return len(history) > after and has_settled(history[-1 - after], history[-1], tol, enough)

    def visit(point: Point, step: float) -> tuple[bool, bool]:
        """Show a point to callbacks and monitor; return whether each wants to stop."""
        wishes = record(point, step), monitor is not None and monitor(point)
        if keep is not None:
            keep(lambda: outcome(point, "interrupted"))
        return wishes

    def outcome(point: Point, reason: str) -> Solution:
        """Return the solution if the fit ends here."""
        if monitor is not None and monitor.best is not None:
            point = monitor.best
        return Solution(
            theta=point.theta,
            solver=rule.name,
            value=point.value,
            lower_bound=proved.value,
            gradient_norm=history[-1].gradient_norm,
            iterations=history[-1].iteration,
            passes=posterior.passes - passes_before,
            seconds=time.perf_counter() - begin,
            reason=reason,
            history=list(history),
            gap_parts=posterior.gap_parts(point),
        )

    try:
        for partners in posterior.datafit.partners:
            start = partners.start(start, posterior.size)
        point = posterior.make_point(rule.first_point(posterior) if start is None else start)
        proved = _lower_bound(posterior, tol, enough) if bound is None else bound
        stop_asked, stalled = visit(point, 0.0)
        while True:
            if ends(history[-1], slack * tol, slack * enough):
                reason = "gap" if posterior.convex else "stationary"
            elif (posterior.approximation is not None or not posterior.penalty.smooth) and is_settled():
                reason = "settled"
            elif stop_asked:
                reason = "callback"
            elif stalled:
                reason = "early"
            elif len(history) > max_iter:
                reason = "max_iter"
            else:
                direction = rule.direction(point, relative_gap(point.value, proved.value))
                point.release()
                following, step = rule.advance(point, direction)
                if following is None:
                    reason = "precision"
                else:
                    point = following
                    stop_asked, stalled = visit(point, step)
                    continue
            break
    except KeyboardInterrupt:
        if point is None or not history:
            raise
        reason = "interrupted"
    return outcome(point, reason)


def _lower_bound(posterior: LogPosterior, tol: float, enough: float) -> Bound:
    """Return a bound for the penalty, with few cuts if each has the size of a share of the data, or is large."""
    if not posterior.convex:
        return objective.stationary_bound.StationaryBound()
    if not posterior.penalty.quadratic:
        return objective.mixed_bound.MixedBound()
    few = posterior.trials.fused or 8 * posterior.size > _LARGE_CUT
    return LowerBound(size=5 if few else 10, wanted=tol, enough=enough)


def continue_counting(last: Iteration | None, iteration: Iteration, proved: float | None = None) -> Iteration:
    """Return an iteration with number, passes and seconds continued from the previous round.

    ``proved`` is the bound of the whole objective that earlier rounds have proved, for an iteration of a working set or
    of a basis that grows: its own bound holds there alone, and ends the round but not the fit.
    """
    if proved is not None:
        iteration = replace(iteration, tol=None)
        if iteration.bounded:
            iteration = replace(iteration, lower_bound=proved, working_gap=iteration.relative_gap)
    if last is None:
        return iteration
    return replace(
        iteration,
        iteration=last.iteration + iteration.iteration,
        passes=last.passes + iteration.passes,
        seconds=last.seconds + iteration.seconds,
    )


def continue_watching(last: Iteration | None, watch: Watcher | None, proved: float | None = None) -> Watcher | None:
    """Return a watcher that continues the count of iterations from round to round."""
    if watch is None:
        return None
    first_new = 0 if last is None or proved is None else 1
    return lambda own: own.iteration >= first_new and watch(continue_counting(last, own, proved))
