"""Terms for data without labels, added to the likelihood of any label structure: entropies and expectations.

With weights w_i of the sequences, and u the potentials:

    entropies      sum over U of gamma_i H_i(u),      H_i = log Z_i(u) - <E_i[phi], u>
    expectations   sum_j lambda_j KL(mu_j || m_j(u)),  m_jk = sum_t w_t p(y_t in group k) / sum_t w_t

the sum over t running over all positions, or over those where a feature is active. Both gradients are products with
the Hessian of log Z, one each, whatever the number of expectations:

    entropies      - (Hessian, weights gamma) u
    expectations   (Hessian, weights w) d,      d_t(y) = - sum_j lambda_j mu_jk / m_jk / sum_t w_t,  k the group of y

Let F be the weighted log partition functions, F(u) = sum_i gamma_i log Z_i(u). The entropies are F(u) - <F'(u), u>,
with gradient - F''(u) u: no family needs code of its own.

Inference must be exact. The value is not convex. Frozen at some u', labels are completed and these terms replaced by
their tangents: a convex likelihood with the same value and gradient there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelfields.inference.family import Potentials
from kernelfields.objective.likelihoods.likelihood import (
    Evaluation,
    Likelihood,
    Objective,
    PartialLikelihood,
    nothing_observed,
)


@dataclass(frozen=True, eq=False)
class Expectation:
    """Shares that groups of labels should have: ``groups`` (L,) numbers the group of each label, ``shares`` (K,).

    ``rows`` are the positions that count, None for all of them; ``name`` is what messages call it.
    """

    groups: np.ndarray
    shares: np.ndarray
    weight: float
    rows: np.ndarray | None = None
    name: str = "an expectation"

    def means(self, marginals: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the shares that the groups have under marginals (N, L), rows weighed by ``weights`` (N,), (K,)."""
        if self.rows is not None:
            marginals, weights = marginals[self.rows], weights[self.rows]
        return np.bincount(self.groups, weights @ marginals, minlength=len(self.shares)) / weights.sum()

    def divergence(self, means: np.ndarray) -> float:
        """Return weight * KL(shares || means); infinity where a share is asked for that is nowhere."""
        asked = self.shares > 0
        with np.errstate(divide="ignore"):
            logs = np.log(self.shares[asked]) - np.log(means[asked])
        return self.weight * float(self.shares[asked] @ logs)

    def add_slope(self, direction: np.ndarray, means: np.ndarray, weights: np.ndarray) -> None:
        """Add d(divergence) / d(marginals), less the weights of the rows, to a direction (N, L)."""
        slope = np.divide(-self.weight * self.shares, means, out=np.zeros(len(means)), where=means > 0)
        if self.rows is None:
            direction += slope[self.groups] / weights.sum()
        else:
            direction[self.rows] += slope[self.groups] / weights[self.rows].sum()


@dataclass(frozen=True, eq=False)
class Criteria:
    """What is asked of a field beside labels: weights of entropies (S,), None for none, and expectations.

    ``labelled`` says whether anything is known of labels, so that a fit to them alone is a place to start from.
    """

    entropies: np.ndarray | None = None
    expectations: Sequence[Expectation] = ()
    labelled: bool = True


class ExpectationLikelihood(Objective):
    """A likelihood of labels, known or partly known, with the terms of some criteria added to it."""

    convex = False

    def __init__(self, labels: Likelihood | PartialLikelihood, criteria: Criteria):
        if labels.approximation is not None:
            raise ValueError(
                "entropies and expectations need exact inference, and these graphs are inferred by "
                f"{labels.approximation!r}, which is approximate: leave them out, or use inference='junction'"
            )
        # Labels that are not known have entropies and shares as well.
        labels = labels if labels.whole is None else labels.whole
        super().__init__(labels.family, labels.weights, labels.workers)
        self._labels = labels
        self._expectations = criteria.expectations
        self._unlabelled = None
        if criteria.entropies is not None:
            self._unlabelled = nothing_observed(self.family, criteria.entropies, self.workers)
        self._row_weights = self.weights[self.family.position_items]
        self._check_possible()

    def _check_possible(self) -> None:
        """Raise if constraints leave no place for labels that are asked for."""
        if not self._expectations:
            return
        marginals = self.family.at(self.family.zeros(), workers=self.workers).marginals()
        for expectation in self._expectations:
            if not np.isfinite(expectation.divergence(expectation.means(marginals, self._row_weights))):
                raise ValueError(
                    f"{expectation.name} asks for labels that the constraints forbid at every position it counts"
                )

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings that are allowed equally likely."""
        return float(self.evaluate(self.family.zeros()).value)

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and distributions at the given potentials."""
        labels = self._labels.evaluate(potentials)
        value, slope = self._terms(potentials, labels)
        labels.residual.add(1.0, slope)
        return Evaluation(labels.value + value, labels.residual, labels.member, labels.known)

    def _terms(self, potentials: Potentials, labels: Evaluation) -> tuple[float, Potentials]:
        """Return value and gradient of what is added to the likelihood of labels."""
        value, slope = 0.0, self.family.zeros()
        if self._expectations:
            direction = self.family.zeros()
            for expectation in self._expectations:
                means = expectation.means(labels.member.marginals(), self._row_weights)
                value += expectation.divergence(means)
                expectation.add_slope(direction.node, means, self._row_weights)
            slope = labels.member.covariance_product(direction)
        if self._unlabelled is not None:
            unlabelled = self._unlabelled.evaluate(potentials)
            value += unlabelled.value - unlabelled.residual.dot(potentials)
            slope = slope.moved(-1.0, self._unlabelled.hessian_response(unlabelled, potentials))
        return value, slope

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Raise: third derivatives of log Z are not computed."""
        raise TypeError("with entropies or expectations there are no Hessian products: use solver='lbfgs'")

    def frozen(self, potentials: Potentials) -> Likelihood:
        """Return the convex likelihood of labels completed at some potentials, and the tangents of the terms there."""
        value, slope = self._terms(potentials, self._labels.evaluate(potentials))
        labels = self._labels.frozen(potentials)
        assert isinstance(labels, Likelihood)
        return labels.plus(slope, value - slope.dot(potentials))
