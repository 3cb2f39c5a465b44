"""Natural parameters from a mean: Newton's method on a convex function (eq. 19), with a certificate.

    P(theta) = g(theta) - <theta, m> + precision / 2 ||theta||^2
    gradient = mean(theta) - m + precision theta,     Hessian = covariance(theta) + precision I

With precision > 0 Lemma 9 bounds the minimum: P(theta) - min P <= ||gradient||^2 / (2 precision). Without a prior
the estimate of that gap is half the squared Newton decrement, and the steps must vanish as well: where m is on the
boundary of the possible means, the gap falls while theta runs away, in steps that change scores by about one each,
until the gradient is rounding.

Steps are halved until they bring a tenth of a thousandth of what the slope promises (Armijo's condition).
Cost: a member and a direction per iteration. Fails: NoEstimate where there is no minimum; ValueError where the
iterations are used up with a prior, whose minimum always exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kernelfields.family.exponential_family import Member

_SUFFICIENT_DECREASE = 1e-4
_SMALLEST_STEP = 2.0**-40
# Newton's method converges quadratically: a step this small follows one that was small already.
_VANISHING_STEP, _SMALL_STEP = 1e-5, 0.3
# Without a prior no step changes scores by more than this: beyond, probabilities are zeros and ones, and flat.
_LONGEST_STEP = 4.0
_MEAN_ROUNDING = 1e-7
_RUNAWAY = 1e12
# Below this a decrease is rounding of the value itself.
_ROUNDING = 1e-14
# Gaps of this size, relative to the value, are all that rounding may leave.
_HOPELESS = 1e-9


class NoEstimate(ValueError):
    """The mean has no finite natural parameters."""


@dataclass(frozen=True)
class Estimate:
    """Natural parameters, the value of P there, a bound on what is missing to its minimum, and the iterations."""

    theta: np.ndarray
    value: float
    gap: float
    iterations: int
    member: Member


def estimate(
    at: Callable[[np.ndarray], Member],
    mean: np.ndarray,
    start: np.ndarray,
    *,
    precision: float,
    tol: float,
    max_iter: int,
) -> Estimate:
    """Minimise P from ``start``; see :meth:`ExponentialFamily.estimate`."""
    if not 0 <= precision < np.inf:
        raise ValueError(f"precision must be a finite number of at least 0, got {precision!r}")
    if not tol > 0:
        raise ValueError(f"tol must be positive, got {tol!r}")

    def value_of(member: Member) -> float:
        theta = member.theta
        return member.log_partition - float(theta @ mean) + 0.5 * precision * float(theta @ theta)

    member = at(start)
    value, last_change = value_of(member), 0.0
    for iteration in range(max_iter + 1):
        gradient = member.mean - mean + precision * member.theta
        if precision > 0:
            gap = float(gradient @ gradient) / (2 * precision)
            if gap <= tol:
                return Estimate(member.theta, value, gap, iteration, member)
        direction = member.newton_direction(gradient, precision)
        if direction is None:
            break
        slope = float(gradient @ direction)
        change = member.score_change(direction)
        if not change < _RUNAWAY:
            break
        if precision == 0:
            gap = max(0.0, -0.5 * slope)
            if gap <= tol and change <= _VANISHING_STEP:
                last = at(member.theta + direction)
                reaches = np.abs(last.mean - mean).max() <= _MEAN_ROUNDING * (1 + np.abs(mean).max())
                if last_change > _SMALL_STEP or not reaches:
                    break
                return Estimate(last.theta, value_of(last), gap, iteration, last)
        scale = 1 + abs(value) + abs(member.log_partition)
        step = 1.0 if precision > 0 else _LONGEST_STEP / max(change, _LONGEST_STEP)
        following = None
        while following is None and step >= _SMALLEST_STEP:
            trial = at(member.theta + step * direction)
            reached = value_of(trial)
            if reached <= value + _SUFFICIENT_DECREASE * step * slope + _ROUNDING * scale:
                following = trial
            step *= 0.5
        if precision > 0 and gap <= _HOPELESS * scale and (following is None or not reached < value):
            # Rounding ends the descent just above a tolerance that was too tight for it.
            return Estimate(member.theta, value, gap, iteration, member)
        if following is None:
            break
        member, value, last_change = following, reached, change
    if precision > 0:
        raise ValueError(
            f"Newton's method did not come within {tol:g} of the minimum in {max_iter} iterations; "
            "raise max_iter or tol"
        )
    raise NoEstimate(
        "no finite natural parameters have this mean: it is not the mean of a distribution of the family, or it "
        "lies on the boundary of those (an outcome or a label that never occurs). Move it inwards, or use a prior"
    )
