"""Potentials of packed chains as one vector: node (N, L) and edge (1 or N, L, L)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Potentials:
    """Scores of labels and label pairs, or a direction or gradient in them."""

    node: np.ndarray
    edge: np.ndarray

    def moved(self, step: float, direction: Potentials) -> Potentials:
        """Return self + step * direction."""
        return Potentials(self.node + step * direction.node, self.edge + step * direction.edge)

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place."""
        self.node += step * direction.node
        self.edge += step * direction.edge

    def dot(self, other: Potentials) -> float:
        """Return the inner product."""
        return float(np.vdot(self.node, other.node) + np.vdot(self.edge, other.edge))
