"""Pairs of limited-memory BFGS on a device: the recursion of solvers/lbfgs.py in terms of inner products.

All inner products among the pairs are kept on the host as (m, m) matrices, so that the two loops run over numbers:
two matrix-vector products give those with the vector, two more the result. A recursion over vectors would start
four small kernels for each pair.

Coordinates of a metric are those of objective/coordinates.py, for tensors. A triangular system with few right sides
keeps a device waiting for one block after the other, so the inverse of each factor is kept beside it, both in float32,
and every change of coordinates is a product. Directions need no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from kernelfields.engines.torch.rows import is_out_of_memory
from kernelfields.engines.torch.tables import TorchTable
from kernelfields.kernels.tensors import float32_products
from kernelfields.numerics.group import ALONE, Group
from kernelfields.objective.coordinates import DenseSet, sample_rows
from kernelfields.objective.designs.design import LocalDesign

Found = TypeVar("Found")


class TorchCoordinates:
    """Vectors of all coefficients in the coordinates of a metric and back; float64 on ``device``.

    ``tables`` are the features of the ``dense`` sets in this process of a ``group``.
    """

    def __init__(
        self,
        metric: np.ndarray,
        dense: Sequence[DenseSet],
        tables: Sequence[TorchTable],
        device: torch.device,
        group: Group = ALONE,
    ):
        self.device = device
        self._root = self.tensor(metric).sqrt()
        self._factors: list[tuple[DenseSet, torch.Tensor, torch.Tensor]] = []
        for coordinates, table in zip(dense, tables, strict=True):
            factors = _factor(table, coordinates, group)
            if factors is not None:
                self._factors.append((coordinates, *factors))

    def tensor(self, vector: ArrayLike) -> torch.Tensor:
        """Return a vector as float64 on the device."""
        return torch.from_numpy(np.ascontiguousarray(vector, dtype=np.float64)).to(self.device)

    def transform_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return C^-1 gradient."""
        return self._changed(gradient, gradient / self._root, lambda factor, inverse: inverse)

    def transform_step(self, step: torch.Tensor) -> torch.Tensor:
        """Return C^T step."""
        return self._changed(step, step * self._root, lambda factor, inverse: factor.T)

    def direction(self, vector: torch.Tensor) -> torch.Tensor:
        """Return C^-T vector."""
        return self._changed(vector, vector / self._root, lambda factor, inverse: inverse.T)

    def _changed(
        self,
        vector: torch.Tensor,
        out: torch.Tensor,
        matrix: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        with float32_products():
            for dense, factor, inverse in self._factors:
                part = vector[dense.rows].view(dense.shape).to(torch.float32)
                out[dense.rows] = (matrix(factor, inverse) @ part).to(torch.float64).flatten()
        return out


def _factor(table: TorchTable, dense: DenseSet, group: Group) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return C and its inverse; None if memory or rounding prevents it in some process."""
    sampled = sample_rows(*table.shape, group)
    matrix = _try_on_device(lambda: table.gram(sampled))
    if group.largest(matrix is None):
        return None
    assert matrix is not None
    matrix = group.total_on_device(matrix)  # it shapes directions only
    matrix *= dense.curvature
    matrix.diagonal().add_(dense.precision)
    found = _try_on_device(lambda: _invert_factor(matrix))
    return None if group.largest(found is None) else found


def _invert_factor(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the Cholesky factor of a matrix, in its memory, and the inverse of the factor."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed) or not bool(factor[-1, -1].isfinite()):
        return None
    identity = matrix.zero_()
    identity.diagonal().fill_(1.0)
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
    return factor.to(torch.float32), inverse.to(torch.float32)


def _try_on_device(compute: Callable[[], Found]) -> Found | None:
    """Return the result of a function; None if the memory of the device runs out."""
    try:
        return compute()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return None


class TorchStepPairs:
    """The last ``limit`` pairs in float64 on a device, in coordinates with D the identity."""

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
        s = coordinates.transform_step(coordinates.tensor(step))
        y = coordinates.transform_gradient(coordinates.tensor(change))
        self._steps[place], self._changes[place] = s, y
        known = len(self._order)
        rows = [self._steps[:known] @ y, self._changes[:known] @ s, self._changes[:known] @ y]
        mixed, mixed_row, squared = torch.stack(rows).cpu().numpy()
        self._mixed[:known, place], self._mixed[place, :known] = mixed, mixed_row
        self._squared[:known, place] = self._squared[place, :known] = squared
        self._mixed[place, place] = product

    def inverse_product(self, vector: np.ndarray, free: np.ndarray | None = None) -> np.ndarray:
        """Return the quasi-Newton inverse Hessian times a vector; there must be a pair.

        With ``free`` (size,), it is that of these coordinates alone; the others are only scaled.
        """
        order, known, coordinates = self._order, len(self._order), self._coordinates
        v = coordinates.transform_gradient(coordinates.tensor(vector))
        steps, changes = self._steps[:known], self._changes[:known]
        mixed, squared = self._mixed, self._squared
        if free is not None and not free.all():
            inside = coordinates.tensor(free)
            steps, changes = steps * inside, changes * inside
            mixed, squared = ((left @ changes.T).cpu().numpy() for left in (steps, changes))
            lengths = (steps * steps).sum(dim=1).cpu().numpy() * np.diagonal(squared)
            order = [place for place in order if mixed[place, place] > 1e-10 * np.sqrt(lengths[place])]
            if not order:
                return coordinates.direction(v).cpu().numpy()
        products = torch.stack([steps @ v, changes @ v]).cpu().numpy()[:, order]
        mixed, squared = (products_of[np.ix_(order, order)] for products_of in (mixed, squared))
        curvatures = np.diagonal(mixed)
        first = np.zeros(len(order))
        for i in reversed(range(len(order))):
            first[i] = (products[0, i] - mixed[i, i + 1 :] @ first[i + 1 :]) / curvatures[i]
        gamma = curvatures[-1] / squared[-1, -1]
        middle = gamma * (products[1] - squared @ first)
        second = np.zeros(len(order))
        for i in range(len(order)):
            second[i] = first[i] - (middle[i] + mixed[:i, i] @ second[:i]) / curvatures[i]
        weights = np.zeros((2, known))
        weights[:, order] = first, second
        along_changes, along_steps = coordinates.tensor(weights)
        result = (v - along_changes @ changes) * gamma + along_steps @ steps
        return coordinates.direction(result).cpu().numpy()


def room_for_steps(
    designs: Sequence[LocalDesign],
    device: torch.device,
    group: Group,
    limit: int,
    metric: np.ndarray,
    dense: Sequence[DenseSet],
) -> TorchStepPairs:
    """Return a device array for the steps of limited-memory BFGS, in float64."""
    tables: list[Any] = [designs[own.index].table for own in dense]
    return TorchStepPairs(limit, len(metric), TorchCoordinates(metric, dense, tables, device, group))
