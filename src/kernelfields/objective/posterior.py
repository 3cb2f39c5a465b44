"""The negative log-posterior of a field (eq. 15), in whitened coordinates: points, lines, derivatives.

    P(theta) = R(theta) + sum_i weight_i (log Z_i - score_i(y^i))
    dP/dV_c  = Z_c^T (marginals - labels) A_c + V_c / s_c                               (eq. 21)
    H d      = Z_c^T (covariance response to Z d A^T) A_c + d_c / s_c                   (eq. 22)

R is the penalty (objective/penalty.py), squares of a Gaussian prior in the formulas above. Where it is not smooth,
values include it, gradients are those of the smooth part, and ``Point.steepest`` is the steepest direction.

theta is one flat vector, the V_c one after the other. Potentials are linear in theta, so once the potentials of a
direction are known, values and slopes along it need inference only (:class:`Line`): a line search costs no pass
over the features, and a gradient at the point it ends in costs half a pass. Sparse fields that keep nothing per
position pass over their features at every step instead (objective/fused_trials.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.vectors import dot
from kernelfields.objective.blocks import Blocks
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import share_of_pass
from kernelfields.objective.likelihoods.likelihood import Evaluation
from kernelfields.objective.metric import Metric
from kernelfields.objective.penalty import Penalty, choose_penalty, term_gap


@dataclass
class Trial:
    """A candidate point: a value without its gradient, at the cost of half a pass."""

    theta: np.ndarray
    value: float
    potentials: Potentials | None
    evaluation: Evaluation | None
    #: Known already where value and gradient come from one fused pass.
    gradient: np.ndarray | None = None


class Point:
    """A point of a solver: theta, value, gradient, and their potentials."""

    def __init__(
        self,
        posterior: LogPosterior,
        theta: np.ndarray,
        value: float,
        gradient: np.ndarray,
        potentials: Potentials | None,
        evaluation: Evaluation | None,
    ):
        self.posterior = posterior
        self.theta = theta
        self.value = value
        self.gradient = gradient
        self._potentials = potentials
        self._evaluation = evaluation

    @property
    def potentials(self) -> Potentials:
        """Potentials at this point, computed on first use after a fused pass."""
        if self._potentials is None:
            self._potentials = self.posterior.potentials(self.theta)
        return self._potentials

    @property
    def evaluation(self) -> Evaluation:
        """Value, residual and distribution at this point, recomputed if they were released."""
        if self._evaluation is None:
            self._evaluation = self.posterior.datafit.evaluate(self.potentials)
        return self._evaluation

    @cached_property
    def steepest(self) -> np.ndarray:
        """The gradient, or the subgradient of smallest norm."""
        return self.posterior.penalty.steepest(self.theta, self.gradient)

    def release(self) -> None:
        """Free the distribution: several (N, L) arrays that are cheap to recompute."""
        self._evaluation = None


@dataclass
class Direction:
    """A direction in theta, with its potentials if they are known."""

    theta: np.ndarray
    potentials: Potentials | None = None


#: Nats that a potential may move in the first trial of a line search.
FAR = 100.0


class AnyLine:
    """P along point + step * direction; subclasses compute the trial at a step."""

    def __init__(self, posterior: LogPosterior, point: Point, direction: Direction):
        self.posterior = posterior
        self.origin = point
        self.direction = direction.theta
        self.slope = dot(point.gradient, direction.theta)
        #: The last step, the trial there and its slope; None where that was not finite.
        self._last: tuple[float, Trial, float] | None = None

    @property
    def reach(self) -> float:
        """The largest first step."""
        raise NotImplementedError

    def _try(self, step: float) -> None:
        """Store the trial at a step, and its slope, if they are finite."""
        raise NotImplementedError

    def __call__(self, step: float) -> tuple[float, float]:
        """Return value and slope at a step."""
        if self._last is None or self._last[0] != step:
            self._last = None
            self._try(step)
        return (np.inf, np.inf) if self._last is None else (self._last[1].value, self._last[2])

    def point(self, step: float) -> Point:
        """Return the point at a step, with its gradient."""
        self(step)
        if self._last is None:
            raise ValueError(f"the objective is not finite at step {step!r}")
        trial, self._last = self._last[1], None
        return self.posterior.complete(trial)


class Line(AnyLine):
    """P along a line by inference alone; a gradient is half a pass."""

    def __init__(self, posterior: LogPosterior, point: Point, direction: Direction):
        super().__init__(posterior, point, direction)
        self._potentials = direction.potentials or posterior.potentials(direction.theta)
        #: The penalty along the line: its value at the point, and the coefficients of the step and of its square.
        self.prior = posterior.penalty.line_coefficients(point.theta, direction.theta)

    @cached_property
    def reach(self) -> float:
        """The step that moves a potential by a hundred nats, the largest first step.

        Beyond some five hundred, probabilities underflow and inference in logarithms is far slower. Processes learn it
        with the trial at step one, which most searches begin with: they make it unless a potential here moves too far.
        """
        furthest = self._try_step(1.0, self._potentials.largest)
        return FAR / furthest if furthest > 0 else np.inf

    def _try(self, step: float) -> None:
        """Store the trial at a step, and its slope, if they are finite."""
        self._try_step(step, 0.0)

    def _try_step(self, step: float, furthest: float) -> float:
        """Store the trial at a step unless a potential moves by more than ``furthest``; return the largest move."""
        potentials = None if furthest > FAR else self.origin.potentials.plus(step, self._potentials)
        evaluation, slope, furthest = self.posterior.datafit.evaluate_with_slope(potentials, self._potentials, furthest)
        if evaluation is not None:
            constant, linear, quadratic = self.prior
            value = evaluation.value + constant + step * (linear + step * quadratic)
            theta = self.origin.theta + step * self.direction
            trial = Trial(theta, value, potentials, evaluation)
            self._last = (step, trial, slope + linear + 2.0 * step * quadratic)
        return furthest


class Trials:
    """Values and lines of an objective, computed by inference at stored potentials.

    A line costs half a pass and a trial on it none. Objectives that keep nothing per position have others
    (objective/fused_trials.py).
    """

    #: Whether a trial on a line costs a pass over the features.
    fused = False

    def trial(self, posterior: LogPosterior, theta: np.ndarray, near: Point | None) -> Trial | None:
        """Return the value at theta, half a pass; None if a potential differs too much from a point."""
        potentials = posterior.potentials(theta, only=None if np.any(theta) else ())
        if near is not None:
            own = potentials.plus(-1.0, near.potentials).largest
            if posterior.datafit.group.largest(own) > FAR:
                return None
        evaluation = posterior.datafit.evaluate(potentials)
        return Trial(theta, evaluation.value + posterior.penalty.value(theta), potentials, evaluation)

    def make_line(self, posterior: LogPosterior, point: Point, direction: Direction) -> AnyLine:
        """Return the objective on a line: half a pass, none if the direction's potentials are known."""
        return Line(posterior, point, direction)

    def limit_direction(self, point: Point, direction: np.ndarray, nats: float) -> np.ndarray:
        """Return a guessed direction, shortened so that the change of potentials is limited.

        Lines that know the potentials of their direction do not go far by themselves.
        """
        return direction

    def curvature_diagonals(self, point: Point) -> list[np.ndarray | None]:
        """Return the diagonals of the likelihood's Hessian at a point, term by term; None if unknown."""
        datafit, found = point.posterior.datafit, []
        for index in range(len(datafit.designs)):
            found.append(datafit.curvature.diagonal(point.evaluation, index))
            if found[-1] is not None:
                datafit.passes += 0.5 * share_of_pass(datafit.designs, index)
        return found

    def with_objective(self, posterior: LogPosterior) -> Trials:
        """Return trials of the objective of completed labels."""
        return self


