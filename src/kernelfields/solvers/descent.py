"""Descent of objectives that are not convex: the steps of limited-memory BFGS, without a lower bound.

The line search of the loop brackets by slopes and sufficient decrease, which needs no convexity; pairs of negative
curvature are not learnt. What ends a descent is how stationary the point is:

    sum_c (s_c / 2) ||grad_c||^2 <= tol        what a convex objective with this gradient could still lose, at most

The value never rises. The optimum is local: start from several points, and keep the best.
"""

from __future__ import annotations

import time

import numpy as np

from kernelfields.numerics.vectors import dot
from kernelfields.objective.posterior import LogPosterior, Point
from kernelfields.solvers.lbfgs import LBFGS
from kernelfields.solvers.loop import Iteration, Solution, Watcher, search


def descend(
    posterior: LogPosterior,
    start: np.ndarray,
    *,
    lower_bound: float,
    tol: float = 1e-4,
    max_iter: int = 200,
    watch: Watcher | None = None,
) -> Solution:
    """Return where descent from ``start`` ends; ``lower_bound`` is what is known of every value.

    An interrupt (Ctrl-C) ends it like any other reason: the last accepted point is returned.
    """
    begin, passes_before = time.perf_counter(), posterior.passes
    rule = LBFGS()
    rule.prepare(posterior)
    history: list[Iteration] = []

    def visit(point: Point, step: float) -> bool:
        history.append(
            Iteration(
                iteration=len(history),
                passes=posterior.passes - passes_before,
                seconds=time.perf_counter() - begin,
                value=point.value,
                lower_bound=lower_bound,
                gradient_norm=float(np.sqrt(dot(point.gradient, point.gradient))),
                step=step,
                coefficient_norm=float(np.sqrt(dot(point.theta, point.theta))),
            )
        )
        return bool(watch(history[-1])) if watch is not None else False

    point = posterior.at(start)
    reason = "interrupted"
    try:
        stop_asked = visit(point, 0.0)
        rule.begin(point)
        while True:
            if sum(posterior.gap_parts(point).values()) <= tol:
                reason = "stationary"
            elif stop_asked:
                reason = "callback"
            elif len(history) > max_iter:
                reason = "max_iter"
            else:
                following, step = _advanced(posterior, rule, point)
                if following is not None:
                    point = following
                    stop_asked = visit(point, step)
                    continue
                reason = "precision"
            break
    except KeyboardInterrupt:
        if not history:
            raise
    return Solution(
        theta=point.theta,
        solver=rule.name,
        value=point.value,
        lower_bound=lower_bound,
        gradient_norm=history[-1].gradient_norm,
        iterations=history[-1].iteration,
        passes=posterior.passes - passes_before,
        seconds=time.perf_counter() - begin,
        reason=reason,
        history=history,
        gap_parts=posterior.gap_parts(point),
    )


def _advanced(posterior: LogPosterior, rule: LBFGS, point: Point) -> tuple[Point | None, float]:
    """Return the point after a step of the rule; None when no step lowers the value any more."""
    line = posterior.along(point, rule.direction(point, 1.0))
    step = search(line, point.value, min(1.0, line.reach))
    if step is None:
        return None, 0.0
    following = line.point(step)
    rule.learn(point, following)
    return following, step
