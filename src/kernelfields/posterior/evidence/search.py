"""Prior variances and kernel parameters by maximising the evidence.

L-BFGS-B maximizes the log evidence in the log parameters, within bounds, from the given parameters and from restarts.
Large fields are optimized with few pivots first. The first restart begins at the best point so far, with new pivots
for its kernels, further ones at random points. The result is the best point of all. Where the evidence is not finite,
the line search shortens its step, and a warning follows.

The second derivative with respect to the logarithm of a prior variance is about -(effective number of coefficients) /
2, and so is, roughly, that of a kernel's width. Variables are scaled by its square root, so that the first step is
nearly Newton's, and a step with an expected gain below the tolerance is not taken: a point costs a fit and a Hessian
(problem.py), so few are evaluated.

There is one prior variance per term. With a sum of kernels such as Columns(RBF(), 0, 5) + Columns(RBF(), 5) and a
prior variance for each part, these are relevance weights of groups of features.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from kernelfields.basis.subspace import PivotSubspace
from kernelfields.engines.engine import Sample
from kernelfields.engines.threads import LocalSample
from kernelfields.models.build import build_designs
from kernelfields.numerics.threads import blas_threads
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.objective.designs.design import Design, LocalDesign
from kernelfields.objective.posterior import LogPosterior
from kernelfields.posterior.evidence.problem import (
    VARIANCE,
    EvidenceProblem,
    FieldParameter,
    StoredMode,
    list_kernel_parameters,
    list_prior_variances,
    truncate_design,
    with_clique_parameters,
)
from kernelfields.posterior.evidence.settings import EvidencePath, EvidenceSearch, EvidenceStep
from kernelfields.posterior.laplace.laplace import Evidence, check_has_hessian

# The first step changes no parameter by more than this factor's logarithm.
_FIRST_REACH = 2.0
# The cost in nats given to a step without finite evidence, so that the line search comes back.
_NOWHERE = 1e3
_FAILURES = (np.linalg.LinAlgError, FloatingPointError, OverflowError, ValueError)


@dataclass
class EvidencePoint:
    """Log parameters with finite evidence, and the mode at these parameters."""

    logs: np.ndarray
    mode: StoredMode
    evidence: Evidence


class Climb:
    """The climbs of one search, with their best points, the path and the failures."""

    def __init__(
        self,
        search: EvidenceSearch,
        bounds: list[tuple[float, float]],
        announce: Callable[[str], None],
        begin: float,
    ):
        self.search, self.bounds, self.announce, self.begin = search, bounds, announce, begin
        self.path = EvidencePath()
        #: The best points: of coarse climbs (True) and of the others (False).
        self.tops: dict[bool, EvidencePoint] = {}
        self.failures: list[str] = []

    def run(self, problem: EvidenceProblem, logs: np.ndarray, start: int, *, coarse: bool = False) -> None:
        """Maximize the log evidence from start number ``start``; coarse climbs have a separate best point."""
        low, high = np.array(self.bounds).T
        first = np.clip(logs, low, high)
        value, gradient, curvature = self._evaluate(problem, first, start, coarse)
        if not np.isfinite(value):
            self._record_end("the evidence is not finite where the climb began")
            return
        if self._expected_gain(first, gradient, curvature) < self._least_gain(value):
            self._record_end(f"no step promised more than {self._least_gain(value):.2g} nats")
            return
        unit = np.sqrt(curvature)
        slope = gradient / unit
        length = float(np.linalg.norm(slope))
        reach = min(length, _FIRST_REACH * length / float(np.abs(slope / unit).max()))
        # In these variables the first step of L-BFGS-B, of length one, is ``reach`` along the scaled gradient.
        scale, height = unit / reach, reach * length
        known = {first.tobytes(): (value, gradient)}
        reached, before, flat = [value], [value], [False]
        visited = len(self.path.steps) - 1

        def descend(variables: np.ndarray) -> tuple[float, np.ndarray]:
            logs = np.clip(variables / scale, low, high)
            if np.array_equal(variables, first * scale):
                logs = first
            key = logs.tobytes()
            value, gradient = known[key] if key in known else self._evaluate(problem, logs, start, coarse)[:2]
            if not np.isfinite(value):
                return (_NOWHERE - reached[0]) / height, np.zeros_like(logs)
            known[key] = value, gradient
            reached[0] = value
            return -value / height, -gradient / (scale * height)

        def stop_when_flat(intermediate_result: scipy.optimize.OptimizeResult) -> None:
            value = -float(intermediate_result.fun) * height
            gained, before[0] = value - before[0], value
            logs = np.clip(intermediate_result.x / scale, low, high)
            slope = known.get(logs.tobytes(), (value, np.full(len(logs), np.inf)))[1]
            if min(gained, self._expected_gain(logs, slope, curvature)) < self._least_gain(value):
                flat[0] = True
                raise StopIteration

        scipy.optimize.minimize(
            descend,
            first * scale,
            jac=True,
            method="L-BFGS-B",
            bounds=[(bottom * own, top * own) for (bottom, top), own in zip(self.bounds, scale, strict=True)],
            callback=stop_when_flat,
            options={"maxfun": self.search.max_evaluations, "ftol": 0.0, "gtol": 0.0},
        )
        if flat[0]:
            self._record_end(
                f"the last step gained, or the next promised, less than {self._least_gain(before[0]):.2g} nats"
            )
        elif len(self.path.steps) - visited >= self.search.max_evaluations:
            self._record_end(
                f"max_evaluations = {self.search.max_evaluations} points were tried: the top may be higher"
            )
        else:
            self._record_end("no direction led further up")

    def _record_end(self, reason: str) -> None:
        """Record the reason for the end of a climb at its last point."""
        self.path.steps[-1] = replace(self.path.steps[-1], ended=reason)

    def _least_gain(self, value: float) -> float:
        """Return the smallest gain, in nats, that is worth another point."""
        return self.search.tol * max(1.0, abs(value))

    def _expected_gain(self, logs: np.ndarray, gradient: np.ndarray, curvature: np.ndarray) -> float:
        """Estimate the gain of a Newton step within the bounds."""
        low, high = np.array(self.bounds).T
        held = ((logs <= low) & (gradient < 0)) | ((logs >= high) & (gradient > 0))
        return float(0.5 * np.sum(np.where(held, 0.0, np.square(gradient) / curvature)))

    def _evaluate(
        self, problem: EvidenceProblem, logs: np.ndarray, start: int, coarse: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Compute log evidence, gradient and estimated curvature, (parameters,) each; NaN after a failure."""
        value, error, gradient = np.nan, np.nan, np.full(len(logs), np.nan)
        curvature = np.ones(len(logs))
        try:
            laplace = problem.laplace(logs)
            value, error = laplace.evidence.value, laplace.evidence.standard_error
            gradient = problem.gradient(laplace, logs)
            curvature = problem.estimate_curvature(laplace)
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
                coarse,
            )
        )
        self.announce(
            f"evidence: start {start}, point {len(self.path.steps)}, log evidence {value:.4f}"
            f"{', coarse' if coarse else ''}"
        )
        if np.isfinite(value):
            best = self.tops.get(coarse)
            if best is None or value > best.evidence.value:
                mode = StoredMode(
                    problem.make_designs(logs), laplace.posterior.blocks.expand(laplace.mode), laplace.curvature
                )
                self.tops[coarse] = EvidencePoint(np.array(logs), mode, laplace.evidence)
        return value, gradient, curvature

    @property
    def best(self) -> EvidencePoint | None:
        """The best point with all pivots; None without finite evidence."""
        return self.tops.get(False)


# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_FEATURES = 1_000_000
# Random restarts begin up to this factor away from the given parameters.
_RESTART_FACTOR = 30.0
# A set of fewer pivots than this is not cut for the coarse climb, nor to fewer than a third of them.
_SMALL_RANK = 90
# Bounds of prior variances, and the factor by which a kernel parameter may move from its first value.
_VARIANCES = (1e-4, 1e6)
_KERNEL_FACTOR = 100.0

Bounds = tuple[float, float]


@dataclass
class ChosenField:
    """The result of a search: designs with the best parameters, their mode, and the path."""

    designs: Sequence[Design]
    start: list[np.ndarray]
    evidence: Evidence
    path: EvidencePath


def maximise_evidence(
    search: EvidenceSearch,
    designs: Sequence[Design],
    sample: Sample,
    *,
    random: np.random.Generator,
    announce: Callable[[str], None],
) -> ChosenField:
    """Find the parameters of the largest evidence; ValueError if the evidence is nowhere finite.

    ``designs`` are those of the given parameters, where the search begins.
    """
    begin, seed = time.perf_counter(), int(random.integers(2**31))
    # Features move with their kernels in the memory of the host; the field that is chosen goes back to its place.
    place, sample = sample, sample.on_host()
    elsewhere = place is not sample
    local = _check_designs([sample.design(each.term) if elsewhere and each.panel is None else each for each in designs])
    assert isinstance(sample, LocalSample)
    posterior = LogPosterior(sample.datafit(local))
    check_has_hessian(posterior)
    if not posterior.size:
        raise ValueError("optimize='evidence' has nothing to choose: all features of all inputs are zero")
    parameters = list_prior_variances(local) + (list_kernel_parameters(local) if search.kernels else [])
    first = np.log([parameter.value for parameter in parameters])
    bounds = [_bounds(parameter) for parameter in parameters]
    climb = Climb(search, bounds, announce, begin)
    small = sum(design.features.size for design in local if design.features is not None) < _SMALL_FEATURES
    anew = _has_pivots(local, parameters)

    def make_problem(designs: Sequence[LocalDesign], near: EvidencePoint | None = None) -> EvidenceProblem:
        problem = EvidenceProblem(designs, parameters, sample, search, seed)
        if near is not None:
            problem.restart_search(near.mode)
        return problem

    def rebuild_designs(logs: np.ndarray) -> list[LocalDesign]:
        values = np.exp(np.clip(logs, *np.array(bounds).T)).tolist()
        return _check_designs(
            build_designs(with_clique_parameters(local, parameters, values), sample, random, announce)
        )

    try:
        with blas_threads(1 if small else None):
            near = _climb_with_few_pivots(climb, make_problem, local, first)
            logs = first if near is None else near.logs
            climb.run(make_problem(rebuild_designs(logs) if near is not None and anew else local, near), logs, 0)
            for number in range(1, search.restarts + 1):
                near = climb.best if number == 1 and anew else None
                logs = _random_start(first, random) if near is None else near.logs
                climb.run(make_problem(rebuild_designs(logs), near), logs, number)
    except KeyboardInterrupt:
        if climb.best is None:
            raise
        warn_user(
            "the search for the largest evidence was interrupted; the best point so far was kept",
            ConvergenceWarning,
        )
    if climb.best is None:
        raise ValueError(f"the evidence is nowhere finite from here: {climb.failures[-1]}")
    if climb.failures:
        warn_user(
            f"the evidence was not finite at {len(climb.failures)} of {len(climb.path.steps)} points "
            f"({climb.failures[-1]}); the search stepped back and kept the best point",
            ConvergenceWarning,
        )
    mode, evidence = climb.best.mode, climb.best.evidence
    chosen = [place.design(each.term) for each in mode.designs] if elsewhere else mode.designs
    return ChosenField(chosen, mode.coefficients, evidence, climb.path)