class LogPosterior:
    """The objective of solvers: values, gradients, Hessian products.

    ``blocks`` split theta into the coefficients of each set, ``metric`` says how curved it is along coordinates, and
    ``trials`` how values are computed.
    """

    def __init__(self, datafit: Datafit, penalty: Penalty | None = None):
        self.datafit = datafit
        self.blocks = Blocks(datafit.designs)
        self.size = self.blocks.size
        #: By default the one that the terms ask for.
        self.penalty: Penalty = choose_penalty(self.blocks) if penalty is None else penalty
        self.trials = Trials()

    @cached_property
    def metric(self) -> Metric:
        """The curvature of the objective along coordinates."""
        return Metric(self.datafit, self.blocks, self.penalty.precision)

    @property
    def prior_precision(self) -> np.ndarray:
        """1 / s in every coordinate, zero without a Gaussian prior."""
        return self.penalty.precision

    @property
    def convex(self) -> bool:
        """Whether the objective is convex, so that lower bounds hold everywhere."""
        return self.datafit.facts.convex

    @property
    def approximation(self) -> str | None:
        """Name of the approximation of inference; None if it is exact, with exact values and bounds."""
        return self.datafit.facts.approximation

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features and gradients: the widest among the sets."""
        return np.result_type(*(design.dtype for design in self.datafit.designs))

    @property
    def passes(self) -> float:
        """Number of passes over the features."""
        return self.datafit.passes

    def potentials(self, theta: np.ndarray, only: Sequence[int] | None = None) -> Potentials:
        """Return the potentials of theta: half a pass."""
        return self.datafit.potentials(self.blocks.split(theta), only)

    def trial(self, theta: np.ndarray, near: Point | None = None) -> Trial | None:
        """Return the value at theta: half a pass (no pass at zero).

        With ``near``, None if a potential has moved from that point by more than a hundred nats: beyond some five
        hundred, inference needs logarithms and is far slower, and no step of use is that long.
        """
        return self.trials.trial(self, np.asarray(theta, dtype=np.float64), near)

    def complete(self, trial: Trial) -> Point:
        """Return a trial with its gradient: half a pass, none if the gradient is known."""
        if trial.gradient is not None or trial.evaluation is None:
            assert trial.gradient is not None
            return Point(self, trial.theta, trial.value, trial.gradient, None, None)
        gradient = self.blocks.flatten(self.datafit.pull_back(trial.evaluation.residual))
        gradient += self.penalty.gradient(trial.theta)
        return Point(self, trial.theta, trial.value, gradient, trial.potentials, trial.evaluation)

    def make_point(self, theta: np.ndarray) -> Point:
        """Return the point at theta, with value and gradient: one pass (half a pass at zero)."""
        trial = self.trial(theta)
        if trial is None:
            raise ValueError("the objective is not finite at these coefficients")
        return self.complete(trial)

    def make_line(self, point: Point, direction: Direction) -> AnyLine:
        """Return the objective on a line: half a pass, none if the direction's potentials are known."""
        return self.trials.make_line(self, point, direction)

    def hessian_product(
        self, point: Point, vector: np.ndarray, only: Sequence[int] | None = None
    ) -> tuple[np.ndarray, Potentials]:
        """Return H vector and the potentials of vector: one pass.

        With ``only``, vector is zero outside the named blocks and so is what is returned.
        """
        potentials = self.potentials(vector, only)
        response = self.datafit.hessian_response(point.evaluation, potentials)
        product = self.prior_precision * vector
        chosen = range(len(self.blocks)) if only is None else only
        for index, part in zip(chosen, self.datafit.pull_back(response, only), strict=True):
            product[self.blocks[index].rows] += self.blocks[index].project_gradient(part)
        return product, potentials

    def curvature_block(self, point: Point, index: int) -> np.ndarray:
        """Return eq. 30 for one set: within-clique covariances plus the prior precision."""
        block = self.blocks[index]
        matrix = block.project_matrix(self.datafit.curvature.block(point.evaluation, index))
        matrix[np.diag_indices(len(matrix))] += 1.0 / block.prior_variance
        return matrix

    def gap_parts(self, point: Point, slope: np.ndarray | None = None) -> dict[str, float]:
        """Return the largest possible gain of each set: (s_c / 2) ||grad_c||^2 of a Gaussian prior (Lemma 9).

        ``slope`` is the gradient less that of squares about zero, where it is known already.
        """
        if slope is None:
            slope = self.prior_precision * point.theta
            np.subtract(point.gradient, slope, out=slope)
        return {
            block.name: term_gap(block.design.term, point.theta[block.rows], slope[block.rows]) for block in self.blocks
        }
