"""Inputs of kernels: rows of a dense or CSR matrix in float32 or float64, and blocks of rows.

A kernel block between n and m rows is dense (n, m); it is float32 only when both sides are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

# About 16 MB of float64: large enough for fast matrix products, small beside the block itself.
_BLOCK_ENTRIES = 2**21
_SMALLEST_BLOCK = 16


def as_rows(X: Any, name: str = "X") -> Any:
    """Return X as a two-dimensional ndarray or canonical CSR matrix of float32 or float64."""
    if sparse.issparse(X):
        if X.ndim != 2:
            raise ValueError(_not_two_dimensional(name, X.shape))
        X = _as_float(X.tocsr(), name)
        if not X.has_canonical_format:
            X = X.copy()  # the caller's matrix keeps its order of entries
            X.sum_duplicates()
        return X
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(_not_two_dimensional(name, X.shape))
    return _as_float(X, name)


def _as_float(X: Any, name: str) -> Any:
    if X.dtype in (np.float32, np.float64):
        return X
    if X.dtype.kind not in "biufO":
        raise ValueError(f"{name} must hold real numbers, got dtype {X.dtype}.")
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers, but an entry is not one: {error}.") from error


def _not_two_dimensional(name: str, shape: tuple[int, ...]) -> str:
    return (
        f"{name} must be two-dimensional (rows, columns), got shape {shape}. "
        "Use x.reshape(1, -1) for a single row, x.reshape(-1, 1) for a single column."
    )


def check_same_columns(X: Any, Z: Any) -> None:
    """Raise ValueError unless X and Z have as many columns."""
    if X.shape[1] != Z.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} columns but Z has {Z.shape[1]}. "
            "A kernel compares rows with the same columns: build both sides in the same way."
        )


def block_dtype(X: Any, Z: Any | None) -> np.dtype:
    """Return the dtype of k(X, Z)."""
    return np.result_type(X.dtype, X.dtype if Z is None else Z.dtype)


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Cut the rows of an (n_rows, n_columns) array into blocks of a few megabytes."""
    step = max(_SMALLEST_BLOCK, _BLOCK_ENTRIES // max(n_columns, 1))
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))
