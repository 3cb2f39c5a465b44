"""What block-Jacobi drops: the exact Hessian H and the curvature B of eq. 30, compared at one and the same point.

B keeps covariances within cliques, one block per clique set. H - B has two parts: covariances of different cliques
of one set (*within*, the long-range part) and those of cliques of different sets (*across*). Sizes are Frobenius
norms in the metric of the prior, relative to that of the likelihood's part of H. The eigenvalues of B^-1 H say
what it costs: with all of them one, a step is Newton's; steps along -B^-1 g shrink the error, at worst, by
(k - 1) / (k + 1) where k is the ratio of the largest to the smallest. H takes a Hessian product per coefficient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from kernelfields.objective.posterior import Direction, Point
from kernelfields.solvers.loop import search
from kernelfields.solvers.newton import NewtonCG, full_hessian

_RANDOM_VECTORS = 20


class Surveyor(NewtonCG):
    """Newton-CG that compares curvatures at its first point and whenever the gap has fallen to one of ``gaps``.

    ``longest`` is the length of the longest chain. Without gaps it only remembers its last point.
    """

    def __init__(self, gaps: tuple[float, ...] = (), longest: int = 1):
        super().__init__()
        self.longest = longest
        self._left = [np.inf, *sorted(gaps, reverse=True)] if gaps else []
        self.rows: list[tuple[float, dict]] = []
        self.last: Point | None = None

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return the direction of Newton-CG, after a look around."""
        reached = [gap for gap in self._left if relative_gap <= gap]
        if reached:
            self._left = [gap for gap in self._left if relative_gap > gap]
            row = {"relative_gap": relative_gap, "value": point.value, **compare_curvatures(point, self.longest)}
            # The first point has no gap of its own in the results: infinity is not a number of JSON.
            self.rows.append((min(reached) if np.isfinite(min(reached)) else 1e9, row))
        return super().direction(point, relative_gap)

    def advance(self, point: Point, direction: Direction) -> tuple[Point | None, float]:
        """Make one step, and remember where it ended."""
        following, step = super().advance(point, direction)
        self.last = self.last if following is None else following
        return following, step


def compare_curvatures(point: Point, longest: int) -> dict[str, Any]:
    """Return how H and B differ at a point, what that does to a step, and the bound 2 T - 1 on the eigenvalues."""
    posterior, gradient = point.posterior, point.gradient
    exact = full_hessian(point)
    kept, blocks = np.zeros_like(exact), np.zeros_like(exact)
    for index, block in enumerate(posterior.blocks):
        kept[block.rows, block.rows] = posterior.curvature_block(point, index)
        blocks[block.rows, block.rows] = exact[block.rows, block.rows]
    scale = 1.0 / np.sqrt(posterior.prior_precision)

    def size(matrix: np.ndarray) -> float:
        return float(np.linalg.norm(scale[:, None] * matrix * scale))

    likelihood = size(exact - np.diag(posterior.prior_precision))
    random = scale * np.random.default_rng(0).normal(size=(_RANDOM_VECTORS, posterior.size))
    values = scipy.linalg.eigh(exact, kept, eigvals_only=True)
    by_set = scipy.linalg.eigh(exact, blocks, eigvals_only=True)
    long_range = scipy.linalg.eigh(blocks, kept, eigvals_only=True)
    newton = -scipy.linalg.solve(exact, gradient, assume_a="pos")
    jacobi = -scipy.linalg.solve(kept, gradient, assume_a="pos")
    return {
        "dropped": size(exact - kept) / likelihood,
        "within": size(blocks - kept) / likelihood,
        "across": size(exact - blocks) / likelihood,
        "gradient_product": _product_error(exact, kept, gradient[None] * scale**2),
        "random_product": _product_error(exact, kept, random),
        "smallest": float(values[0]),
        "largest": float(values[-1]),
        "largest_possible": 2 * longest - 1,
        # B with exact blocks against H: what covariances across sets cost alone.
        "by_set_smallest": float(by_set[0]),
        "by_set_largest": float(by_set[-1]),
        # B against exact blocks: what long-range covariances within a set cost alone.
        "long_range_smallest": float(long_range[0]),
        "long_range_largest": float(long_range[-1]),
        # Of what the best step along each direction wins in the quadratic model; Newton's is all there is to win.
        "share": float((gradient @ jacobi) ** 2 / (jacobi @ exact @ jacobi) / -(gradient @ newton)),
        "best_step": float(-(gradient @ jacobi) / (jacobi @ exact @ jacobi)),
        "after_newton": _value_after(point, newton),
        "after_jacobi": _value_after(point, jacobi),
    }


def _product_error(exact: np.ndarray, kept: np.ndarray, vectors: np.ndarray) -> float:
    """Return the mean of ||(H - B) v|| / ||H v||."""
    true = vectors @ exact
    return float(np.mean(np.linalg.norm(true - vectors @ kept, axis=1) / np.linalg.norm(true, axis=1)))


def _value_after(point: Point, direction: np.ndarray) -> float:
    """Return the objective after a line search along a direction."""
    line = point.posterior.make_line(point, Direction(direction))
    step = search(line, point.value, min(1.0, line.reach))
    return point.value if step is None else line.point(step).value


def remaining(row: dict, after: str) -> float:
    """Return which share of the distance from a point to the minimum is left after a step from it."""
    return (row[after] - row["minimum"]) / (row["value"] - row["minimum"])
