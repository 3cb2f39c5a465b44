"""Potentials of a field as one vector: arrays of scores for single labels and for labels that meet.

chains    node (N, L), edge (1 or N, L, L)
graphs    node (N, L), then one array (1 or M_f, L, .., L) for each group of factors
"""

from __future__ import annotations

import numpy as np

from kernelfields.engines.vectors import add_scaled, dot


class Potentials:
    """Scores of labels and of labels that meet, or a direction or gradient in them."""

    def __init__(self, *arrays: np.ndarray):
        self.arrays = arrays

    @property
    def node(self) -> np.ndarray:
        """Scores of single labels, (N, L)."""
        return self.arrays[0]

    @property
    def edge(self) -> np.ndarray:
        """Scores of neighbouring labels of chains, (1 or N, L, L)."""
        return self.arrays[1]

    @property
    def factors(self) -> tuple[np.ndarray, ...]:
        """Scores of labels that meet, one array for each group of factors."""
        return self.arrays[1:]

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return all(np.isfinite(each.sum()) for each in self.arrays)

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        return max(float(np.abs(each).max(initial=0.0)) for each in self.arrays)

    def moved(self, step: float, direction: Potentials) -> Potentials:
        """Return self + step * direction."""
        moved = Potentials(*(step * each for each in direction.arrays))
        for new, old in zip(moved.arrays, self.arrays, strict=True):
            new += old
        return moved

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place."""
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            add_scaled(mine, step, theirs)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place."""
        for each in self.arrays:
            each *= factor

    def dot(self, other: Potentials) -> float:
        """Return the inner product."""
        return sum(dot(mine, theirs) for mine, theirs in zip(self.arrays, other.arrays, strict=True))
