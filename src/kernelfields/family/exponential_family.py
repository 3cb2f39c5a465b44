"""What every exponential family has, whatever its outcomes are (section 2.1 of the paper).

    p(z; theta)       = p0(z) exp(<Phi(z), theta> - g(theta))                       eq. 1
    g(theta)          = log sum_z p0(z) exp <Phi(z), theta>                         eq. 2
    mean(theta)       = dg(theta)   = E Phi(z)                                      eq. 3a
    covariance(theta) = d2g(theta)  = Var Phi(z)                                    eq. 3b
    entropy(theta)    = -E log(p / p0)          = g(theta) - <theta, mean(theta)>
    divergence(a, b)  = KL(p_a || p_b)          = g(b) - g(a) - <b - a, mean(a)>
    conjugate(m)      = max_theta <theta, m> - g(theta) = -entropy at the maximiser, natural_parameters(m)

A family writes ``at(theta)``, which returns a :class:`Member`; the rest follows from it. theta and means are flat
arrays (d,). Natural parameters of minus infinity forbid what they belong to: its mean is 0, and 0 times infinity
counts as 0. Cost: one or two members per call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.family.newton import Estimate, estimate


class Member(ABC):
    """One distribution of a family: its log partition (a number), its mean (d,), its covariance."""

    theta: np.ndarray
    log_partition: float
    mean: np.ndarray

    @abstractmethod
    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """Return the covariance of the statistics times a direction (d,)."""

    @abstractmethod
    def newton_direction(self, gradient: np.ndarray, precision: float) -> np.ndarray | None:
        """Return -(covariance + precision I)^-1 gradient, None where rounding leaves no such direction."""

    @abstractmethod
    def score_change(self, direction: np.ndarray) -> float:
        """Return by how much a step may change the score of an outcome against the others."""

    def covariance(self) -> np.ndarray:
        """Return the covariance of the statistics, (d, d): one product per statistic."""
        return np.array([self.covariance_product(unit) for unit in np.eye(len(self.mean))])

    @property
    def entropy(self) -> float:
        """-E log(p / p0), in nats: g(theta) - <theta, mean>."""
        return self.log_partition - inner(self.theta, self.mean)


class ExponentialFamily(ABC):
    """A family with ``n_statistics`` natural parameters; see the module for the equations."""

    n_statistics: int

    @abstractmethod
    def at(self, theta: ArrayLike) -> Member:
        """Return the member with natural parameters theta (d,)."""

    def log_partition(self, theta: ArrayLike) -> float:
        """Return g(theta) (eq. 2)."""
        return self.at(theta).log_partition

    def mean(self, theta: ArrayLike) -> np.ndarray:
        """Return E Phi(z), the gradient of g (eq. 3a), (d,)."""
        return self.at(theta).mean

    def covariance(self, theta: ArrayLike) -> np.ndarray:
        """Return Var Phi(z), the Hessian of g (eq. 3b), (d, d)."""
        return self.at(theta).covariance()

    def covariance_product(self, theta: ArrayLike, direction: ArrayLike) -> np.ndarray:
        """Return the Hessian of g times a direction (d,), without the matrix."""
        return self.at(theta).covariance_product(self.check(direction, "the direction"))

    def entropy(self, theta: ArrayLike) -> float:
        """Return -E log(p / p0) in nats: the entropy, where the base measure counts outcomes."""
        return self.at(theta).entropy

    def divergence(self, theta: ArrayLike, other: ArrayLike) -> float:
        """Return the Kullback-Leibler divergence of p(.; theta) from p(.; other), in nats.

        It is the Bregman divergence of g with the arguments swapped; infinite where ``other`` forbids an outcome
        that ``theta`` allows.
        """
        here, there = self.at(theta), self.at(other)
        change = inner(there.theta, here.mean) - inner(here.theta, here.mean)
        return max(0.0, there.log_partition - here.log_partition - change)

    def conjugate(self, mean: ArrayLike) -> float:
        """Return the Fenchel conjugate g*(mean), which is minus the largest entropy at this mean."""
        mean = self.check(mean, "the mean")
        theta = self.natural_parameters(mean)
        return inner(theta, mean) - self.log_partition(theta)

    def natural_parameters(self, mean: ArrayLike, *, tol: float = 1e-12, max_iter: int = 200) -> np.ndarray:
        """Return theta with mean(theta) = mean: the distribution of maximum entropy, and of maximum likelihood.

        Where several theta give the same distribution, one of them is returned. Fails with NoEstimate, a
        ValueError, where the mean is no mean of a distribution, or one on the boundary, which no finite theta has.
        """
        return self.estimate(mean, tol=tol, max_iter=max_iter).theta

    def estimate(
        self,
        mean: ArrayLike,
        *,
        precision: float = 0.0,
        start: ArrayLike | None = None,
        tol: float = 1e-12,
        max_iter: int = 200,
    ) -> Estimate:
        """Minimise g(theta) - <theta, mean> + precision / 2 ||theta||^2 by Newton's method (eq. 19).

        ``mean`` (d,) is that of a sample of n, and precision = 1 / (n s) is that of a normal prior of variance s:
        the minimum is the maximum a posteriori. Stops when the value is within ``tol`` of the minimum.
        """
        first = np.zeros(self.n_statistics) if start is None else self.check(start, "the start")
        return estimate(
            self.at, self.check(mean, "the mean"), first, precision=precision, tol=tol, max_iter=max_iter
        )

    def check(self, vector: ArrayLike, name: str, forbidden: bool = False) -> np.ndarray:
        """Return a vector as float64 of shape (d,), finite or, where allowed, minus infinity; else ValueError."""
        checked = np.ascontiguousarray(vector, dtype=np.float64)
        if checked.shape != (self.n_statistics,):
            raise ValueError(f"{name} must have shape ({self.n_statistics},), got {checked.shape}")
        wrong = ~(checked < np.inf) if forbidden else ~np.isfinite(checked)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ValueError(f"{name} must be finite, but entry {place} is {checked[place]}")
        return checked


def inner(theta: np.ndarray, mean: np.ndarray) -> float:
    """Return <theta, mean>, entries of mean 0 left out: what is forbidden never happens."""
    counted = mean != 0.0
    return float(theta[counted] @ mean[counted])
