"""Newton's method and its variants: full, by blocks, by conjugate gradients, one term at a time.

    newton        p   = -H^-1 g                          eq. 19, 20; the Hessian is spelled out and factored
    block-jacobi  p_c = -H_cc^-1 g_c, where H_cc keeps within-clique covariances only      eq. 30
    newton-cg     H p = -g by conjugate gradients on exact Hessian products, to a relative residual that tightens as
                  the gap closes (inexact Newton)
    subspace      the same within one term at a time, the one with the largest bound next (Corollary 10)

All need the loop's line search: undamped steps diverge on strongly coupled chains. The first two take memory of the
square of the number of coefficients (of a term); what does not fit is refused before the work starts. Conjugate
gradients cost one pass a step, and the potentials of p are accumulated from those of the directions, so that the
line search that follows is free; the preconditioner is the prior covariance.

Moving in term c alone can improve the objective by at most (s_c / 2) ||grad_c||^2; terms whose bound is small are
left alone until it grows. A step in a term without features (plain transitions) costs no pass at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import scipy.linalg

from kernelfields import objective
from kernelfields.numerics.vectors import conjugate_gradients
from kernelfields.objective.posterior import Direction, LogPosterior, Point
from kernelfields.solvers.loop import DirectionRule

# Factor and matrix together; beyond this the other solvers are faster as well.
_MAX_BYTES = 4 * 2**30
# Curvature, of the largest, that may be rounding; and how far systems are solved in matrices that have such.
_LOST_IN_ROUNDING = 1e-12
_TOLERANCE = 1e-6


def check_memory(solver: str, what: str, size: int, advice: str, limit: int) -> None:
    """Raise MemoryError for a dense matrix of ``size`` rows above ``limit`` bytes."""
    needed = 2 * 8 * size**2
    if needed > limit:
        raise MemoryError(
            f"solver={solver!r} would factor {what} of {size:,} coefficients, which needs "
            f"{needed / 2**30:,.1f} GiB (the limit is {limit / 2**30:.0f} GiB); {advice}"
        )


class HessianRule(DirectionRule):
    """A rule that multiplies by the Hessian, or factors it; without a prior this may be singular."""


class Newton(HessianRule):
    """Newton's method with the Hessian as a matrix, for small fields.

    Parameters
    ----------
    max_bytes : int, default 4 * 2**30
        The most bytes of the Hessian.

    See Also
    --------
    NewtonCG : Needs products with the Hessian alone.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> from kernelfields.solvers import Newton
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1, solver=Newton()).fit(X, y)
    >>> crf.solution_.iterations < 10
    True
    """

    name = "newton"
    factors_matrices = True

    def __init__(self, max_bytes: int = _MAX_BYTES):
        self.max_bytes = max_bytes

    def prepare(self, posterior: LogPosterior) -> None:
        """Check that the Hessian fits in memory.

        Parameters
        ----------
        posterior : LogPosterior
            The objective.
        """
        advice = "use solver='newton-cg' or 'lbfgs', or a smaller rank"
        check_memory(self.name, "the Hessian", posterior.size, advice, self.max_bytes)

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return the exact Newton direction.

        Parameters
        ----------
        point : Point
            The present coefficients.
        relative_gap : float
            How near they are to the minimum.

        Returns
        -------
        Direction
            The direction.
        """
        return Direction(-_solve_singular(lambda: full_hessian(point), point.gradient))