def _climb_with_few_pivots(
    climb: Climb,
    make_problem: Callable[[Sequence[LocalDesign]], EvidenceProblem],
    designs: Sequence[LocalDesign],
    first: np.ndarray,
) -> EvidencePoint | None:
    """Climb with few pivots of each term; return None if every term has few pivots already."""
    ranks = [design.term.subspace.rank if isinstance(design.term.subspace, PivotSubspace) else 0 for design in designs]
    ranks = [max(_SMALL_RANK // 3, rank // 4) if rank >= _SMALL_RANK else rank for rank in ranks]
    cut = [truncate_design(design, rank) if rank else design for design, rank in zip(designs, ranks, strict=True)]
    if all(new is old for new, old in zip(cut, designs, strict=True)):
        return None
    climb.run(make_problem(cut), first, 0, coarse=True)
    return climb.tops.get(True)


def _random_start(first: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw log parameters around the first ones for a restart."""
    reach = np.log(_RESTART_FACTOR)
    return first + random.uniform(-reach, reach, size=len(first))


def _has_pivots(designs: Sequence[LocalDesign], parameters: Sequence[FieldParameter]) -> bool:
    """Whether a parameter of the search belongs to a kernel with pivots."""
    searched = {parameter.index for parameter in parameters if parameter.name != VARIANCE}
    return any(isinstance(designs[index].term.subspace, PivotSubspace) for index in searched)


def _bounds(parameter: FieldParameter) -> Bounds:
    """Return the bounds of the logarithm of a parameter."""
    if parameter.name == VARIANCE:
        return float(np.log(_VARIANCES[0])), float(np.log(_VARIANCES[1]))
    middle, reach = np.log(parameter.value), np.log(_KERNEL_FACTOR)
    return float(middle - reach), float(middle + reach)


def _check_designs(designs: Sequence[Design]) -> list[LocalDesign]:
    """Return designs whose features are in memory; ValueError for a growing basis or other features."""
    found = []
    for design in designs:
        if design.panel is not None:
            raise ValueError(
                "optimize='evidence' compares fields in one basis, and basis='gradient' grows with each fit: "
                "use 'random-cholesky' or 'greedy-cholesky'"
            )
        features = design.features if isinstance(design, LocalDesign) else design
        if not isinstance(design, LocalDesign) or not (
            features is None or isinstance(features, np.ndarray) or issparse(features)
        ):
            raise ValueError(
                f"optimize='evidence' moves features in memory, and those of clique set {design.name!r} are "
                f"{type(features).__name__}: use engine='threads' with memory enough for them"
            )
        found.append(design)
    return found
