"""Subspace descent (Corollary 10): one clique set at a time, the one with the largest bound next.

At a point, moving in set c alone can improve the objective by at most (s_c / 2) ||grad_c||^2; sets whose bound
is small are left alone until it grows. Within a set the step is a truncated Newton step on the exact Hessian
of that set, so a step in a set without features (plain transitions) costs no pass at all.
"""

from __future__ import annotations

from kernelfields.posterior import Direction, LogPosterior, Point
from kernelfields.solvers.newton_cg import conjugate_gradients


class SubspaceDescent:
    """Newton-CG restricted to the clique set that promises most."""

    name = "subspace"

    def __init__(self, tolerance: float = 0.1, max_steps: int = 100):
        self.tolerance = tolerance
        self.max_steps = max_steps

    def prepare(self, posterior: LogPosterior) -> None:
        """Nothing to prepare: memory is a few vectors."""

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return a Newton direction within the most promising clique set."""
        bounds = list(point.posterior.gap_parts(point).values())
        best = max(range(len(bounds)), key=bounds.__getitem__)
        return conjugate_gradients(point.posterior, point, self.tolerance, self.max_steps, only=(best,))

    def learn(self, before: Point, after: Point) -> None:
        """Nothing is carried from step to step."""
