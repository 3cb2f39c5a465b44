"""Triangular systems with the leading part of a wider factor: R^-1 v, R (r, r) lower.

LAPACK would copy such a part whole, half a gigabyte at rank 8,000 for each call. Here the rows are solved 256 at a
time, with products for the rest: O(r^2 b) time, no memory of the factor's size. The rank is that of the values.
"""

from __future__ import annotations

import contextlib
import mmap

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike


def room_for_factor(size: int, dtype: DTypeLike = np.float64) -> np.ndarray:
    """Return zeros, (size, size); the unwritten upper half takes no memory.

    NumPy requests huge pages, each of which holds a hundred rows: half of every row would then be allocated in vain.
    """
    if size == 0 or not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return np.zeros((size, size), dtype=dtype)
    pages = mmap.mmap(-1, np.dtype(dtype).itemsize * size * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):  # a system that has none
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype=dtype).reshape(size, size)


def forward_substitution(factor: np.ndarray, values: np.ndarray, at_once: int = 256) -> np.ndarray:
    """Overwrite ``values`` (r, b) with R^-1 values and return them, ``at_once`` rows at a time."""
    for begin in range(0, len(values), at_once):
        end = min(begin + at_once, len(values))
        rows = factor[begin:end, :end]
        values[begin:end] -= rows[:, :begin] @ values[:begin]
        values[begin:end] = scipy.linalg.solve_triangular(
            rows[:, begin:], values[begin:end], lower=True, check_finite=False
        )
    return values
