"""Estimates of the curvature of the objective along each coordinate, which scale the directions of limited-memory BFGS.

    at the start    1 / s_c + mean curvature of term c before any label is known         one number per clique set
    near a point    sqrt(d_j mean(d)),  d_j = sum_t weight_t z_tj^2 p (1 - p) + 1 / s_c   of sparse weights
    late in a fit   b a_c Z_c^T Z_c / L^k + I / s_c                                       of dense features

The last one is a matrix for each set, whose coordinates are coordinates.py. Cost: some sums over cliques at the start,
half a pass near a point, O(r^3) for a matrix. Whatever the metric is, the optimum and its certificate are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kernelfields.objective.blocks import Blocks
from kernelfields.objective.coordinates import LATE_SHARE, Coordinates, DenseSet, factor_curvature
from kernelfields.objective.datafit import Datafit, StepMemory
from kernelfields.objective.penalty import is_quadratic

# Curvature that a coordinate is taken to have at least, as a share of the mean: without a prior it may vanish.
_FLATTEST = 1e-8


class Metric:
    """The curvature of a datafit and a prior with some ``precision`` (size,), in blocks of coefficients."""

    def __init__(self, datafit: Datafit, blocks: Blocks, precision: np.ndarray):
        self._datafit, self._blocks, self._precision = datafit, blocks, precision

    @cached_property
    def at_start(self) -> np.ndarray:
        """Estimated curvature of the objective along each coordinate, (size,): one number per clique set."""
        metric = self._precision.copy()
        for index, block in enumerate(self._blocks):
            metric[block.rows] += self._datafit.curvature.at_start(index)
        metric[metric == 0.0] = 1.0  # no prior and no clique: these coefficients stay where they are
        return metric

    def estimate_curvature(self, diagonals: Sequence[np.ndarray | None]) -> np.ndarray:
        """Estimate the curvature of the objective near a point, or None, from diagonals of the likelihood's Hessian.

        Between the diagonal of the curvature and its mean: their geometric mean, coordinate by coordinate.
        """
        metric = self.at_start.copy()
        for block, diagonal in zip(self._blocks, diagonals, strict=True):
            if diagonal is not None and diagonal.any():
                curvature = block.diagonal(diagonal) + self._precision[block.rows]
                mean = curvature.mean()
                metric[block.rows] = np.sqrt(np.maximum(curvature, _FLATTEST * mean) * mean)
        return metric

    @cached_property
    def dense_sets(self) -> list[DenseSet]:
        """The sets with a useful Gram matrix of features; none with tied labels."""
        found = []
        for index, block in enumerate(self._blocks):
            curvature = LATE_SHARE * self._datafit.curvature.gram_scale(index)
            if curvature and is_quadratic(block.design.term):
                found.append(DenseSet(index, block.rows, block.shape, curvature, 1.0 / block.prior_variance))
        return found

    def memory(self, limit: int, metric: np.ndarray) -> StepMemory | None:
        """Return memory for steps on the device of the features; None for steps on the host."""
        room = self._datafit.step_room
        return None if room is None else room(limit, self._late(metric), self.dense_sets)

    def coordinates(self, metric: np.ndarray, dtype: np.dtype) -> Coordinates:
        """Return coordinates in which Gram matrices of dense features, and ``metric`` elsewhere, are the identity."""
        # Sets that see one table under one prior, as the labels of an instance do, share their factor.
        known: dict[tuple, tuple[np.ndarray | None, float]] = {}
        factors, late = [], self._late(metric)
        for dense in self.dense_sets:
            key = (id(self._datafit.designs[dense.index].table), dense.curvature, dense.precision)
            if key not in known:
                gram, rest = self._datafit.curvature.gram(dense.index)
                known[key] = factor_curvature(gram, dense.curvature, dense.precision), rest
            factor, rest = known[key]
            if factor is not None:
                measured = dense.leading(len(factor))
                late[measured.rows.stop : dense.rows.stop] = dense.curvature * rest + dense.precision
                factors.append((measured, factor))
        return Coordinates(late, factors, dtype)

    def _late(self, metric: np.ndarray) -> np.ndarray:
        """Return the metric for the late part of a fit, scaled to the metric of dense sets."""
        return self._precision + LATE_SHARE * (metric - self._precision) if self.dense_sets else metric
