"""The negative log-posterior of a field (eq. 15), in whitened coordinates.

    P(theta) = sum_c ||V_c||^2 / (2 s_c) + sum_i weight_i (log Z_i - score_i(y^i))
    dP/dV_c  = Z_c^T (marginals - labels) A_c + V_c / s_c                               (eq. 21)
    H d      = Z_c^T (covariance response to Z d A^T) A_c + d_c / s_c                   (eq. 22)

theta is one flat vector, the V_c one after the other. Potentials are linear in theta, so once the potentials
of a direction are known, values and slopes along it need inference only: a line search costs no pass over the
features, and a gradient at the point it ends in costs half a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelfields.engines import Evaluation, Potentials, ThreadsEngine, dot

# Nats that a potential may move in the first trial of a line search.
_FAR = 100.0


@dataclass(frozen=True)
class Block:
    """The coefficients of one clique set within theta."""

    name: str
    rows: slice
    shape: tuple[int, int]
    prior_variance: float


class Point:
    """Where a solver stands: theta, value, gradient, and the potentials that go with them."""

    def __init__(
        self,
        posterior: LogPosterior,
        theta: np.ndarray,
        value: float,
        gradient: np.ndarray,
        potentials: Potentials,
        evaluation: Evaluation | None,
    ):
        self.posterior = posterior
        self.theta = theta
        self.value = value
        self.gradient = gradient
        self.potentials = potentials
        self._evaluation = evaluation

    @property
    def evaluation(self) -> Evaluation:
        """Beliefs at this point, recomputed if they were released."""
        if self._evaluation is None:
            self._evaluation = self.posterior.engine.evaluate(self.potentials)
        return self._evaluation

    def release(self) -> None:
        """Let go of the beliefs: several (N, L) arrays that are cheap to compute again."""
        self._evaluation = None


@dataclass
class Direction:
    """A direction in theta; its potentials too if they are known already."""

    theta: np.ndarray
    potentials: Potentials | None = None


class Line:
    """P along point + step * direction, by inference alone."""

    def __init__(self, posterior: LogPosterior, point: Point, direction: Direction):
        self.posterior = posterior
        self.origin = point
        self.direction = direction.theta
        self.slope = dot(point.gradient, direction.theta)
        self._potentials = direction.potentials or posterior.potentials(direction.theta)
        scaled = posterior.prior_precision * direction.theta
        self._prior = (
            0.5 * dot(point.theta, posterior.prior_precision * point.theta),
            dot(point.theta, scaled),
            0.5 * dot(direction.theta, scaled),
        )
        self._last: tuple[float, float, Potentials, Evaluation] | None = None

    @property
    def reach(self) -> float:
        """The step that moves a potential by a hundred nats, as far as a first trial should go.

        Beyond some five hundred, probabilities underflow and inference in logarithms is far slower.
        """
        furthest = max(float(np.abs(each).max()) for each in (self._potentials.node, self._potentials.edge))
        return _FAR / furthest if furthest > 0 else np.inf

    def __call__(self, step: float) -> tuple[float, float]:
        """Return value and slope at a step."""
        self._last = None
        potentials = self.origin.potentials.moved(step, self._potentials)
        if not (np.isfinite(potentials.node.sum()) and np.isfinite(potentials.edge.sum())):
            return np.inf, np.inf
        evaluation = self.posterior.engine.evaluate(potentials)
        constant, linear, quadratic = self._prior
        value = evaluation.value + constant + step * (linear + step * quadratic)
        slope = evaluation.residual.dot(self._potentials) + linear + 2.0 * step * quadratic
        self._last = (step, value, potentials, evaluation)
        return value, slope

    def point(self, step: float) -> Point:
        """Return the point at a step, with its gradient: half a pass."""
        if self._last is None or self._last[0] != step:
            self(step)
        if self._last is None:
            raise ValueError(f"the objective is not finite at step {step!r}")
        _, value, potentials, evaluation = self._last
        self._last = None
        theta = self.origin.theta + step * self.direction
        gradient = self.posterior.flatten(self.posterior.engine.pull_back(evaluation.residual))
        gradient += self.posterior.prior_precision * theta
        return Point(self.posterior, theta, value, gradient, potentials, evaluation)


class LogPosterior:
    """The objective that solvers see: values, gradients, Hessian products, named blocks."""

    def __init__(self, engine: ThreadsEngine):
        self.engine = engine
        self.blocks: list[Block] = []
        begin = 0
        for each in engine.sets:
            size = each.shape[0] * each.shape[1]
            self.blocks.append(Block(each.name, slice(begin, begin + size), each.shape, each.prior_variance))
            begin += size
        self.size = begin
        self.prior_precision = np.empty(begin)
        for block in self.blocks:
            self.prior_precision[block.rows] = 1.0 / block.prior_variance

    @cached_property
    def metric(self) -> np.ndarray:
        """About how curved the objective is along each coordinate, (size,): one number per clique set."""
        metric = self.prior_precision.copy()
        for index, block in enumerate(self.blocks):
            metric[block.rows] += self.engine.mean_curvature(index)
        return metric

    @property
    def raw(self) -> bool:
        """Whether dense inputs enter as they are, not whitened by a basis: expect bad conditioning."""
        return any(not each.whitened and isinstance(each.features, np.ndarray) for each in self.engine.sets)

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

    def at(self, theta: np.ndarray) -> Point:
        """Return value and gradient at theta: one pass (half of one at zero)."""
        theta = np.asarray(theta, dtype=np.float64)
        potentials = self.potentials(theta, only=None if np.any(theta) else ())
        evaluation = self.engine.evaluate(potentials)
        prior = self.prior_precision * theta
        value = evaluation.value + 0.5 * dot(theta, prior)
        gradient = self.flatten(self.engine.pull_back(evaluation.residual)) + prior
        return Point(self, theta, value, gradient, potentials, evaluation)

    def along(self, point: Point, direction: Direction) -> Line:
        """Return the objective on a line: half a pass unless the direction's potentials are known."""
        return Line(self, point, direction)

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

    def gap_parts(self, gradient: np.ndarray) -> dict[str, float]:
        """Return (s_c / 2) ||grad_c||^2 for each set: what it could still improve, at most (Lemma 9)."""
        return {
            block.name: 0.5 * block.prior_variance * dot(gradient[block.rows], gradient[block.rows])
            for block in self.blocks
        }
