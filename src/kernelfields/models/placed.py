"""The input of a solve, and steps around it.

    step.check(estimator)              raise before anything is read
    step.open_context()                      a context around all that follows but the last
    step.with_observers(options)       options of the solver, which reports to the step
    step.prepare(estimator, reader, data)  data are read as they came, items of weight zero included
    step.before(estimator, problem)    data are ready, nothing is placed
    solve(placed)                      where the solver ends: fitted terms and certificates (models/fit.py)
    step.around(solve)                 a solve that repeats, precedes or watches another
    step.after(estimator)              the field is fitted

A step is a basis that grows, expected shares of labels, annotators, a development set, checkpoints, the evidence. A
plain fit has none; nothing else asks whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from kernelfields.engines.engine import Sample
from kernelfields.inference.family import LabelFamily
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.designs.design import Design
from kernelfields.objective.posterior import LogPosterior
from kernelfields.objective.term import Term
from kernelfields.solvers.choice import FitOptions
from kernelfields.solvers.loop import Monitor, Solution


@dataclass
class FittedField:
    """The result of a fit: fitted terms, solution, certificates in the span and over the RKHS."""

    terms: list[Term]
    solution: Solution
    span: Certificate
    rkhs: Certificate
    #: What rounding of stored features does to the value, about, term by term; see objective/designs/design.py.
    roundings: list[float]
    #: How labels were inferred, and what inference reported of its last answer.
    family: LabelFamily
    warnings: Sequence[str] = ()
    #: The objective that was minimized and its residual at the end, None where no term has pivots.
    posterior: LogPosterior | None = field(default=None, repr=False)
    residual: Any = field(default=None, repr=False)

    @property
    def rounding_share(self) -> float:
        """The change of the value by rounding of stored features, as a share of it."""
        return abs(sum(self.roundings)) / max(abs(self.solution.value), np.finfo(float).tiny)

    def is_accurate(self, tol: float) -> bool:
        """Whether the solver reached its end, rounding is within a tolerance, and inference reported nothing."""
        ended = self.solution.reason not in ("interrupted", "max_iter", "precision")
        return ended and self.rounding_share <= tol and not self.warnings

    @property
    def coefficients(self) -> list[np.ndarray]:
        """The coefficients of each term, over all its features."""
        return [term.known for term in self.terms]


#: Called after each iteration with a function that returns the field as an interrupt there would leave it.
FieldKeeper: TypeAlias = Callable[[Callable[[], FittedField]], None]


@dataclass(frozen=True)
class Placed:
    """Terms on a sample, options of the fit, and start."""

    designs: Sequence[Design]
    sample: Sample
    options: FitOptions
    #: Coefficients of each term over all its features; None for zero.
    start: Sequence[np.ndarray] | None = None
    #: The objective where it is another one than the log-posterior of the terms.
    objective: LogPosterior | None = None
    monitor: Monitor | None = None
    keep: FieldKeeper | None = None
    #: How many solves of the same fit came before.
    rounds: int = 0

    @cached_property
    def posterior(self) -> LogPosterior:
        """The objective that is minimized."""
        return LogPosterior(self.sample.datafit(self.designs)) if self.objective is None else self.objective


Solve: TypeAlias = Callable[[Placed], FittedField]


class FitStep:
    """A step of a fit around its solve: the base class, which changes nothing."""

    #: Whether a basis that grows has this step in each of its rounds; else the step is around all of them.
    in_rounds: ClassVar[bool] = False

    #: Whether the fit keeps items of weight zero, for a step that numbers the items which were given.
    every_item: ClassVar[bool] = False
    #: Labelled data beside those of the fit, which the step has read.
    held_out: Any = None
    #: Whether the step chooses kernels and variances, so that short fits need not.
    chooses_parameters: ClassVar[bool] = False

    def check(self, estimator: Any) -> None:
        """Raise if an estimator cannot be fitted in this step."""

    def open_context(self) -> AbstractContextManager[object]:
        """Return a context in which the fit runs."""
        return nullcontext()

    def with_observers(self, options: FitOptions) -> FitOptions:
        """Return the options of a fit with the observers of the step."""
        return options

    def kernels(self, names: list[str]) -> list[str]:
        """Return the kernels that the step supports; raise if it supports none."""
        return names

    def prepare(self, estimator: Any, reader: Any, data: Any) -> Any:
        """Return the data of a fit, changed by the step."""
        return data

    def before(self, estimator: Any, problem: Any) -> None:
        """Prepare a fit of an estimator with its problem, a FitState with the settled estimator."""

    def around(self, solve: Solve) -> Solve:
        """Return the solve with this step around it."""
        return solve

    def after(self, estimator: Any) -> None:
        """Set the findings of the step on a fitted estimator."""


def compose(solve: Solve, steps: Sequence[FitStep]) -> Solve:
    """Return a solve with steps around it, the first one outermost."""
    for step in reversed(steps):
        solve = step.around(solve)
    return solve
