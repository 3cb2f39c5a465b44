"""From terms on a sample to a fitted field: a solver, and certificates of its solution.

fit_field   the solve with the steps of a fit around it (models/placed.py)
solve       objective -> solver (models/starts.py) -> fitted terms and certificates (models/assessment.py)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelfields import models
from kernelfields.engines.engine import Sample
from kernelfields.inference.family import LabelFamily
from kernelfields.models.assessment import assess
from kernelfields.models.placed import FitStep, FittedField, Placed, compose
from kernelfields.models.starts import minimize_from_best_start
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.solvers.choice import FitOptions
from kernelfields.solvers.loop import Solution


@dataclass(frozen=True)
class FittedBy:
    """Description of the inference of a fit."""

    method: str
    exact: bool
    bound: str | None
    description: str

    @classmethod
    def describe(cls, family: LabelFamily) -> FittedBy:
        """Describe the inference of a family."""
        return cls(family.method, family.exact, family.bound, family.description)


def fit_field(
    designs: Sequence[Design],
    sample: Sample,
    options: FitOptions,
    *,
    start: Sequence[np.ndarray] | None = None,
    steps: Sequence[FitStep] = (),
) -> FittedField:
    """Fit the coefficients of all terms, in rounds for a growing basis."""
    outer, inner = ([step for step in steps if step.in_rounds is each] for each in (False, True))
    if any(design.panel is not None for design in designs):
        outer = [*outer, models.growing.GrowingBasis()]
    fitted = compose(solve, [*outer, *inner])(Placed(designs, sample, options, start))
    # What is kept of a fit must not keep its data.
    return replace(fitted, posterior=None, residual=None)


def solve(placed: Placed) -> FittedField:
    """Minimize the objective and certify the solution."""
    posterior, options, keep = placed.posterior, placed.options, placed.keep
    if (description := posterior.datafit.likelihood.family.description) and not placed.rounds:
        options.report(description)
    if placed.monitor is None and keep is None:
        solution = minimize_from_best_start(placed)
    else:

        def keep_present(present: Callable[[], Solution]) -> None:
            assert keep is not None
            keep(lambda: assess(posterior, present()))

        theta = None if placed.start is None else posterior.blocks.compress(placed.start)
        solution = options.minimize(posterior, theta, placed.monitor, None if keep is None else keep_present)
    try:
        return assess(posterior, solution)
    except KeyboardInterrupt:
        # The estimate is there; what is left takes less than an iteration, so do it all the same.
        return assess(posterior, replace(solution, reason="interrupted"))


def data_value(datafit: Datafit, coefficients: Sequence[np.ndarray]) -> float:
    """Return the negative log-likelihood of data for coefficients over all features of each term."""
    parts = [design.compress(full) for design, full in zip(datafit.designs, coefficients, strict=True)]
    return datafit.evaluate(datafit.potentials(parts)).value


def compute_marginals(datafit: Datafit, coefficients: Sequence[np.ndarray]) -> np.ndarray:
    """Return the probabilities of the labels of all positions, (N, L), for coefficients over all features."""
    parts = [design.compress(full) for design, full in zip(datafit.designs, coefficients, strict=True)]
    family, workers = datafit.likelihood.family, datafit.likelihood.workers
    member = family.distribution(datafit.potentials(parts), workers=workers)
    return datafit.group.concatenate(family.arrangement.read_back(member.marginals()))
