"""What bases ask of a panel when they look for pivots and when they have found some.

    d_j = residual of input j,  floor_j,     outside = {j : d_j > floor_j}

A basis speaks of inputs by number and never sees all residuals at once, so that a panel whose rows are spread over
machines can answer the same questions (dask_panel.py). Cost: O(N) each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.basis.block_pivots import independent_rows


class PivotGrowth:
    """What all panels do alike with candidates; a mixin."""

    kernel: Any
    pivots: np.ndarray

    @property
    def rank(self) -> int:
        """Number of columns so far."""
        return len(self.pivots)

    @property
    def capacity(self) -> int:
        """Number of columns there is room for."""
        raise NotImplementedError

    def residuals_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return residual and floor of some inputs."""
        raise NotImplementedError

    def residual_block(self, rows: np.ndarray) -> np.ndarray:
        """Return the residual K - Z Z^T among some of the inputs, in float64."""
        raise NotImplementedError

    def append(self, pivots: np.ndarray, local_factor: np.ndarray) -> None:
        """Add pivots whose residual block has the lower Cholesky factor ``local_factor``."""
        raise NotImplementedError

    def set_aside(self, refused: np.ndarray) -> None:
        """Never propose inputs again that lie in the span up to rounding."""
        raise NotImplementedError

    def extend(self, candidates: np.ndarray) -> int:
        """Add the candidates that are not in the span yet, furthest above their floor first; return how many."""
        candidates = np.asarray(candidates, dtype=np.int64)[: self.capacity - self.rank]
        if len(candidates) == 0:
            return 0
        accepted, local = independent_rows(self.residual_block(candidates), self.residuals_of(candidates)[1])
        self.append(candidates[accepted], local)
        self.set_aside(np.setdiff1d(candidates, self.pivots))
        return len(accepted)

    def check_lowest(self, lowest: float, highest_floor: float) -> None:
        """Raise if a residual variance is so far below zero that the kernel can be no inner product."""
        if lowest < -1e3 * highest_floor * np.sqrt(self.rank):
            raise ValueError(
                f"{self.kernel!r} is not positive semi-definite on the training inputs: after {self.rank} "
                f"pivots a residual variance is {lowest:.3g}, and it should not be negative. "
                "Check the kernel function or matrix."
            )


class PivotProposals(PivotGrowth):
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
