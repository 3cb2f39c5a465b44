"""The loops behind bounds.py, compiled."""

from __future__ import annotations

from numba import njit

_REORDER = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=_REORDER)
def mixture_bound(slope, moved, share, precision, l1):
    """Return sum_j R*(-D_j) at D = slope + share * moved, where precision > 0, and its derivative in share."""
    conjugate, change = 0.0, 0.0
    for j in range(slope.size):
        if precision[j] > 0.0:
            d = slope[j] + share * moved[j]
            excess = abs(d) - l1[j]
            if excess > 0.0:
                scaled = excess / precision[j]
                conjugate += 0.5 * excess * scaled
                change += scaled * moved[j] if d > 0.0 else -scaled * moved[j]
    return conjugate, change


@njit(nogil=True, cache=True)
def largest_share(slope, precision, l1):
    """Return the largest share up to one with |share * slope| <= l1 wherever there is no Gaussian prior."""
    share = 1.0
    for j in range(slope.size):
        if precision[j] == 0.0 and abs(slope[j]) > l1[j]:
            share = min(share, l1[j] / abs(slope[j]))
    return share
