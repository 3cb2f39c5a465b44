"""The mode of a field for a Laplace approximation: Newton steps, guided by the curvature of a point nearby.

Along a search the likelihood's curvature J of the point before is at hand, and H = D^-1 + J for the new prior
variances is close to the Hessian at the new mode. As a preconditioner it leaves a few Hessian products for each
Newton step of conjugate gradients, where the prior alone leaves dozens. Where products add up to what a Hessian
costs, it is computed anew at the present point. Cost: a factor of H, O(size^3), and a pass for each product.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.curvature import likelihood_hessian, works_in_blocks
from kernelfields.objective.posterior import Direction, LogPosterior, Point
from kernelfields.solvers.loop import minimize
from kernelfields.solvers.newton import conjugate_gradients
from kernelfields.uncertainty.laplace.laplace import EXACT_SIZE, refuse_without_curvature

# The gradient of the evidence feels an error of the mode in the first order.
EXACT_MODE = 1e-11
_LAST_STEP = 1e-8
# Enough while searching: with the last Newton step, what is left is far below the nats that a search looks for.
SEARCHED_MODE = 1e-6
_LAST_SEARCHED_STEP = 1e-2
_PROBED_MODE = 1e-8
# Products with float32 features know no gap below this one.
_ROUNDED_MODE = 1e-6
_MODE_ITERATIONS = 100
# A Hessian spelled out in blocks takes about as long as a product for each so many coefficients.
_PRODUCTS_PER_HESSIAN = 30
_FEW_PRODUCTS = 20


def mode_of(
    posterior: LogPosterior,
    start: np.ndarray | None,
    method: str,
    curvature: np.ndarray | None = None,
    tol: float = EXACT_MODE,
) -> Point:
    """Return the minimiser of an objective: to the precision of its features where its curvature will be exact.

    ``curvature`` is a Hessian of the likelihood at a point nearby, perhaps of another kernel.
    """
    refuse_without_curvature(posterior)
    exact = method == "exact" or (method == "auto" and posterior.size <= EXACT_SIZE)
    rounded = posterior.dtype != np.float64
    with blas_threads(1):
        rule = GuidedNewton(posterior, curvature, renews=exact and works_in_blocks(posterior))
        tol = max(tol, _ROUNDED_MODE if rounded else EXACT_MODE if exact else _PROBED_MODE)
        solution = minimize(posterior, rule, start=start, tol=tol, max_iter=_MODE_ITERATIONS)
        point = posterior.at(solution.theta)
        # Where the mode is zero itself (features that say nothing, classes of equal weight), no gradient is left.
        if exact and not rounded and point.gradient.any():
            # One Newton step, solved well, squares the error that is left.
            direction = rule.solve(point, _LAST_STEP if tol < SEARCHED_MODE else _LAST_SEARCHED_STEP)
            polished = posterior.at(point.theta + direction.theta)
            if np.linalg.norm(polished.gradient) < np.linalg.norm(point.gradient):
                point = polished
    return point


class GuidedNewton:
    """Inexact Newton with exact Hessian products, preconditioned by D^-1 + J, or by D^-1 while J is not known.

    With ``renews`` J is computed at the present point when products have cost as much.
    """

    name = "newton-cg"

    def __init__(self, posterior: LogPosterior, curvature: np.ndarray | None, *, renews: bool):
        self._precision = posterior.prior_precision
        self._patience = max(_FEW_PRODUCTS, posterior.size // _PRODUCTS_PER_HESSIAN) if renews else np.inf
        self._products = 0
        self._factor: tuple[np.ndarray, bool] | None = None
        if curvature is not None:
            self._guide_by(curvature)

    def _guide_by(self, curvature: np.ndarray) -> None:
        matrix = curvature.copy()
        matrix[np.diag_indices(len(matrix))] += self._precision
        self._factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        self._products = 0

    def prepare(self, posterior: LogPosterior) -> None:
        """Nothing to prepare: the factor is there."""

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return an inexact Newton direction; early systems are solved loosely."""
        if self._products > self._patience:
            self._guide_by(likelihood_hessian(point))
        loosest = 0.3 if self._factor is None else 0.1
        return self.solve(point, min(loosest, max(1e-3, float(np.sqrt(relative_gap)))), self._patience)

    def learn(self, before: Point, after: Point) -> None:
        """Nothing is carried from step to step."""

    def solve(self, point: Point, tolerance: float, most: float = np.inf) -> Direction:
        """Solve H p = -gradient to a relative residual, measured by the preconditioner.

        It ends early when there have been more than ``most`` products with this preconditioner.
        """
        left = min(2 * point.posterior.size, most - self._products + 1)
        direction, steps = conjugate_gradients(point, tolerance, left, precondition=self._preconditioned)
        self._products += steps
        return direction

    def _preconditioned(self, vector: np.ndarray) -> np.ndarray:
        if self._factor is None:
            return vector / self._precision
        return scipy.linalg.cho_solve(self._factor, vector, check_finite=False)
