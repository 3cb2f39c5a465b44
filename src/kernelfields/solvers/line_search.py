"""One line search for all solvers: a root of the slope, bracketed, with Armijo's condition as a guard.

A step a is accepted when

    P(a) <= P(0) + c1 a slope(0) + rounding      and      |slope(a)| <= c2 |slope(0)|

The function on the line is convex, so a positive slope (or a value above P(0)) bounds the minimiser from above
and a negative one from below; the next trial is the secant root inside the bracket. Where one end moves twice in
a row, the slope at the other is halved (the Illinois rule): far from the minimiser the likelihood is close to
piecewise linear, and plain secants would crawl. Trials cost inference but no pass over the features, so the search
may be fairly exact (c2 = 0.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelfields.posterior.lines import FusedLine, Line

SUFFICIENT_DECREASE = 1e-4
SLOPE_REDUCTION = 0.4
MAX_TRIALS = 40
MAX_GROWTH = 4.0
# Near the optimum a decrease is smaller than the rounding of the value itself: the slope decides alone.
ROUNDING = 1e-13


@dataclass
class _End:
    step: float
    slope: float


def search(
    line: Line | FusedLine, value: float, first_step: float = 1.0, slope_reduction: float = SLOPE_REDUCTION
) -> float | None:
    """Return an acceptable step, or None if rounding leaves none."""
    if not line.slope < 0:
        return None
    low, high = _End(0.0, line.slope), None
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
            last_moved = low = _End(step, slope)
        following = _next_trial(low, high)
        if following == step or (high is not None and high.step - low.step <= 1e-12 * high.step):
            break
        step = following
    return fallback


def _next_trial(low: _End, high: _End | None) -> float:
    if high is None:
        return low.step * MAX_GROWTH
    width = high.step - low.step
    if np.isfinite(high.slope) and high.slope > 0:
        root = low.step + width * low.slope / (low.slope - high.slope)
        return float(np.clip(root, low.step + 0.05 * width, high.step - 0.05 * width))
    return low.step + (0.1 if not np.isfinite(high.slope) else 0.5) * width
