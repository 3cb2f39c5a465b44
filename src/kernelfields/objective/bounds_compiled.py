"""The loops behind bounds.py, compiled."""

from __future__ import annotations

from kernelfields.numerics.compiled import REORDER, njit


@njit(nogil=True, cache=True, fastmath=REORDER)
def mixture_bound(slope, moved, share, precision, threshold):
    """Return sum_j R*(-D_j) at D = slope + share * moved, where precision > 0, and its derivative in share."""
    conjugate, change = 0.0, 0.0
    for j in range(slope.size):
        if precision[j] > 0.0:
            d = slope[j] + share * moved[j]
            excess = abs(d) - threshold[j]
            if excess > 0.0:
                scaled = excess / precision[j]
                conjugate += 0.5 * excess * scaled
                change += scaled * moved[j] if d > 0.0 else -scaled * moved[j]
    return conjugate, change
