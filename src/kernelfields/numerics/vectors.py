"""Inner products and sums of long vectors, on the calling thread.

BLAS hands vectors of ten thousand numbers to several threads and waits for all of them: on a machine with other
work to do, that wait is longer than the sum by orders of magnitude. Solvers make hundreds of these small steps per
pass. Sums are accumulated in float64 whatever the vectors hold. The compiler loads with the first call.
"""

from __future__ import annotations

import numpy as np


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """Return the inner product of two arrays of the same shape, in float64."""
    from kernelfields.numerics.vectors_compiled import sum_of_products

    return float(sum_of_products(np.ravel(left), np.ravel(right)))


def add_scaled(target: np.ndarray, weight: float, source: np.ndarray) -> None:
    """Add weight * source to target in place; both are contiguous, of one shape and precision."""
    from kernelfields.numerics.vectors_compiled import add_in_place

    add_in_place(target.reshape(-1), target.dtype.type(weight), source.reshape(-1))
