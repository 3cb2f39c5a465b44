"""What bases ask of a panel when they look for pivots, answered from arrays on the host.

    d_j = residual of input j,  floor_j,     outside = {j : d_j > floor_j}

A basis speaks of inputs by number and never sees all residuals at once, so that a panel whose rows are spread over
machines can answer the same questions (dask_panel.py). Cost: O(N) each.
"""

from __future__ import annotations

import numpy as np


class PivotProposals:
    """Mixin of panels that hold ``residual`` and ``floor`` as arrays (N,)."""

    residual: np.ndarray
    floor: np.ndarray

    @property
    def exhausted(self) -> bool:
        """Whether no input is left whose residual is above its floor."""
        return not np.any(self.residual > self.floor)

    @property
    def outside(self) -> np.ndarray:
        """The inputs whose residual is above their floor: those that can become pivots."""
        return np.flatnonzero(self.residual > self.floor)

    @property
    def n_outside(self) -> int:
        """How many inputs can become pivots."""
        return int(np.count_nonzero(self.residual > self.floor))

    def outside_at(self, places: np.ndarray) -> np.ndarray:
        """Return the inputs at some places, 0 .. n_outside - 1, in the list of those outside."""
        return self.outside[places]

    def largest_outside(self) -> np.ndarray:
        """Return the input with the largest residual, (1,)."""
        outside = self.outside
        return outside[[np.argmax(self.residual[outside])]]

    def drawn_outside(self, uniforms: np.ndarray) -> np.ndarray:
        """Return inputs drawn in proportion to their residual, one for each number in [0, 1)."""
        outside = self.outside
        cumulative = np.cumsum(self.residual[outside])
        return outside[np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")]

    def residuals_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return residual and floor of some inputs."""
        return self.residual[rows], self.floor[rows]
