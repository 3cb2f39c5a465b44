"""A bound for objectives that are not convex, as those of labels that are partly known."""

from __future__ import annotations

import numpy as np

from kernelfields.objective.posterior import Point


class StationaryBound:
    """A bound on the gain with the labels completed at the last point: Lemma 9 for these labels only.

    For objectives that are not convex, of labels that are partly known: no bound holds everywhere, and the gap of the
    convex objective that touches this one at the point measures how stationary it is.
    """

    def __init__(self) -> None:
        self.value = -np.inf

    def add(self, point: Point) -> float:
        """Return the bound at a point."""
        self.value = point.value - sum(point.posterior.gap_parts(point).values())
        return self.value
