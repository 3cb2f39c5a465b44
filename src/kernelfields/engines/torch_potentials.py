"""Potentials as tensors on a device: the vector space of potentials.py, with the same names.

Numbers that leave the device (``dot``, ``largest``, ``finite``) are gathered there and read once for all arrays.
"""

from __future__ import annotations

from typing import Any

import torch

from kernelfields.engines.potentials import Potentials

# BLAS counts the entries of a vector in 32 bits.
_PIECE = 1 << 30


class TorchPotentials(Potentials):
    """Potentials whose arrays are float64 tensors of one device."""

    arrays: tuple[Any, ...]

    def __init__(self, *arrays: Any):
        super().__init__(*arrays)

    @property
    def node(self) -> Any:
        """Scores of single labels, (N, L)."""
        return self.arrays[0]

    @property
    def edge(self) -> Any:
        """Scores of neighbouring labels of chains, (1 or N, L, L)."""
        return self.arrays[1]

    @property
    def factors(self) -> tuple[Any, ...]:
        """Scores of labels that meet."""
        return self.arrays[1:]

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return bool(torch.isfinite(torch.stack([each.sum() for each in self.arrays])).all())

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        filled = [each for each in self.arrays if each.numel()]
        if not filled:
            return 0.0
        return float(torch.stack([torch.linalg.vector_norm(each, ord=torch.inf) for each in filled]).max())

    def moved(self, step: float, direction: Any) -> TorchPotentials:
        """Return self + step * direction."""
        pairs = zip(self.arrays, direction.arrays, strict=True)
        return TorchPotentials(*(torch.add(mine, theirs, alpha=step) for mine, theirs in pairs))

    def add(self, step: float, direction: Any) -> None:
        """Add step * direction in place."""
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            mine.add_(theirs, alpha=step)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place."""
        for each in self.arrays:
            each.mul_(factor)

    def dot(self, other: Any) -> float:
        """Return the inner product, summed in float64."""
        parts = [
            torch.dot(*pieces)
            for mine, theirs in zip(self.arrays, other.arrays, strict=True)
            for pieces in zip(mine.reshape(-1).split(_PIECE), theirs.reshape(-1).split(_PIECE), strict=True)
        ]
        return float(torch.stack(parts).sum())
