"""Fits to labels that are partly known: the objective itself, or convex steps that complete the labels (EM).

    R(theta) = ||theta||^2 / (2 s) + sum_i weight_i ( log Z_i(theta) - log Z_i(theta given what is known) )

is a difference of convex functions (objective/likelihoods/likelihood.py). Two ways to go down:

    "direct"   L-BFGS on R, twice the inference of a labelled fit
    "em"       freeze the completed labels, make some iterations on the convex objective that touches R there, repeat;
               with any solver, and R never rises (CCCP, generalised EM)

Data without labels have no part in R. What else is known of them, entropies and expectations
(objective/likelihoods/expectations.py), is added to R: a fit to the labels alone comes first, then L-BFGS on the sum.

Minima are local: of ``n_init`` starts, all but the first drawn from the prior, the lowest is kept. What is certified is
the convex objective of the labels as they are completed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.fields.evidence import informative
from kernelfields.models.expectations import check_expectations, criteria_on
from kernelfields.numerics.parameters import check_choice, check_count, check_penalty
from kernelfields.numerics.registry import SETTINGS
from kernelfields.objective.posterior import LogPosterior, Point
from kernelfields.solvers.choice import SOLVERS, resolve_solver
from kernelfields.solvers.loop import SINGLE_CUT, Iteration, Keeper, Monitor, Solution, Watcher, minimize
from kernelfields.solvers.newton import HessianRule

# Draws from a wide prior would begin where inference underflows.
_LARGEST_START = 1.0
# Convex objectives of completed labels are solved so much further than the objective itself.
_INNER_TOLERANCE = 0.1


@SETTINGS.register("partial labels")
class PartialLabels(BaseEstimator):
    """How a field is fitted where labels are partly known.

    Parameters
    ----------
    method : "auto", "direct" or "em", default "auto"
        L-BFGS on the objective itself, or convex steps that complete the labels. "auto" is "direct", and "em" for
        solvers that need a convex objective. benchmarks/partial_labels.py prints the measurements behind this.
    n_init : int, default 1
        Starts, all but the first drawn from the prior; the estimate with the lowest objective is kept.
    inner_iterations : int, default 10
        Iterations of the solver between two completions of the labels by "em".
    classes : list of labels or None
        All labels there are, where y may not show each of them; None for those that y names.
    entropy_weight : float, default 0.0
        Added to the objective for each sequence without labels: this many times the entropy of its labellings, so that
        the field is sure of them. Sequences count with their weights.
    entropy_of : "unlabelled" or "partial", default "unlabelled"
        Whether only sequences of which nothing is known have that term, or all of which not every label is known.
    expectations : list of LabelShares and LabelledFeature
        Shares that labels are known to have, of all positions or of those where a feature is active.
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        n_init: int = 1,
        inner_iterations: int = 10,
        classes: Any = None,
        entropy_weight: float = 0.0,
        entropy_of: str = "unlabelled",
        expectations: Any = (),
    ):
        self.method = method
        self.n_init = n_init
        self.inner_iterations = inner_iterations
        self.classes = classes
        self.entropy_weight = entropy_weight
        self.entropy_of = entropy_of
        self.expectations = expectations

    @property
    def ask_of_unlabelled(self) -> bool:
        """Whether anything is asked of data without labels."""
        return bool(self.entropy_weight) or not isinstance(self.expectations, tuple | list) or bool(self.expectations)

    def completes(self, solver: Any) -> bool:
        """Whether labels are completed and then fitted to, rather than the objective itself minimised."""
        return self.method == "em" or (self.method == "auto" and needs_hessian(solver))

    def check(self) -> None:
        """Raise if a parameter cannot be used."""
        check_choice(self.method, "method", ("auto", "direct", "em"))
        check_count(self.n_init, "n_init")
        check_count(self.inner_iterations, "inner_iterations")
        check_penalty(self.entropy_weight, "entropy_weight")
        check_choice(self.entropy_of, "entropy_of", ("unlabelled", "partial"))
        if not self.ask_of_unlabelled:
            return
        check_expectations(self.expectations)
        if self.method == "em":
            raise ValueError("method='em' completes labels, and knows no entropies or expectations: use 'direct'")

    def minimize(self, posterior: LogPosterior, solver: Any, **options: Any) -> Solution:
        """Return the lowest of the minima that were found; options are those of ``minimize_partial``."""
        return minimize_partial(posterior, solver, self, **options)


