"""Pairs of limited-memory BFGS on a device: the recursion of step_pairs.py in terms of inner products.

All inner products among the pairs are kept on the host as (m, m) matrices, so that the two loops run over numbers:
two matrix-vector products give those with the vector, two more the result. A recursion over vectors would start
four small kernels for each pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


class TorchStepPairs:
    """The last ``limit`` pairs in float64 on ``device``; ``metric`` (size,) is D."""

    def __init__(self, limit: int, metric: np.ndarray, device: Any):
        self._device = device
        self._inverse_metric = 1.0 / self._tensor(metric)
        self._steps, self._changes = (
            torch.empty((limit, len(metric)), dtype=torch.float64, device=device) for _ in range(2)
        )
        #: s_i . y_j, and y_i . D^-1 y_j.
        self._mixed, self._scaled = np.zeros((limit, limit)), np.zeros((limit, limit))
        #: Places of the pairs, oldest first.
        self._order: list[int] = []

    def _tensor(self, vector: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(vector, dtype=np.float64)).to(self._device)

    def add(self, step: np.ndarray, change: np.ndarray, product: float) -> None:
        """Keep a step s, the change y of the gradient over it, and s . y > 0."""
        limit = len(self._steps)
        place = len(self._order) if len(self._order) < limit else self._order.pop(0)
        self._order.append(place)
        s, y = self._tensor(step), self._tensor(change)
        self._steps[place], self._changes[place] = s, y
        known = len(self._order)
        rows = [
            self._steps[:known] @ y,
            self._changes[:known] @ s,
            self._changes[:known] @ (self._inverse_metric * y),
        ]
        mixed, mixed_row, scaled = torch.stack(rows).cpu().numpy()
        self._mixed[:known, place], self._mixed[place, :known] = mixed, mixed_row
        self._scaled[:known, place] = self._scaled[place, :known] = scaled
        self._mixed[place, place] = product

    def inverse_product(self, vector: np.ndarray) -> np.ndarray:
        """Return the quasi-Newton inverse Hessian times a vector; there must be a pair."""
        order, known = self._order, len(self._order)
        v = self._tensor(vector)
        scaled_vector = self._inverse_metric * v
        steps, changes = self._steps[:known], self._changes[:known]
        products = torch.stack([steps @ v, changes @ scaled_vector]).cpu().numpy()[:, order]
        mixed, scaled = (each[np.ix_(order, order)] for each in (self._mixed, self._scaled))
        curvatures = np.diagonal(mixed)
        first = np.zeros(known)
        for i in reversed(range(known)):
            first[i] = (products[0, i] - mixed[i, i + 1 :] @ first[i + 1 :]) / curvatures[i]
        gamma = curvatures[-1] / scaled[-1, -1]
        middle = gamma * (products[1] - scaled @ first)
        second = np.zeros(known)
        for i in range(known):
            second[i] = first[i] - (middle[i] + mixed[:i, i] @ second[:i]) / curvatures[i]
        weights = np.zeros((2, known))
        weights[:, order] = first, second
        along_changes, along_steps = self._tensor(weights)
        result = (scaled_vector - self._inverse_metric * (along_changes @ changes)) * gamma + along_steps @ steps
        return result.cpu().numpy()
