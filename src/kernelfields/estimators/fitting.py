"""From spaces to an estimate: engine, solver, certificates; and the rounds of a growing basis.

With a :class:`~kernelfields.basis.Gradient` basis, rounds of fitting and growing alternate (Corollary 10): solve
in the present span, bound what the rest of the RKHS could still bring, stop when that is below the tolerance,
otherwise add the pivots that promise most. Coordinates are nested, so each round starts from the last estimate
padded with zeros.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernelfields.basis import Gradient
from kernelfields.engines import CliqueFeatures, Potentials, ThreadsEngine
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.estimators.development import DevelopmentSet
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.posterior import Certificate, LogPosterior
from kernelfields.solvers import Iteration, Solution, minimize, resolve_solver
from kernelfields.solvers.loop import Watcher

# The RKHS gap is at least the span gap at the last point, which is a few times the gap of the bundle.
_INNER_TOLERANCE = 0.1


@dataclass
class FittedField:
    """What fitting leaves behind: coefficients per set, solution, certificates."""

    coefficients: list[np.ndarray]
    solution: Solution
    span: Certificate
    rkhs: Certificate
    #: What rounding of float32 features does to the value, about, set by set; see feature_rounding.py.
    roundings: list[float]


#: Makes the engine of a sample from the features of its clique sets.
EngineBuilder = Callable[[Sequence[CliqueFeatures]], ThreadsEngine]
#: Called after each iteration with a function that returns the field as an interrupt there would leave it.
FieldKeeper = Callable[[Callable[[], FittedField]], None]


def fit_field(
    spaces: Sequence[CliqueSpace],
    engine_of: EngineBuilder,
    n_labels: int,
    *,
    solver: Any,
    tol: float,
    max_iter: int,
    watch: Watcher | None,
    random: np.random.Generator,
    start: Sequence[np.ndarray] | None = None,
    development: DevelopmentSet | None = None,
    dtype: Any = "auto",
    keep: FieldKeeper | None = None,
) -> FittedField:
    """Fit the coefficients of all sets; grow the bases that ask for it."""
    growing = [space for space in spaces if isinstance(space.basis, Gradient)]
    if development is not None:
        if growing:
            raise ValueError(
                "a basis that grows by the gradient cannot be stopped by a development set; leave out one"
            )
        development.attach(spaces, n_labels, tol=tol, dtype=dtype)
    if growing and keep is not None:
        raise ValueError(
            "a basis that grows by the gradient cannot be taken up again from a checkpoint; leave out one"
        )
    history: list[Iteration] = []
    while True:
        posterior, solution = _solve(
            spaces,
            engine_of,
            n_labels,
            solver=solver,
            tol=tol * (_INNER_TOLERANCE if growing else 1.0),
            max_iter=max_iter - (history[-1].iteration if history else 0),
            watch=_continue_history(history, watch),
            random=random,
            start=start,
            monitor=development,
            keep=keep,
        )
        history += _renumbered(history, solution.history)
        start = posterior.expanded(solution.theta)
        try:
            point_residual, span, rkhs, roundings = _assess(posterior, solution, start)
        except KeyboardInterrupt:
            # The estimate is there; what is left takes less than an iteration, so do it all the same.
            solution = replace(solution, reason="interrupted")
            point_residual, span, rkhs, roundings = _assess(posterior, solution, start)
        # Whoever stops a fit wants it back now, not after a pass over the kernel matrix.
        if not growing or solution.reason in ("interrupted", "callback"):
            break
        try:
            rkhs = rkhs_bound(posterior, solution, point_residual, exact=True)
            if rkhs.relative_gap <= tol:
                solution = replace(solution, reason="gap")
                break
            if history[-1].iteration >= max_iter:
                solution = replace(solution, reason="max_iter")
                break
            assert point_residual is not None  # growing sets have pivots
            if not _grow(growing, posterior, point_residual, random):
                break
        except KeyboardInterrupt:
            solution = replace(solution, reason="interrupted")
            break
        start = [_padded(old, space) for old, space in zip(start, spaces, strict=True)]
    last = history[-1]
    solution = replace(
        solution,
        theta=posterior.flatten(start),
        history=history,
        iterations=last.iteration,
        passes=last.passes,
        seconds=last.seconds,
    )
    return FittedField(list(start), solution, span, rkhs, roundings)


def _assess(
    posterior: LogPosterior, solution: Solution, coefficients: Sequence[np.ndarray]
) -> tuple[Potentials | None, Certificate, Certificate, list[float]]:
    """Return the residual at a solution, its certificates in both scopes, and the rounding of float32 features.

    The residual is None where no set has pivots: nothing needs it.
    """
    engine = posterior.engine
    if all(each.origin is None for each in engine.sets):
        return None, span_certificate(solution), rkhs_bound(posterior, solution, None), []
    residual = engine.evaluate(posterior.potentials(solution.theta)).residual
    roundings = [engine.feature_rounding(residual, index, part) for index, part in enumerate(coefficients)]
    return residual, span_certificate(solution), rkhs_bound(posterior, solution, residual), roundings


def warn_unless_converged(solution: Solution, tol: float, stacklevel: int = 2) -> None:
    """Warn when a fit was interrupted or ended short of its tolerance."""
    if solution.reason == "interrupted":
        text = (
            f"fit was interrupted after {solution.iterations} iterations; the best estimate so far was kept "
            f"(relative gap {solution.relative_gap:.2g})"
        )
    elif solution.reason in ("max_iter", "precision"):
        text = (
            f"solver {solution.solver!r} stopped at a relative gap of {solution.relative_gap:.2g} "
            f"(tol={tol:g}): {solution.message}"
        )
    else:
        return
    warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel + 1)


def _solve(
    spaces: Sequence[CliqueSpace],
    engine_of: EngineBuilder,
    n_labels: int,
    *,
    solver: Any,
    tol: float,
    max_iter: int,
    watch: Watcher | None,
    random: np.random.Generator,
    start: Sequence[np.ndarray] | None,
    monitor: DevelopmentSet | None,
    keep: FieldKeeper | None,
) -> tuple[LogPosterior, Solution]:
    posterior = LogPosterior(engine_of([space.clique_features(n_labels) for space in spaces]))
    rule = resolve_solver(solver, posterior, tol, random)
    # Products are cut into runs for our own threads: only solvers that factor matrices have use for those of BLAS.
    with blas_threads(None if getattr(rule, "factors_matrices", False) else 1):
        solution = minimize(
            posterior,
            rule,
            start=None if start is None else posterior.compressed(start),
            tol=tol,
            max_iter=max_iter,
            watch=watch,
            monitor=monitor,
            keep=None if keep is None else lambda present: keep(lambda: _unfinished(posterior, present())),
        )
    return posterior, solution


def _unfinished(posterior: LogPosterior, solution: Solution) -> FittedField:
    """Return the field at a solution that is still to be improved: half a pass for its certificates."""
    coefficients = posterior.expanded(solution.theta)
    _, span, rkhs, roundings = _assess(posterior, solution, coefficients)
    solution = replace(solution, theta=posterior.flatten(coefficients))
    return FittedField(coefficients, solution, span, rkhs, roundings)


def span_certificate(solution: Solution) -> Certificate:
    """Return the certificate within the span, with the bundle's lower bound."""
    return Certificate("span", solution.value, solution.lower_bound, True, solution.gap_parts)


