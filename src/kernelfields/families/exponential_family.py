"""Exponential families with any outcomes (section 2.1 of the paper), and natural parameters from a mean.

    p(z; theta)       = p0(z) exp(<Phi(z), theta> - g(theta))                       eq. 1
    g(theta)          = log sum_z p0(z) exp <Phi(z), theta>                         eq. 2
    mean(theta)       = dg(theta)   = E Phi(z)                                      eq. 3a
    covariance(theta) = d2g(theta)  = Var Phi(z)                                    eq. 3b
    entropy(theta)    = -E log(p / p0)          = g(theta) - <theta, mean(theta)>
    divergence(a, b)  = KL(p_a || p_b)          = g(b) - g(a) - <b - a, mean(a)>
    conjugate(m)      = max_theta <theta, m> - g(theta) = -entropy at the maximiser, natural_parameters(m)

A family writes ``at(theta)``, which returns a :class:`Member`; the rest follows from it. theta and means are flat
arrays (d,). A natural parameter of minus infinity forbids its statistic: the mean is 0, and 0 times infinity counts
as 0. Cost: one or two members per call.

``estimate`` finds natural parameters by Newton's method on a convex function (eq. 19), with a certificate:

    P(theta) = g(theta) - <theta, m> + precision / 2 ||theta||^2
    gradient = mean(theta) - m + precision theta,     Hessian = covariance(theta) + precision I

With precision > 0 Lemma 9 bounds the minimum: P(theta) - min P <= ||gradient||^2 / (2 precision). Without a prior
the gap is estimated by half the squared Newton decrement, and steps must converge to zero as well: if m is on the
boundary of the possible means, the gap decreases while theta diverges, in steps that change scores by about one, until
the gradient is lost to rounding. Steps are halved until the decrease is at least 1e-4 times that of the slope (Armijo's
condition). Cost: a member and a direction per iteration.

Raises NoEstimate if there is no minimum; ValueError if the iterations do not suffice with a prior, whose minimum
always exists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

_SUFFICIENT_DECREASE = 1e-4
_SMALLEST_STEP = 2.0**-40
# Newton's method converges quadratically: a step this small follows one that was small already.
_VANISHING_STEP, _SMALL_STEP = 1e-5, 0.3
# Without a prior no step changes scores by more than this: beyond, probabilities are zeros and ones, and flat.
_LONGEST_STEP = 4.0
_MEAN_ROUNDING = 1e-7
_RUNAWAY = 1e12
# Below this a decrease is rounding of the value itself.
_ROUNDING = 1e-14
# Gaps of this size, relative to the value, are all that rounding may leave.
_HOPELESS = 1e-9


class NoEstimate(ValueError):
    """No natural parameters have the given mean.

    Examples
    --------
    >>> from kernelfields.families import FiniteFamily
    >>> FiniteFamily([[0.0], [1.0]]).natural_parameters([1.0])  # the largest mean there is
    Traceback (most recent call last):
        ...
    kernelfields.families.exponential_family.NoEstimate: ...
    """


class Member(ABC):
    """One distribution of a family.

    Attributes
    ----------
    theta : array (d,)
        Its natural parameters.
    log_partition : float
        The log partition g(theta).
    mean : array (d,)
        The mean of the statistics.

    See Also
    --------
    ExponentialFamily.distribution : Returns it.

    Examples
    --------
    >>> from kernelfields.families import FiniteFamily
    >>> member = FiniteFamily([[0.0], [1.0]]).distribution([0.0])
    >>> member.mean, member.covariance()
    (array([0.5]), array([[0.25]]))
    """

    theta: np.ndarray
    log_partition: float
    mean: np.ndarray

    @abstractmethod
    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """Multiply the covariance of the statistics by a direction.

        Parameters
        ----------
        direction : array (d,)
            The direction.

        Returns
        -------
        array (d,)
            The product.
        """

    @abstractmethod
    def newton_direction(self, gradient: np.ndarray, precision: float) -> np.ndarray | None:
        """Compute -(covariance + precision I)^-1 gradient.

        Parameters
        ----------
        gradient : array (d,)
            The gradient.
        precision : float
            The precision of the prior.

        Returns
        -------
        array (d,) or None
            The direction; None if rounding leaves no such direction.
        """

    @abstractmethod
    def score_change(self, direction: np.ndarray) -> float:
        """Return the largest change of an outcome's score, relative to other outcomes, over a step.

        Parameters
        ----------
        direction : array (d,)
            The step.

        Returns
        -------
        float
            The bound.
        """

    def covariance(self) -> np.ndarray:
        """Compute the covariance of the statistics, one product for each.

        Returns
        -------
        array (d, d)
            The covariance.
        """
        return np.array([self.covariance_product(unit) for unit in np.eye(len(self.mean))])

    @property
    def entropy(self) -> float:
        """The entropy -E log(p / p0) = g(theta) - <theta, mean>, in nats."""
        return self.log_partition - inner_product(self.theta, self.mean)


class ExponentialFamily(ABC):
    """Base class of families of distributions p(z; theta) = p0(z) exp(<Phi(z), theta> - g(theta)).

    A family writes ``at(theta)``; the rest follows from it (equations 1 to 3b of the paper).

    Attributes
    ----------
    n_statistics : int
        The number d of natural parameters.

    See Also
    --------
    FiniteFamily : A finite set of outcomes.
    FieldFamily : Labellings of sequences or graphs.

    Examples
    --------
    >>> from kernelfields.families import FiniteFamily
    >>> coin = FiniteFamily([[0.0], [1.0]])
    >>> coin.natural_parameters([0.75]).round(3)  # log(.75 / .25)
    array([1.099])
    """

    n_statistics: int

    @abstractmethod
    def distribution(self, theta: ArrayLike) -> Member:
        """Return the distribution with given natural parameters.

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.

        Returns
        -------
        Member
            The distribution.
        """

    def log_partition(self, theta: ArrayLike) -> float:
        """Return g(theta) (eq. 2).

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.

        Returns
        -------
        float
            The log partition.
        """
        return self.distribution(theta).log_partition

    def mean(self, theta: ArrayLike) -> np.ndarray:
        """Return E Phi(z), the gradient of g (eq. 3a).

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.

        Returns
        -------
        array (d,)
            The mean of the statistics.

        Examples
        --------
        The mean of a fair die:

        >>> import numpy as np
        >>> from kernelfields.families import FiniteFamily
        >>> die = FiniteFamily(np.arange(1.0, 7.0)[:, None])
        >>> die.mean([0.0])
        array([3.5])
        """
        return self.distribution(theta).mean

    def covariance(self, theta: ArrayLike) -> np.ndarray:
        """Return Var Phi(z), the Hessian of g (eq. 3b).

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.

        Returns
        -------
        array (d, d)
            The covariance of the statistics.
        """
        return self.distribution(theta).covariance()

    def covariance_product(self, theta: ArrayLike, direction: ArrayLike) -> np.ndarray:
        """Multiply the Hessian of g by a direction, without the matrix.

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.
        direction : array (d,)
            The direction.

        Returns
        -------
        array (d,)
            The product.
        """
        return self.distribution(theta).covariance_product(self.check(direction, "the direction"))

    def entropy(self, theta: ArrayLike) -> float:
        """Return -E log(p / p0) in nats: the entropy, if the base measure counts outcomes.

        Parameters
        ----------
        theta : array (d,)
            The natural parameters.

        Returns
        -------
        float
            The entropy.

        Examples
        --------
        The entropy of a fair die, log 6:

        >>> import numpy as np
        >>> from kernelfields.families import FiniteFamily
        >>> die = FiniteFamily(np.arange(1.0, 7.0)[:, None])
        >>> round(die.entropy([0.0]), 3)
        1.792
        """
        return self.distribution(theta).entropy

    def divergence(self, theta: ArrayLike, other: ArrayLike) -> float:
        """Return the Kullback-Leibler divergence of p(.; theta) from p(.; other), in nats.

        It is the Bregman divergence of g with the arguments swapped.

        Parameters
        ----------
        theta : array (d,)
            The natural parameters of the first distribution.
        other : array (d,)
            Those of the second.

        Returns
        -------
        float
            The divergence; infinite if ``other`` forbids an outcome that ``theta`` allows.
        """
        here, there = self.distribution(theta), self.distribution(other)
        change = inner_product(there.theta, here.mean) - inner_product(here.theta, here.mean)
        return max(0.0, there.log_partition - here.log_partition - change)

    def conjugate(self, mean: ArrayLike) -> float:
        """Return the Fenchel conjugate g*(mean), the negative of the maximal entropy at this mean.

        Parameters
        ----------
        mean : array (d,)
            The mean.

        Returns
        -------
        float
            The conjugate.
        """
        mean = self.check(mean, "the mean")
        theta = self.natural_parameters(mean)
        return inner_product(theta, mean) - self.log_partition(theta)

    def natural_parameters(self, mean: ArrayLike, *, tol: float = 1e-12, max_iter: int = 200) -> np.ndarray:
        """Return natural parameters with a given mean: those of maximum entropy and likelihood.

        If several theta give the same distribution, one of them is returned.

        Parameters
        ----------
        mean : array (d,)
            The mean.
        tol : float, default 1e-12
            How near the value is to the minimum.
        max_iter : int, default 200
            The most iterations of Newton's method.

        Returns
        -------
        array (d,)
            The natural parameters.

        Raises
        ------
        NoEstimate
            If the mean is no mean of a distribution, or one on the boundary, which no finite theta has.
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

        With precision = 1 / (n s) for n outcomes and a normal prior of variance s, the minimum is the maximum a
        posteriori.

        Parameters
        ----------
        mean : array (d,)
            The mean of the statistics in a sample.
        precision : float, default 0.0
            The precision of the prior; 0 for none.
        start : array (d,), optional
            Where to start; zero by default.
        tol : float, default 1e-12
            How near the value is to the minimum.
        max_iter : int, default 200
            The most iterations.

        Returns
        -------
        Estimate
            The natural parameters, with a bound on what is missing to the minimum.
        """
        if not 0 <= precision < np.inf:
            raise ValueError(f"precision must be a finite number of at least 0, got {precision!r}")
        if not tol > 0:
            raise ValueError(f"tol must be positive, got {tol!r}")
        first = np.zeros(self.n_statistics) if start is None else self.check(start, "the start")
        return self._minimise(self.check(mean, "the mean"), first, precision, tol, max_iter)

    def _minimise(self, mean: np.ndarray, start: np.ndarray, precision: float, tol: float, max_iter: int) -> Estimate:
        """Minimise the objective of :meth:`estimate`."""
        return minimise(self.distribution, mean, start, precision, tol, max_iter)

    def check(self, vector: ArrayLike, name: str, forbidden: bool = False) -> np.ndarray:
        """Convert a vector to float64; ValueError for another shape.

        Parameters
        ----------
        vector : array (d,)
            The vector.
        name : str
            What messages call it.
        forbidden : bool, default False
            Whether entries may be minus infinity.

        Returns
        -------
        array (d,)
            The vector.
        """
        checked = np.ascontiguousarray(vector, dtype=np.float64)
        if checked.shape != (self.n_statistics,):
            raise ValueError(f"{name} must have shape ({self.n_statistics},), got {checked.shape}")
        wrong = ~(checked < np.inf) if forbidden else ~np.isfinite(checked)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise ValueError(f"{name} must be finite, but entry {place} is {checked[place]}")
        return checked


@dataclass(frozen=True)
class Estimate:
    """Estimated natural parameters.

    Parameters
    ----------
    theta : array (d,)
        The natural parameters.
    value : float
        The objective there.
    gap : float
        A bound on what is missing to its minimum.
    iterations : int
        The iterations of Newton's method.
    member : Member
        The distribution.

    Examples
    --------
    >>> from kernelfields.families import FiniteFamily
    >>> estimate = FiniteFamily([[0.0], [1.0]]).estimate([1.0], precision=0.1)
    >>> estimate.theta.round(2), estimate.gap < 1e-12
    (array([1.63]), True)
    """

    theta: np.ndarray
    value: float
    gap: float
    iterations: int
    member: Member


def minimise(
    at: Callable[[np.ndarray], Member], mean: np.ndarray, start: np.ndarray, precision: float, tol: float, max_iter: int
) -> Estimate:
    """Minimise P from ``start``; see :meth:`ExponentialFamily.estimate`."""

    def evaluate(member: Member) -> float:
        theta = member.theta
        return member.log_partition - float(theta @ mean) + 0.5 * precision * float(theta @ theta)

    member = at(start)
    value, last_change = evaluate(member), 0.0
    for iteration in range(max_iter + 1):
        gradient = member.mean - mean + precision * member.theta
        if precision > 0:
            gap = float(gradient @ gradient) / (2 * precision)
            if gap <= tol:
                return Estimate(member.theta, value, gap, iteration, member)
        direction = member.newton_direction(gradient, precision)
        if direction is None:
            break
        slope = float(gradient @ direction)
        change = member.score_change(direction)
        if not change < _RUNAWAY:
            break
        if precision == 0:
            gap = max(0.0, -0.5 * slope)
            if gap <= tol and change <= _VANISHING_STEP:
                last = at(member.theta + direction)
                reaches = np.abs(last.mean - mean).max() <= _MEAN_ROUNDING * (1 + np.abs(mean).max())
                if last_change > _SMALL_STEP or not reaches:
                    break
                return Estimate(last.theta, evaluate(last), gap, iteration, last)
        scale = 1 + abs(value) + abs(member.log_partition)
        step = 1.0 if precision > 0 else _LONGEST_STEP / max(change, _LONGEST_STEP)
        following = None
        while following is None and step >= _SMALLEST_STEP:
            trial = at(member.theta + step * direction)
            reached = evaluate(trial)
            if reached <= value + _SUFFICIENT_DECREASE * step * slope + _ROUNDING * scale:
                following = trial
            step *= 0.5
        if precision > 0 and gap <= _HOPELESS * scale and (following is None or not reached < value):
            # Rounding ends the descent just above a tolerance that was too tight for it.
            return Estimate(member.theta, value, gap, iteration, member)
        if following is None:
            break
        member, value, last_change = following, reached, change
    if precision > 0:
        raise ValueError(
            f"Newton's method did not come within {tol:g} of the minimum in {max_iter} iterations; "
            "raise max_iter or tol"
        )
    raise NoEstimate(
        "no finite natural parameters have this mean: it is not the mean of a distribution of the family, or it "
        "lies on the boundary of those (an outcome or a label that never occurs). Move it inwards, or use a prior"
    )


def inner_product(theta: np.ndarray, mean: np.ndarray) -> float:
    """Return <theta, mean>, where 0 times minus infinity is 0."""
    counted = mean != 0.0
    return float(theta[counted] @ mean[counted])
