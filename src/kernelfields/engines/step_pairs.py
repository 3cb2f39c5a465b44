"""The steps and changes of gradient that limited-memory BFGS remembers, and its inverse Hessian times a vector.

    H ~ gamma D^-1 updated by the last m pairs (s_j, y_j),     gamma = s_m . y_m / y_m . D^-1 y_m

The two-loop recursion: O(m size) time, m pairs of vectors of memory.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from kernelfields.engines.vectors import add_scaled, dot


class StepPairs:
    """The last ``limit`` pairs in ``dtype``; ``metric`` (size,) is D."""

    def __init__(self, limit: int, metric: np.ndarray, dtype: np.dtype):
        self._dtype = dtype
        self._metric = metric.astype(dtype)
        self._pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=limit)

    def add(self, step: np.ndarray, change: np.ndarray, product: float) -> None:
        """Keep a step s, the change y of the gradient over it, and s . y > 0."""
        self._pairs.append((step.astype(self._dtype), change.astype(self._dtype), product))

    def inverse_product(self, vector: np.ndarray) -> np.ndarray:
        """Return the quasi-Newton inverse Hessian times a vector; there must be a pair."""
        vector, metric = vector.astype(self._dtype), self._metric
        weights = []
        for s, y, sy in reversed(self._pairs):
            weight = dot(s, vector) / sy
            add_scaled(vector, -weight, y)
            weights.append(weight)
        s, y, sy = self._pairs[-1]
        vector *= (sy / dot(y, y / metric)) / metric
        for (s, y, sy), weight in zip(self._pairs, reversed(weights), strict=True):
            add_scaled(vector, weight - dot(y, vector) / sy, s)
        return vector.astype(np.float64)