def resolve_partial_labels(settings: Any) -> PartialLabels:
    """Return the settings, usual ones for None; raise if they cannot be used."""
    if settings is None:
        return PartialLabels()
    if not isinstance(settings, PartialLabels):
        raise TypeError(f"partial_labels must be None or a PartialLabels(...), got {settings!r}")
    settings.check()
    return settings


def resolve_criteria(settings: PartialLabels, engine: Any, data: Any, reader: Any, classes: np.ndarray) -> Any:
    """Return the Criteria for data without labels, None for none; ValueError if labels could be anything."""
    if settings.ask_of_unlabelled and engine.name != "threads":
        raise ValueError(f"entropies and expectations are fitted by engine='threads', not by {engine.name!r}")
    evidence = getattr(data, "evidence", None)
    if evidence is not None and not settings.expectations and not informative(evidence).any():
        raise ValueError(
            "nothing is known of any label in y, so that all labels fit equally well: label some positions, or say "
            "what is expected, as in partial_labels=PartialLabels(classes=[...], expectations=[LabelShares({...})])"
        )
    if not settings.ask_of_unlabelled:
        return None
    return criteria_on(settings, data, reader, classes)


def with_criteria(posterior: LogPosterior, criteria: Any, solver: Any) -> LogPosterior:
    """Return the objective with entropies and expectations added; ValueError where they cannot be had."""
    from kernelfields.objective.likelihoods.expectations import ExpectationLikelihood

    if needs_hessian(solver):
        raise ValueError("entropies and expectations have no Hessian products, which this solver needs: use 'lbfgs'")
    datafit: Any = posterior.datafit
    return LogPosterior(datafit.with_likelihood(ExpectationLikelihood(datafit.likelihood, criteria)))


def refuse_unlabelled(estimator: Any, method: str, advice: str) -> None:
    """Raise if the fit of an estimator has entropies or expectations, which a method does not know."""
    if resolve_partial_labels(getattr(estimator, "partial_labels", None)).ask_of_unlabelled:
        raise ValueError(f"{method} knows labels only, and this field has entropies or expectations: {advice}")


def minimize_partial(
    posterior: LogPosterior,
    solver: Any,
    settings: PartialLabels,
    *,
    start: np.ndarray | None,
    tol: float,
    max_iter: int,
    random: np.random.Generator,
    watch: Watcher | None = None,
    monitor: Monitor | None = None,
    keep: Keeper | None = None,
    say: Callable[[str], None] | None = None,
) -> Solution:
    """Return the lowest of the minima that were found."""
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "watch": watch, "monitor": monitor, "keep": keep}
    best: Solution | None = None
    for attempt in range(settings.n_init):
        if attempt:
            start = random.standard_normal(posterior.size) * np.minimum(posterior.prior_deviation, _LARGEST_START)
        if attempt and say is not None:
            say(f"start {attempt + 1} of {settings.n_init}, drawn from the prior")
        if settings.completes(solver):
            found = complete_labels(posterior, start, solver, settings.inner_iterations, random, say, **options)
        else:
            found = minimize(posterior, resolve_solver(solver, posterior, tol, random), start=start, **options)
        if best is None or found.value < best.value:
            best = found
        if found.reason in ("interrupted", "callback"):
            return replace(best, reason=found.reason)
    assert best is not None
    return best


def needs_hessian(solver: Any) -> bool:
    """Whether a solver, or its name, is one that needs a convex objective."""
    kind = SOLVERS.get(solver) if isinstance(solver, str) else type(solver)
    return kind is not None and issubclass(kind, HessianRule)


