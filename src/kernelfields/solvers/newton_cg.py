"""Newton directions by conjugate gradients on exact Hessian products.

The system H p = -g is solved to a relative residual that tightens as the gap closes (inexact Newton). The
potentials of p are accumulated from those of the CG directions, so the line search that follows is free.
Cost: one pass per CG step. The preconditioner is the prior covariance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.posterior import Direction, LogPosterior, Point, dot


def conjugate_gradients(
    posterior: LogPosterior,
    point: Point,
    tolerance: float,
    max_steps: int,
    only: Sequence[int] | None = None,
) -> Direction:
    """Solve H p = -gradient (within the blocks ``only``) to a relative residual ``tolerance``.

    The residual is measured in the metric of the prior covariance, the metric of the duality gap.
    """
    residual = -point.gradient
    if only is not None:
        kept = np.zeros_like(residual)
        for index in only:
            rows = posterior.blocks[index].rows
            kept[rows] = residual[rows]
        residual = kept
    precision = posterior.prior_precision
    solution = np.zeros_like(residual)
    search = residual / precision
    total = None
    square = dot(residual, search)
    target = tolerance**2 * square
    for _ in range(max_steps):
        product, potentials = posterior.hessian_product(point, search, only)
        # The prior keeps the Hessian positive definite: the denominator cannot vanish before the residual does.
        step = square / dot(search, product)
        solution += step * search
        residual -= step * product
        if total is None:
            potentials.scale(step)
            total = potentials
        else:
            total.add(step, potentials)
        scaled = residual / precision
        before, square = square, dot(residual, scaled)
        if square <= target:
            break
        search *= square / before
        search += scaled
    return Direction(solution, total)


class NewtonCG:
    """Inexact Newton with exact Hessian products."""

    name = "newton-cg"

    def __init__(self, max_steps: int = 250):
        self.max_steps = max_steps

    def prepare(self, posterior: LogPosterior) -> None:
        """Nothing to prepare: memory is a few vectors."""

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return an inexact Newton direction; early systems are solved loosely."""
        tolerance = min(0.3, max(0.02, np.sqrt(relative_gap)))
        return conjugate_gradients(point.posterior, point, tolerance, self.max_steps)

    def learn(self, before: Point, after: Point) -> None:
        """Nothing is carried from step to step."""
