"""Exponential families on finitely many outcomes, with exact sums instead of integrals.

    statistics (K, d)     Phi(z), one row per outcome
    base_measure (K,)     p0(z) >= 0, masses that need not sum to one; ones if left out

Cost: O(K d) for the log partition and the mean, O(K d^2) for the covariance, in blocks of rows.
Raises ValueError with the outcome of an invalid statistic or mass.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from kernelfields.families.exponential_family import Estimate, ExponentialFamily, Member, NoEstimate, minimise

_BLOCK_ROWS = 4096
# Directions in which the statistics vary less than this, relative to the largest, are taken as constant.
_CONSTANT = 1e-10


class FiniteMember(Member):
    """A distribution over finitely many outcomes, with ``probabilities`` (K,)."""

    def __init__(self, statistics: np.ndarray, log_base: np.ndarray, theta: np.ndarray):
        self.theta = theta
        self._statistics = statistics
        scores = statistics @ theta + log_base
        highest = float(scores.max())
        masses = np.exp(scores - highest)
        total = float(masses.sum())
        self.log_partition = highest + float(np.log(total))
        self.log_probabilities = scores - self.log_partition
        self.probabilities = masses / total
        self.mean = self.probabilities @ statistics

    def covariance(self) -> np.ndarray:
        """Return Var Phi, (d, d), symmetric."""
        size = len(self.mean)
        total = np.zeros((size, size))
        for begin in range(0, len(self.probabilities), _BLOCK_ROWS):
            rows = slice(begin, begin + _BLOCK_ROWS)
            centred = self._statistics[rows] - self.mean
            centred *= np.sqrt(self.probabilities[rows, None])
            total += centred.T @ centred
        return total

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """Return Cov(Phi, <direction, Phi>), (d,)."""
        response = self._statistics @ direction - self.mean @ direction
        return (self.probabilities * response) @ self._statistics - (self.probabilities @ response) * self.mean

    def score_change(self, direction: np.ndarray) -> float:
        """Return max |<Phi(z) - mean, direction>| over the outcomes."""
        return float(np.abs(self._statistics @ direction - self.mean @ direction).max())

    def newton_direction(self, gradient: np.ndarray, precision: float) -> np.ndarray | None:
        """Solve the Newton system by a Cholesky factor of the covariance; None if it is singular."""
        hessian = self.covariance()
        hessian[np.diag_indices_from(hessian)] += precision
        try:
            factor = scipy.linalg.cho_factor(hessian, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            return None
        return -scipy.linalg.cho_solve(factor, gradient, check_finite=False)


class FiniteFamily(ExponentialFamily):
    """The family p(z) = p0(z) exp(<Phi(z), theta> - g(theta)) on a finite set of outcomes.

    Parameters
    ----------
    statistics : array (K, d)
        Phi(z) of each outcome.
    base_measure : array (K,), optional
        The base measure p0(z) of each outcome, 0 or more; 1 by default.

    See Also
    --------
    FieldFamily : Labellings of sequences or graphs.

    Examples
    --------
    A die whose mean is 4.5:

    >>> import numpy as np
    >>> from kernelfields.families import FiniteFamily
    >>> die = FiniteFamily(np.arange(1.0, 7.0)[:, None])
    >>> theta = die.natural_parameters([4.5])
    >>> die.probabilities(theta).round(3)
    array([0.054, 0.079, 0.114, 0.165, 0.24 , 0.347])
    """

    def __init__(self, statistics: ArrayLike, base_measure: ArrayLike | None = None):
        self.statistics = np.ascontiguousarray(statistics, dtype=np.float64)
        if self.statistics.ndim != 2 or 0 in self.statistics.shape:
            raise ValueError(
                f"statistics must have shape (outcomes, statistics), both at least 1, got {self.statistics.shape}"
            )
        wrong = ~np.isfinite(self.statistics).all(axis=1)
        if wrong.any():
            raise ValueError(f"the statistics of outcome {int(np.argmax(wrong))} are not finite")
        self.n_outcomes, self.n_statistics = self.statistics.shape
        masses = np.ones(self.n_outcomes) if base_measure is None else np.asarray(base_measure, dtype=np.float64)
        if masses.shape != (self.n_outcomes,):
            raise ValueError(f"base_measure must have shape ({self.n_outcomes},), got {masses.shape}")
        wrong = ~(np.isfinite(masses) & (masses >= 0))
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ValueError(f"base_measure must be finite and not negative, but outcome {place} has {masses[place]}")
        if not masses.any():
            raise ValueError("base_measure is zero everywhere, so no outcome is possible")
        self.base_measure = masses
        with np.errstate(divide="ignore"):
            self._log_base = np.log(masses)

    def distribution(self, theta: ArrayLike) -> FiniteMember:
        """Return the distribution with natural parameters theta.

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.

        Returns
        -------
        FiniteMember
            The distribution.
        """
        return FiniteMember(self.statistics, self._log_base, self.check(theta, "theta"))

    def probabilities(self, theta: ArrayLike) -> np.ndarray:
        """Return p(z; theta) of every outcome (eq. 1).

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.

        Returns
        -------
        array (K,)
            The probabilities.
        """
        return self.distribution(theta).probabilities

    def log_probabilities(self, theta: ArrayLike) -> np.ndarray:
        """Return log p(z; theta) of every outcome.

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.

        Returns
        -------
        array (K,)
            The logarithms; minus infinity if the base measure is zero.
        """
        return self.distribution(theta).log_probabilities

    def _minimise(self, mean: np.ndarray, start: np.ndarray, precision: float, tol: float, max_iter: int) -> Estimate:
        """Minimise the objective; without a prior, return the minimizer of least norm.

        Directions in which all statistics agree are then left out: the likelihood does not see them.
        """
        if precision > 0:
            return super()._minimise(mean, start, precision, tol, max_iter)
        possible = self.base_measure > 0
        statistics = self.statistics[possible]
        centre = statistics.mean(axis=0)
        _, lengths, axes = scipy.linalg.svd(statistics - centre, full_matrices=False)
        axes = axes[lengths > _CONSTANT * max(float(lengths.max(initial=0.0)), np.finfo(float).tiny)]
        inside = (mean - centre) @ axes.T
        away = float(np.abs(mean - centre - inside @ axes).max())
        if away > 1e-8 * (1 + float(np.abs(statistics).max())):
            raise NoEstimate(f"the mean lies {away:.3g} outside the plane that the statistics of the outcomes span")
        reduced, log_base = (statistics - centre) @ axes.T, self._log_base[possible]
        found = minimise(
            lambda theta: FiniteMember(reduced, log_base, theta), inside, axes @ start, precision, tol, max_iter
        )
        return Estimate(
            found.theta @ axes, found.value, found.gap, found.iterations, self.distribution(found.theta @ axes)
        )
