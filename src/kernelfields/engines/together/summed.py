"""Datafits of data in parts: each process computes with its own part, and sums are reduced over all of them.

Values, slopes, gradients, curvature and Gram matrices are those of all data, in every process alike; potentials,
residuals and distributions are those of its part. One exchange for the value and the slope of a trial, with how far
potentials move, and one for a gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from kernelfields.inference.potentials import Array, Potentials
from kernelfields.numerics.group import Group
from kernelfields.objective.clique_curvature import Curvature
from kernelfields.objective.datafit import Datafit, Facts
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.objective.likelihoods.expectations import ExpectationLikelihood
from kernelfields.objective.likelihoods.likelihood import Evaluation, Objective
from kernelfields.objective.outside import OutsideSpan


class SummedDatafit(Datafit):
    """The datafit of all data; each process has the ``inner`` datafit of its part."""

    is_local = False

    def __init__(self, inner: Datafit, group: Group):
        self.inner, self.designs = inner, inner.designs
        self.group, self.partners, self.step_room = group, inner.partners, inner.step_room
        self._facts: Facts | None = None

    @property
    def likelihood(self) -> Objective:
        """The likelihood of the labels of this process."""
        return self.inner.likelihood

    @likelihood.setter
    def likelihood(self, likelihood: Objective) -> None:
        self.inner.likelihood, self._facts = likelihood, None

    @property
    def passes(self) -> float:
        """Number of passes over the features."""
        return self.inner.passes

    @passes.setter
    def passes(self, passes: float) -> None:
        self.inner.passes = passes

    def potentials(
        self, coefficients: Sequence[np.ndarray] | Mapping[int, np.ndarray], only: Sequence[int] | None = None
    ) -> Potentials:
        """Return the potentials of coefficients for this process."""
        return self.inner.potentials(coefficients, only)

    def pull_back(self, residual: Potentials, only: Sequence[int] | None = None) -> list[np.ndarray]:
        """Return the gradient in the coefficients of each term."""
        return self.group.total(self.inner.pull_back(residual, only))

    def evaluate(self, potentials: Potentials) -> Evaluation:
        """Return the value for all data, and residual and beliefs of this process."""
        evaluation = self.inner.evaluate(potentials)
        evaluation.value = self.group.total(evaluation.value)
        return evaluation

    def evaluate_with_slope(
        self, potentials: Potentials | None, direction: Potentials, furthest: float = 0.0
    ) -> tuple[Evaluation | None, float, float]:
        """Return evaluation, slope, and the largest ``furthest``; None in all processes if a value is missing."""
        evaluation, value, slope = None, np.inf, np.inf
        finite = potentials is not None and potentials.is_finite
        if isinstance(self.likelihood, ExpectationLikelihood):
            # What is expected is added up on the way, by all processes or by none.
            finite = all(self.group.gather(finite))
        if potentials is not None and finite:
            evaluation = self.inner.evaluate(potentials)
            value, slope = evaluation.value, evaluation.residual.dot(direction)
        (value, slope), furthest = self.group.total_and_largest([value, slope], furthest)
        if evaluation is None or not np.isfinite(value):
            return None, np.inf, furthest
        evaluation.value = value
        return evaluation, slope, furthest

    def hessian_response(self, evaluation: Evaluation, direction: Potentials) -> Potentials:
        """Return the Hessian in the potentials of this process times a direction."""
        return self.inner.hessian_response(evaluation, direction)

    def with_likelihood(self, likelihood: Objective) -> SummedDatafit:
        """Return the same designs with another likelihood of the labels of this process."""
        return SummedDatafit(self.inner.with_likelihood(likelihood), self.group)

    @property
    def facts(self) -> Facts:
        """Properties of the likelihood of all data, gathered once for each likelihood."""
        if self._facts is None:
            parts = self.group.gather(self.inner.facts)
            approximations = (part.approximation for part in parts)
            self._facts = Facts(
                all(part.convex for part in parts),
                next((name for name in approximations if name is not None), None),
                sum(part.n_items for part in parts),
                sum(part.n_positions for part in parts),
            )
        return self._facts

    @property
    def curvature(self) -> SummedCurvature:
        """The curvature for rules of second order."""
        return SummedCurvature(self.likelihood, self.designs, self.group)

    @property
    def outside_span(self) -> SummedOutside:
        """The part outside the span of the pivots, for certificates."""
        return SummedOutside(self.likelihood, self.designs, self.group)


class SummedCurvature(Curvature):
    """The curvature of the likelihood of all data."""

    def __init__(self, likelihood: Objective, designs: Sequence[LocalDesign], group: Group):
        super().__init__(likelihood, designs)
        self._group = group

    def _start_sums(self, index: int) -> list:
        return self._group.total(super()._start_sums(index))

    def diagonal(self, evaluation: Evaluation, index: int) -> np.ndarray | None:
        """Return sum_t z_tf^2 p (1 - p) for every coefficient of a term of sparse weights; None for other terms."""
        own = super().diagonal(evaluation, index)
        return None if own is None else self._group.total(own)

    def _block(self, design: LocalDesign, marginals: Array, weights: Array) -> np.ndarray:
        family = self.likelihood.family
        if family.arrangement.group(design.group).items is not None:
            return self._group.total(super()._block(design, marginals, weights))
        # Cliques that belong to no item, as durations, are the same in all processes: means over all positions.
        sums = self._group.total(family.arrangement.read_back(marginals * weights[:, None]))
        weights = self._group.total(weights)
        return super()._block(design, sums / weights[:, None], weights)

    def _weights(self, design: LocalDesign) -> list:
        return self._group.total(super()._weights(design))

    def gram(self, index: int) -> list:
        """Return the lower half of an estimate of Z^T Z from all data, and the mean of the rest of its diagonal."""
        return self._group.total(self._gram(index, self._group))


class SummedOutside(OutsideSpan):
    """The gradient of all data outside the span of the pivots, without kernel values between processes."""

    def __init__(self, likelihood: Objective, designs: Sequence[LocalDesign], group: Group):
        super().__init__(likelihood, designs)
        self._group = group

    def residuals(self, residual: Potentials, index: int) -> NoReturn:
        """Raise: residuals of single positions are not exchanged."""
        raise ValueError("residuals of single positions stay with their workers: use engine='threads'")

    def _norm_bound(self, residual: Potentials, index: int) -> float:
        return self._group.total(super()._norm_bound(residual, index))

    def exact(self, residual: Potentials, index: int) -> NoReturn:
        """Raise: kernel values between inputs of several processes would be needed."""
        raise ValueError(
            "exact certificates over the RKHS need kernel values between all inputs, which workers do not bring "
            "together: use the free bound, or engine='threads'"
        )

    def largest(self, index: int) -> float:
        """Return the largest k(x, x) - ||z(x)||^2 of a term over all data; zero without pivots."""
        return self._group.largest(super().largest(index))

    def _rounding(self, design: LocalDesign, coefficients: np.ndarray, residuals: Array) -> float:
        return self._group.total(super()._rounding(design, coefficients, residuals))
