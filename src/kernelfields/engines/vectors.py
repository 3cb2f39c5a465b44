"""Inner products and sums of long vectors, on the calling thread.

BLAS hands vectors of ten thousand numbers to several threads and waits for all of them: on a machine with other
work to do, that wait is longer than the sum by orders of magnitude. Solvers make hundreds of these small steps per
pass. Sums are accumulated in float64 whatever the vectors hold.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_REORDER = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=_REORDER)
def _dot(left, right):
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@njit(nogil=True, cache=True, fastmath=_REORDER)
def _add_scaled(target, weight, source):
    for i in range(target.size):
        target[i] += weight * source[i]


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """Return the inner product of two arrays of the same shape, in float64."""
    return float(_dot(np.ravel(left), np.ravel(right)))


def add_scaled(target: np.ndarray, weight: float, source: np.ndarray) -> None:
    """Add weight * source to target in place; both are contiguous, of one shape and precision."""
    _add_scaled(target.reshape(-1), target.dtype.type(weight), source.reshape(-1))
