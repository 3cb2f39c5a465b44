"""The negative log-posterior of a field (eq. 15), in whitened coordinates.

    P(theta) = sum_c ||V_c||^2 / (2 s_c) + sum_i weight_i (log Z_i - score_i(y^i))
    dP/dV_c  = Z_c^T (marginals - labels) A_c + V_c / s_c                               (eq. 21)
    H d      = Z_c^T (covariance response to Z d A^T) A_c + d_c / s_c                   (eq. 22)

With an l1 penalty the objective also holds sum_j l1_j |theta_j|: values include it, gradients are those of the
smooth part, and ``pseudo_gradient`` is the steepest direction of the whole.

theta is one flat vector, the V_c one after the other. Potentials are linear in theta, so once the potentials
of a direction are known, values and slopes along it need inference only: a line search costs no pass over the
features, and a gradient at the point it ends in costs half a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kernelfields.engines import Potentials, ThreadsEngine, dot
from kernelfields.posterior.lines import FAR, FusedLine, Line
from kernelfields.posterior.penalty import penalty_gap
from kernelfields.posterior.points import Block, Direction, Point, Trial

# Curvature that a coordinate is taken to have at least, as a share of the mean: without a prior it may vanish.
_FLATTEST = 1e-8


class LogPosterior:
    """The objective that solvers see: values, gradients, Hessian products, named blocks."""

    def __init__(self, engine: ThreadsEngine):
        self.engine = engine
        self.blocks: list[Block] = []
        begin = 0
        for each in engine.sets:
            size = each.shape[0] * each.shape[1]
            rows = slice(begin, begin + size)
            self.blocks.append(Block(each.name, rows, each.shape, each.prior_variance, each.l1))
            begin += size
        self.size = begin
        self.fused = False
        self.prior_precision = np.empty(begin)
        self.l1 = np.empty(begin)
        for block in self.blocks:
            self.prior_precision[block.rows] = 1.0 / block.prior_variance
            self.l1[block.rows] = block.l1

    def prefer_fused_passes(self) -> None:
        """Compute value and gradient together from now on, where the field allows it, and keep no potentials."""
        self.fused = self.engine.fused is not None

    @cached_property
    def prior_deviation(self) -> np.ndarray:
        """The standard deviation of the prior in every coordinate, infinite where there is none."""
        with np.errstate(divide="ignore"):
            return 1.0 / np.sqrt(self.prior_precision)

    @cached_property
    def has_l1(self) -> bool:
        """Whether any coefficient has an l1 penalty."""
        return bool(self.l1.any())

    @cached_property
    def has_squares_only(self) -> bool:
        """Whether the penalty is that of a Gaussian prior in every coordinate, and nothing else."""
        return not self.has_l1 and bool(self.prior_precision.all())

    def penalty(self, theta: np.ndarray) -> float:
        """Return the penalty of theta: ||theta||^2 / (2 s) and l1 |theta|, summed."""
        value = 0.5 * dot(theta, self.prior_precision * theta)
        return value + dot(self.l1, np.abs(theta)) if self.has_l1 else value

    def pseudo_gradient(self, point: Point) -> np.ndarray:
        """Return the subgradient of smallest norm at a point, for objectives with l1."""
        gradient, l1 = point.gradient, self.l1
        at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
        return np.where(point.theta == 0.0, at_zero, gradient + l1 * np.sign(point.theta))

    @cached_property
    def metric(self) -> np.ndarray:
        """About how curved the objective is along each coordinate, (size,): one number per clique set."""
        metric = self.prior_precision.copy()
        for index, block in enumerate(self.blocks):
            metric[block.rows] += self.engine.start_curvature(index)
        metric[metric == 0.0] = 1.0  # no prior and no clique: these coefficients stay where they are
        return metric

    def metric_at(self, point: Point) -> np.ndarray:
        """About how curved the objective is along each coordinate near a point that is no longer the start.

        Between the diagonal of the curvature and its mean: their geometric mean, coordinate by coordinate.
        """
        metric = self.metric.copy()
        for index, block in enumerate(self.blocks):
            if self.fused:
                diagonal = None if index else self.engine.fused.curvature_diagonal(self.split(point.theta))  # type: ignore[union-attr]
            else:
                diagonal = self.engine.curvature_diagonal(point.evaluation, index)
            if diagonal is not None and diagonal.any():
                curvature = diagonal.ravel() + self.prior_precision[block.rows]
                mean = curvature.mean()
                metric[block.rows] = np.sqrt(np.maximum(curvature, _FLATTEST * mean) * mean)
        return metric

    @property
    def approximation(self) -> str | None:
        """How approximate inference is called; None where it is exact, and values, gradients and bounds are."""
        return self.engine.approximation

    @property
    def raw(self) -> bool:
        """Whether dense inputs enter as they are, not whitened by a basis: expect bad conditioning."""
        return any(each.dense_inputs for each in self.engine.sets)

    @property
    def sparse_values(self) -> int:
        """How many values features hold that are sparse indeed, one in ten at most."""
        return sum(each.stored_values for each in self.engine.sets if each.density <= 0.1)

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features, and so of gradients: the widest among the sets."""
        return np.result_type(*(each.dtype for each in self.engine.sets))

    @property
    def passes(self) -> float:
        """Passes over the features so far."""
        return self.engine.passes

    def split(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients (r, q) of each set."""
        return [theta[block.rows].reshape(block.shape) for block in self.blocks]

    def flatten(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return one vector from the coefficients of each set."""
        return np.concatenate([part.ravel() for part in parts])

    def expanded(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients of each set over all its features, seen in training or not."""
        return [each.expand(part) for each, part in zip(self.engine.sets, self.split(theta), strict=True)]

    def compressed(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return theta from coefficients over all features."""
        return self.flatten([each.compress(part) for each, part in zip(self.engine.sets, parts, strict=True)])

    def potentials(self, theta: np.ndarray, only: Sequence[int] | None = None) -> Potentials:
        """Return the potentials of theta: half a pass."""
        return self.engine.potentials(self.split(theta), only)

    def trial(self, theta: np.ndarray, near: Point | None = None) -> Trial | None:
        """Return the value at theta: half a pass (none at zero).

        With ``near``, None if a potential has moved from that point by more than a hundred nats: beyond some five
        hundred, inference needs logarithms and is far slower, and no step of use is that long.
        """
        theta = np.asarray(theta, dtype=np.float64)
        if self.fused:
            return self._fused_trial(theta)
        potentials = self.potentials(theta, only=None if np.any(theta) else ())
        if near is not None and potentials.moved(-1.0, near.potentials).largest > FAR:
            return None
        evaluation = self.engine.evaluate(potentials)
        return Trial(theta, evaluation.value + self.penalty(theta), potentials, evaluation)

    @property
    def value_at_zero(self) -> float:
        """The value where all potentials are zero and all labellings equally likely; no labels forbidden."""
        return self.engine.value_at_zero

    def _fused_trial(self, theta: np.ndarray) -> Trial | None:
        if not np.isfinite(theta.sum()):
            return None
        value, parts = self.engine.fused.value_and_gradient(self.split(theta))  # type: ignore[union-attr]
        self.engine.passes += 1.0
        gradient = self.flatten(parts)
        gradient += self.prior_precision * theta
        value += self.penalty(theta)
        return Trial(theta, value, None, None, gradient) if np.isfinite(value) else None

    def largest_potential(self, theta: np.ndarray) -> float:
        """Return the largest absolute potential of theta, by a fused walk."""
        self.engine.passes += 0.5
        return self.engine.fused.largest_potential(self.split(theta))  # type: ignore[union-attr]

    def complete(self, trial: Trial) -> Point:
        """Return a trial with its gradient: half a pass, none if it is known already."""
        if trial.gradient is not None or trial.evaluation is None:
            assert trial.gradient is not None
            return Point(self, trial.theta, trial.value, trial.gradient, None, None)
        gradient = self.flatten(self.engine.pull_back(trial.evaluation.residual))
        gradient += self.prior_precision * trial.theta
        return Point(self, trial.theta, trial.value, gradient, trial.potentials, trial.evaluation)

    def at(self, theta: np.ndarray) -> Point:
        """Return value and gradient at theta: one pass (half of one at zero)."""
        trial = self.trial(theta)
        if trial is None:
            raise ValueError("the objective is not finite at these coefficients")
        return self.complete(trial)

    def along(self, point: Point, direction: Direction) -> Line | FusedLine:
        """Return the objective on a line: half a pass unless the direction's potentials are known."""
        return FusedLine(self, point, direction) if self.fused else Line(self, point, direction)

    def hessian_product(
        self, point: Point, vector: np.ndarray, only: Sequence[int] | None = None
    ) -> tuple[np.ndarray, Potentials]:
        """Return H vector and the potentials of vector: one pass.

        With ``only``, vector is zero outside the named blocks and so is what is returned.
        """
        potentials = self.potentials(vector, only)
        response = self.engine.hessian_response(point.evaluation, potentials)
        product = self.prior_precision * vector
        chosen = range(len(self.blocks)) if only is None else only
        for index, part in zip(chosen, self.engine.pull_back(response, only), strict=True):
            product[self.blocks[index].rows] += part.ravel()
        return product, potentials

    def curvature_block(self, point: Point, index: int) -> np.ndarray:
        """Return eq. 30 for one set: within-clique covariances plus the prior precision."""
        block = self.engine.curvature_block(point.evaluation, index)
        block[np.diag_indices(len(block))] += 1.0 / self.blocks[index].prior_variance
        return block

    def gap_parts(self, point: Point, slope: np.ndarray | None = None) -> dict[str, float]:
        """Return what each set could still improve, at most: (s_c / 2) ||grad_c||^2 without l1 (Lemma 9).

        ``slope`` is the gradient of the likelihood alone, where it is known already.
        """
        if slope is None:
            slope = point.gradient - self.prior_precision * point.theta
        return {
            block.name: penalty_gap(point.theta[block.rows], slope[block.rows], block.prior_variance, block.l1)
            for block in self.blocks
        }
