"""The Laplace approximation of a posterior: a Gaussian at its mode, with the curvature there.

    theta ~ N(mode, H^-1),    H = D^-1/2 (I + B) D^-1/2,    B = D^1/2 J D^1/2
    log evidence = -P(mode) - (1/2) log det(I + B)

D holds the prior variances, J is the Hessian of the negative log-likelihood. The constants of both Gaussians, the
prior and the one at the mode, are in the evidence: it can be compared between kernels, ranks and variances.

*exact*: H is spelled out, one Hessian product per coefficient (for fields of single labels from within-clique
covariances, eq. 30, which are all there are), and factored: O(size^2) memory, O(size^3) time.
*lanczos*: log det by stochastic Lanczos quadrature (Rademacher probes, with a standard error), samples by Lanczos
vectors of (I + B)^-1/2. Cost: ``steps`` Hessian products for each probe or sample.
Fails: ValueError where a prior is missing, an l1 penalty is there, or inference is approximate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kernelfields.posterior.log_posterior import LogPosterior
from kernelfields.posterior.points import Point

#: Up to this many coefficients the Hessian is spelled out.
EXACT_SIZE = 1500
# Lanczos vectors are given up when the next one is this small beside the first.
_BREAKDOWN = 1e-12


@dataclass(frozen=True)
class Evidence:
    """The log evidence of a field, and the standard error of its log determinant (0 where it is exact)."""

    value: float
    standard_error: float
    log_determinant: float

    def __str__(self) -> str:
        error = f" +- {self.standard_error:.2g}" if self.standard_error else ""
        return f"log evidence {self.value:.6g}{error}"


class Laplace:
    """The Gaussian at the mode of a posterior; ``point`` is where a fit ended."""

    def __init__(
        self,
        point: Point,
        *,
        method: str = "auto",
        steps: int = 100,
        probes: int = 10,
        random: np.random.Generator | None = None,
    ):
        posterior = point.posterior
        _refuse(posterior)
        if method not in ("auto", "exact", "lanczos"):
            raise ValueError(f"method must be 'auto', 'exact' or 'lanczos', got {method!r}")
        self.point = point
        self.posterior = posterior
        self.method = method if method != "auto" else "exact" if posterior.size <= EXACT_SIZE else "lanczos"
        self.steps = min(steps, posterior.size)
        self._deviations = 1.0 / np.sqrt(posterior.prior_precision)
        random = random or np.random.default_rng(0)
        if self.method == "exact":
            self._factor = scipy.linalg.cholesky(self._whitened_hessian(), lower=True, check_finite=False)
            log_determinant, error = 2.0 * float(np.log(np.diag(self._factor)).sum()), 0.0
        else:
            log_determinant, error = self._estimated_log_determinant(probes, random)
        self.evidence = Evidence(-point.value - 0.5 * log_determinant, 0.5 * error, log_determinant)

    @property
    def mode(self) -> np.ndarray:
        """The coefficients at the mode, (size,)."""
        return self.point.theta

    def sample(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Draw coefficients, (n_samples, size)."""
        noise = random.standard_normal((n_samples, self.posterior.size))
        if self.method == "exact":
            moved = scipy.linalg.solve_triangular(self._factor.T, noise.T, lower=False, check_finite=False).T
        else:
            moved = np.stack([self._inverse_root(row) for row in noise])
        return self.mode + self._deviations * moved

    def covariance_products(self, vectors: np.ndarray) -> np.ndarray:
        """Return H^-1 times the rows of ``vectors`` (k, size); only for the exact method."""
        if self.method != "exact":
            raise ValueError("products with the covariance need method='exact'; samples are there for any size")
        right = (vectors * self._deviations).T
        return self._deviations * scipy.linalg.cho_solve((self._factor, True), right, check_finite=False).T

    def _whitened_product(self, vector: np.ndarray) -> np.ndarray:
        """Return (I + B) times a vector."""
        return self._deviations * self.posterior.hessian_product(self.point, self._deviations * vector)[0]

    def _whitened_hessian(self) -> np.ndarray:
        """Return I + B, (size, size)."""
        size = self.posterior.size
        matrix = np.empty((size, size))
        unit = np.zeros(size)
        for column in range(size):
            unit[column] = 1.0
            matrix[:, column] = self._whitened_product(unit)
            unit[column] = 0.0
        return 0.5 * (matrix + matrix.T)

    def _tridiagonal(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Lanczos vectors (k, size) of I + B from a start, and the tridiagonal matrix they give."""
        first = float(np.linalg.norm(start))
        vectors = [start / first]
        diagonal: list[float] = []
        beside: list[float] = []
        for _ in range(self.steps):
            product = self._whitened_product(vectors[-1])
            diagonal.append(float(product @ vectors[-1]))
            # Twice against all before: rounding would let old directions come back.
            basis = np.stack(vectors)
            for _ in range(2):
                product -= basis.T @ (basis @ product)
            length = float(np.linalg.norm(product))
            if length <= _BREAKDOWN * max(1.0, diagonal[0]) or len(diagonal) == self.steps:
                break
            beside.append(length)
            vectors.append(product / length)
        return np.stack(vectors[: len(diagonal)]), np.array(diagonal), np.array(beside[: len(diagonal) - 1])

    def _estimated_log_determinant(self, probes: int, random: np.random.Generator) -> tuple[float, float]:
        """Return log det (I + B) by stochastic Lanczos quadrature, and its standard error."""
        size = self.posterior.size
        values = []
        for _ in range(probes):
            _, diagonal, beside = self._tridiagonal(random.choice([-1.0, 1.0], size=size))
            nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside)
            values.append(size * float(np.square(vectors[0]) @ np.log(np.maximum(nodes, 1.0))))
        spread = float(np.std(values, ddof=1)) if probes > 1 else np.inf
        return float(np.mean(values)), spread / np.sqrt(probes)

    def _inverse_root(self, noise: np.ndarray) -> np.ndarray:
        """Return (I + B)^-1/2 noise, within the Krylov space of the noise."""
        basis, diagonal, beside = self._tridiagonal(noise)
        nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside)
        weights = vectors @ (vectors[0] / np.sqrt(np.maximum(nodes, 1.0)))
        return float(np.linalg.norm(noise)) * (weights @ basis)


def _refuse(posterior: LogPosterior) -> None:
    if posterior.approximation is not None:
        raise ValueError(
            f"a Laplace approximation needs the exact Hessian, and inference={posterior.approximation!r} is "
            "approximate"
        )
    if not posterior.has_squares_only:
        raise ValueError(
            "a Laplace approximation needs a Gaussian prior on every coefficient: finite prior variances, no l1"
        )
