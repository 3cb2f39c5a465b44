"""The loops behind numerics/vectors.py, compiled."""

from __future__ import annotations

from kernelfields.numerics.compiled import REORDER, njit


@njit(nogil=True, cache=True, fastmath=REORDER)
def sum_of_products(left, right):
    """Return the sum of left[i] * right[i] in float64."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@njit(nogil=True, cache=True, fastmath=REORDER)
def add_in_place(target, weight, source):
    """Add weight * source to target."""
    for i in range(target.size):
        target[i] += weight * source[i]
