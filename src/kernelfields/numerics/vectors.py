"""Long vectors on the calling thread: inner products, sums, and conjugate gradients.

BLAS hands vectors of ten thousand numbers to several threads and waits for all of them: on a machine with other
work to do, that wait is longer than the sum by orders of magnitude. Solvers make hundreds of these small steps per
pass. Sums are accumulated in float64 whatever the vectors hold. The compiler loads with the first long vector.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelfields import numerics

# Vectors of fewer numbers stay on the calling thread in BLAS, too.
_SHORT = 4096


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """Return the inner product of two arrays of the same shape, in float64."""
    if left.size < _SHORT:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.vdot(left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)))
    return float(numerics.vectors_compiled.sum_of_products(np.ravel(left), np.ravel(right)))


def add_scaled(target: np.ndarray, weight: float, source: np.ndarray) -> None:
    """Add weight * source to target in place; both are contiguous, of one shape and precision."""
    if target.size < _SHORT:
        target += target.dtype.type(weight) * source
        return
    numerics.vectors_compiled.add_in_place(target.reshape(-1), target.dtype.type(weight), source.reshape(-1))


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
    tolerance: float,
    max_steps: float,
    *,
    floor: float = 0.0,
    flat: float = 0.0,
    moved: Callable[[float], None] | None = None,
) -> tuple[np.ndarray, int]:
    """Solve H x = right for a positive semi-definite H; return x and the number of products.

    Ends where the residual, measured by the preconditioner, is ``tolerance`` of that of zero, or its square below
    ``floor``; and where the curvature along a direction is below ``flat`` of the largest: a singular H, with right in
    its range. ``moved`` is called with the length of each step along the last argument of ``product``.
    """
    residual, solution, steps, steepest = right.copy(), np.zeros_like(right), 0, 0.0
    search = precondition(residual)
    square = dot(residual, search)
    target = max(tolerance**2 * square, floor)
    while steps < max_steps and (steps == 0 or square > target):
        image = product(search)
        steps += 1
        curvature = dot(search, image)
        if flat > 0.0:
            length = dot(search, search)
            steepest = max(steepest, curvature / length) if length > 0.0 else 0.0
            if not curvature > flat * steepest * length:
                break
        step = square / curvature
        solution += step * search
        residual -= step * image
        if moved is not None:
            moved(step)
        scaled = precondition(residual)
        before, square = square, dot(residual, scaled)
        search *= square / before
        search += scaled
    return solution, steps
