"""Warnings of a fit that is not what was asked for: interrupted, not converged, rounded, or inferred badly."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

from kernelfields.inference.family import warn_of_inference
from kernelfields.models.placed import FittedField
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.wording import inflect
from kernelfields.solvers.loop import Solution


def warn_of_fit(fitted: FittedField, tol: float) -> None:
    """Warn of an interrupted fit, a missed tolerance, or rounded features."""
    warn_of_solution(fitted.solution, tol)
    share = fitted.rounding_share
    if share > tol:
        warn_user(
            f"float32 features are too coarse for this prior: rounding moves the value by about {share:.1g} of "
            f"itself, more than tol={tol:g}, and certificate_ leaves it out. Fit with dtype='float64' or a smaller "
            "prior variance; certify(X, y) computes the gap of the fitted field itself.",
            ConvergenceWarning,
        )
    warn_of_inference(fitted.warnings)


def warn_of_solution(solution: Solution, tol: float) -> None:
    """Warn of an interrupted solver or a missed tolerance."""
    text = None
    if solution.reason == "interrupted":
        text = (
            f"fit was interrupted after {inflect(solution.iterations, 'iteration')}; the best estimate so far was kept "
            f"(relative gap {solution.relative_gap:.2g})"
        )
    elif solution.reason in ("max_iter", "precision"):
        text = (
            f"solver {solution.solver!r} stopped at a relative gap of {solution.relative_gap:.2g} "
            f"(tol={tol:g}): {solution.message}"
        )
    if text is not None:
        warn_user(text, ConvergenceWarning)
