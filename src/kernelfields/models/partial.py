"""Fits to labels that are partly known: the objective itself, or convex steps that complete the labels (EM).

    R(theta) = ||theta||^2 / (2 s) + sum_i weight_i ( log Z_i(theta) - log Z_i(theta given what is known) )

is a difference of convex functions (objective/likelihoods/likelihood.py). Two ways to go down:

    "direct"   L-BFGS on R, twice the inference of a labelled fit
    "em"       freeze the completed labels, make some iterations on the convex objective that touches R there, repeat;
               with any solver, and R never rises (CCCP, generalised EM)

Data without labels have no part in R. What else is known of them, entropies and expectations
(objective/likelihoods/expectations.py), is added to R: a fit to the labels alone comes first, then L-BFGS on the sum.
They come beside those with labels: X, y, weights of S sequences and U more without labels become S + U sequences, the
last U of them with None as labels and a weight of one. Samples of a table are appended row by row.

Minima are local: of ``n_init`` starts, all but the first drawn from the prior, the lowest is kept. What is certified is
the convex objective of the labels as they are completed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from kernelfields.data.frames import stacked_frames
from kernelfields.data.partial_labels import certain, informative
from kernelfields.data.readers import InputReader, are_feature_rows
from kernelfields.data.reading import open_groups
from kernelfields.engines.engine import PackedData
from kernelfields.models.expectations import LabelShares, check_expectations
from kernelfields.numerics.parameters import check_choice, check_count, check_penalty
from kernelfields.numerics.registry import SETTINGS
from kernelfields.numerics.threads import blas_threads
from kernelfields.objective.bounds import MixedBound
from kernelfields.objective.likelihoods.expectations import Criteria
from kernelfields.objective.posterior import LogPosterior, Point
from kernelfields.solvers.choice import SOLVERS, resolve_solver
from kernelfields.solvers.loop import SINGLE_CUT, Iteration, Keeper, Monitor, Solution, Watcher, ends, minimize
from kernelfields.solvers.newton import HessianRule

#: Where a fit ends unless it is told: at this relative gap, or when the log-posterior could rise by no more than so
#: many nats a position and 3 % of itself, whichever comes first.
USUAL_TOLERANCE, NATS_PER_POSITION = 1e-3, 1e-3
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
        solvers that need a convex objective. docs/results/partial_labels.md has the measurements behind this.
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
        expectations: Sequence[LabelShares] = (),
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
        """Whether the objective has entropies or expectations of data without labels."""
        return bool(self.entropy_weight) or not isinstance(self.expectations, tuple | list) or bool(self.expectations)

    def refuse_unlabelled(self, method: str, advice: str) -> None:
        """Raise if a fit has entropies or expectations, which a method does not support."""
        if self.ask_of_unlabelled:
            raise ValueError(f"{method} takes labels only, and this field has entropies or expectations: {advice}")

    def completes(self, solver: object) -> bool:
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
            raise ValueError("method='em' completes labels, and has no entropies or expectations: use 'direct'")

    def criteria(self, data: PackedData, reader: InputReader, classes: np.ndarray) -> Criteria | CriteriaOfParts | None:
        """Return the criteria for data without labels, None for none; ValueError if labels could be anything."""
        if not hasattr(data, "partial"):
            return CriteriaOfParts(self, reader, classes) if self.ask_of_unlabelled else None
        partial = getattr(data, "partial", None)
        known = partial is None or bool(informative(partial).any())
        if not known and not self.expectations:
            raise ValueError(
                "nothing is known of any label in y, so that all labels fit equally well: label some positions, or say "
                "what is expected, as in partial_labels=PartialLabels(classes=[...], expectations=[LabelShares({...})])"
            )
        expected = [part for shares in self.expectations for part in shares.on(data, reader, classes)]
        entropies = None
        if self.entropy_weight and partial is not None:
            entropies = self.entropy_weight * self._uncertain_weights(data)
        if not expected and (entropies is None or not entropies.any()):
            return None
        return Criteria(entropies, expected, known)

    def _uncertain_weights(self, data: PackedData) -> np.ndarray:
        """Return the weights of items of which nothing, or not all, is known; zero for others."""
        assert data.partial is not None
        starts = data.offsets[:-1]
        if self.entropy_of == "unlabelled":
            return data.weights * ~np.logical_or.reduceat(informative(data.partial), starts)
        return data.weights * np.logical_or.reduceat(~certain(data.partial), starts)

    def minimize(
        self,
        posterior: LogPosterior,
        options: FitOptions,
        start: np.ndarray | None,
        monitor: Monitor | None = None,
        keep: Keeper | None = None,
    ) -> Solution:
        """Return the lowest of the minima that were found."""
        best: Solution | None = None
        for attempt in range(self.n_init):
            if attempt:
                scale = np.minimum(posterior.prior_deviation, _LARGEST_START)
                start = options.random.standard_normal(posterior.size) * scale
                options.report(f"start {attempt + 1} of {self.n_init}, drawn from the prior")
            found = self._descend(posterior, options, start, monitor, keep)
            if best is None or found.value < best.value:
                best = found
            if found.reason in ("interrupted", "callback"):
                return replace(best, reason=found.reason)
        assert best is not None
        return best

    def _descend(
        self,
        posterior: LogPosterior,
        options: FitOptions,
        start: np.ndarray | None,
        monitor: Monitor | None,
        keep: Keeper | None,
    ) -> Solution:
        """Return the minimum that a start leads to."""
        if self.completes(options.solver):
            return self._fit_in_steps(posterior, options, start, monitor, keep)
        return options.minimize(posterior, start, monitor, keep)

    def _fit_in_steps(
        self,
        posterior: LogPosterior,
        options: FitOptions,
        start: np.ndarray | None,
        monitor: Monitor | None,
        keep: Keeper | None,
    ) -> Solution:
        """Complete the labels and fit to them until the objective is stationary; Ctrl-C keeps the last step."""
        steps = FittingSteps(posterior, options, monitor)
        steps.go_to(posterior.at(np.zeros(posterior.size) if start is None else start), self._penalty)
        reason = self._end(steps, options)
        try:
            while reason is None:
                options.report(f"{self._step}, step {len(steps.history)}: objective {steps.history[-1].value:.6g}")
                most = max(1, min(self.inner_iterations, options.max_iter - steps.iterations))
                objective = posterior.frozen(steps.point.theta) if self.completes(options.solver) else posterior
                theta, reason = steps.fit(objective, most)
                steps.go_to(self._next_point(steps, theta), self._penalty)
                if keep is not None:
                    keep(lambda: steps.outcome("interrupted"))
                reason = reason or self._end(steps, options)
        except KeyboardInterrupt:
            reason = "interrupted"
        return steps.outcome(reason)

    #: What a step does, in lines about progress.
    _step: ClassVar[str] = "completing the labels"

    @property
    def _penalty(self) -> float:
        """What is added to the objective at present."""
        return 0.0

    def _next_point(self, steps: FittingSteps, theta: np.ndarray) -> Point:
        """Return where a step leads: the objective rises by rounding, or where a development set prefers it, alone."""
        following = steps.posterior.at(theta)
        return following if following.value < steps.point.value else steps.point

    def _end(self, steps: FittingSteps, options: FitOptions) -> str | None:
        """Return why there should be no further step, None if there should."""
        if steps.stationary:
            return "stationary"
        if steps.iterations >= options.max_iter:
            return "max_iter"
        stuck = len(steps.history) > 1 and steps.history[-1].value >= steps.history[-2].value
        return "precision" if stuck else None


@dataclass(frozen=True, eq=False)
class CriteriaOfParts:
    """Criteria of data that are elsewhere, in parts which make their own; something is taken to be known of labels."""

    settings: PartialLabels
    reader: InputReader
    classes: np.ndarray
    labelled: ClassVar[bool] = True

    def of(self, data: PackedData) -> Criteria:
        """Return the criteria of one part."""
        settings = self.settings
        asked = [shares.on(data, self.reader, self.classes, is_part=True) for shares in settings.expectations]
        entropies = np.zeros(len(data.weights))
        if settings.entropy_weight and data.partial is not None:
            entropies = settings.entropy_weight * settings._uncertain_weights(data)
        return Criteria(entropies, [part for own in asked for part in own])


def resolve_partial_labels(settings: object) -> PartialLabels:
    """Return the settings, usual ones for None; raise if they cannot be used."""
    if settings is None:
        return PartialLabels()
    if not isinstance(settings, PartialLabels):
        raise TypeError(f"partial_labels must be None or a PartialLabels(...), got {settings!r}")
    settings.check()
    return settings


def needs_hessian(solver: object) -> bool:
    """Whether a solver, or its name, is one that needs a convex objective."""
    kind = SOLVERS.get(solver) if isinstance(solver, str) else type(solver)
    return kind is not None and issubclass(kind, HessianRule)


@dataclass
class FitOptions:
    """How a field is fitted; ``watch`` is called after each iteration, ``random`` is for solvers and bases that draw.

    A fit ends at the relative gap ``tol``, or at the gap ``enough`` if that comes first: the value is then so near to
    the least one, in nats. ``announce`` takes lines about the progress of a fit. ``criteria`` are those for data
    without labels.
    """

    solver: object
    tol: float
    max_iter: int
    watch: Watcher | None = None
    random: np.random.Generator = field(default_factory=np.random.default_rng)
    announce: Callable[[str], None] | None = None
    partial: PartialLabels = field(default_factory=PartialLabels)
    criteria: Criteria | CriteriaOfParts | None = None
    enough: float = 0.0

    def tightened(self, factor: float, **others: Any) -> FitOptions:
        """Return options that end a fit at so many times the gap."""
        return replace(self, tol=factor * self.tol, enough=factor * self.enough, **others)

    def report(self, line: str) -> None:
        """Pass on a line about the progress of the fit."""
        if self.announce is not None:
            self.announce(line)

    def minimize(
        self,
        posterior: LogPosterior,
        start: np.ndarray | None,
        monitor: Monitor | None = None,
        keep: Keeper | None = None,
        bound: MixedBound | None = None,
    ) -> Solution:
        """Return where the solver ends that these options name."""
        rule = resolve_solver(self.solver, posterior, self.tol, self.random)
        # Products are cut into runs for our own threads: only solvers that factor matrices have use for those of BLAS.
        with blas_threads(None if getattr(rule, "factors_matrices", False) else 1):
            return minimize(
                posterior,
                rule,
                start=start,
                tol=self.tol,
                enough=self.enough,
                max_iter=self.max_iter,
                watch=self.watch,
                monitor=monitor,
                keep=keep,
                bound=bound,
            )


class FittingSteps:
    """Steps of a fit, each some iterations of a solver on an objective that touches the one to be minimised.

    ``history`` has a line for each step, the start first.
    """

    def __init__(self, posterior: LogPosterior, options: FitOptions, monitor: Monitor | None = None):
        self.posterior = posterior
        self.iterations = 0
        self.history: list[Iteration] = []
        self._options, self._monitor = options, monitor
        self._begin, self._passes_before = time.perf_counter(), posterior.passes
        self._name = "em"

    @property
    def stationary(self) -> bool:
        """Whether the objective is flat to within the tolerance where the last step led."""
        return ends(self.history[-1], SINGLE_CUT * self._options.tol, SINGLE_CUT * self._options.enough)

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
                tol=SINGLE_CUT * self._options.tol,
                bounded=False,
            )
        )

    def fit(self, objective: LogPosterior, most: int) -> tuple[np.ndarray, str | None]:
        """Return better coefficients, and why there should be no further step, None if there should."""
        done, watch = self.iterations, self._options.watch

        def watch_all(iteration: Iteration) -> object:
            return watch is not None and watch(replace(iteration, iteration=done + iteration.iteration, tol=None))

        options = self._options.tightened(_INNER_TOLERANCE, max_iter=most, watch=watch_all)
        found = options.minimize(objective, self.point.theta, self._monitor)
        self._name = f"em+{found.solver}"
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


def with_unlabelled(X: Any, y: Any, sample_weight: Any, unlabelled: Any) -> tuple[list, list, Any]:
    """Return sequences or graphs, labels and weights, with others appended whose labels are unknown."""
    for name, values in (("X", X), ("y", y), ("X_unlabelled", unlabelled)):
        if values is None or hasattr(type(values), "__dask_graph__"):
            raise TypeError(f"X_unlabelled is appended to lists of this process, and {name} is {type(values).__name__}")
    (X, y), (more, _) = open_groups(X, y), open_groups(unlabelled)
    return [*X, *more], [*y, *([None] * len(more))], _more_weights(sample_weight, len(more))


def with_unlabelled_rows(X: Any, y: Any, sample_weight: Any, unlabelled: Any) -> tuple[Any, Any, Any]:
    """Return a table (n, d), labels and weights, with rows appended whose labels are unknown."""
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(unlabelled):
        stacked: Any = scipy.sparse.vstack([scipy.sparse.csr_array(X), scipy.sparse.csr_array(unlabelled)])
    elif hasattr(X, "columns"):
        stacked = stacked_frames(X, unlabelled)
    elif are_feature_rows(X):
        stacked = [*X, *unlabelled]
    else:
        stacked = np.vstack([np.asarray(X), np.asarray(unlabelled)])
    n_more = (stacked.shape[0] if hasattr(stacked, "shape") else len(stacked)) - np.shape(y)[0]
    return stacked, [*y, *([None] * n_more)], _more_weights(sample_weight, n_more)


def _more_weights(sample_weight: Any, n_more: int) -> Any:
    return None if sample_weight is None else np.concatenate([np.asarray(sample_weight, dtype=float), np.ones(n_more)])
