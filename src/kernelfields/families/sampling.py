"""Exact samples from a density p(x) proportional to p0(x) exp f(x) on a box, by rejection.

The box is cut into cells; in the cell with centre c the RKHS gives a bound,

    f(x) <= f(c) + ||f|| d(x, c),      d(x, c)^2 = k(x, x) - 2 k(x, c) + k(c, c),

and d is largest at a corner for kernels that fall with the distance on every axis (RBF, Laplacian, Matern) and
for the linear one. A cell is drawn in proportion to its p0 times exp(bound), a point in it from p0, and kept with
probability exp(f(x) - bound): the points kept are independent draws from p. Cells that matter are halved along
their longest side until about one proposal in ``_WASTE`` is kept, or there are ``_MOST_CELLS`` of them.

Beyond three dimensions there is one cell, whose bound is the largest value at many points and a margin, and the
values of a base measure of the user's are bounded by those at corners and centres. Whatever a bound rests on,
every proposal checks it: one that exceeds it raises it, and drawing starts anew.

Cells are kept in the coordinates u in [0, 1]^d in which p0 is uniform: low, high (C, d), bounds (C,).
Fails: RuntimeError when fewer than about one in a million proposals is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from kernelfields.basis.subspace import Subspace
from kernelfields.families.box import FunctionMeasure, Measure
from kernelfields.families.quadrature import MOST_TENSOR_AXES
from kernelfields.kernels.kernel import Kernel

_WASTE = 4.0
_MOST_CELLS = 20_000
# Of a block between centres and corners few entries are needed, but the larger it is, the fewer calls of the kernel.
_BLOCK_ENTRIES = 2**15
_MARGIN = 0.1
_BATCH = 20_000
_MOST_PROPOSALS = 20_000_000
_ROUNDING = 1e-9


@dataclass
class Target:
    """What is drawn from: base measure, subspace and coefficients (r,) of f, g(f), points where f may be high."""

    measure: Measure
    subspace: Subspace
    coefficients: np.ndarray
    log_partition: float
    peaks: np.ndarray

    def scores(self, points: np.ndarray) -> np.ndarray:
        """Return f at points of the unit cube, (n,)."""
        return self.subspace.apply(points, self.coefficients[:, None])[:, 0]

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        """Return log p(x) minus the log density of the proposals, up to a constant, (n,)."""
        scores = self.scores(self.measure.box.to_unit(X))
        return scores + self.measure.log_density(X) if isinstance(self.measure, FunctionMeasure) else scores


@dataclass
class Envelope:
    """Cells and bounds on the log ratio in them."""

    low: np.ndarray
    high: np.ndarray
    bounds: np.ndarray

    @property
    def log_masses(self) -> np.ndarray:
        """Logarithms of what proposals put into each cell, up to a constant, (C,)."""
        return np.log(self.high - self.low).sum(axis=1) + self.bounds


def draw(target: Target, n_samples: int, random: np.random.Generator) -> np.ndarray:
    """Return n_samples independent points, (n_samples, d)."""
    envelope = _build_envelope(target)
    while True:
        kept = _draw_below(target, envelope, n_samples, random)
        if kept is not None:
            return kept


def _draw_below(target: Target, envelope: Envelope, n_samples: int, random: np.random.Generator) -> np.ndarray | None:
    """Draw until there are enough points; None where a bound proved wrong, which raises it."""
    weights = np.exp(envelope.log_masses - logsumexp(envelope.log_masses))
    weights /= weights.sum()
    kept: list[np.ndarray] = []
    count, proposals = 0, 0
    while count < n_samples:
        if proposals > _MOST_PROPOSALS and count < proposals * 1e-6:
            raise RuntimeError(
                f"only {count} of {proposals} proposals were kept: the density is too peaked for rejection; draw "
                "fewer samples or fit with a smaller prior_variance"
            )
        expected = 1.2 * (n_samples - count) * (proposals + 1) / (count + 1)
        size = int(np.clip(expected, 256, _BATCH))
        cells = random.choice(len(weights), size=size, p=weights)
        low, high = envelope.low[cells], envelope.high[cells]
        points = target.measure.from_uniform(low + random.random(low.shape) * (high - low))
        ratio = target.log_ratio(points) - envelope.bounds[cells]
        above = ratio > _ROUNDING
        if above.any():
            np.maximum.at(envelope.bounds, cells[above], envelope.bounds[cells[above]] + ratio[above] + _MARGIN)
            return None
        accepted = points[np.log1p(-random.random(size)) < ratio]
        kept.append(accepted)
        count += len(accepted)
        proposals += size
    return np.concatenate(kept)[:n_samples]


def _build_envelope(target: Target) -> Envelope:
    """Cut the box until proposals are worth their while."""
    dimension = target.measure.box.dimension
    low, high = np.zeros((1, dimension)), np.ones((1, dimension))
    if dimension > MOST_TENSOR_AXES:
        return Envelope(low, high, np.array([float(target.log_ratio(target.peaks).max()) + _MARGIN]))
    enough = target.log_partition + np.log(_WASTE)
    if isinstance(target.measure, FunctionMeasure):
        enough -= target.measure.box.log_volume
    envelope = Envelope(low, high, _cell_bounds(target, low, high))
    while len(envelope.bounds) < _MOST_CELLS:
        total = logsumexp(envelope.log_masses)
        if total <= enough:
            break
        matter = envelope.log_masses >= total - np.log(2.0 * len(envelope.bounds))
        envelope = _halved(target, envelope, matter)
    return envelope


def _halved(target: Target, envelope: Envelope, matter: np.ndarray) -> Envelope:
    """Return the envelope with the cells that matter cut in two along their longest sides."""
    measure, rows = target.measure, np.flatnonzero(matter)
    low, high = envelope.low[rows], envelope.high[rows]
    sides = measure.box.to_unit(measure.from_uniform(high)) - measure.box.to_unit(measure.from_uniform(low))
    axis = np.argmax(sides, axis=1)
    cells = np.arange(len(rows))
    left_high, right_low = high.copy(), low.copy()
    left_high[cells, axis] = right_low[cells, axis] = 0.5 * (low[cells, axis] + high[cells, axis])
    new_low, new_high = np.vstack([low, right_low]), np.vstack([left_high, high])
    # A part is never higher than the whole, whatever its own bound says.
    bounds = np.minimum(_cell_bounds(target, new_low, new_high), np.tile(envelope.bounds[rows], 2))
    return Envelope(
        np.vstack([envelope.low[~matter], new_low]),
        np.vstack([envelope.high[~matter], new_high]),
        np.concatenate([envelope.bounds[~matter], bounds]),
    )


def _cell_bounds(target: Target, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return a bound on the log ratio in every cell, (C,)."""
    measure = target.measure
    count, dimension = low.shape
    offsets = np.indices((2,) * dimension).reshape(dimension, -1).T
    centres = measure.from_uniform(0.5 * (low + high))
    corners = measure.from_uniform((low[:, None] + offsets * (high - low)[:, None]).reshape(-1, dimension))
    unit_centres = measure.box.to_unit(centres)
    unit_corners = measure.box.to_unit(corners).reshape(count, len(offsets), dimension)
    distances = _largest_distances(target.subspace.kernel, unit_centres, unit_corners)
    bounds = target.scores(unit_centres) + float(np.linalg.norm(target.coefficients)) * distances
    if isinstance(measure, FunctionMeasure):
        values = measure.log_density(np.vstack([corners, centres]))
        at_corners = values[: len(corners)].reshape(count, -1).max(axis=1)
        highest = np.maximum(at_corners, values[len(corners) :])
        # A cell where the measure is zero at corners and centre may hold mass in between: keep it possible.
        bounds = bounds + np.maximum(highest, float(highest.max()) - 50.0) + _MARGIN
    return bounds


def _largest_distances(kernel: Kernel, centres: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return max_j d(corner_ij, centre_i) for centres (C, d) and their corners (C, 2^d, d), (C,)."""
    count, n_corners, dimension = corners.shape
    diagonal = np.asarray(kernel.diag(centres), dtype=np.float64)[:, None]
    at_corners = np.asarray(kernel.diag(corners.reshape(-1, dimension)), dtype=np.float64).reshape(count, -1)
    cross = np.empty((count, n_corners))
    paired = math.isqrt(_BLOCK_ENTRIES // n_corners)
    for begin in range(0, count, paired):
        rows = slice(begin, min(begin + paired, count))
        block = kernel(centres[rows], corners[rows].reshape(-1, dimension))
        own = np.arange(len(block))
        # Of the block between these centres and all their corners, each centre needs its own corners.
        cross[rows] = block.reshape(len(block), len(block), n_corners)[own, own]
    return np.sqrt(np.maximum(at_corners - 2 * cross + diagonal, 0.0)).max(axis=1)
