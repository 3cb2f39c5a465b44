"""The one loop all solvers run in: direction, line search, lower bound, stop.

A solver is a *rule* that proposes a direction at a point (and may learn from accepted steps). The loop owns
everything else, so that every solver is stopped by the same certificate, can be interrupted, and reports the
same :class:`Solution`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from kernelfields.posterior import Direction, LogPosterior, Point, dot
from kernelfields.posterior.certificate import relative_gap
from kernelfields.posterior.lower_bound import LowerBound
from kernelfields.posterior.mixed_bound import MixedBound
from kernelfields.solvers import orthant
from kernelfields.solvers.line_search import SLOPE_REDUCTION, search
from kernelfields.solvers.solution import Iteration, Solution


class DirectionRule(Protocol):
    """What makes one solver differ from another.

    A rule whose directions come from dense factorisations may say ``factors_matrices = True``: BLAS then spreads
    them over threads. One with a ``first_point(posterior)`` starts there, unless the caller says where; one with a
    ``begin(point)`` is told where the fit starts; ``slope_reduction`` says how exact line searches are to be.
    """

    name: str

    def prepare(self, posterior: LogPosterior) -> None:
        """Check that the problem fits, before any work."""

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return a descent direction at a point."""

    def learn(self, before: Point, after: Point) -> None:
        """Take note of an accepted step."""


#: Called after each iteration; returning True stops the fit.
Watcher = Callable[[Iteration], object]


class Monitor(Protocol):
    """Sees every point; may stop the fit, and says which point was best by a measure of its own."""

    best: Point | None

    def __call__(self, point: Point) -> bool:
        """Take note of a point; True to stop."""


#: Called after each iteration with a function that returns the Solution as an interrupt there would leave it.
Keeper = Callable[[Callable[[], Solution]], None]


def minimize(
    posterior: LogPosterior,
    rule: DirectionRule,
    *,
    start: np.ndarray | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
    watch: Watcher | None = None,
    monitor: Monitor | None = None,
    keep: Keeper | None = None,
) -> Solution:
    """Minimise the negative log-posterior until the relative duality gap is below ``tol``.

    An interrupt (Ctrl-C) ends the loop like any other reason: the last accepted point is returned. The value
    never increases from step to step, so the last point is the best one, unless a ``monitor`` prefers another.
    """
    begin = time.perf_counter()
    passes_before = posterior.passes
    rule.prepare(posterior)
    bound = _lower_bound(posterior, tol)
    history: list[Iteration] = []
    point: Point | None = None

    def record(point: Point, step: float) -> bool:
        """Note a point; True when a callback wants to stop."""
        history.append(
            Iteration(
                iteration=len(history),
                passes=posterior.passes - passes_before,
                seconds=time.perf_counter() - begin,
                value=point.value,
                lower_bound=bound.add(point),
                gradient_norm=float(np.sqrt(dot(point.steepest, point.steepest))),
                step=step,
                coefficient_norm=float(np.sqrt(dot(point.theta, point.theta))),
            )
        )
        return bool(watch(history[-1])) if watch is not None else False

    def visit(point: Point, step: float) -> tuple[bool, bool]:
        """Show a point to everybody; say whether a callback wants to stop, and whether the monitor does."""
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
            lower_bound=bound.value,
            gradient_norm=history[-1].gradient_norm,
            iterations=history[-1].iteration,
            passes=posterior.passes - passes_before,
            seconds=time.perf_counter() - begin,
            reason=reason,
            history=list(history),
            gap_parts=posterior.gap_parts(point),
        )

    try:
        point = posterior.at(_first_point(posterior, rule) if start is None else start)
        stop_asked, stalled = visit(point, 0.0)
        if hasattr(rule, "begin"):
            rule.begin(point)
        while True:
            gap = relative_gap(point.value, bound.value)
            if gap <= tol:
                reason = "gap"
            elif stop_asked:
                reason = "callback"
            elif stalled:
                reason = "early"
            elif len(history) > max_iter:
                reason = "max_iter"
            else:
                following, step = _advance(posterior, rule, point, gap)
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


def _lower_bound(posterior: LogPosterior, tol: float) -> LowerBound | MixedBound:
    """Return a bound for the penalty at hand; with few cuts where each is as large as a share of the data."""
    if not posterior.has_squares_only:
        return MixedBound()
    return LowerBound(size=5 if posterior.fused else 10, wanted=tol)


def _first_point(posterior: LogPosterior, rule: DirectionRule) -> np.ndarray:
    """Return where to start: what the rule proposes if it has a start of its own, else zero."""
    propose = getattr(rule, "first_point", None)
    return np.zeros(posterior.size) if propose is None else propose(posterior)


def _advance(posterior: LogPosterior, rule: DirectionRule, point: Point, gap: float) -> tuple[Point | None, float]:
    """Make one step; the point is None when no step improves the value any more."""
    direction = rule.direction(point, gap)
    point.release()
    if posterior.has_l1:
        projected, length = orthant.advance(posterior, point, direction.theta)
        if projected is not None:
            rule.learn(point, projected)
        return projected, length
    line = posterior.along(point, direction)
    step = search(line, point.value, min(1.0, line.reach), getattr(rule, "slope_reduction", SLOPE_REDUCTION))
    if step is None:
        return None, 0.0
    following = line.point(step)
    rule.learn(point, following)
    return following, step
