"""Exact samples from a density p(x) proportional to p0(x) exp f(x) on a box, by rejection.

The unit cube is cut into cells of equal p0; in the cell with centre c the RKHS gives a bound,

    f(x) <= f(c) + ||f|| d(x, c),      d(x, c)^2 = k(x, x) - 2 k(x, c) + k(c, c),

and d is largest at a corner for kernels that fall with the distance on every axis (RBF, Laplacian, Matern) and
for the linear one. A cell is drawn in proportion to exp(bound), a point in it from p0, and kept with probability
exp(f(x) - bound): the points kept are independent draws from p. Beyond three dimensions there is one cell, whose
bound is the largest value at many points and a margin; so it is for the values of a base measure of the user's.
Whatever the bound rests on, every proposal checks it: one that exceeds it raises it, and drawing starts anew.

Cells: 512, 48^2, 16^3, then 1. Cost: a kernel block of a few corners per cell, then the kernel rows of the
proposals. Fails: RuntimeError when fewer than about one in a million proposals is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.estimators.density_box import FunctionMeasure, Measure

_CELLS = {1: 512, 2: 48, 3: 16}
_MARGIN = 0.1
_BATCH = 20_000
_MOST_PROPOSALS = 20_000_000
_ROUNDING = 1e-9


@dataclass
class Target:
    """What is drawn from: base measure, subspace of f, its coefficients (r,), and points where f may be high."""

    measure: Measure
    subspace: Any
    coefficients: np.ndarray
    peaks: np.ndarray

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        """Return log p(x) minus the log density of the proposals, up to a constant, (n,)."""
        scores = self.subspace.apply(self.measure.box.to_unit(X), self.coefficients[:, None])[:, 0]
        if isinstance(self.measure, FunctionMeasure):
            scores = scores + self.measure.log_density(X)
        return scores


def draw(target: Target, n_samples: int, random: np.random.Generator) -> np.ndarray:
    """Return n_samples independent points, (n_samples, d)."""
    dimension = target.measure.box.dimension
    per_axis = _CELLS.get(dimension, 1)
    bounds = _cell_bounds(target, per_axis)
    while True:
        kept, raised = _draw_below(target, bounds, per_axis, n_samples, random)
        if not raised:
            return np.concatenate(kept)[:n_samples] if kept else np.empty((0, dimension))


def _draw_below(
    target: Target, bounds: np.ndarray, per_axis: int, n_samples: int, random: np.random.Generator
) -> tuple[list[np.ndarray], bool]:
    """Draw until there are enough points, or until a bound proves wrong and is raised."""
    dimension = target.measure.box.dimension
    weights = np.exp(bounds - bounds.max())
    weights /= weights.sum()
    kept: list[np.ndarray] = []
    count, proposals = 0, 0
    while count < n_samples:
        if proposals > _MOST_PROPOSALS and count < proposals * 1e-6:
            raise RuntimeError(
                f"only {count} of {proposals} proposals were kept: the density is too peaked for rejection; draw "
                "fewer samples or fit with a smaller prior_variance"
            )
        missing = n_samples - count
        size = int(np.clip(1.2 * missing * (proposals + 1) / (count + 1), 256, _BATCH))
        cells = random.choice(len(bounds), size=size, p=weights)
        corners = np.stack(np.unravel_index(cells, (per_axis,) * dimension), axis=1)
        points = target.measure.from_uniform((corners + random.random((size, dimension))) / per_axis)
        ratio = target.log_ratio(points) - bounds[cells]
        above = ratio > _ROUNDING
        if above.any():
            np.maximum.at(bounds, cells[above], bounds[cells[above]] + ratio[above] + _MARGIN)
            return [], True
        accepted = points[np.log(random.random(size)) < ratio]
        kept.append(accepted)
        count += len(accepted)
        proposals += size
    return kept, False


def _cell_bounds(target: Target, per_axis: int) -> np.ndarray:
    """Return a bound on the log ratio in every cell, (per_axis ** d,)."""
    measure = target.measure
    dimension = measure.box.dimension
    if per_axis == 1:
        highest = float(target.log_ratio(target.peaks).max())
        return np.array([highest + _MARGIN])
    cells = np.indices((per_axis,) * dimension).reshape(dimension, -1).T
    offsets = np.indices((2,) * dimension).reshape(dimension, -1).T
    centres = measure.from_uniform((cells + 0.5) / per_axis)
    corners = measure.from_uniform(((cells[:, None] + offsets) / per_axis).reshape(-1, dimension))
    unit_centres = measure.box.to_unit(centres)
    unit_corners = measure.box.to_unit(corners).reshape(len(cells), len(offsets), dimension)
    kernel = target.subspace.kernel
    diagonal = np.asarray(kernel.diag(unit_centres), dtype=np.float64)
    corner_diagonal = kernel.diag(unit_corners.reshape(-1, dimension)).reshape(len(cells), -1)
    cross = np.array(
        [kernel(unit_centres[i : i + 1], unit_corners[i])[0] for i in range(len(cells))], dtype=np.float64
    )
    squared = np.maximum(corner_diagonal - 2 * cross + diagonal[:, None], 0.0).max(axis=1)
    scores = target.subspace.apply(unit_centres, target.coefficients[:, None])[:, 0]
    bounds = scores + float(np.linalg.norm(target.coefficients)) * np.sqrt(squared)
    if isinstance(measure, FunctionMeasure):
        inside = np.vstack([corners, centres])
        values = measure.log_density(inside)
        at_corners = values[: len(corners)].reshape(len(cells), -1).max(axis=1)
        highest = np.maximum(at_corners, values[len(corners) :])
        # A cell where the measure is zero at corners and centre may hold mass in between: keep it possible.
        least = float(highest.max()) - 50.0
        bounds = bounds + np.maximum(highest, least) + _MARGIN
    return bounds
