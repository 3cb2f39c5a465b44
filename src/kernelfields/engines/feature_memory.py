"""In which precision features are stored, and whether they fit in memory."""

from __future__ import annotations

import os

import numpy as np

# Features this small are kept in float64 whatever the tolerance: precision is free there.
_SMALL_FEATURES = 16 * 2**20
# Rounding of float32 products keeps relative gaps down to about 1e-6 meaningful; see docs/numerics.md.
_FLOAT32_TOLERANCE = 1e-5


def feature_dtype(dtype: np.dtype | None, n_values: int, tol: float) -> np.dtype:
    """Return ``dtype``; where it is None, float32 for large features unless the tolerance asks for more."""
    if dtype is not None:
        return dtype
    small = 8 * n_values <= _SMALL_FEATURES
    return np.dtype(np.float64 if small or tol < _FLOAT32_TOLERANCE else np.float32)


def check_features_fit(name: str, n_rows: int, rank: int, dtype: np.dtype) -> None:
    """Raise MemoryError before the work starts if the feature matrix cannot fit in memory."""
    needed = n_rows * rank * dtype.itemsize
    available = available_memory()
    if available is not None and needed > available:
        fitting = max(1, int(0.7 * available / (n_rows * dtype.itemsize)))
        raise MemoryError(
            f"clique set {name!r}: features of {n_rows:,} positions at rank {rank:,} need "
            f"{needed / 2**30:,.1f} GiB in {dtype}, but {available / 2**30:,.1f} GiB are free. "
            f"Use rank={fitting:,} or less, or dtype='float32'."
        )


def available_memory() -> int | None:
    """Return the bytes of free physical memory where the system tells, else None."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + _reclaimable()
    except (AttributeError, ValueError, OSError):
        return None


def _reclaimable() -> int:
    """Return the bytes of file cache that Linux would give back; 0 where it cannot be read."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return 1024 * int(fields["Cached"].split()[0])
    except (OSError, KeyError, ValueError, IndexError):
        return 0
