"""From terms on a sample to a fitted field: solver, certificates, development sets, rounds of a growing basis.

With a :class:`~kernelfields.basis.Gradient` basis, rounds of fitting and growing alternate (Corollary 10): solve
in the present span, bound what the rest of the RKHS could still bring, stop when that is below the tolerance,
otherwise add the pivots that promise most. Coordinates are nested, so each round starts from the last estimate
padded with zeros.

A development set is watched during the fit: after every iteration its log-likelihood is computed with the present
coefficients, half a pass over its features, which are computed once, and inference. The best coefficients by that
measure are kept, and the fit stops when they have not improved for some iterations.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernelfields.basis.selection import resolve_basis
from kernelfields.engines.engine import Sample
from kernelfields.inference.family import LabelFamily
from kernelfields.numerics.threads import blas_threads
from kernelfields.numerics.wording import counted
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.objective.posterior import LogPosterior, Point
from kernelfields.objective.term import Term
from kernelfields.solvers.choice import FitOptions, choose, needs_hessian
from kernelfields.solvers.lbfgs import LBFGS
from kernelfields.solvers.loop import Iteration, Solution, counted_on, ending_gap, ends, watched_on

# The RKHS gap is at least the span gap at the last point, which is a few times the gap of the bundle.
_INNER_TOLERANCE = 0.1
# Where there are so many positions, and so many for each feature, a fit to a share of the sequences comes first, to a
# loose tolerance: it costs few passes, and its end and its steps save more (benchmarks/fit_speed.py).
_LEAST_POSITIONS, _POSITIONS_PER_FEATURE = 10_000, 10
_SHARE, _LOOSER = 4, 10.0
# With approximate inference a fit makes about 20 evaluations, with twice the sweeps of the first one.
_EVALUATIONS, _SOON = 40, 5.0
# Iterations without a higher likelihood of the development set after which a fit stops.
_PATIENCE = 5


@dataclass
class FittedField:
    """What fitting leaves behind: fitted terms, solution, certificates in the span and over the RKHS."""

    terms: list[Term]
    solution: Solution
    span: Certificate
    rkhs: Certificate
    #: What rounding of stored features does to the value, about, term by term; see objective/designs/design.py.
    roundings: list[float]
    #: How labels were inferred, and what inference reported of its last answer.
    family: LabelFamily
    warnings: Sequence[str] = ()

    @property
    def coefficients(self) -> list[np.ndarray]:
        """The coefficients of each term, over all its features."""
        return [term.known for term in self.terms]


@dataclass(frozen=True)
class FittedBy:
    """What is known of the inference of a fit once the graphs it was made for are gone."""

    method: str
    exact: bool
    bound: str | None
    description: str

    @classmethod
    def of(cls, family: LabelFamily) -> FittedBy:
        """Return how a family is inferred."""
        return cls(family.method, family.exact, family.bound, family.description)


#: Called after each iteration with a function that returns the field as an interrupt there would leave it.
FieldKeeper = Callable[[Callable[[], FittedField]], None]


class DevelopmentSet:
    """A labelled sample beside the training one; stops a fit after some iterations without progress.

    ``scores`` holds the log-likelihood after each iteration, ``best`` the point with the highest one.
    """

    def __init__(self, sample: Sample):
        self.sample = sample
        self.scores: list[float] = []
        self.best: Point | None = None
        self._datafit: Datafit | None = None
        self._best_score = -np.inf
        self._since_best = 0

    def attach(self, designs: Sequence[Design]) -> None:
        """Compute the features of the development set in the terms of the training set."""
        self._datafit = self.sample.datafit([self.sample.design(design.term) for design in designs])

    def __call__(self, point: Point) -> bool:
        """Take note of a point; True when there was no progress for too long."""
        assert self._datafit is not None, "attach first"
        score = -data_value(self._datafit, point.posterior.expanded(point.theta))
        self.scores.append(score)
        if score > self._best_score:
            self._best_score, self.best, self._since_best = score, point, 0
        else:
            self._since_best += 1
        return self._since_best >= _PATIENCE


def data_value(datafit: Datafit, coefficients: Sequence[np.ndarray]) -> float:
    """Return the negative log-likelihood of data for coefficients over all features of each term."""
    parts = [design.compress(full) for design, full in zip(datafit.designs, coefficients, strict=True)]
    return datafit.evaluate(datafit.potentials(parts)).value


def predicted_marginals(datafit: Datafit, coefficients: Sequence[np.ndarray]) -> np.ndarray:
    """Return the probabilities of the labels of all positions, (N, L), for coefficients over all features."""
    parts = [design.compress(full) for design, full in zip(datafit.designs, coefficients, strict=True)]
    member = datafit.family.at(datafit.potentials(parts), workers=datafit.likelihood.workers)
    return datafit.group.joined(datafit.family.read_back(member.marginals()))


def fit_field(
    designs: Sequence[Design],
    sample: Sample,
    options: FitOptions,
    *,
    start: Sequence[np.ndarray] | None = None,
    development: DevelopmentSet | None = None,
    keep: FieldKeeper | None = None,
) -> FittedField:
    """Fit the coefficients of all terms; grow the bases that are to grow."""
    designs = list(designs)
    growing = any(design.panel is not None for design in designs)
    if development is not None:
        if growing:
            raise ValueError("a basis that grows by the gradient cannot be stopped by a development set; leave out one")
        development.attach(designs)
    if growing and keep is not None:
        raise ValueError("a basis that grows by the gradient cannot be taken up again from a checkpoint; leave out one")
    history: list[Iteration] = []
    proved = 0.0
    while True:
        before = history[-1] if history else None
        posterior = LogPosterior(sample.datafit(designs))
        description = posterior.datafit.family.description
        if description and before is None:
            options.report(description)
        round_options = options.tightened(
            _INNER_TOLERANCE if growing else 1.0,
            max_iter=options.max_iter - (0 if before is None else before.iteration),
            watch=watched_on(before, options.watch, proved if growing else None),
        )
        if options.criteria is not None:
            posterior, start, round_options = _with_criteria(posterior, sample, start, round_options, options.criteria)
        solution = _solve(posterior, sample, round_options, start, development, keep)
        # The first entry of a later round is the point that the round before ended in.
        new = solution.history if before is None else solution.history[1:]
        history += [counted_on(before, iteration, proved if growing else None) for iteration in new]
        start = posterior.expanded(solution.theta)
        try:
            residual, fitted = _assess(posterior, solution, start)
        except KeyboardInterrupt:
            # The estimate is there; what is left takes less than an iteration, so do it all the same.
            solution = replace(solution, reason="interrupted")
            residual, fitted = _assess(posterior, solution, start)
        # A fit that was stopped returns at once, not after a pass over the kernel matrix.
        if not growing or solution.reason in ("interrupted", "callback"):
            break
        try:
            exact = rkhs_bound(posterior, solution, residual, exact=True)
            # A bound over the whole RKHS holds in every later round; completed labels make another objective of each.
            proved = max(proved, exact.lower_bound) if posterior.convex else exact.lower_bound
            rkhs = replace(exact, lower_bound=proved, completed=not posterior.convex)
            fitted = replace(fitted, rkhs=rkhs)
            if posterior.convex:
                tol = ending_gap(rkhs.value, options.tol, options.enough)
                history[-1] = replace(history[-1], lower_bound=proved, working_gap=None, tol=tol)
            if ends(rkhs, options.tol, options.enough):
                solution = replace(solution, reason="gap")
                break
            if history[-1].iteration >= options.max_iter:
                solution = replace(solution, reason="max_iter")
                break
            grown = _grow(designs, posterior, residual, sample, options.random)
            if grown is None:
                break
            designs = grown
            rank = sum(design.term.subspace.rank for design in designs if design.panel is not None)
            options.report(f"the basis grows to {rank} functions")
        except KeyboardInterrupt:
            solution = replace(solution, reason="interrupted")
            break
        start = [_padded(old, design) for old, design in zip(start, designs, strict=True)]
    last = history[-1]
    solution = replace(
        solution,
        theta=np.concatenate([part.ravel() for part in start]),
        history=history,
        iterations=last.iteration,
        passes=last.passes,
        seconds=last.seconds,
    )
    return replace(fitted, solution=solution)


def _with_criteria(
    posterior: LogPosterior,
    sample: Sample,
    start: Sequence[np.ndarray] | None,
    options: FitOptions,
    criteria: Any,
) -> tuple[LogPosterior, Sequence[np.ndarray] | None, FitOptions]:
    """Return the objective with the criteria for data without labels, and where to start: the fit to labels alone."""
    if needs_hessian(options.solver):
        raise ValueError("expectations have no Hessian products, which this solver needs: use 'lbfgs'")
    whole = LogPosterior(posterior.datafit.with_criteria(criteria))
    if start is not None:
        return whole, start, options
    if not criteria.labelled:
        return whole, whole.expanded(np.zeros(whole.size)), options
    options.report("fitting to the labels alone, then to the expected shares as well")
    supervised = _solve(posterior, sample, replace(options, completion=None), None, None, None)
    if supervised.reason in ("interrupted", "callback"):
        options = replace(options, watch=_interrupt if supervised.reason == "interrupted" else _stop)
    return whole, posterior.expanded(supervised.theta), options


def _interrupt(iteration: Iteration) -> bool:
    """End a fit where it begins, as Ctrl-C would."""
    raise KeyboardInterrupt


def _stop(iteration: Iteration) -> bool:
    """End a fit where it begins, as a callback would."""
    return True


def _solve(
    posterior: LogPosterior,
    sample: Sample,
    options: FitOptions,
    start: Sequence[np.ndarray] | None,
    monitor: DevelopmentSet | None,
    keep: FieldKeeper | None,
) -> Solution:
    def keep_present(present: Callable[[], Solution]) -> None:
        assert keep is not None
        keep(lambda: _unfinished(posterior, present()))

    keeper = None if keep is None else keep_present
    alone = monitor is None and keeper is None
    if alone and not posterior.penalty.smooth:
        from kernelfields.models.working_set import has_working_sets, minimize_in_working_sets

        if has_working_sets(posterior):
            # Passes over all pairs have no product that is worth threads of BLAS, which wait busily for each other.
            with blas_threads(1):
                return minimize_in_working_sets(posterior, sample, options, start)
    theta = None if start is None else posterior.compressed(start)
    if alone and theta is None and options.solver == "auto":
        if posterior.approximation is not None:
            theta, options = _start_from_single_labels(posterior, sample, options)
        elif posterior.convex:
            found = _start_without_ngrams(posterior, sample, options) or _start_on_share(posterior, sample, options)
            if found is not None:
                return found
    if options.completion is not None and not posterior.convex:
        return options.completion.minimize(posterior, options, theta, monitor, keeper)
    return options.minimize(posterior, theta, monitor, keeper)


def _start_on_share(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution | None:
    """Return a solution from the one on every fourth sequence, and the steps there; None where that saves little."""
    rank = max(block.shape[0] for block in posterior.blocks)
    small = sample.n_positions < max(_LEAST_POSITIONS, _POSITIONS_PER_FEATURE * rank)
    if small or not posterior.penalty.quadratic:
        return None
    every = slice(None, None, _SHARE)
    share = sample.part(posterior.datafit.designs, every, _SHARE) if choose(posterior) == "lbfgs" else None
    if share is None:
        return None
    options.report(f"fitting to every {_SHARE}th sequence, then to all")
    part, rule = LogPosterior(share[0].datafit(share[1])), LBFGS()
    loose = replace(options.tightened(_LOOSER), solver=rule, watch=None)
    found = loose.minimize(part, None)
    del share, part
    return _minimize_from(
        posterior, found, found.theta, found.passes / _SHARE, replace(options, solver=LBFGS(pairs=rule.learnt))
    )


def _start_without_ngrams(posterior: LogPosterior, sample: Sample, options: FitOptions) -> Solution | None:
    """Return a solution from that of the field without its n-grams, whose passes are cheap; None where it has none."""
    if posterior.datafit.family.method != "n-grams":
        return None
    found = _solved_with_few_labels(
        posterior, sample, 2, options, "fitting the field without its n-grams, then all of it"
    )
    return None if found is None else _minimize_from(posterior, found, found.theta, found.passes, options)


def _start_from_single_labels(
    posterior: LogPosterior, sample: Sample, options: FitOptions
) -> tuple[np.ndarray, FitOptions]:
    """Return the solution of the field in which labels meet no others, which needs no sweeps; zero if there is none.

    Options to go on with come with it.
    """
    alone, words = sample.single_labels(), "fitting each label by itself, then all of them together"
    found = None if alone is None else _solved_with_few_labels(posterior, alone, 1, options, words)
    if found is None:
        return np.zeros(posterior.size), options
    if found.reason == "interrupted":
        return found.theta, replace(options, watch=_interrupt)
    _report_duration(posterior, found.theta, options)
    return found.theta, options


def _solved_with_few_labels(
    posterior: LogPosterior, sample: Sample, most_labels: int, options: FitOptions, words: str
) -> Solution | None:
    """Return a loose solution of the terms whose cliques have so many labels at most, in all coefficients.

    None where these are no terms or all of them; ``words`` tell what is fitted.
    """
    designs = posterior.datafit.designs
    few = [index for index, design in enumerate(designs) if design.labels_per_clique <= most_labels]
    if not 0 < len(few) < len(designs):
        return None
    options.report(words)
    part = LogPosterior(sample.datafit([designs[index] for index in few]))
    found = replace(options.tightened(_LOOSER), watch=None).minimize(part, None)
    theta = np.zeros(posterior.size)
    for index, block in zip(few, part.blocks, strict=True):
        theta[posterior.blocks[index].rows] = found.theta[block.rows]
    return replace(found, theta=theta)


def _report_duration(posterior: LogPosterior, theta: np.ndarray, options: FitOptions) -> None:
    """Say how long a fit with approximate inference takes, about; nothing where that is soon."""
    if options.announce is None:
        return
    begin = time.perf_counter()
    posterior.trial(theta)
    seconds = _EVALUATIONS * (time.perf_counter() - begin)
    if seconds >= _SOON:
        options.report(
            f"inference of all labels takes {seconds / _EVALUATIONS:.1f} s at first, the fit about {seconds:.0f} s "
            f"({_EVALUATIONS} times that); the best estimate so far is kept if it is interrupted"
        )


def _minimize_from(
    posterior: LogPosterior, found: Solution, theta: np.ndarray, passes: float, options: FitOptions
) -> Solution:
    """Go on from coefficients that a simpler objective has led to, at the price of so many passes."""
    before = replace(found.history[-1], iteration=0, passes=passes)
    watch = _interrupt if found.reason == "interrupted" else watched_on(before, options.watch)
    solution = replace(options, watch=watch).minimize(posterior, theta)
    history = [counted_on(before, iteration) for iteration in solution.history]
    return replace(solution, history=history, passes=history[-1].passes, seconds=history[-1].seconds)


def _unfinished(posterior: LogPosterior, solution: Solution) -> FittedField:
    """Return the field at a solution that is still to be improved: half a pass for its certificates."""
    coefficients = posterior.expanded(solution.theta)
    _, fitted = _assess(posterior, solution, coefficients)
    return replace(fitted, solution=replace(solution, theta=np.concatenate([own.ravel() for own in coefficients])))


def _assess(posterior: LogPosterior, solution: Solution, coefficients: Sequence[np.ndarray]) -> tuple[Any, FittedField]:
    """Return the residual at a solution and the field there: certificates, and the rounding of stored features.

    The residual is None where no term has pivots: nothing needs it. Where labels are partly known, certificates are
    those of the convex objective of the labels as they are completed here.
    """
    found = solution
    completed = not posterior.convex
    if completed:
        posterior = posterior.frozen(solution.theta)
        value = posterior.at(solution.theta).value
        solution = replace(solution, value=value, lower_bound=value - sum(solution.gap_parts.values()))
    datafit, designs = posterior.datafit, posterior.datafit.designs
    residual, roundings = None, []
    if any(design.term.has_pivots for design in designs):
        residual = datafit.evaluate(posterior.potentials(solution.theta)).residual
        roundings = [datafit.feature_rounding(residual, index, part) for index, part in enumerate(coefficients)]
    fitted = FittedField(
        [design.term.fitted(own) for design, own in zip(designs, coefficients, strict=True)],
        found,
        # The bundle's lower bound holds within the span.
        Certificate("span", solution.value, solution.lower_bound, True, solution.gap_parts, completed),
        replace(rkhs_bound(posterior, solution, residual), completed=completed),
        roundings,
        datafit.family,
        datafit.warnings,
    )
    return residual, fitted


def rkhs_bound(posterior: LogPosterior, solution: Solution, residual: Any, *, exact: bool = False) -> Certificate:
    """Return a certificate over the whole RKHS: the free bound, or the exact one by streaming kernels."""
    parts, datafit = dict(solution.gap_parts), posterior.datafit
    if not any(design.term.has_pivots for design in datafit.designs):
        # Explicit features span their whole RKHS: what holds in the span holds there.
        return Certificate("rkhs", solution.value, solution.lower_bound, True, parts)
    for index, design in enumerate(datafit.designs):
        if design.term.has_pivots:
            outside = datafit.outside_gradient if exact else datafit.outside_bound
            parts[design.name] += 0.5 * design.term.prior_variance * outside(residual, index)
    # The negative log-likelihood and the penalties are never negative.
    return Certificate("rkhs", solution.value, max(0.0, solution.value - sum(parts.values())), exact, parts)


def _grow(
    designs: Sequence[Design], posterior: LogPosterior, residual: Any, sample: Sample, random: np.random.Generator
) -> list[Design] | None:
    """Add a round of pivots to each growing term; None if there are no more to add."""
    added = 0
    for index, design in enumerate(designs):
        if design.panel is not None:
            basis: Any = resolve_basis(design.term.clique.basis)
            added += basis.grow(design.panel, posterior.datafit.label_residuals(residual, index), random)
    if not added:
        return None
    # All at once, when nothing is left that could be interrupted half-way.
    return [
        design
        if (panel := design.panel) is None
        else replace(sample.design(replace(design.term, subspace=panel.subspace()), panel=panel), panel=panel)
        for design in designs
    ]


def _padded(old: np.ndarray, design: Design) -> np.ndarray:
    missing = design.term.subspace.rank - len(old)
    return np.vstack([old, np.zeros((missing, old.shape[1]))]) if design.panel is not None and missing else old


def warn_of_fit(fitted: FittedField, tol: float, stacklevel: int) -> None:
    """Warn when a fit was interrupted, ended short of its tolerance, or rounded its features too much."""
    solution = fitted.solution
    warn_of_solution(solution, tol, stacklevel + 1)
    share = abs(sum(fitted.roundings)) / max(abs(solution.value), np.finfo(float).tiny)
    if share > tol:
        warnings.warn(
            f"float32 features are too coarse for this prior: rounding moves the value by about {share:.1g} of "
            f"itself, more than tol={tol:g}, and certificate_ leaves it out. Fit with dtype='float64' or a smaller "
            "prior variance; certify(X, y) computes the gap of the fitted field itself.",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_solution(solution: Solution, tol: float, stacklevel: int) -> None:
    """Warn when a solver was interrupted or ended short of its tolerance."""
    text = None
    if solution.reason == "interrupted":
        text = (
            f"fit was interrupted after {counted(solution.iterations, 'iteration')}; the best estimate so far was kept "
            f"(relative gap {solution.relative_gap:.2g})"
        )
    elif solution.reason in ("max_iter", "precision"):
        text = (
            f"solver {solution.solver!r} stopped at a relative gap of {solution.relative_gap:.2g} "
            f"(tol={tol:g}): {solution.message}"
        )
    if text is not None:
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel + 1)
