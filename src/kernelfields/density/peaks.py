"""Peaks of an integrand that lie between the nodes of a quadrature, and what they may add to its integral.

    h(u) = p0(x) exp f(x) |dx / du|  on the unit cube,      f = sum_i a_i k(., u_i)

A kernel that is narrow beside the gaps between nodes makes an f that is high at its pivots u_i and flat at the nodes,
those of finer rules included: they agree on an integral that is wrong. So h is looked at where it can be high. A
pivot is on a peak where h(u_i) is above the mean of h, and along an axis the peak reaches as far as h keeps half of its
rise above the mean, a face of the cube being an end of it. A peak that is narrower than ``_GAPS`` gaps along some axis
is one that nodes may miss. (The sums of a rule with gaps of 2/3 of the width are right to 1e-3 for a normal density.)
Its mass is taken as its rise times twice its width on every axis: 1.9 times that of a normal density, 1.4 times that
of two exponentials back to back, and more as widths are rounded up to halvings of a gap and all pivots of a peak count.
An estimate, rather too large than too small.

Points (n, d) of the unit cube, values (n,). Cost: ``2 d _DISTANCES`` values of h for every pivot on a peak.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from kernelfields.density.box import Measure

_GAPS = 1.5
# Halvings of the largest distance looked at.
_DISTANCES = 12


def unseen_log_mass(
    log_function: Callable[[np.ndarray], np.ndarray],
    measure: Measure,
    pivots: np.ndarray,
    gaps: np.ndarray,
    log_integral: float,
) -> float:
    """Return the logarithm of the mass of peaks that nodes may miss, minus infinity where there are none.

    ``log_function`` is f of points of the box. ``gaps`` (n,) say how far apart nodes are at every pivot, and
    ``log_integral`` is what they make of the integral, which is the mean of h.
    """

    def log_values(units: np.ndarray) -> np.ndarray:
        X = measure.box.from_unit(units)
        return measure.log_density(X) + measure.box.log_volume + log_function(X)

    heights = log_values(pivots)
    high = (heights > log_integral) & np.all((pivots >= 0) & (pivots <= 1), axis=1)
    if not high.any():
        return -np.inf
    pivots, heights, reach = pivots[high], heights[high], _GAPS * gaps[high]
    below = np.exp(log_integral - heights)
    halves = heights + np.log1p(below) - np.log(2.0)
    widths = _widths(log_values, pivots, halves, reach)
    narrow = (widths < reach[:, None]).any(axis=1)
    # The mean itself, and what hardly rises above it, has no mass of its own.
    narrow &= below < 1.0
    masses = heights[narrow] + np.log1p(-below[narrow]) + np.log(2 * widths[narrow]).sum(axis=1)
    return float(logsumexp(masses)) if len(masses) else -np.inf


def _widths(
    log_values: Callable[[np.ndarray], np.ndarray], points: np.ndarray, levels: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Return how far values stay above levels along every axis, (n, d): both sides together, ``reach`` each at most."""
    count, dimension = points.shape
    distances = reach[:, None] * 0.5 ** np.arange(_DISTANCES)
    widths = np.zeros((count, dimension))
    for axis in range(dimension):
        for side in (-1.0, 1.0):
            places = points[:, axis, None] + side * distances
            inside = (places > 0) & (places < 1)
            moved = np.repeat(points[:, None], _DISTANCES, axis=1)
            # A base measure of the user's may have no value on a face.
            moved[:, :, axis] = np.where(inside, places, points[:, axis, None])
            values = log_values(moved.reshape(-1, dimension)).reshape(count, -1)
            fallen = ~(inside & (values >= levels[:, None]))
            widths[:, axis] += np.where(fallen, distances, reach[:, None]).min(axis=1)
    return widths
