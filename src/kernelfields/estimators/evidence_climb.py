"""One climb of the log evidence by L-BFGS-B, in logarithms of the parameters, and what all climbs have seen.

The second derivative in the logarithm of a prior variance is about -(effective number of coefficients) / 2; so is,
roughly, that in the logarithm of a kernel's width. Variables are scaled by its root, so that the first step is
about Newton's, and a step that promises less than the tolerance is not made: few points are tried, as each costs a
fit and a Hessian.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from kernelfields.estimators.evidence_problem import EvidenceProblem, FieldLaplace, KnownMode
from kernelfields.estimators.evidence_settings import EvidencePath, EvidenceSearch, EvidenceStep
from kernelfields.posterior.laplace import Evidence

# The first step changes no parameter by more than this factor's logarithm.
_FIRST_REACH = 2.0
# What a step into nowhere is said to cost, in nats, so that the line search comes back.
_NOWHERE = 1e3
_FAILURES = (np.linalg.LinAlgError, FloatingPointError, OverflowError, ValueError)


@dataclass
class ClimbedPoint:
    """A point with finite evidence: logarithms of the parameters, and the mode there."""

    logs: np.ndarray
    mode: KnownMode
    evidence: Evidence


class Climb:
    """Climbs of one search; the best points, the path and the failures of all of them."""

    def __init__(
        self,
        search: EvidenceSearch,
        bounds: list[tuple[float, float]],
        say: Callable[[str], None],
        begin: float,
    ):
        self.search, self.bounds, self.say, self.begin = search, bounds, say, begin
        self.path = EvidencePath()
        self.best: ClimbedPoint | None = None
        self.coarse_best: ClimbedPoint | None = None
        self.failures: list[str] = []

    def run(self, problem: EvidenceProblem, logs: np.ndarray, start: int, *, coarse: bool = False) -> None:
        """Climb from a start; ``start`` is its number. Coarse climbs have a best point of their own."""
        low, high = np.array(self.bounds).T
        first = np.clip(logs, low, high)
        value, gradient, curvature = self._visit(problem, first, start, coarse)
        if not np.isfinite(value) or self._promise(first, gradient, curvature) < self._least(value):
            return
        unit = np.sqrt(curvature)
        slope = gradient / unit
        length = float(np.linalg.norm(slope))
        reach = min(length, _FIRST_REACH * length / float(np.abs(slope / unit).max()))
        # In these variables the first step of L-BFGS-B, of length one, is ``reach`` along the scaled gradient.
        scale, height = unit / reach, reach * length
        known = {first.tobytes(): (value, gradient)}
        reached, before = [value], [value]

        def descend(variables: np.ndarray) -> tuple[float, np.ndarray]:
            logs = np.clip(variables / scale, low, high)
            if np.array_equal(variables, first * scale):
                logs = first
            key = logs.tobytes()
            value, gradient = known[key] if key in known else self._visit(problem, logs, start, coarse)[:2]
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
            if min(gained, self._promise(logs, slope, curvature)) < self._least(value):
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

    def _least(self, value: float) -> float:
        """Return the gain in nats that is worth another point."""
        return self.search.tol * max(1.0, abs(value))

    def _promise(self, logs: np.ndarray, gradient: np.ndarray, curvature: np.ndarray) -> float:
        """Return what a Newton step would gain, roughly; nothing beyond the bounds."""
        low, high = np.array(self.bounds).T
        held = ((logs <= low) & (gradient < 0)) | ((logs >= high) & (gradient > 0))
        return float(0.5 * np.sum(np.where(held, 0.0, np.square(gradient) / curvature)))

    def _visit(
        self, problem: EvidenceProblem, logs: np.ndarray, start: int, coarse: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return log evidence, gradient and about how curved it is, (parameters,) each; NaN where it fails."""
        value, error, gradient = np.nan, np.nan, np.full(len(logs), np.nan)
        curvature = np.ones(len(logs))
        try:
            laplace = problem.laplace(logs)
            value, error = laplace.evidence.value, laplace.evidence.standard_error
            gradient = problem.gradient(laplace, logs)
            curvature = problem.rough_curvature(laplace)
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
        self.say(
            f"evidence: start {start}, point {len(self.path.steps)}, log evidence {value:.4f}"
            f"{' with few pivots' if coarse else ''}"
        )
        if np.isfinite(value):
            self._keep_if_best(problem, laplace, logs, coarse)
        return value, gradient, curvature

    def _keep_if_best(
        self, problem: EvidenceProblem, laplace: FieldLaplace, logs: np.ndarray, coarse: bool
    ) -> None:
        best = self.coarse_best if coarse else self.best
        if best is not None and laplace.evidence.value <= best.evidence.value:
            return
        mode = KnownMode(problem.space_at(logs), laplace.posterior.expanded(laplace.mode), laplace.curvature)
        point = ClimbedPoint(np.array(logs), mode, laplace.evidence)
        if coarse:
            self.coarse_best = point
        else:
            self.best = point