class FittingSteps:
    """Steps of a fit, each some iterations of a solver on an objective that touches the one to be minimised.

    ``history`` has a line for each step, the start first.
    """

    def __init__(self, posterior: LogPosterior, solver: Any, random: np.random.Generator, tol: float):
        self.posterior = posterior
        self.iterations = 0
        self.history: list[Iteration] = []
        self._solver, self._random, self._tol = solver, random, tol
        self._begin, self._passes_before = time.perf_counter(), posterior.passes
        self._name = "em"

    @property
    def stationary(self) -> bool:
        """Whether the objective is flat to within the tolerance where the last step led."""
        return self.history[-1].relative_gap <= SINGLE_CUT * self._tol

    def go_to(self, point: Point, penalty: float = 0.0) -> None:
        """Take a point as the next one; ``penalty`` is added to the objective there."""
        self.point, self._gap_parts = point, self.posterior.gap_parts(point)
        value = point.value + penalty
        self.history.append(
            Iteration(
                iteration=self.iterations,
                passes=self.posterior.passes - self._passes_before,
                seconds=time.perf_counter() - self._begin,
                value=value,
                lower_bound=value - sum(self._gap_parts.values()),
                gradient_norm=float(np.sqrt(point.steepest @ point.steepest)),
                step=1.0 if self.history else 0.0,
                coefficient_norm=float(np.sqrt(point.theta @ point.theta)),
            )
        )

    def fit(
        self, objective: LogPosterior, most: int, watch: Watcher | None, monitor: Monitor | None
    ) -> tuple[np.ndarray, str | None]:
        """Return better coefficients, and why there should be no further step, None if there should."""
        done, rule = self.iterations, resolve_solver(self._solver, objective, self._tol, self._random)
        self._name = f"em+{rule.name}"

        def watch_all(iteration: Iteration) -> object:
            return watch is not None and watch(replace(iteration, iteration=done + iteration.iteration))

        tol, start = _INNER_TOLERANCE * self._tol, self.point.theta
        found = minimize(objective, rule, start=start, tol=tol, max_iter=most, watch=watch_all, monitor=monitor)
        self.posterior.datafit.passes = objective.passes
        self.iterations += max(1, found.iterations)
        return found.theta, found.reason if found.reason in ("interrupted", "callback", "early") else None

    def outcome(self, reason: str) -> Solution:
        """Return the solution if the fit ends here."""
        last = self.history[-1]
        return Solution(
            theta=self.point.theta,
            solver=self._name,
            value=last.value,
            lower_bound=last.lower_bound,
            gradient_norm=last.gradient_norm,
            iterations=self.iterations,
            passes=self.posterior.passes - self._passes_before,
            seconds=time.perf_counter() - self._begin,
            reason=reason,
            history=list(self.history),
            gap_parts=self._gap_parts,
        )


def complete_labels(
    posterior: LogPosterior,
    start: np.ndarray | None,
    solver: Any,
    inner_iterations: int,
    random: np.random.Generator,
    say: Callable[[str], None] | None,
    *,
    tol: float,
    max_iter: int,
    watch: Watcher | None,
    monitor: Monitor | None,
    keep: Keeper | None,
) -> Solution:
    """Complete the labels and fit to them until the objective is stationary; Ctrl-C keeps the last step."""
    steps = FittingSteps(posterior, solver, random, tol)
    steps.go_to(posterior.at(np.zeros(posterior.size) if start is None else start))
    reason: str | None = None
    try:
        while reason is None:
            if steps.stationary:
                return steps.outcome("stationary")
            if steps.iterations >= max_iter:
                return steps.outcome("max_iter")
            if say is not None:
                say(f"completing the labels, step {len(steps.history)}: objective {steps.point.value:.6g}")
            most = min(inner_iterations, max_iter - steps.iterations)
            theta, reason = steps.fit(posterior.frozen(steps.point.theta), most, watch, monitor)
            following = posterior.at(theta)
            # A convex step cannot raise the objective but by rounding; a development set may prefer an earlier point.
            risen = following.value >= steps.point.value
            steps.go_to(steps.point if risen else following)
            if keep is not None:
                keep(lambda: steps.outcome("interrupted"))
            if risen and reason is None:
                reason = "precision"
    except KeyboardInterrupt:
        reason = "interrupted"
    return steps.outcome(reason)