def rkhs_bound(
    posterior: LogPosterior, solution: Solution, residual: Potentials | None, *, exact: bool = False
) -> Certificate:
    """Return a certificate over the whole RKHS: the free bound, or the exact one by streaming kernels."""
    parts = dict(solution.gap_parts)
    engine = posterior.engine
    if all(each.origin is None for each in engine.sets):
        # Explicit features span their whole RKHS: what holds in the span holds there.
        return Certificate("rkhs", solution.value, solution.lower_bound, True, parts)
    assert residual is not None  # sets with pivots come with one
    for index, each in enumerate(engine.sets):
        outside = engine.outside_gradient(residual, index) if exact else engine.outside_bound(residual, index)
        if each.origin is not None:
            parts[each.name] += 0.5 * each.prior_variance * outside
    # The negative log-likelihood and the penalties are never negative.
    return Certificate("rkhs", solution.value, max(0.0, solution.value - sum(parts.values())), exact, parts)


def _grow(
    growing: Sequence[CliqueSpace], posterior: LogPosterior, residual: Potentials, random: np.random.Generator
) -> int:
    """Add a round of pivots to each growing space; return how many were added."""
    added = 0
    for space in growing:
        index = next(i for i, each in enumerate(posterior.engine.sets) if each.name == space.name)
        added += space.basis.grow(space.panel, posterior.engine.label_residuals(residual, index), random)
    # All at once, when nothing is left that could be interrupted half-way.
    for space in growing:
        space.grown()
    return added


def _padded(old: np.ndarray, space: CliqueSpace) -> np.ndarray:
    missing = space.subspace.rank - len(old)
    return np.vstack([old, np.zeros((missing, old.shape[1]))]) if missing else old


def _continue_history(history: Sequence[Iteration], watch: Watcher | None) -> Watcher | None:
    """Let callbacks see iterations, passes and seconds go on counting from round to round."""
    if watch is None or not history:
        return watch
    return lambda iteration: watch(_shifted(history[-1], iteration))


def _renumbered(history: Sequence[Iteration], new: Sequence[Iteration]) -> list[Iteration]:
    if not history:
        return list(new)
    # The first entry of a round is the point the last one ended in.
    return [_shifted(history[-1], iteration) for iteration in new[1:]]


def _shifted(last: Iteration, iteration: Iteration) -> Iteration:
    return replace(
        iteration,
        iteration=last.iteration + iteration.iteration,
        passes=last.passes + iteration.passes,
        seconds=last.seconds + iteration.seconds,
    )
