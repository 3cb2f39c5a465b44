"""Prior variances and kernel parameters by maximising the evidence.

L-BFGS-B climbs the log evidence in the logarithms of the parameters, within bounds, from the given parameters and
from restarts. The first restart begins at the best point so far with pivots chosen anew for its kernels, further
ones at random. The best point seen is kept. Where the evidence is not finite the search steps back, and says so.

There is one prior variance per clique set. With a sum of kernels such as Columns(RBF(), 0, 5) + Columns(RBF(), 5)
and a prior variance for each part, these are relevance weights of groups of features.
Cost of a point: a fit to full precision from the last mode, a Laplace approximation and its gradient.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

from kernelfields.basis import Gradient, PivotSubspace
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.estimators.evidence_gradient import evidence_gradient
from kernelfields.estimators.evidence_parameters import (
    VARIANCE,
    FieldParameter,
    cliques_with,
    variances_of,
    widths_of,
    with_parameters,
)
from kernelfields.estimators.evidence_settings import EvidencePath, EvidenceSearch, EvidenceStep
from kernelfields.estimators.fitting import EngineBuilder
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.fields import CliqueSet
from kernelfields.posterior import LogPosterior, Point
from kernelfields.posterior.laplace import EXACT_SIZE, Evidence, Laplace, refuse_without_curvature
from kernelfields.solvers import minimize
from kernelfields.solvers.newton_cg import NewtonCG, conjugate_gradients

# The gradient of the evidence feels an error of the mode in the first order.
_EXACT_MODE = 1e-11
_LAST_STEP = 1e-8
_PROBED_MODE = 1e-8
# Products with float32 features know no gap below this one.
_ROUNDED_MODE = 1e-6
_MODE_ITERATIONS = 100
# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_FEATURES = 1_000_000
# Random restarts begin up to this factor away from the given parameters.
_RESTART_FACTOR = 30.0
# What a step into nowhere is said to cost, in nats, so that the line search comes back.
_NOWHERE = 1e3
_FAILURES = (np.linalg.LinAlgError, FloatingPointError, OverflowError, ValueError)

Bounds = tuple[float, float]
#: Builds the spaces of named clique sets, pivots chosen anew.
SpaceBuilder = Callable[[Sequence[tuple[str, CliqueSet]]], list[CliqueSpace]]


class EvidenceProblem:
    """The log evidence of a field as a function of the logarithms of its parameters; pivots stay."""

    def __init__(
        self,
        spaces: Sequence[CliqueSpace],
        parameters: Sequence[FieldParameter],
        engine_of: EngineBuilder,
        n_labels: int,
        search: EvidenceSearch,
        seed: int,
    ):
        self.spaces = list(spaces)
        self.parameters = list(parameters)
        self._engine_of = engine_of
        self._n_labels = n_labels
        self._search = search
        self._seed = seed
        self._theta: np.ndarray | None = None
        self._latest: tuple[bytes, list[CliqueSpace]] | None = None

    def space_at(self, logs: np.ndarray) -> list[CliqueSpace]:
        """Return the spaces with these parameters; the latest are kept."""
        key = np.asarray(logs, dtype=np.float64).tobytes()
        if self._latest is None or self._latest[0] != key:
            self._latest = key, with_parameters(self.spaces, self.parameters, np.exp(logs))
        return self._latest[1]

    def laplace(self, logs: np.ndarray) -> Laplace:
        """Return the Gaussian at the mode for these parameters, found from the last mode."""
        search, random = self._search, np.random.default_rng(self._seed)
        point = mode_of(self._posterior(self.space_at(logs)), self._theta, search.method)
        found = Laplace(point, method=search.method, steps=search.steps, probes=search.probes, random=random)
        if np.isfinite(found.evidence.value):
            self._theta = point.theta
        return found

    def gradient(self, laplace: Laplace, logs: np.ndarray) -> np.ndarray:
        """Return the gradient of the log evidence in the logarithms."""
        spaces = self.space_at(logs)

        def moved(number: int, step: float) -> LogPosterior:
            value = float(np.exp(logs[number] + step))
            return self._posterior(with_parameters(spaces, [self.parameters[number]], [value]))

        return evidence_gradient(laplace, self.parameters, moved)

    def _posterior(self, spaces: Sequence[CliqueSpace]) -> LogPosterior:
        return LogPosterior(self._engine_of([space.clique_features(self._n_labels) for space in spaces]))


def mode_of(posterior: LogPosterior, start: np.ndarray | None, method: str) -> Point:
    """Return the minimiser of an objective: to the precision of its features where its curvature will be exact."""
    refuse_without_curvature(posterior)
    exact = method == "exact" or (method == "auto" and posterior.size <= EXACT_SIZE)
    rounded = posterior.dtype != np.float64
    with blas_threads(1):
        tol = _ROUNDED_MODE if rounded else _EXACT_MODE if exact else _PROBED_MODE
        solution = minimize(posterior, NewtonCG(), start=start, tol=tol, max_iter=_MODE_ITERATIONS)
        point = posterior.at(solution.theta)
        if exact and not rounded:
            # One Newton step, solved well, squares the error that is left.
            direction = conjugate_gradients(posterior, point, _LAST_STEP, 2 * posterior.size)
            polished = posterior.at(point.theta + direction.theta)
            if np.linalg.norm(polished.gradient) < np.linalg.norm(point.gradient):
                point = polished
    return point


@dataclass
class ChosenField:
    """Where a search has ended: spaces with the best parameters, their mode, and the path."""

    spaces: list[CliqueSpace]
    start: list[np.ndarray]
    evidence: Evidence
    path: EvidencePath


class _Climb:
    """One start of a search, as L-BFGS-B sees it; the best point of all starts is kept in ``best``."""

    def __init__(self, search: EvidenceSearch, path: EvidencePath, say: Callable[[str], None], begin: float):
        self.search, self.path, self.say, self.begin = search, path, say, begin
        self.best: ChosenField | None = None
        self.best_logs: np.ndarray | None = None
        self.failures: list[str] = []

    def run(
        self, problem: EvidenceProblem, logs: np.ndarray, bounds: list[tuple[float, float]], start: int
    ) -> None:
        """Climb from a start; ``start`` is its number."""
        low, high = np.array(bounds).T
        first = np.clip(logs, low, high)
        value, gradient = self._visit(problem, first, start)
        if not np.isfinite(value):
            return
        # The first step is the gradient itself: scaled to length one, it stays near the start.
        scale = max(1.0, float(np.linalg.norm(gradient)))
        known, reached = {first.tobytes(): (value, gradient)}, [value]

        def descend(logs: np.ndarray) -> tuple[float, np.ndarray]:
            key = logs.tobytes()
            value, gradient = known.pop(key) if key in known else self._visit(problem, logs, start)
            if not np.isfinite(value):
                return (_NOWHERE - reached[0]) / scale, np.zeros_like(logs)
            reached[0] = value
            return -value / scale, -gradient / scale

        scipy.optimize.minimize(
            descend,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxfun": self.search.max_evaluations, "ftol": 1e-6, "gtol": 1e-2 / scale},
        )

    def _visit(self, problem: EvidenceProblem, logs: np.ndarray, start: int) -> tuple[float, np.ndarray]:
        value, error, gradient = np.nan, np.nan, np.full(len(logs), np.nan)
        try:
            laplace = problem.laplace(logs)
            value, error = laplace.evidence.value, laplace.evidence.standard_error
            gradient = problem.gradient(laplace, logs)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                value = np.nan
                self.failures.append("the evidence or its gradient is not finite")
        except _FAILURES as failure:
            value = np.nan
            self.failures.append(str(failure))
        names = [str(parameter) for parameter in problem.parameters]
        self.path.steps.append(
            EvidenceStep(
                start,
                float(value),
                float(error),
                dict(zip(names, gradient.tolist(), strict=True)),
                dict(zip(names, np.exp(logs).tolist(), strict=True)),
                time.perf_counter() - self.begin,
            )
        )
        self.say(f"evidence: start {start}, point {len(self.path.steps)}, log evidence {value:.4f}")
        if np.isfinite(value) and (self.best is None or value > self.best.evidence.value):
            coefficients = laplace.posterior.expanded(laplace.mode)
            self.best = ChosenField(problem.space_at(logs), coefficients, laplace.evidence, self.path)
            self.best_logs = np.array(logs)
        return value, gradient


def maximise_evidence(
    search: EvidenceSearch,
    spaces: list[CliqueSpace],
    build: SpaceBuilder,
    engine_of: EngineBuilder,
    n_labels: int,
    *,
    random: np.random.Generator,
    say: Callable[[str], None],
) -> ChosenField:
    """Return the field of the largest evidence found, with its path; ValueError if there is none anywhere.

    ``spaces`` are those of the given parameters, where the search begins.
    """
    begin, seed = time.perf_counter(), int(random.integers(2**31))
    _refuse_growing(spaces)
    refuse_without_curvature(LogPosterior(engine_of([space.clique_features(n_labels) for space in spaces])))
    parameters = variances_of(spaces) + (widths_of(spaces) if search.kernels else [])
    first = np.log([parameter.value for parameter in parameters])
    bounds = [_bounds(search, parameter) for parameter in parameters]
    climb = _Climb(search, EvidencePath(), say, begin)
    small = sum(space.features.size for space in spaces if space.features is not None) < _SMALL_FEATURES
    try:
        for number in range(search.restarts + 1):
            logs = first
            if number:
                logs = _restart(climb, first, random, number, _has_pivots(spaces, parameters))
                values = np.exp(np.clip(logs, *np.array(bounds).T))
                spaces = build(cliques_with(spaces, parameters, values.tolist()))
            problem = EvidenceProblem(spaces, parameters, engine_of, n_labels, search, seed)
            with blas_threads(1 if small else None):
                climb.run(problem, logs, bounds, number)
    except KeyboardInterrupt:
        if climb.best is None:
            raise
        warnings.warn(
            "the search for the largest evidence was interrupted; the best point so far was kept",
            ConvergenceWarning,
            stacklevel=4,
        )
    if climb.best is None:
        raise ValueError(f"the evidence is nowhere finite from here: {climb.failures[-1]}")
    if climb.failures:
        warnings.warn(
            f"the evidence was not finite at {len(climb.failures)} of {len(climb.path.steps)} points "
            f"({climb.failures[-1]}); the search stepped back and kept the best point",
            ConvergenceWarning,
            stacklevel=4,
        )
    return climb.best


def _restart(
    climb: _Climb, first: np.ndarray, random: np.random.Generator, number: int, pivots: bool
) -> np.ndarray:
    """Return where a restart begins: at the best point if its pivots are to be chosen anew, else at random."""
    if number == 1 and pivots and climb.best_logs is not None:
        return climb.best_logs
    reach = np.log(_RESTART_FACTOR)
    return first + random.uniform(-reach, reach, size=len(first))


def _has_pivots(spaces: Sequence[CliqueSpace], parameters: Sequence[FieldParameter]) -> bool:
    """Whether a kernel is searched whose pivots depend on it."""
    searched = {parameter.index for parameter in parameters if parameter.name != VARIANCE}
    return any(isinstance(spaces[index].subspace, PivotSubspace) for index in searched)


def _bounds(search: EvidenceSearch, parameter: FieldParameter) -> Bounds:
    if parameter.name == VARIANCE:
        return float(np.log(search.variance_bounds[0])), float(np.log(search.variance_bounds[1]))
    middle, reach = np.log(parameter.value), np.log(search.kernel_factor)
    return float(middle - reach), float(middle + reach)


def _refuse_growing(spaces: Sequence[CliqueSpace]) -> None:
    if any(isinstance(space.basis, Gradient) for space in spaces):
        raise ValueError(
            "optimize='evidence' compares fields in one basis, and basis='gradient' grows with each fit: "
            "use 'random-cholesky' or 'greedy-cholesky'"
        )
