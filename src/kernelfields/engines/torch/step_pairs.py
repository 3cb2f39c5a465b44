"""Pairs of limited-memory BFGS on a device: the recursion of solvers/lbfgs.py in terms of inner products.

All inner products among the pairs are kept on the host as (m, m) matrices, so that the two loops run over numbers:
two matrix-vector products give those with the vector, two more the result. A recursion over vectors would start
four small kernels for each pair.
"""

from __future__ import annotations

import numpy as np
import torch

from kernelfields.engines.torch.coordinates import TorchCoordinates


class TorchStepPairs:
    """The last ``limit`` pairs in float64 on a device, in coordinates in which D is the identity."""

    def __init__(self, limit: int, size: int, coordinates: TorchCoordinates):
        self._coordinates = coordinates
        self._steps, self._changes = (
            torch.empty((limit, size), dtype=torch.float64, device=coordinates.device) for _ in range(2)
        )
        #: s_i . y_j, and y_i . y_j.
        self._mixed, self._squared = np.zeros((limit, limit)), np.zeros((limit, limit))
        #: Places of the pairs, oldest first.
        self._order: list[int] = []

    def add(self, step: np.ndarray, change: np.ndarray, product: float) -> None:
        """Keep a step s, the change y of the gradient over it, and s . y > 0."""
        limit, coordinates = len(self._steps), self._coordinates
        place = len(self._order) if len(self._order) < limit else self._order.pop(0)
        self._order.append(place)
        s = coordinates.of_step(coordinates.tensor(step))
        y = coordinates.of_gradient(coordinates.tensor(change))
        self._steps[place], self._changes[place] = s, y
        known = len(self._order)
        rows = [self._steps[:known] @ y, self._changes[:known] @ s, self._changes[:known] @ y]
        mixed, mixed_row, squared = torch.stack(rows).cpu().numpy()
        self._mixed[:known, place], self._mixed[place, :known] = mixed, mixed_row
        self._squared[:known, place] = self._squared[place, :known] = squared
        self._mixed[place, place] = product

    def inverse_product(self, vector: np.ndarray) -> np.ndarray:
        """Return the quasi-Newton inverse Hessian times a vector; there must be a pair."""
        order, known, coordinates = self._order, len(self._order), self._coordinates
        v = coordinates.of_gradient(coordinates.tensor(vector))
        steps, changes = self._steps[:known], self._changes[:known]
        products = torch.stack([steps @ v, changes @ v]).cpu().numpy()[:, order]
        mixed, squared = (each[np.ix_(order, order)] for each in (self._mixed, self._squared))
        curvatures = np.diagonal(mixed)
        first = np.zeros(known)
        for i in reversed(range(known)):
            first[i] = (products[0, i] - mixed[i, i + 1 :] @ first[i + 1 :]) / curvatures[i]
        gamma = curvatures[-1] / squared[-1, -1]
        middle = gamma * (products[1] - squared @ first)
        second = np.zeros(known)
        for i in range(known):
            second[i] = first[i] - (middle[i] + mixed[:i, i] @ second[:i]) / curvatures[i]
        weights = np.zeros((2, known))
        weights[:, order] = first, second
        along_changes, along_steps = coordinates.tensor(weights)
        result = (v - along_changes @ changes) * gamma + along_steps @ steps
        return coordinates.direction(result).cpu().numpy()
