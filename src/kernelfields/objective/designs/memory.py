"""Precision of features, and whether features and tables fit into the memory that is free.

What cannot fit raises MemoryError before any work and names what would.
"""

from __future__ import annotations

import numpy as np

from kernelfields.inference.family import LabelFamily
from kernelfields.numerics.memory import available_memory

# Tables of labels that meet, at a point, in a direction and at a trial, their residual, and three of inference.
_TABLE_ARRAYS = 7
# Features this small are kept in float64 whatever the tolerance: precision is free there.
_SMALL_FEATURES = 16 * 2**20
# Rounding of float32 products keeps relative gaps down to about 1e-6 meaningful; see docs/numerics.md.
_FLOAT32_TOLERANCE = 1e-5


def feature_dtype(dtype: np.dtype | None, n_values: int, tol: float) -> np.dtype:
    """Return ``dtype``; where it is None, float32 for large features unless the tolerance needs more."""
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


def check_tables_fit(family: LabelFamily) -> None:
    """Raise MemoryError before the work starts if a table of scores for every clique cannot fit in memory."""
    groups = [group for group in family.groups if len(group.row) > 1 and not group.tied]
    needed, available = _TABLE_ARRAYS * 8 * sum(group.n_rows * group.size for group in groups), available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            "labels that meet and depend on the inputs need a table for every clique, of neighbours (L, L) scores at "
            f"every position: {needed / 2**30:,.1f} GiB for {sum(group.n_rows for group in groups):,} cliques and "
            f"{family.n_labels:,} labels, but {available / 2**30:,.1f} GiB are free. Leave out the edge kernel, or use "
            "fewer sequences or edges."
        )
