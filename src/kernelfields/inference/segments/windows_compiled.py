"""Windows of segments whose scores need an exponential each, compiled: those with means over their positions.

A segment (b, e, y) scores (M_e(y) - M_b(y)) / (e - b), M the sums of mean scores before a position. That is no product
of a factor of b, one of e and one of e - b, so the sums over durations in passes_compiled.py are taken in logarithms:
the scores of all segments that begin, or end, at a place are laid out side by side, and exponentiated less the largest.

Exponentials are most of the work, and those of libraries stay out of vector registers, so they are written out here:

    exp(x) = 2^k exp(r),   k = round(x / log 2),   |r| <= log(2) / 2,   exp(r) by its series to r^13

with a relative error of 2e-16, three times as fast.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from kernelfields.inference.sums_compiled import REORDER

# Adding it rounds a number to a whole one, which the last bits of the sum then hold.
_ROUNDING = 6755399441055744.0
_PER_LOG_2 = 1.4426950408889634
# log 2 in two parts, the first with so few bits that its products with whole numbers are exact.
_LOG_2, _LOG_2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ONE = 1023 << 52
# Below, exponentials are zero.
_LOWEST = -700.0
_SERIES = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))
_C13, _C12, _C11, _C10, _C9, _C8, _C7, _C6, _C5, _C4, _C3, _C2, _C1, _C0 = _SERIES


@intrinsic
def _bits_of(typing_context, number):
    """The bits of a double as a whole number."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@intrinsic
def _of_bits(typing_context, bits):
    """The double with some bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


# Not REORDER: the rounding would be simplified away.
@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def exponentiate(values, n, top):
    """Replace values[:n], none above a finite ``top``, by exp(values - top)."""
    part = values[:n]
    for i in range(n):
        given = part[i] - top
        x = given if given > _LOWEST else _LOWEST
        rounded = x * _PER_LOG_2 + _ROUNDING
        whole = rounded - _ROUNDING
        r = (x - whole * _LOG_2) - whole * _LOG_2_REST
        p = ((((((_C13 * r + _C12) * r + _C11) * r + _C10) * r + _C9) * r + _C8) * r + _C7) * r + _C6
        p = (((((p * r + _C5) * r + _C4) * r + _C3) * r + _C2) * r + _C1) * r + _C0
        scaled = p * _of_bits((_bits_of(rounded) << 52) + _ONE)  # type: ignore[call-arg]
        part[i] = scaled if given > _LOWEST else 0.0


@njit(nogil=True, cache=True, fastmath={*REORDER, "nnan"})
def window_scores(logs, means, row, low, origin, table, begin, shares, n, out):
    """Fill out[:n] with logs + table + mean scores of the segments from low .. low + n - 1 to origin; return the top.

    ``shares`` are 1 / d where segments begin at origin, -1 / d where they end there.
    """
    values, sums = logs[row, low : low + n], means[row, low : low + n]
    scores, parts, target = table[row, begin : begin + n], shares[begin : begin + n], out[:n]
    own = means[row, origin]
    top = -np.inf
    for i in range(n):
        value = values[i] + scores[i] + (sums[i] - own) * parts[i]
        target[i] = value
        top = value if value > top else top
    return top


@njit(nogil=True, cache=True, fastmath=REORDER)
def total_of(values, n):
    """Return the sum of values[:n]."""
    part, total = values[:n], 0.0
    for i in range(n):
        total += part[i]
    return total


@njit(nogil=True, cache=True)
def window_log_sum(logs, means, row, low, origin, table, begin, shares, n, out):
    """Return the logarithm of the sum of exp(window_scores); leave out[:n] in proportion to them, the top of them 1."""
    top = window_scores(logs, means, row, low, origin, table, begin, shares, n, out)
    if top == -np.inf:
        out[:n] = 0.0
        return top
    exponentiate(out, n, top)
    return top + math.log(total_of(out, n))


@njit(nogil=True, cache=True, fastmath=REORDER)
def add_covers(counts, row, begin, cover, low, origin, values, shares, factor, weight, n):
    """Add expected segments values * factor that end at origin, the longest first, to counts and covers.

    A segment of d positions covers each of them by 1 / d: cover (L, N + S) has the changes from place to place.
    """
    chances, parts = values[:n], shares[begin : begin + n]
    target, starts = counts[row, begin : begin + n], cover[row, low : low + n]
    ended = 0.0
    for i in range(n):
        chance = chances[i] * factor
        target[i] += chance * weight
        starts[i] -= chance * parts[i]
        ended += chance * parts[i]
    cover[row, origin] += ended


@njit(nogil=True, cache=True, fastmath=REORDER)
def window_change(values, moved, means, row, low, origin, moved_table, begin, shares, n, out):
    """Fill out[:n] with the derivatives of window_scores; return the sum of values times them."""
    changes, sums = moved[row, low : low + n], means[row, low : low + n]
    scores, parts, target = moved_table[row, begin : begin + n], shares[begin : begin + n], out[:n]
    own, total = means[row, origin], 0.0
    for i in range(n):
        change = changes[i] + scores[i] + (sums[i] - own) * parts[i]
        target[i] = change
        total += values[i] * change
    return total


@njit(nogil=True, cache=True, fastmath=REORDER)
def add_moved_covers(moved_counts, row, begin, cover, low, origin, values, changes, rest, shares, factor, weight, n):
    """Add the derivatives of expected segments to those of counts and covers."""
    parts, target = shares[begin : begin + n], moved_counts[row, begin : begin + n]
    starts = cover[row, low : low + n]
    ended = 0.0
    for i in range(n):
        change = values[i] * factor * (changes[i] + rest)
        target[i] += change * weight
        starts[i] -= change * parts[i]
        ended += change * parts[i]
    cover[row, origin] += ended


@njit(nogil=True, cache=True)
def add_up_covers(first, last, offsets, cover, out):
    """Fill out (N, L) with the running sums of covers (L, N + S) along each sequence."""
    for s in range(first, last):
        begin, base = offsets[s], offsets[s] + s
        for y in range(len(cover)):
            total = 0.0
            for t in range(offsets[s + 1] - begin):
                total += cover[y, base + t]
                out[begin + t, y] = total
