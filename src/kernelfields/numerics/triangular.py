"""Triangular systems with the leading part of a wider factor: R^-1 v and R^-T v, R (r, r) lower.

LAPACK would copy such a part whole, half a gigabyte at rank 8,000 for each call. Here the rows are solved 256 at a
time, with products for the rest: O(r^2 b) time, no memory of the factor's size. The factor is an array or anything
that gives rows by ``factor[rows, columns]``, as one that is kept in a file does; its rank is that of the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg


def forward_substitution(factor: Any, values: np.ndarray, at_once: int = 256) -> np.ndarray:
    """Overwrite ``values`` (r, b) with R^-1 values and return them; ``at_once`` rows are solved at a time."""
    for begin in range(0, len(values), at_once):
        end = min(begin + at_once, len(values))
        rows = factor[begin:end, :end]
        values[begin:end] -= rows[:, :begin] @ values[:begin]
        values[begin:end] = scipy.linalg.solve_triangular(
            rows[:, begin:], values[begin:end], lower=True, check_finite=False
        )
    return values


def back_substitution(factor: Any, values: np.ndarray, at_once: int = 256) -> np.ndarray:
    """Overwrite ``values`` (r, b) with R^-T values and return them."""
    for begin in reversed(range(0, len(values), at_once)):
        end = min(begin + at_once, len(values))
        rows = factor[begin:end, :end]
        values[begin:end] = scipy.linalg.solve_triangular(
            rows[:, begin:], values[begin:end], lower=True, trans="T", check_finite=False
        )
        values[:begin] -= rows[:, :begin].T @ values[begin:end]
    return values
