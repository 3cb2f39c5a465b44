"""What compiled passes share: copies of rows, sums of shifts with what rounding drops, largest values, draws."""

from __future__ import annotations

import numpy as np

from kernelfields.inference.packing import TIE
from kernelfields.numerics.compiled import INNER, njit


@njit(**INNER)
def copy_row(source, target):
    """Copy the entries of source to the first entries of target: numba compiles target[:] = source for seconds."""
    for i in range(len(source)):
        target[i] = source[i]


@njit(**INNER)
def most_positions(first, last, offsets):
    """Return the length of the longest of sequences first..last-1."""
    longest = 0
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    return longest


@njit(**INNER)
def collect(value, sums):
    """Add to the sum sums[0], and its rounding error to sums[1] (Neumaier): long sums would lose digits."""
    total = sums[0] + value
    if abs(sums[0]) >= abs(value):
        sums[1] += (sums[0] - total) + value
    else:
        sums[1] += (value - total) + sums[0]
    sums[0] = total


@njit(**INNER)
def shift(values, sums):
    """Shift the maximum of values to zero and collect it; return False if it is -inf."""
    peak = values.max()
    if peak == -np.inf:
        return False
    values -= peak
    collect(peak, sums)
    return True


@njit(**INNER)
def first_largest(values):
    """Return the index of the largest value, the lowest index up to rounding."""
    place, least = 0, values.max() - TIE
    while values[place] < least:
        place += 1
    return place


@njit(**INNER)
def best_steps(before, step, best, pointers):
    """Fill best (L,) with max_a before_a + step_ab, and pointers (L,) with a, the lowest among equals."""
    best[:] = -np.inf
    pointers[:] = 0
    for a in range(len(best)):  # b inside: rows of step are contiguous
        for b in range(len(best)):
            candidate = before[a] + step[a, b]
            if candidate > best[b]:
                if candidate > best[b] + TIE:
                    pointers[b] = a
                best[b] = candidate


@njit(**INNER)
def draw_index(weights, n, uniform):
    """Draw an index of weights[:n] with a probability in proportion to them."""
    target, last = uniform * weights[:n].sum(), 0
    for i in range(n):
        if weights[i] > 0.0:
            last = i
            target -= weights[i]
            if target < 0.0:
                break
    return last
