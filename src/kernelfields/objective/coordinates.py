"""Coordinates with an identity metric, in which limited-memory BFGS works.

    D_c = C_c C_c^T = b a_c Z_c^T Z_c / L^k + I / s_c       sets with dense features
    D_c = b start curvature + 1 / s_c, a diagonal           other sets
    u   = C^T theta,   gradient in u = C^-1 gradient in theta

a is the variance of a label coordinate while all labellings of a clique are equally likely: the curvature at the start
of a fit. Late in it a clique is undecided between a few of its L^k labellings, if at all, and b / L^k stands for what
is left beside the prior (docs/numerics.md). The Gram matrix is that of
about ``SAMPLE_RATIO`` positions for each feature, evenly spread: O(r^3) time and r^2 numbers. The metric shapes
directions and nothing else: whatever it is, the optimum and its certificate are the same.

For many pivots the Gram matrix is that of the leading columns, which hold nearly all correlations between features; the
other columns have their mean square. On letters at rank 2000, 500 columns take as many passes as all, and 60 one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.blas import dsyrk, dtrmm, dtrsm, ssyrk, strmm, strsm
from scipy.linalg.lapack import dpotrf, spotrf

from kernelfields.numerics.group import Group
from kernelfields.numerics.triangular import room_for_factor

#: The b above.
LATE_SHARE = 0.2
#: Positions that a Gram matrix is summed over, for each feature.
SAMPLE_RATIO = 2
# A Gram matrix and its factor cost as much as r^2 / (n q) passes, in about these units; fewer must be saved by them.
_DEAREST = 64
# The fewest leading columns of a Gram matrix, and the share of all columns, one in this number.
_FEWEST_TOGETHER, _TOGETHER = 512, 4
# Rows that are multiplied at once.
_BLOCK_BYTES = 2 * 2**20


@dataclass(frozen=True)
class DenseSet:
    """A set with a Gram matrix as its metric: its number and rows of theta, the shape (r, q), the scales of D."""

    index: int
    rows: slice
    shape: tuple[int, int]
    curvature: float
    precision: float

    def leading(self, n_columns: int) -> DenseSet:
        """Return the coefficients of the leading columns."""
        begin, outputs = self.rows.start, self.shape[1]
        return replace(self, rows=slice(begin, begin + n_columns * outputs), shape=(n_columns, outputs))


def count_together(rank: int) -> int:
    """Return the number of leading columns of the Gram matrix, for the features of ``rank`` pivots."""
    return min(rank, max(_FEWEST_TOGETHER, rank // _TOGETHER))


def should_use_gram(n_rows: int, rank: int, outputs: int) -> bool:
    """Whether a Gram metric saves more passes than its r^3 operations cost."""
    return rank > 1 and rank * rank <= _DEAREST * n_rows * outputs


def sample_rows(n_rows: int, rank: int, group: Group) -> slice:
    """Return the rows of this process in a Gram matrix: every n-th row of all processes."""
    counts = group.gather(n_rows)
    stride = max(1, sum(counts) // (SAMPLE_RATIO * rank))
    return slice(-group.find_share(counts).start % stride, None, stride)


def gram_matrix(features: np.ndarray, sampled: slice) -> np.ndarray:
    """Return Z^T Z, (r, r) in the precision of Z, estimated from every n-th row.

    Of the symmetric matrix the lower half is there, in the order of Fortran.
    """
    dtype, rank = np.dtype(features.dtype), features.shape[1]
    rows = np.arange(features.shape[0])[sampled]
    step = max(1, _BLOCK_BYTES // (rank * dtype.itemsize))
    total = room_for_factor(rank, dtype).T
    add_products = ssyrk if dtype == np.float32 else dsyrk
    weight = float(sampled.step)
    for begin in range(0, len(rows), step):
        part = features[rows[begin : begin + step]]
        total = add_products(weight, part.T, beta=1.0, c=total, lower=1, overwrite_c=1)
    return total


def factor_curvature(gram: np.ndarray, curvature: float, precision: float) -> np.ndarray | None:
    """Factor curvature gram + precision I = C C^T in place of gram; return the lower C, or None after rounding."""
    for column in range(len(gram)):  # the other half takes memory only if it is written to
        gram[column:, column] *= curvature
    gram[np.diag_indices(len(gram))] += precision
    factorise = spotrf if gram.dtype == np.float32 else dpotrf
    factor, failed = factorise(gram, lower=1, clean=0, overwrite_a=1)
    return None if failed or not np.isfinite(np.diagonal(factor)).all() else factor  # the diagonal will do


class Coordinates:
    """The map of vectors of coefficients to the coordinates of a metric and back, in ``dtype``.

    ``metric`` (size,) is the diagonal; ``factors`` are sets and their C.
    """

    def __init__(self, metric: np.ndarray, factors: Sequence[tuple[DenseSet, np.ndarray]], dtype: np.dtype):
        self._dtype = dtype
        self._root = np.sqrt(metric).astype(dtype)
        self._factors = [(dense, np.asfortranarray(factor, dtype=dtype)) for dense, factor in factors]
        single = dtype == np.float32
        self._multiply, self._solve = (strmm, strsm) if single else (dtrmm, dtrsm)

    def transform_gradient(self, gradient: np.ndarray) -> np.ndarray:
        """Return C^-1 gradient."""
        return self._solved(gradient, transposed=0)

    def transform_step(self, step: np.ndarray) -> np.ndarray:
        """Return C^T step."""
        out = step.astype(self._dtype) * self._root
        for dense, factor in self._factors:
            part = self._multiply(1.0, factor, self._part(step, dense), lower=1, trans_a=1, overwrite_b=1)
            out[dense.rows] = part.ravel()
        return out

    def direction(self, vector: np.ndarray) -> np.ndarray:
        """Return C^-T vector, in float64."""
        return self._solved(vector, transposed=1).astype(np.float64)

    def _solved(self, vector: np.ndarray, *, transposed: int) -> np.ndarray:
        out = vector.astype(self._dtype) / self._root
        for dense, factor in self._factors:
            part = self._solve(1.0, factor, self._part(vector, dense), lower=1, trans_a=transposed, overwrite_b=1)
            out[dense.rows] = part.ravel()
        return out

    def _part(self, vector: np.ndarray, dense: DenseSet) -> np.ndarray:
        return np.array(vector[dense.rows].reshape(dense.shape), dtype=self._dtype, order="F")