def _solve_singular(hessian: Callable[[], np.ndarray], gradient: np.ndarray) -> np.ndarray:
    """Return H^-1 g; if rounding has lost a weak prior, x with H x = g up to that rounding.

    Such a matrix has no factor. It is made once more, and conjugate gradients solve as long as it curves upwards.
    """
    try:
        factor = scipy.linalg.cho_factor(hessian(), lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        matrix = hessian()
        diagonal = matrix.diagonal()
        return conjugate_gradients(
            lambda vector: matrix @ vector,
            gradient,
            lambda vector: vector / diagonal,
            _TOLERANCE,
            len(matrix),
            flat=_LOST_IN_ROUNDING,
        )[0]
    return scipy.linalg.cho_solve(factor, gradient, check_finite=False)


def full_hessian(point: Point) -> np.ndarray:
    """Return the Hessian of the negative log-posterior at a point, (size, size)."""
    hessian = objective.curvature.likelihood_hessian(point)
    hessian[np.diag_indices(len(hessian))] += point.posterior.prior_precision
    return hessian


class BlockJacobi(HessianRule):
    """One block per term, without covariances across cliques, updated at every step; at most ``max_bytes`` each."""

    name = "block-jacobi"
    factors_matrices = True

    def __init__(self, max_bytes: int = _MAX_BYTES):
        self.max_bytes = max_bytes

    def prepare(self, posterior: LogPosterior) -> None:
        """Check that the largest block fits in memory."""
        advice = "use solver='lbfgs' or 'newton-cg', or a smaller rank"
        for block in posterior.blocks:
            size, what = block.shape[0] * block.shape[1], f"the block of clique set {block.name!r}"
            check_memory(self.name, what, size, advice, self.max_bytes)

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return the block-preconditioned gradient direction."""
        posterior = point.posterior
        direction = np.empty(posterior.size)
        for index, block in enumerate(posterior.blocks):
            matrix = partial(posterior.curvature_block, point, index)
            direction[block.rows] = -_solve_singular(matrix, point.gradient[block.rows])
        return Direction(direction)


def newton_direction(
    point: Point,
    tolerance: float,
    max_steps: float,
    *,
    only: Sequence[int] | None = None,
    precondition: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[Direction, int]:
    """Solve H p = -gradient (within the blocks ``only``) to a relative residual; return p and the number of steps.

    The residual is measured by the preconditioner; None for the prior covariance, the metric of the duality gap.
    """
    posterior = point.posterior
    residual = -point.gradient
    if only is not None:
        kept = np.zeros_like(residual)
        for index in only:
            rows = posterior.blocks[index].rows
            kept[rows] = residual[rows]
        residual = kept
    if precondition is None:
        precision = posterior.prior_precision

        def precondition(vector: np.ndarray) -> np.ndarray:
            return vector / precision

    last = total = Direction(residual).potentials

    def product(search: np.ndarray) -> np.ndarray:
        nonlocal last
        image, last = posterior.hessian_product(point, search, only)
        return image

    def moved(length: float) -> None:
        nonlocal total
        assert last is not None
        if total is None:
            last.scale(length)
            total = last
        else:
            total.add(length, last)

    # The prior keeps the Hessian positive definite: no direction is flat.
    solution, steps = conjugate_gradients(product, residual, precondition, tolerance, max_steps, moved=moved)
    return Direction(solution, total), steps


class NewtonCG(HessianRule):
    """Inexact Newton: directions by conjugate gradients on exact Hessian products.

    Parameters
    ----------
    max_steps : int, default 250
        The most steps of conjugate gradients in an iteration.

    See Also
    --------
    LBFGS : Takes more and cheaper iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> from kernelfields.solvers import NewtonCG
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1, solver=NewtonCG()).fit(X, y)
    >>> crf.solution_.solver
    'newton-cg'
    """

    name = "newton-cg"

    def __init__(self, max_steps: int = 250):
        self.max_steps = max_steps

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return an inexact Newton direction; early systems are solved loosely.

        Parameters
        ----------
        point : Point
            The present coefficients.
        relative_gap : float
            How near they are to the minimum.

        Returns
        -------
        Direction
            The direction.
        """
        tolerance = min(0.3, max(0.02, np.sqrt(relative_gap)))
        return newton_direction(point, tolerance, self.max_steps)[0]


class SubspaceDescent(HessianRule):
    """Newton-CG on the most promising term."""

    name = "subspace"

    def __init__(self, tolerance: float = 0.1, max_steps: int = 100):
        self.tolerance = tolerance
        self.max_steps = max_steps

    def direction(self, point: Point, relative_gap: float) -> Direction:
        """Return a Newton direction within the most promising term."""
        bounds = list(point.posterior.gap_parts(point).values())
        best = max(range(len(bounds)), key=bounds.__getitem__)
        return newton_direction(point, self.tolerance, self.max_steps, only=(best,))[0]
