"""Expected shares of labels, added to the likelihood of any label structure.

With weights w_i of the sequences, and u the potentials:

    sum_j lambda_j KL(mu_j || m_j(u)),      m_jk = sum_t w_t p(y_t in group k) / sum_t w_t

the sum over t running over all positions, of several yes-or-no labels over those of one label. The gradient is one
product with the Hessian of log Z, whatever the number of expectations, so that no family needs code of its own:

    (Hessian, weights w) d,      d_t(y) = - sum_j lambda_j mu_jk / m_jk / sum_t w_t,  k the group of y

Inference must be exact. The value is not convex. Frozen at some u', labels are completed and these terms replaced by
their tangents: a convex likelihood with the same value and gradient there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.group import ALONE, Group
from kernelfields.objective.likelihoods.likelihood import Evaluation, Likelihood, Objective
from kernelfields.objective.likelihoods.partial_likelihood import PartialLikelihood


@dataclass(frozen=True, eq=False)
class Expectation:
    """Requested shares of groups of labels: ``groups`` (L,) are the groups' numbers, ``shares`` (K,).

    ``rows`` are the positions that count, None for all of them, and ``weight`` what it counts as, None for what they
    weigh; ``name`` is what messages call it.
    """

    groups: np.ndarray
    shares: np.ndarray
    weight: float | None
    rows: np.ndarray | None = None
    name: str = "an expectation"

    def masses(self, marginals: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the weights of the groups under marginals (N, L) and row weights (N,), and of all rows, (K + 1,)."""
        if self.rows is not None:
            marginals, weights = marginals[self.rows], weights[self.rows]
        return np.append(np.bincount(self.groups, weights @ marginals, minlength=len(self.shares)), weights.sum())

    def divergence(self, masses: np.ndarray) -> float:
        """Return weight * KL(shares || means); infinity if a group with a positive share has no mass."""
        asked = self.shares > 0
        with np.errstate(divide="ignore"):
            logs = np.log(self.shares[asked]) - np.log(masses[:-1][asked] / masses[-1])
        return self.resolve_weight(masses) * float(self.shares[asked] @ logs)

    def resolve_weight(self, masses: np.ndarray) -> float:
        """Return the weight of the expectation: a given one, or the weight of its positions."""
        return float(masses[-1]) if self.weight is None else self.weight

    def add_slope(self, direction: np.ndarray, masses: np.ndarray) -> None:
        """Add d(divergence) / d(marginals), without the weights of the rows, to a direction (N, L)."""
        sizes = masses[:-1]
        slope = np.divide(-self.resolve_weight(masses) * self.shares, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
        direction[slice(None) if self.rows is None else self.rows] += slope[self.groups]


@dataclass(frozen=True, eq=False)
class Criteria:
    """Requested expectations of a field, in addition to labels.

    ``labelled`` says whether anything is known of labels, so that a fit to them alone is a place to start from.
    """

    expectations: Sequence[Expectation]
    labelled: bool = True

    def part(self, positions: slice) -> Criteria:
        """Return the criteria of some of the positions."""

        def own(rows: np.ndarray | None) -> np.ndarray | None:
            if rows is None:
                return None
            return rows[(rows >= positions.start) & (rows < positions.stop)] - positions.start

        return Criteria([replace(each, rows=own(each.rows)) for each in self.expectations], self.labelled)

    def check_possible(self, masses: Sequence[np.ndarray]) -> None:
        """Raise if constraints exclude requested labels; ``masses`` belong to zero potentials."""
        for expectation, own in zip(self.expectations, masses, strict=True):
            if not own[-1]:
                raise ValueError(f"{expectation.name} counts no position of X, or their weights are all zero")
            if not np.isfinite(expectation.divergence(own)):
                raise ValueError(
                    f"{expectation.name} asks for labels that the constraints forbid at every position it counts"
                )


class ExpectationLikelihood(Objective):
    """A likelihood of labels, complete or partial, with the terms of some criteria.

    The data may be a part of those that the criteria are about: ``masses`` are added up over the ``group`` of processes
    that share them, and each adds its share of the divergences.
    """

    convex = False

    def __init__(self, labels: Likelihood | PartialLikelihood, criteria: Criteria, group: Group = ALONE):
        if not labels.family.exact:
            raise ValueError(
                "expectations need exact inference, and these graphs are inferred by "
                f"{labels.family.method!r}, which is approximate: leave them out, or use inference='junction'"
            )
        # Labels that are not known have shares as well.
        whole = labels.whole
        assert whole is None or isinstance(whole, PartialLikelihood)
        labels = labels if whole is None else whole
        super().__init__(labels.family, labels.weights, labels.workers)
        self.labels = labels
        self._expectations = criteria.expectations
        self._row_weights = self.weights[self.family.position_items]
        self._group = group
        criteria.check_possible(self.masses(self.labels.evaluate(self.family.zeros())))

    @property
    def value_at_zero(self) -> float:
        """The value at zero potentials, with all allowed labellings equally likely."""
        return float(self.evaluate(self.family.zeros()).value)

    def masses(self, labels: Evaluation) -> list[np.ndarray]:
        """Return the weights of the groups of each expectation in all data, and of all positions."""
        marginals = self.family.arrangement.read_back(labels.member.marginals())
        return self._group.total([each.masses(marginals, self._row_weights) for each in self._expectations])

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return value, residual and distributions at the given potentials."""
        labels = self.labels.evaluate(potentials)
        value, slope = self._terms(labels)
        return Evaluation(labels.value + value, labels.residual.plus(1.0, slope), labels.member, labels.known)

    def _terms(self, labels: Evaluation) -> tuple[float, Potentials]:
        """Return value and gradient of the criteria."""
        value, slopes = 0.0, np.zeros((self.family.n_positions, self.n_labels))
        for expectation, mass in zip(self._expectations, self.masses(labels), strict=True):
            rows = slice(None) if expectation.rows is None else expectation.rows
            value += expectation.divergence(mass) * float(self._row_weights[rows].sum() / mass[-1])
            expectation.add_slope(slopes, mass)
        direction = self.family.zeros()
        direction.node += self.family.arrangement.place_array(slopes)
        return value, labels.member.covariance_product(direction)

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Raise: third derivatives of log Z are not computed."""
        raise TypeError("with expectations there are no Hessian products: use solver='lbfgs'")

    def majorize(self, potentials: Potentials) -> Likelihood:
        """Return the convex likelihood of labels completed at some potentials, with tangents of the criteria."""
        here = self.labels.evaluate(potentials)
        value, slope = self._terms(here)
        labels = self.labels.majorize(potentials)
        assert isinstance(labels, Likelihood)
        return labels.plus(slope, value - slope.dot(potentials))
