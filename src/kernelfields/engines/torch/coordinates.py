"""Coordinates of a metric on a device: those of objective/coordinates.py, for tensors.

A triangular system with few right sides keeps a device waiting for one block after the other, so the inverse of each
factor is kept beside it, both in float32, and every change of coordinates is a product. Directions need no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kernelfields.engines.torch.rows import is_out_of_memory
from kernelfields.engines.torch.tables import TorchTable
from kernelfields.kernels.tensors import float32_products
from kernelfields.objective.coordinates import DenseSet, stride_of


class TorchCoordinates:
    """Vectors of all coefficients in the coordinates of a metric and back; float64 on ``device``.

    ``tables`` are the features of the ``dense`` sets.
    """

    def __init__(self, metric: np.ndarray, dense: Sequence[DenseSet], tables: Sequence[TorchTable], device: Any):
        self.device = device
        self._root = self.tensor(metric).sqrt()
        self._factors: list[tuple[DenseSet, torch.Tensor, torch.Tensor]] = []
        for each, table in zip(dense, tables, strict=True):
            factors = _factor(table, each)
            if factors is not None:
                self._factors.append((each, *factors))

    def tensor(self, vector: Any) -> torch.Tensor:
        """Return a vector as float64 on the device."""
        return torch.from_numpy(np.ascontiguousarray(vector, dtype=np.float64)).to(self.device)

    def of_gradient(self, gradient: torch.Tensor) -> torch.Tensor:
        """Return C^-1 gradient."""
        return self._changed(gradient, gradient / self._root, lambda factor, inverse: inverse)

    def of_step(self, step: torch.Tensor) -> torch.Tensor:
        """Return C^T step."""
        return self._changed(step, step * self._root, lambda factor, inverse: factor.T)

    def direction(self, vector: torch.Tensor) -> torch.Tensor:
        """Return C^-T vector."""
        return self._changed(vector, vector / self._root, lambda factor, inverse: inverse.T)

    def _changed(self, vector: torch.Tensor, out: torch.Tensor, matrix: Any) -> torch.Tensor:
        with float32_products():
            for each, factor, inverse in self._factors:
                part = vector[each.rows].view(each.shape).to(torch.float32)
                out[each.rows] = (matrix(factor, inverse) @ part).to(torch.float64).flatten()
        return out


def _factor(table: TorchTable, each: DenseSet) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return C and its inverse; None where there is no room for them, or rounding leaves none."""
    try:
        matrix = table.gram(stride_of(*table.shape))
        matrix *= each.curvature
        matrix.diagonal().add_(each.precision)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if bool(failed) or not bool(factor[-1, -1].isfinite()):
            return None
        # The matrix is not needed any more: its room takes the inverse.
        identity = matrix.zero_()
        identity.diagonal().fill_(1.0)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        return factor.to(torch.float32), inverse.to(torch.float32)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return None  # the diagonal will do
