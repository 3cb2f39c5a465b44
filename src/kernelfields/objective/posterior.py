"""The negative log-posterior of a field (eq. 15), in whitened coordinates: points, lines, derivatives.

    P(theta) = R(theta) + sum_i weight_i (log Z_i - score_i(y^i))
    dP/dV_c  = Z_c^T (marginals - labels) A_c + V_c / s_c                               (eq. 21)
    H d      = Z_c^T (covariance response to Z d A^T) A_c + d_c / s_c                   (eq. 22)

R is the penalty (objective/penalty.py), squares of a Gaussian prior in the formulas above. Where it is not smooth,
values include it, gradients are those of the smooth part, and ``Point.steepest`` is the steepest direction.

theta is one flat vector, the V_c one after the other. Potentials are linear in theta, so once the potentials of a
direction are known, values and slopes along it need inference only (:class:`Line`): a line search costs no pass
over the features, and a gradient at the point it ends in costs half a pass. Sparse fields that keep nothing per
position pass over their features at every step instead (:class:`FusedLine`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelfields.inference.family import Potentials
from kernelfields.numerics.vectors import dot
from kernelfields.objective.blocks import Block, block_after
from kernelfields.objective.coordinates import LATE_SHARE, Coordinates, DenseSet, factor_of
from kernelfields.objective.datafit import Datafit, StepMemory
from kernelfields.objective.likelihoods.completion import frozen_at
from kernelfields.objective.likelihoods.likelihood import Evaluation
from kernelfields.objective.penalty import Penalty, is_quadratic, penalty_of, term_gap


@dataclass
class Trial:
    """A value that may become a point: its gradient, half a pass, is not computed yet."""

    theta: np.ndarray
    value: float
    potentials: Potentials | None
    evaluation: Evaluation | None
    #: Known already where value and gradient come from one fused pass.
    gradient: np.ndarray | None = None


class Point:
    """Where a solver stands: theta, value, gradient, and the potentials that go with them."""

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
        """Potentials at this point, computed if a fused pass did not keep them."""
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
        """The gradient; where the penalty has none, the subgradient of smallest norm."""
        return self.posterior.penalty.steepest(self.theta, self.gradient)

    def release(self) -> None:
        """Let go of the distribution: several (N, L) arrays that are cheap to compute again."""
        self._evaluation = None


@dataclass
class Direction:
    """A direction in theta; its potentials too if they are known already."""

    theta: np.ndarray
    potentials: Potentials | None = None


#: Nats that a potential may move in the first trial of a line search.
FAR = 100.0


class AnyLine:
    """P along point + step * direction; a subclass computes the trial at a step."""

    def __init__(self, posterior: LogPosterior, point: Point, direction: Direction):
        self.posterior = posterior
        self.origin = point
        self.direction = direction.theta
        self.slope = dot(point.gradient, direction.theta)
        #: The last step, the trial there and its slope; None where that was not finite.
        self._last: tuple[float, Trial, float] | None = None

    @property
    def reach(self) -> float:
        """How far a first trial should go."""
        raise NotImplementedError

    def _try(self, step: float) -> None:
        """Keep the trial at a step, and its slope, if they are finite."""
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
        self.prior = posterior.penalty.along(point.theta, direction.theta)

    @cached_property
    def reach(self) -> float:
        """The step that moves a potential by a hundred nats, as far as a first trial should go.

        Beyond some five hundred, probabilities underflow and inference in logarithms is far slower. Processes learn it
        with the trial at step one, which most searches begin with: they make it unless a potential here moves too far.
        """
        furthest = self._tried(1.0, self._potentials.largest)
        return FAR / furthest if furthest > 0 else np.inf

    def _try(self, step: float) -> None:
        """Keep the trial at a step, and its slope, if they are finite."""
        self._tried(step, 0.0)

    def _tried(self, step: float, furthest: float) -> float:
        """Do the same unless a potential moves too far, by ``furthest``; return how far those of all processes move."""
        potentials = None if furthest > FAR else self.origin.potentials.moved(step, self._potentials)
        evaluation, slope, furthest = self.posterior.datafit.evaluate_along(potentials, self._potentials, furthest)
        if evaluation is not None:
            constant, linear, quadratic = self.prior
            value = evaluation.value + constant + step * (linear + step * quadratic)
            theta = self.origin.theta + step * self.direction
            trial = Trial(theta, value, potentials, evaluation)
            self._last = (step, trial, slope + linear + 2.0 * step * quadratic)
        return furthest


class FusedLine(AnyLine):
    """P along a line, one fused pass for each step."""

    @property
    def reach(self) -> float:
        """The step that moves a potential by a hundred nats, for a first step from zero; else no limit."""
        if np.any(self.origin.theta):
            return np.inf
        furthest = self.posterior.largest_potential(self.direction)
        return FAR / furthest if furthest > 0 else np.inf

    def _try(self, step: float) -> None:
        """Keep the trial at a step, and its slope, if they are finite."""
        trial = self.posterior.trial(self.origin.theta + step * self.direction)
        if trial is not None and trial.gradient is not None:
            self._last = (step, trial, dot(trial.gradient, self.direction))


# Curvature that a coordinate is taken to have at least, as a share of the mean: without a prior it may vanish.
_FLATTEST = 1e-8


class LogPosterior:
    """The objective that solvers see: values, gradients, Hessian products, named blocks."""

    def __init__(self, datafit: Datafit, penalty: Penalty | None = None):
        self.datafit = datafit
        self.blocks: list[Block] = []
        self.size = 0
        for design in datafit.designs:
            self.blocks.append(block_after(self.size, design))
            self.size = self.blocks[-1].rows.stop
        self.fused = False
        #: By default the one that the terms ask for.
        self.penalty: Penalty = penalty_of(self.blocks) if penalty is None else penalty

    def prefer_fused_passes(self) -> None:
        """Compute value and gradient together from now on, where the field allows it, and keep no potentials."""
        self.fused = self.datafit.fused is not None

    @property
    def prior_precision(self) -> np.ndarray:
        """1 / s in every coordinate, zero where there is no Gaussian prior."""
        return self.penalty.precision

    @cached_property
    def metric(self) -> np.ndarray:
        """About how curved the objective is along each coordinate, (size,): one number per clique set."""
        metric = self.prior_precision.copy()
        for index, block in enumerate(self.blocks):
            metric[block.rows] += self.datafit.curvature.at_start(index)
        metric[metric == 0.0] = 1.0  # no prior and no clique: these coefficients stay where they are
        return metric

    def metric_at(self, point: Point) -> np.ndarray:
        """About how curved the objective is along each coordinate near a point that is no longer the start.

        Between the diagonal of the curvature and its mean: their geometric mean, coordinate by coordinate.
        """
        metric = self.metric.copy()
        for index, block in enumerate(self.blocks):
            if self.fused:
                diagonal = None if index else self.datafit.fused.curvature_diagonal(self.split(point.theta))  # type: ignore[union-attr]
            else:
                diagonal = self.datafit.curvature.diagonal(point.evaluation, index)
                if diagonal is not None:
                    self.datafit.passes += 0.5 * self.datafit.share(index)
            if diagonal is not None and diagonal.any():
                curvature = block.diagonal(diagonal) + self.prior_precision[block.rows]
                mean = curvature.mean()
                metric[block.rows] = np.sqrt(np.maximum(curvature, _FLATTEST * mean) * mean)
        return metric

    @property
    def convex(self) -> bool:
        """Whether the objective is convex, so that lower bounds hold everywhere."""
        return self.datafit.facts.convex

    def frozen(self, theta: np.ndarray) -> LogPosterior:
        """Return the convex objective of the labels as they are completed at theta; same value of gradients there."""
        frozen = LogPosterior(frozen_at(self.datafit, self.split(theta)), self.penalty)
        frozen.fused = self.fused
        return frozen

    @property
    def approximation(self) -> str | None:
        """How approximate inference is called; None where it is exact, and values, gradients and bounds are."""
        return self.datafit.facts.approximation

    @property
    def raw(self) -> bool:
        """Whether dense inputs enter as they are, whitened by no basis and no metric: expect bad conditioning."""
        measured = {dense.index for dense in self._dense_sets}
        return any(design.dense_inputs for index, design in enumerate(self.datafit.designs) if index not in measured)

    @property
    def sparse_values(self) -> int:
        """How many values features hold that are sparse indeed, one in ten at most."""
        return sum(design.stored_values for design in self.datafit.designs if design.density <= 0.1)

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features, and so of gradients: the widest among the sets."""
        return np.result_type(*(design.dtype for design in self.datafit.designs))

    def step_pairs(self, limit: int, metric: np.ndarray) -> StepMemory | None:
        """Return room for these steps where the features are; None to keep them on the host."""
        return self.datafit.step_pairs(limit, self._late(metric), self._dense_sets)

    def coordinates(self, metric: np.ndarray, dtype: np.dtype) -> Coordinates:
        """Return coordinates in which Gram matrices of dense features, and ``metric`` elsewhere, are the identity."""
        # Sets that see one table under one prior, as the labels of an instance do, share their factor.
        known: dict[tuple, np.ndarray | None] = {}
        factors = []
        for dense in self._dense_sets:
            key = (id(self.datafit.designs[dense.index].table), dense.curvature, dense.precision)
            if key not in known:
                known[key] = factor_of(self.datafit.curvature.gram(dense.index), dense.curvature, dense.precision)
            if (factor := known[key]) is not None:
                factors.append((dense, factor))
        return Coordinates(self._late(metric), factors, dtype)

    def _late(self, metric: np.ndarray) -> np.ndarray:
        """Return a metric late in a fit, beside those of dense sets; by itself its scale has no meaning."""
        measured = self._dense_sets
        return self.prior_precision + LATE_SHARE * (metric - self.prior_precision) if measured else metric

    @cached_property
    def _dense_sets(self) -> list[DenseSet]:
        """The sets whose metric is worth a Gram matrix of their features; none whose labels share coefficients."""
        found = []
        for index, block in enumerate(self.blocks):
            curvature = LATE_SHARE * self.datafit.curvature.gram_scale(index)
            term = block.design.term
            if curvature and is_quadratic(term):
                found.append(DenseSet(index, block.rows, block.shape, curvature, 1.0 / block.prior_variance))
        return found

    def dual_start(self, random: np.random.Generator, close: float = 0.0) -> np.ndarray | None:
        """Return theta where stochastic ascent of the dual ends, near the optimum; None where that is of no use.

        ``close`` is a relative gap that is near enough where the penalty is not smooth.
        """
        ascent = self.datafit.dual_ascent()
        if ascent is None:
            return None
        parts = ascent.run(random, close)
        self.datafit.passes += ascent.epochs
        return None if parts is None or not ascent.value < self.value_at_zero else self.flatten(parts)

    @property
    def passes(self) -> float:
        """Passes over the features so far."""
        return self.datafit.passes

    def split(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients (r, q) of each set; where labels are tied, those of all labels."""
        return [block.split(theta) for block in self.blocks]

    def flatten(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return one vector from the coefficients of each set, or from gradients in them."""
        return np.concatenate([block.reduced(part) for block, part in zip(self.blocks, parts, strict=True)])

    def expanded(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients of each set over all its features, seen in training or not."""
        parts = [block.expanded(theta) for block in self.blocks]
        # A small part that is a view of theta would keep all of it.
        return [part.copy() if 2 * part.size < theta.size else part for part in parts]

    def compressed(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return theta from coefficients over all features."""
        return np.concatenate([block.compressed(part) for block, part in zip(self.blocks, parts, strict=True)])

    def potentials(self, theta: np.ndarray, only: Sequence[int] | None = None) -> Potentials:
        """Return the potentials of theta: half a pass."""
        return self.datafit.potentials(self.split(theta), only)

    def trial(self, theta: np.ndarray, near: Point | None = None) -> Trial | None:
        """Return the value at theta: half a pass (none at zero).

        With ``near``, None if a potential has moved from that point by more than a hundred nats: beyond some five
        hundred, inference needs logarithms and is far slower, and no step of use is that long.
        """
        theta = np.asarray(theta, dtype=np.float64)
        if self.fused:
            return self._fused_trial(theta)
        potentials = self.potentials(theta, only=None if np.any(theta) else ())
        if near is not None and self.datafit.largest(potentials.moved(-1.0, near.potentials)) > FAR:
            return None
        evaluation = self.datafit.evaluate(potentials)
        return Trial(theta, evaluation.value + self.penalty.value(theta), potentials, evaluation)

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings equally likely; no labels forbidden."""
        return self.datafit.value_at_zero

    def _fused_trial(self, theta: np.ndarray) -> Trial | None:
        if not np.isfinite(theta.sum()):
            return None
        value, parts = self.datafit.fused.value_and_gradient(self.split(theta))  # type: ignore[union-attr]
        self.datafit.passes += 1.0
        gradient = self.flatten(parts)
        gradient += self.penalty.gradient(theta)
        value += self.penalty.value(theta)
        return Trial(theta, value, None, None, gradient) if np.isfinite(value) else None

    def largest_potential(self, theta: np.ndarray) -> float:
        """Return the largest absolute potential of theta, by a fused pass."""
        self.datafit.passes += 0.5
        return self.datafit.fused.largest_potential(self.split(theta))  # type: ignore[union-attr]

    def complete(self, trial: Trial) -> Point:
        """Return a trial with its gradient: half a pass, none if it is known already."""
        if trial.gradient is not None or trial.evaluation is None:
            assert trial.gradient is not None
            return Point(self, trial.theta, trial.value, trial.gradient, None, None)
        gradient = self.flatten(self.datafit.pull_back(trial.evaluation.residual))
        gradient += self.penalty.gradient(trial.theta)
        return Point(self, trial.theta, trial.value, gradient, trial.potentials, trial.evaluation)

    def at(self, theta: np.ndarray) -> Point:
        """Return value and gradient at theta: one pass (half of one at zero)."""
        trial = self.trial(theta)
        if trial is None:
            raise ValueError("the objective is not finite at these coefficients")
        return self.complete(trial)

    def along(self, point: Point, direction: Direction) -> AnyLine:
        """Return the objective on a line: half a pass unless the direction's potentials are known."""
        return FusedLine(self, point, direction) if self.fused else Line(self, point, direction)

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
            product[self.blocks[index].rows] += self.blocks[index].reduced(part)
        return product, potentials

    def curvature_block(self, point: Point, index: int) -> np.ndarray:
        """Return eq. 30 for one set: within-clique covariances plus the prior precision."""
        block = self.blocks[index]
        matrix = block.reduced_matrix(self.datafit.curvature.block(point.evaluation, index))
        matrix[np.diag_indices(len(matrix))] += 1.0 / block.prior_variance
        return matrix

    def gap_parts(self, point: Point, slope: np.ndarray | None = None) -> dict[str, float]:
        """Return what each set could still improve, at most: (s_c / 2) ||grad_c||^2 of a Gaussian prior (Lemma 9).

        ``slope`` is the gradient less that of squares about zero, where it is known already.
        """
        if slope is None:
            slope = self.prior_precision * point.theta
            np.subtract(point.gradient, slope, out=slope)
        return {
            block.name: term_gap(block.design.term, point.theta[block.rows], slope[block.rows]) for block in self.blocks
        }
