"""Potentials of packed chains as one vector: node (N, L) and edge (1 or N, L, L)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelfields.engines.vectors import add_scaled, dot


@dataclass
class Potentials:
    """Scores of labels and label pairs, or a direction or gradient in them."""

    node: np.ndarray
    edge: np.ndarray

    def moved(self, step: float, direction: Potentials) -> Potentials:
        """Return self + step * direction."""
        moved = Potentials(step * direction.node, step * direction.edge)
        moved.node += self.node
        moved.edge += self.edge
        return moved

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place."""
        add_scaled(self.node, step, direction.node)
        add_scaled(self.edge, step, direction.edge)

    def dot(self, other: Potentials) -> float:
        """Return the inner product."""
        return dot(self.node, other.node) + dot(self.edge, other.edge)
