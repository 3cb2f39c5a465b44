"""Integrals over a box against a base measure, with an error: Gauss-Legendre in few dimensions, Sobol beyond.

    integral of p0(x) h(x) dx  =~  sum_j mass_j h(x_j)

gauss-legendre: the tensor product of rules with ``size`` nodes per axis, mass = weight p0. Reference rules have
a third more nodes per axis, and twice as many: the error estimate of the finest is the largest difference from it. For
smooth integrands this is a large overestimate. At a kink errors change sign from rule to rule, and a single difference
may be small by accident; two rarely are.
sobol: ``REPLICATES`` scrambled Sobol sequences of ``size`` points each, carried to p0.
Its error estimate is two standard errors of the mean over independent sequences, other than those of the fit.

Peaks of an integrand may lie between the nodes; their contribution to the integral is estimated:

    h(u) = p0(x) exp f(x) |dx / du|  on the unit cube,      f = sum_i a_i k(., u_i)

A kernel that is narrow beside the gaps between nodes makes an f that is high at its pivots u_i and flat at the nodes,
those of finer rules included: they agree on an integral that is wrong. So h is evaluated at and near
the pivots. A pivot is on a peak if h(u_i) is above the mean of h; along an axis, the peak ends where h falls below half
of its rise above the mean, or at a face of the cube. Nodes may miss a peak that is narrower than ``_GAPS`` gaps along
some axis. (The sums of a rule with gaps of 2/3 of the width are right to 1e-3 for a normal density.)
Its mass is estimated as its rise times twice its width on every axis: 1.9 times the mass of a normal density, 1.4 times
that of a Laplace density, and more because widths are rounded up to halvings of a gap and all pivots of a peak count.

``bound_unseen_mass`` takes ``2 d _DISTANCES`` values of h for every pivot on a peak.

Nodes (M, d), logarithms of masses (M,). M = size^d, or REPLICATES size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import logsumexp, roots_legendre

from kernelfields.families.box import Measure

REPLICATES = 8
#: Dimensions up to which "auto" takes the tensor product.
MOST_TENSOR_AXES = 3
_FIRST = {1: 64, 2: 32, 3: 16}
_LAST = {1: 2048, 2: 128, 3: 32}
_FIRST_SOBOL, _LAST_SOBOL = 512, 4096
_FEW_NODES = 256
# Maximal numbers of nodes on an axis and in total in a valid file.
_MOST_ON_AXIS, _MOST_NODES = 4096, 2**22
# The width, in gaps between nodes, below which peaks may be missed; the number of halved distances that are tried.
_GAPS, _DISTANCES = 1.5, 12


@dataclass(frozen=True)
class Rule:
    """Nodes and their log masses; ``replicates`` is the number of independent parts."""

    nodes: np.ndarray
    log_masses: np.ndarray
    replicates: int = 1

    def log_integral(self, log_values: np.ndarray) -> tuple[float, float]:
        """Return log sum_j mass_j exp(log_values_j), and its standard error over replicates, else 0."""
        total = float(logsumexp(self.log_masses + log_values))
        if self.replicates == 1:
            return total, 0.0
        parts = (self.log_masses + log_values - total).reshape(self.replicates, -1)
        shares = self.replicates * np.exp(logsumexp(parts, axis=1))
        return total, float(shares.std(ddof=1) / np.sqrt(self.replicates))


@dataclass(frozen=True)
class Quadrature:
    """A kind of rule, "gauss-legendre" or "sobol", with its size and random seed."""

    kind: str
    size: int
    seed: int = 0

    def check(self, dimension: int) -> None:
        """Raise ValueError for an invalid rule from a file."""
        sobol = self.kind == "sobol"
        if self.kind not in ("gauss-legendre", "sobol") or self.size < 1 or self.seed < 0:
            raise ValueError(f"the quadrature {self} is none")
        if self.size > (_MOST_NODES if sobol else _MOST_ON_AXIS) or self.n_nodes(dimension) > _MOST_NODES:
            raise ValueError(f"the quadrature {self} has too many nodes")
        if sobol and self.size & (self.size - 1):
            raise ValueError(f"Sobol sequences have a power of two of points, not {self.size}")

    def rule(self, measure: Measure) -> Rule:
        """Return nodes and masses for a base measure on its box."""
        return self._tensor_rule(measure) if self.kind == "gauss-legendre" else self._sobol_rule(measure)

    def n_nodes(self, dimension: int) -> int:
        """Return the total number of nodes."""
        return self.size**dimension if self.kind == "gauss-legendre" else REPLICATES * self.size

    def estimate_gaps(self, measure: Measure, points: np.ndarray) -> np.ndarray:
        """Estimate the distances between nodes near points (n, d), relative to the sides of the box, (n,)."""
        if self.kind == "gauss-legendre":
            return np.full(len(points), 0.5 * np.pi / self.size)  # in the middle of an axis, where they are farthest
        dimension = measure.box.dimension
        log_gaps = -np.log(self.n_nodes(dimension)) - measure.log_density(points) - measure.box.log_volume
        return np.exp(np.minimum(log_gaps, 0.0) / dimension)

    def reference(self) -> Quadrature:
        """Return the next finer rule, the reference for the error of this rule."""
        return self.references()[-1]

    def references(self) -> list[Quadrature]:
        """Return finer reference rules, the finest last."""
        if self.kind == "gauss-legendre":
            return [Quadrature(self.kind, size) for size in (self.size + self.size // 3 + 1, 2 * self.size)]
        return [Quadrature(self.kind, 2 * self.size, self.seed + 1)]

    def finer(self, dimension: int) -> Quadrature | None:
        """Return the next larger rule for a fit; None if it exceeds the limit."""
        last = _LAST.get(dimension, _LAST[3]) if self.kind == "gauss-legendre" else _LAST_SOBOL
        return Quadrature(self.kind, 2 * self.size, self.seed) if 2 * self.size <= last else None

    def _tensor_rule(self, measure: Measure) -> Rule:
        """Return the tensor product of Gauss-Legendre rules."""
        # NumPy takes the eigenvalues of a full matrix, SciPy those of three diagonals.
        places, weights = (leggauss if self.size <= _FEW_NODES else roots_legendre)(self.size)
        places, log_weights = 0.5 * (places + 1), np.log(0.5 * weights)
        axes = [places] * measure.box.dimension
        units = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, measure.box.dimension)
        log_products = np.zeros(1)
        for _ in axes:
            log_products = np.add.outer(log_products, log_weights).ravel()
        nodes = measure.box.from_unit(units)
        return Rule(nodes, log_products + measure.box.log_volume + measure.log_density(nodes))

    def _sobol_rule(self, measure: Measure) -> Rule:
        """Return scrambled Sobol points with equal masses."""
        parts = [sobol_points(measure.box.dimension, self.size, [self.seed, i]) for i in range(REPLICATES)]
        # Inside the cube, not on its faces, where a normal distribution would be at infinity.
        nodes = measure.from_uniform(np.clip(np.concatenate(parts), 2.0**-40, 1 - 2.0**-40))
        return Rule(nodes, np.full(len(nodes), -np.log(len(nodes))), REPLICATES)


def sobol_points(dimension: int, size: int, seed: int | list[int]) -> np.ndarray:
    """Return scrambled Sobol points of the unit cube, (size, dimension)."""
    from scipy.stats import qmc

    return qmc.Sobol(dimension, scramble=True, seed=np.random.default_rng(seed)).random(size)


def initial_quadrature(kind: str, size: int | None, dimension: int, seed: int) -> Quadrature:
    """Return the first rule of a fit, of default size if ``size`` is None."""
    if kind not in ("auto", "gauss-legendre", "sobol"):
        raise ValueError(f"quadrature must be 'auto', 'gauss-legendre' or 'sobol', got {kind!r}")
    if kind == "auto":
        kind = "gauss-legendre" if dimension <= MOST_TENSOR_AXES else "sobol"
    if kind == "gauss-legendre":
        if size is None and dimension > MOST_TENSOR_AXES:
            raise ValueError(
                f"a tensor product in {dimension} dimensions needs n_nodes, the nodes per axis; or use 'sobol'"
            )
        return Quadrature(kind, size or _FIRST[dimension])
    if size is not None and size & (size - 1):
        raise ValueError(f"Sobol sequences need n_nodes to be a power of two, got {size}")
    return Quadrature(kind, size or _FIRST_SOBOL, seed)


def estimate_log_integral(
    quadrature: Quadrature, measure: Measure, log_function: Callable[[np.ndarray], np.ndarray], coarse: float
) -> tuple[float, float]:
    """Estimate the logarithm of an integral by the finest reference rule, with its error.

    ``coarse`` is the value by ``quadrature`` itself. The error is two standard errors for Sobol, else the largest
    difference from the finest rule.
    """
    values, standard_error = [coarse], 0.0
    for reference in quadrature.references():
        rule = reference.rule(measure)
        value, standard_error = rule.log_integral(log_function(rule.nodes))
        values.append(value)
    differences = np.abs(np.array(values[:-1]) - values[-1])
    return values[-1], 2 * standard_error if quadrature.kind == "sobol" else float(differences.max())


def bound_unseen_mass(
    log_function: Callable[[np.ndarray], np.ndarray],
    measure: Measure,
    pivots: np.ndarray,
    gaps: np.ndarray,
    log_integral: float,
) -> float:
    """Estimate the log mass of peaks between nodes; minus infinity without peaks.

    ``log_function`` is f of points of the box. ``estimate_gaps`` (n,) say how far apart nodes are at every pivot, and
    ``log_integral`` is what they make of the integral, which is the mean of h.
    """

    def log_values(units: np.ndarray) -> np.ndarray:
        X = measure.box.from_unit(units)
        return measure.log_density(X) + measure.box.log_volume + log_function(X)

    heights = log_values(pivots)
    high = (heights > log_integral) & np.all((pivots >= 0) & (pivots <= 1), axis=1)
    if not high.any():
        return -np.inf
    pivots, heights, reach = pivots[high], heights[high], _GAPS * gaps[high]
    below = np.exp(log_integral - heights)
    halves = heights + np.log1p(below) - np.log(2.0)
    widths = _peak_widths(log_values, pivots, halves, reach)
    narrow = (widths < reach[:, None]).any(axis=1)
    # The mean itself, and what hardly rises above it, has no mass of its own.
    narrow &= below < 1.0
    masses = heights[narrow] + np.log1p(-below[narrow]) + np.log(2 * widths[narrow]).sum(axis=1)
    return float(logsumexp(masses)) if len(masses) else -np.inf


def _peak_widths(
    log_values: Callable[[np.ndarray], np.ndarray], points: np.ndarray, levels: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Compute the widths of peaks above levels along every axis, (n, d), each side at most ``reach``."""
    count, dimension = points.shape
    distances = reach[:, None] * 0.5 ** np.arange(_DISTANCES)
    widths = np.zeros((count, dimension))
    for axis in range(dimension):
        for side in (-1.0, 1.0):
            places = points[:, axis, None] + side * distances
            inside = (places > 0) & (places < 1)
            moved = np.repeat(points[:, None], _DISTANCES, axis=1)
            moved[:, :, axis] = np.where(inside, places, points[:, axis, None])
            values = log_values(moved.reshape(-1, dimension)).reshape(count, -1)
            fallen = ~(inside & (values >= levels[:, None]))
            widths[:, axis] += np.where(fallen, distances, reach[:, None]).min(axis=1)
    return widths
