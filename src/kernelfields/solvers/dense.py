"""Solvers that factor a matrix: Newton with the full Hessian, block-Jacobi with one block per clique set.

    newton        p   = -H^-1 g                          eq. 19, 20
    block-jacobi  p_c = -H_cc^-1 g_c, where H_cc keeps within-clique covariances only      eq. 30

Both need the loop's line search: undamped steps diverge on strongly coupled chains. Memory is the square of
the number of coefficients (of a set); what does not fit is refused before the work starts.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from kernelfields.posterior import Direction, LogPosterior, Point

# Factor and matrix together; beyond this the other solvers are faster as well.
MAX_BYTES = 4 * 2**30


def check_memory(solver: str, what: str, size: int, advice: str) -> None:
    """Refuse a dense matrix of ``size`` rows that would need more than MAX_BYTES."""
    needed = 2 * 8 * size**2
    if needed > MAX_BYTES:
        raise MemoryError(
            f"solver={solver!r} would factor {what} of {size:,} coefficients, which needs "
            f"{needed / 2**30:,.1f} GiB (the limit is {MAX_BYTES / 2**30:.0f} GiB); {advice}"
        )


class Newton:
    """Newton's method with the Hessian spelled out, one exact product per column."""

    name = "newton"
    factors_matrices = True

    def prepare(self, posterior: LogPosterior) -> None:
        """Check that the Hessian fits in memory."""
        check_memory(
            self.name, "the Hessian", posterior.size, "use solver='newton-cg' or 'lbfgs', or a smaller rank"
        )

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return the exact Newton direction."""
        hessian = full_hessian(point)
        factor = scipy.linalg.cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        return Direction(-scipy.linalg.cho_solve(factor, point.gradient, check_finite=False))

    def learn(self, before: Point, after: Point) -> None:
        """Nothing is carried from step to step."""


def full_hessian(point: Point) -> np.ndarray:
    """Return the Hessian of the negative log-posterior at a point, (size, size)."""
    posterior = point.posterior
    hessian = np.empty((posterior.size, posterior.size))
    unit = np.zeros(posterior.size)
    for index, block in enumerate(posterior.blocks):
        for column in range(block.rows.start, block.rows.stop):
            unit[column] = 1.0
            # The direction lives in one set, but its response is felt in all of them.
            potentials = posterior.potentials(unit, only=(index,))
            response = posterior.engine.hessian_response(point.evaluation, potentials)
            hessian[:, column] = posterior.flatten(posterior.engine.pull_back(response))
            unit[column] = 0.0
    hessian += hessian.T
    hessian *= 0.5
    hessian[np.diag_indices(posterior.size)] += posterior.prior_precision
    return hessian


class BlockJacobi:
    """One block per clique set, covariances across cliques dropped, refreshed at every step."""

    name = "block-jacobi"
    factors_matrices = True

    def prepare(self, posterior: LogPosterior) -> None:
        """Check that the largest block fits in memory."""
        for block in posterior.blocks:
            size = block.shape[0] * block.shape[1]
            check_memory(
                self.name,
                f"the block of clique set {block.name!r}",
                size,
                "use solver='lbfgs' or 'newton-cg', or a smaller rank",
            )

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return the block-preconditioned gradient direction."""
        posterior = point.posterior
        direction = np.empty(posterior.size)
        for index, block in enumerate(posterior.blocks):
            matrix = posterior.curvature_block(point, index)
            factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
            direction[block.rows] = -scipy.linalg.cho_solve(factor, point.gradient[block.rows], check_finite=False)
        return Direction(direction)

    def learn(self, before: Point, after: Point) -> None:
        """Nothing is carried from step to step."""
