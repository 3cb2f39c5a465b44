"""The negative log-likelihood of labelled data as a function of potentials, for every family of labellings.

With weights w_i of the items, u the potentials, g the log partition function and o the weighted statistics of labels:

    value    = sum_i w_i g_i(u) - <o, u>
    residual = w * mean(u) - o                  its gradient in the potentials
    response = w * covariance(u) d              its Hessian times a direction

That of labels which are partly known is in partial_likelihood.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.inference.family import LabelFamily, Member
from kernelfields.inference.potentials import Placed, Potentials
from kernelfields.numerics.threads import Workers


@dataclass
class Evaluation:
    """Value and gradient at some potentials, and their distribution.

    Where labels are partly known, ``known`` is the distribution given what is known of them.
    """

    value: float
    residual: Potentials
    member: Member
    known: Member | None = None


class Observations(Protocol):
    """The observed part of a gradient: statistics of labels, or targets."""

    def dot(self, potentials: Potentials) -> float:
        """Return the inner product with potentials."""

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract from expectations in place."""


class Objective:
    """The common part of objectives of labelled data: a family, weights (S,) of its items, and threads."""

    #: Whether the value is convex in the potentials, as it is where labels, or targets for them, are known.
    convex = True

    def __init__(self, family: LabelFamily, weights: np.ndarray, workers: Workers | None = None):
        self.family = family
        self.weights = weights
        self.workers = workers or Workers()
        #: The labelled data, where passes over their features can compute value and gradient together.
        self.data: Packed | None = None
        #: The same objective with all items in it, where those of which nothing is known have been left out.
        self.whole: Objective | None = None
        #: What inference reported of its last answer: sentences such as that it did not converge.
        self.warnings: list[str] = []
        # None stands for weights that are all one, the usual case, where no product is needed.
        self._item_weights = None if np.all(weights == 1.0) else family.arrangement.place_array(weights)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.family.n_labels

    @property
    def is_constrained(self) -> bool:
        """Whether some labellings are forbidden."""
        return self.family.base is not None and self.family.base.has_forbidden_labellings

    @property
    def value_at_zero(self) -> float:
        """The value at zero potentials, with all allowed labellings equally likely."""
        return float(self.weights @ self.family.log_labellings())

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> np.ndarray:
        """Return the probabilities of the labellings of a set's cliques, (n, labellings), without known labels."""
        return self.family.arrangement.rows(evaluation.member.marginals(term.group), term)

    def clique_weights(self, term: Placed) -> np.ndarray:
        """Return the weight of every clique of a set, (n,)."""
        return self.family.arrangement.weights(self.weights, term)

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and distribution at the given potentials."""
        raise NotImplementedError

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials times a direction."""
        return evaluation.member.covariance_product(direction)

    def majorize(self, potentials: Potentials) -> Objective:
        """Return a convex majorant of this objective that touches it at some potentials, up to a constant."""
        return self

    def _log_partition(self, member: Member) -> float:
        """Return the weighted sum of g."""
        total = member.log_partition
        return total.sum() if self._item_weights is None else total @ self._item_weights

    def _member(self, family: LabelFamily, potentials: Potentials) -> Member:
        return family.distribution(potentials, self._item_weights, self.workers, keep=False)


class Likelihood(Objective):
    """The likelihood of observed labels or targets, plus a constant."""

    def __init__(
        self,
        family: LabelFamily,
        observed: Observations,
        weights: np.ndarray,
        workers: Workers | None = None,
        constant: float = 0.0,
    ):
        super().__init__(family, weights, workers)
        self.observed = observed
        self._constant = constant

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and distribution at the given potentials."""
        member = self._member(self.family, potentials)
        self.warnings = list(member.warnings)
        value = float(self._log_partition(member) - self.observed.dot(potentials)) + self._constant
        residual = member.mean()
        self.observed.subtract_from(residual)
        return Evaluation(value, residual, member)

    def plus(self, slope: Potentials, constant: float) -> Likelihood:
        """Return the likelihood plus an affine function of the potentials, <slope, u> + constant."""
        observed = _Shifted(self.observed, slope)
        return Likelihood(self.family, observed, self.weights, self.workers, self._constant + constant)


class _Shifted:
    """Observations less a slope, for a likelihood plus an affine function."""

    def __init__(self, observed: Observations, slope: Potentials):
        self._observed, self._slope = observed, slope

    def dot(self, potentials: Potentials) -> float:
        """Return the inner product with potentials."""
        return self._observed.dot(potentials) - self._slope.dot(potentials)

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract from expectations in place."""
        self._observed.subtract_from(mean)
        mean.add(1.0, self._slope)
