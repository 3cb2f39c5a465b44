"""Which rows of a small PSD block to take as pivots, and the Cholesky factor of the block restricted to them.

Blocks are residuals K - Z Z^T among a few candidates, (b, b) in float64. Cost O(b^3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg


def independent_rows(block: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pivoted Cholesky of a PSD block: the residual furthest above its ``floor`` next, until all are below.

    Returns the positions in the order taken and the lower factor of the block restricted to them. Taken as they
    come, rows barely above the floor would leave a factor too ill-conditioned to divide by. Cost O(b^3).
    """
    if not np.any(np.diagonal(block) > floor):
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    highest = np.max(floor)
    scale = np.sqrt(floor / highest)  # ones, and no rounding, where all k(x, x) are alike
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(block / np.outer(scale, scale), tol=highest, lower=1)
    accepted = order[:rank].astype(np.int64) - 1
    return accepted, scale[accepted, None] * np.tril(factor[:rank, :rank])


def select_rows(block: np.ndarray, accept: Any) -> tuple[np.ndarray, np.ndarray]:
    """Walk down a PSD block, keeping row i when ``accept(i, residual_i)`` says so.

    The residual is taken with respect to the rows kept before it. Returns positions and lower factor.
    """
    size = len(block)
    columns = np.zeros((size, size))
    residual = np.diagonal(block).copy()
    kept: list[int] = []
    for i in range(size):
        if not accept(i, residual[i]):
            continue
        k = len(kept)
        column = (block[:, i] - columns[:, :k] @ columns[i, :k]) / np.sqrt(residual[i])
        columns[:, k] = column
        residual -= column**2
        kept.append(i)
    positions = np.array(kept, dtype=np.int64)
    return positions, np.tril(columns[positions, : len(kept)])
