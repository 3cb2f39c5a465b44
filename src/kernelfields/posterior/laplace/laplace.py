"""The Laplace approximation of a posterior: a Gaussian at its mode, with the curvature of the mode.

    theta ~ N(mode, H^-1),    H = D^-1/2 (I + B) D^-1/2,    B = D^1/2 J D^1/2
    log evidence = -P(mode) - (1/2) log det(I + B)

D is the diagonal matrix of prior variances, J the Hessian of the negative log-likelihood. The evidence contains the
normalising constants of both Gaussians, so it can be compared between kernels, ranks and variances.

*exact*: J is computed and factored: O(size^2) memory, O(size^3) time, with a Hessian product for each coefficient.
Without edges J is block diagonal in the cliques, and needs a few products of features only.
*lanczos*: log det by stochastic Lanczos quadrature (Rademacher probes, with a standard error), samples by Lanczos
vectors of (I + B)^-1/2. Cost: ``steps`` Hessian products for each probe or sample. The variance in directions outside
the Krylov space is too large; ``truncation`` is the relative change of a result over the last steps.
Raises ValueError for terms without a prior, for an l1 penalty and for approximate inference; LinAlgError if the Hessian
is not finite, or so much larger than the prior precisions that they are lost to rounding.

The mode is found by Newton steps, preconditioned with the curvature of a nearby point: in a search the likelihood's
curvature J of the previous point is available, and H = D^-1 + J with the new prior variances is close to the Hessian at
the new mode. Conjugate gradients then need a few Hessian products for each Newton step, instead of dozens with the
prior alone. When the products have cost as much as a Hessian, J is computed again at the current point. Cost: a factor
of H, O(size^3), and a pass for each product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from kernelfields.numerics.lanczos import first_column, lanczos_vectors, spectrum
from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.curvature import has_blocked_passes, likelihood_hessian
from kernelfields.objective.posterior import Direction, LogPosterior, Point
from kernelfields.solvers.loop import minimize
from kernelfields.solvers.newton import HessianRule, newton_direction

#: Up to this many coefficients the Hessian is spelled out.
EXACT_SIZE = 1500
# The gradient of the evidence feels an error of the mode in the first order.
EXACT_MODE = 1e-11
_LAST_STEP = 1e-8
# Tolerance of modes in a search: with the last Newton step, the error is far below the search's tolerance in nats.
SEARCHED_MODE = 1e-6
_LAST_SEARCHED_STEP = 1e-2
_PROBED_MODE = 1e-8
# The smallest relative gap that products with float32 features can resolve.
_ROUNDED_MODE = 1e-6
_MODE_ITERATIONS = 100
# The time of a blockwise Hessian is about that of one product for each _COEFFICIENTS_PER_PRODUCT coefficients with at
# most _FEW_LABELS labels; with more labels, one product for proportionally fewer coefficients.
_COEFFICIENTS_PER_PRODUCT = 30
_FEW_LABELS = 4
_FEW_PRODUCTS = 20
# A pivot below this multiple of the rounding error of its diagonal entry may have an error of 0.1 nat.
_ROUNDINGS_PER_PIVOT = 100.0


@dataclass(frozen=True)
class Evidence:
    """The log evidence of a field.

    Parameters
    ----------
    value : float
        The log evidence.
    standard_error : float
        The standard error of its log determinant; 0 if it is exact.
    log_determinant : float
        The log determinant of the Hessian.

    Examples
    --------
    >>> from kernelfields import ChainCRF
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> evidence = crf.laplace(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> round(evidence.value, 1), evidence.standard_error
    (-2.3, 0.0)
    """

    value: float
    standard_error: float
    log_determinant: float

    def __str__(self) -> str:
        error = f" +- {self.standard_error:.2g}" if self.standard_error else ""
        return f"log evidence {self.value:.6g}{error}"


class Laplace:
    """A Gaussian at the mode ``point`` of a posterior."""

    def __init__(
        self,
        point: Point,
        *,
        method: str = "auto",
        steps: int = 100,
        probes: int = 10,
        random: np.random.Generator | None = None,
        exact_size: int = EXACT_SIZE,
        announce: Callable[[str], None] = lambda text: None,
    ):
        posterior = point.posterior
        check_has_hessian(posterior)
        if method not in ("auto", "exact", "lanczos"):
            raise ValueError(f"method must be 'auto', 'exact' or 'lanczos', got {method!r}")
        self.point = point
        self.posterior = posterior
        self._announce = announce
        self.method = method if method != "auto" else "exact" if posterior.size <= exact_size else "lanczos"
        self.steps = min(steps, posterior.size)
        self._deviations = 1.0 / np.sqrt(posterior.prior_precision)
        #: By how much, relatively, the last quarter of the Lanczos steps has moved a sample or product, at most.
        self.truncation = 0.0
        # Pairs of vectors with E sum_k left_k right_k^T = (I + B)^-1, for traces by probes.
        self._probes: list[tuple[np.ndarray, np.ndarray]] = []
        if self.method == "exact":
            #: The Hessian of the likelihood at the mode.
            self.curvature: np.ndarray | None = likelihood_hessian(point)
            self._factor = self._factor_whitened()
            log_determinant, error = 2.0 * float(np.log(np.diag(self._factor)).sum()), 0.0
        else:
            self.curvature = None
            log_determinant, error = self._estimate_log_determinant(probes, random or np.random.default_rng(0))
        self.evidence = Evidence(-point.value - 0.5 * log_determinant, 0.5 * error, log_determinant)

    @property
    def mode(self) -> np.ndarray:
        """The coefficients at the mode, (size,)."""
        return self.point.theta

    @cached_property
    def root(self) -> np.ndarray:
        """A root R of the covariance, H^-1 = R^T R, (size, size); for the exact method only."""
        if self.method != "exact":
            raise ValueError("a root of the covariance needs method='exact'; samples are there for any size")
        inverse = scipy.linalg.solve_triangular(
            self._factor, np.eye(self.posterior.size), lower=True, check_finite=False
        )
        return inverse * self._deviations

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw coefficients, (n_samples, size)."""
        noise = random.standard_normal((n_samples, self.posterior.size))
        if self.method == "exact":
            moved = scipy.linalg.solve_triangular(self._factor.T, noise.T, lower=False, check_finite=False).T
        else:
            moved = np.empty_like(noise)
            for number, row in enumerate(noise):
                self._announce(f"sample {number + 1} of {n_samples}, {self.steps} Lanczos steps each")
                moved[number] = self._apply_function(row, lambda nodes: 1.0 / np.sqrt(nodes))
        return self.mode + self._deviations * moved

    def covariance_products(self, vectors: np.ndarray) -> np.ndarray:
        """Compute H^-1 times the rows of ``vectors`` (k, size), exactly or with ``steps`` Lanczos vectors."""
        right = vectors * self._deviations
        if self.method == "exact":
            solved = scipy.linalg.cho_solve((self._factor, True), right.T, check_finite=False).T
        else:
            solved = np.stack([self._apply_function(row, lambda nodes: 1.0 / nodes) for row in right])
        return self._deviations * solved

    def relative_rise(self, draws: np.ndarray) -> float:
        """Return the rise of the objective from the mode to draws (k, size), relative to that of the Gaussian.

        1 where the posterior is a Gaussian; far above 1 where it falls off faster than its curvature at the mode
        predicts, so that draws go where it has no mass. Infinite where the objective is not finite.
        """
        predicted = found = 0.0
        for theta in draws:
            moved = theta - self.mode
            predicted += 0.5 * float(moved @ self.posterior.hessian_product(self.point, moved)[0])
            trial = self.posterior.trial(theta)
            found += np.inf if trial is None else trial.value - self.point.value
        return found / predicted

    def signed_roots(
        self, random: np.random.Generator, *, all_up_to: int = 400, probes: int = 100
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows r_k and signs s_k with sum_k s_k r_k r_k^T = H^-1; in expectation for large fields.

        Up to so many coefficients all roots of the covariance are used; beyond, so many probes stand for them.
        """
        if self.method != "exact":
            left, right = (self._deviations * np.stack(rows) for rows in zip(*self._probes, strict=True))
            return 0.5 * np.vstack([left + right, left - right]), np.repeat([1.0, -1.0], len(left))
        size = self.posterior.size
        if size <= all_up_to:
            return self.root, np.ones(size)
        # Orthogonal directions: what two of them see of H^-1 is not seen twice.
        directions = np.linalg.qr(random.standard_normal((size, probes)))[0]
        rows = scipy.linalg.solve_triangular(
            self._factor, directions, lower=True, trans="T", overwrite_b=True, check_finite=False
        ).T
        return np.sqrt(size / probes) * self._deviations * rows, np.ones(probes)

    def _factor_whitened(self) -> np.ndarray:
        """Return the Cholesky factor of I + B; LinAlgError if rounding may exceed a pivot, which is at least 1."""
        assert self.curvature is not None
        matrix = self.curvature * self._deviations
        matrix *= self._deviations[:, None]
        matrix[np.diag_indices(len(matrix))] += 1.0
        if not np.isfinite(matrix.diagonal()).all():
            raise np.linalg.LinAlgError("the Hessian is not finite at these coefficients")
        # What is left of an entry of the diagonal is wrong on the scale of that entry, whatever the others are.
        least = _ROUNDINGS_PER_PIVOT * np.finfo(np.float64).eps * matrix.diagonal()
        try:
            factor = scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            factor = np.zeros_like(matrix)
        if (np.square(np.diagonal(factor)) < least).any():
            raise np.linalg.LinAlgError(
                "prior variances are so large that rounding loses the prior in the exact Hessian: use smaller ones, or "
                "method='lanczos'"
            )
        return factor

    def _multiply_whitened(self, vector: np.ndarray) -> np.ndarray:
        """Multiply a vector by I + B."""
        return self._deviations * self.posterior.hessian_product(self.point, self._deviations * vector)[0]

    def _estimate_log_determinant(self, probes: int, random: np.random.Generator) -> tuple[float, float]:
        """Estimate log det (I + B) by stochastic Lanczos quadrature, with its standard error; store the solves."""
        size = self.posterior.size
        values = []
        for number in range(probes):
            self._announce(f"probe {number + 1} of {probes} of the determinant, {self.steps} Lanczos steps each")
            probe = random.choice([-1.0, 1.0], size=size)
            basis, diagonal, beside = lanczos_vectors(self._multiply_whitened, probe, self.steps)
            nodes, vectors = spectrum(diagonal, beside)
            values.append(size * float(np.square(vectors[0]) @ np.log(nodes)))
            solved = np.sqrt(size) * ((vectors @ (vectors[0] / nodes)) @ basis)
            self._probes.append((solved, probe / probes))
        spread = float(np.std(values, ddof=1)) if probes > 1 else np.inf
        return float(np.mean(values)), spread / np.sqrt(probes)

    def _apply_function(self, vector: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Apply function(I + B) to a vector within its Krylov space."""
        length = float(np.linalg.norm(vector))
        if length == 0.0:
            return np.zeros_like(vector)
        basis, diagonal, beside = lanczos_vectors(self._multiply_whitened, vector, self.steps)
        weights = first_column(diagonal, beside, function)
        short = max(1, 3 * len(diagonal) // 4)
        change = weights.copy()
        change[:short] -= first_column(diagonal[:short], beside[: short - 1], function)
        if len(diagonal) == self.steps < self.posterior.size:
            self.truncation = max(self.truncation, float(np.linalg.norm(change) / np.linalg.norm(weights)))
        return length * (weights @ basis)


def check_has_hessian(posterior: LogPosterior) -> None:
    """Raise ValueError for an objective without a Hessian."""
    if posterior.approximation is not None:
        raise ValueError(
            f"a Laplace approximation needs the exact Hessian, and inference={posterior.approximation!r} is "
            "approximate: use inference='junction' where it fits"
        )
    if not posterior.convex:
        raise ValueError(
            "a Laplace approximation, and the evidence, need a label at every position, and labels are partly known "
            "here: labels that a field fills in are guesses and would count as if they were seen, so fit to the items "
            "that are labelled throughout, and choose variances by cross-validation"
        )
    if not posterior.penalty.quadratic:
        raise ValueError(
            "a Laplace approximation needs a Gaussian prior on every coefficient: finite prior variances, no l1"
        )


def find_mode(
    posterior: LogPosterior,
    start: np.ndarray | None,
    method: str,
    curvature: np.ndarray | None = None,
    tol: float = EXACT_MODE,
) -> Point:
    """Minimize an objective, to the precision of its features for exact curvature.

    ``curvature`` is a Hessian of the likelihood at a point nearby, perhaps of another kernel.
    """
    check_has_hessian(posterior)
    exact = method == "exact" or (method == "auto" and posterior.size <= EXACT_SIZE)
    rounded = posterior.dtype != np.float64
    with blas_threads(1):
        rule = GuidedNewton(posterior, curvature, renews=exact and has_blocked_passes(posterior))
        tol = max(tol, _ROUNDED_MODE if rounded else EXACT_MODE if exact else _PROBED_MODE)
        solution = minimize(posterior, rule, start=start, tol=tol, max_iter=_MODE_ITERATIONS)
        point = posterior.make_point(solution.theta)
        # Where the mode is zero itself (uninformative features, classes of equal weight), no gradient is left.
        if exact and not rounded and point.gradient.any():
            # One Newton step, solved well, squares the error that is left.
            direction = rule.solve(point, _LAST_STEP if tol < SEARCHED_MODE else _LAST_SEARCHED_STEP)
            polished = posterior.make_point(point.theta + direction.theta)
            if np.linalg.norm(polished.gradient) < np.linalg.norm(point.gradient):
                point = polished
    return point


def _estimate_hessian_cost(posterior: LogPosterior) -> int:
    """Estimate the cost of a blockwise Hessian in Hessian products."""
    n_labels = max(design.n_labels for design in posterior.datafit.designs)
    return posterior.size * max(n_labels, _FEW_LABELS) // (_FEW_LABELS * _COEFFICIENTS_PER_PRODUCT)


class GuidedNewton(HessianRule):
    """An inexact Newton rule with exact Hessian products, preconditioned by D^-1 + J, or D^-1 without J.

    With ``renews`` J is computed at the present point when products have cost as much.
    """

    name = "newton-cg"

    def __init__(self, posterior: LogPosterior, curvature: np.ndarray | None, *, renews: bool):
        self._precision = posterior.prior_precision
        self._patience = max(_FEW_PRODUCTS, _estimate_hessian_cost(posterior)) if renews else np.inf
        self._products = 0
        self._factor: tuple[np.ndarray, bool] | None = None
        if curvature is not None:
            self._set_curvature(curvature)

    def _set_curvature(self, curvature: np.ndarray) -> None:
        matrix = curvature.copy()
        matrix[np.diag_indices(len(matrix))] += self._precision
        try:
            self._factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # rounding has lost the prior beside J: D^-1 alone is left
            self._factor = None
        self._products = 0

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return an inexact Newton direction, less exact in early iterations."""
        if self._products > self._patience:
            self._set_curvature(likelihood_hessian(point))
        loosest = 0.3 if self._factor is None else 0.1
        return self.solve(point, min(loosest, max(1e-3, float(np.sqrt(relative_gap)))), self._patience)

    def solve(self, point: Point, tolerance: float, most: float = np.inf) -> Direction:
        """Solve H p = -gradient to a relative residual in the norm of the preconditioner.

        It ends early when there have been more than ``most`` products with this preconditioner.
        """
        left = min(2 * point.posterior.size, most - self._products + 1)
        direction, steps = newton_direction(point, tolerance, left, precondition=self._precondition)
        self._products += steps
        return direction

    def _precondition(self, vector: np.ndarray) -> np.ndarray:
        if self._factor is None:
            return vector / self._precision
        return scipy.linalg.cho_solve(self._factor, vector, check_finite=False)
