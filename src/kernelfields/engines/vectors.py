"""Inner products and sums of long vectors, on the calling thread.

BLAS hands vectors of ten thousand numbers to several threads and waits for all of them: on a machine with other
work to do, that wait is longer than the sum by orders of magnitude. Solvers make hundreds of these small steps per
pass. Sums are accumulated in float64 whatever the vectors hold. The compiler loads with the first call.

Tensors stay where they are: their inner products are tensors too, which nothing waits for until they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def dot(left: Any, right: Any) -> Any:
    """Return the inner product of two arrays of the same shape, in float64; of two tensors, as a tensor."""
    if not isinstance(left, np.ndarray):
        return left.reshape(-1).dot(right.reshape(-1))
    from kernelfields.engines.compiled_vectors import sum_of_products

    return float(sum_of_products(np.ravel(left), np.ravel(right)))


def add_scaled(target: Any, weight: Any, source: Any) -> None:
    """Add weight * source to target in place; both are contiguous, of one shape and precision."""
    if not isinstance(target, np.ndarray):
        target.add_(source * weight)
        return
    from kernelfields.engines.compiled_vectors import add_in_place

    add_in_place(target.reshape(-1), target.dtype.type(weight), source.reshape(-1))
