"""The penalty of coefficients: a Gaussian prior about a mean, or an elastic net (elastic_net.py).

    Gauss        R(v) = (v - m)^2 / (2 s)             m is zero but where a fit goes on from a posterior
    ElasticNet   R(v) = v^2 / (2 s) + l1 |v|

summed over coefficients; s may be infinite, where there is no prior. With the gradient ``slope`` of a convex C at v,
the Fenchel-Young gap R(v) + R*(-slope) + v slope >= 0 is what C + R could still lose, at most (Lemma 9; for a Gaussian
prior s/2 (slope + (v - m) / s)^2). The conjugate is R*(-d) = s / 2 max(|d| - l1, 0)^2, which is 0 or infinity where s
is infinite. Everything that depends on which penalty there is, objectives, bounds and solvers ask of these objects.

Cost: O(size) each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from kernelfields.numerics.vectors import dot
from kernelfields.objective.blocks import Block
from kernelfields.objective.term import Term


class Penalty(Protocol):
    """A convex, separable function of coefficients; arrays have an entry for each coefficient."""

    #: 1 / s, zero where there is no Gaussian prior.
    precision: np.ndarray
    #: The slope that the likelihood needs to move a coefficient from zero.
    threshold: np.ndarray

    @property
    def smooth(self) -> bool:
        """Whether the penalty has a gradient everywhere."""
        ...

    @property
    def quadratic(self) -> bool:
        """Whether the penalty is a Gaussian prior in every coordinate."""
        ...

    @property
    def deviation(self) -> np.ndarray:
        """The standard deviation of the prior in every coordinate, infinite without a prior."""
        ...

    def value(self, theta: np.ndarray) -> float:
        """Return R."""
        ...

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of the quadratic part of R."""
        ...

    def line_coefficients(self, theta: np.ndarray, direction: np.ndarray) -> tuple[float, float, float]:
        """Return the coefficients of 1, of a step and of its square in R(theta + step direction)."""
        ...

    def steepest(self, theta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the subgradient of smallest norm for this gradient of the smooth part."""
        ...


class Gauss:
    """Squared distances from a mean, zero for None."""

    smooth = True

    def __init__(self, precision: np.ndarray, mean: np.ndarray | None = None):
        self.precision = precision
        self.mean = mean
        self.threshold = np.broadcast_to(0.0, precision.shape)

    @cached_property
    def quadratic(self) -> bool:
        """Whether there is a prior in every coordinate."""
        return bool(self.precision.all())

    @cached_property
    def deviation(self) -> np.ndarray:
        """The standard deviation of the prior in every coordinate, infinite without a prior."""
        with np.errstate(divide="ignore"):
            return 1.0 / np.sqrt(self.precision)

    def _centred(self, theta: np.ndarray) -> np.ndarray:
        return theta if self.mean is None else theta - self.mean

    def value(self, theta: np.ndarray) -> float:
        """Return ||theta - m||^2 / (2 s), summed."""
        own = self._centred(theta)
        return 0.5 * dot(own, self.precision * own)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return (theta - m) / s."""
        return self.precision * self._centred(theta)

    def line_coefficients(self, theta: np.ndarray, direction: np.ndarray) -> tuple[float, float, float]:
        """Return the coefficients of 1, of a step and of its square in R(theta + step direction)."""
        own, scaled = self._centred(theta), self.precision * direction
        return self.value(theta), dot(own, scaled), 0.5 * dot(direction, scaled)

    def steepest(self, theta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient."""
        return gradient


def choose_penalty(blocks: Sequence[Block]) -> Penalty:
    """Return the penalty of the coefficients of clique sets, block by block."""
    terms = [block.design.term for block in blocks]
    squares = Gauss(_by_block(blocks, [1.0 / term.prior_variance for term in terms]))
    if not any(term.l1 for term in terms):
        return squares
    from kernelfields.objective.elastic_net import ElasticNet

    return ElasticNet(squares, _by_block(blocks, [term.l1 for term in terms]))


def _by_block(blocks: Sequence[Block], values: Sequence[float]) -> np.ndarray:
    """Return the block number of each coefficient, (size,); equal blocks share one number."""
    if len(set(values)) == 1:
        return np.broadcast_to(values[0], blocks[-1].rows.stop)
    return np.repeat(values, [block.rows.stop - block.rows.start for block in blocks])


def is_quadratic(term: Term) -> bool:
    """Whether the coefficients of a term have a Gaussian prior only."""
    return not term.l1 and bool(np.isfinite(term.prior_variance))


def term_penalty(term: Term, coefficients: np.ndarray) -> float:
    """Return R of the coefficients of one term."""
    squares = float(np.vdot(coefficients, coefficients)) / (2.0 * term.prior_variance)
    return squares + (term.l1 * float(np.abs(coefficients[coefficients != 0.0]).sum()) if term.l1 else 0.0)


def term_gap(term: Term, coefficients: np.ndarray, slope: np.ndarray) -> float:
    """Return the Fenchel-Young gaps of one term, for the gradient ``slope`` of the likelihood; infinity if unbounded.

    They are computed as squares where they are squares: value plus conjugate would cancel.
    """
    prior_variance, l1 = term.prior_variance, term.l1
    if is_quadratic(term):
        gradient = slope + coefficients / prior_variance
        return 0.5 * prior_variance * float(np.vdot(gradient, gradient))
    excess = np.abs(slope)
    excess -= l1
    np.maximum(excess, 0.0, out=excess)
    if np.isfinite(prior_variance):
        conjugate = 0.5 * prior_variance * float(np.vdot(excess, excess))
    else:
        conjugate = np.inf if np.any(excess > 0) else 0.0
    return max(0.0, term_penalty(term, coefficients) + float(np.vdot(coefficients, slope)) + conjugate)
