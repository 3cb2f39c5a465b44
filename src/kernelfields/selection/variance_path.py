"""Fits along a path of prior variances, with basis and features of the kernel computed once.

Whitened features Z do not depend on the prior variance s: the objective is ||V||^2 / (2 s) minus the log-likelihood of
Z V. So a fold, kernel and rank need one basis, one Z of the training items and at most one of the held-out items, and a
fit for each s, from the smallest to the largest. Coefficients change about linearly with log s; a fit starts from

    V(s_2) + t (V(s_2) - V(s_1)),     t = min(1, log(s / s_2) / log(s_2 / s_1))

where s_1 < s_2 are the previous variances, and ends at the optimum for s, to within tol, from any start.
A basis that grows by the gradient depends on s, as does a learnt graph of labels: both are computed for each s.
The likelihood of hidden states has several maxima, so each fit of a SequenceClassifier has its usual start.

Cost: features once, O(N r (d + r)), with those of held-out items if a likelihood is computed; then passes over them.
Features are stored by the estimator's engine, within its memory. Raises FitFailure for errors of the estimator's fit,
and KeyboardInterrupt for an interrupted fit.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from kernelfields.data.reading import random_generator
from kernelfields.engines.engine import Sample
from kernelfields.estimators.base import FieldEstimator, prepare_fit
from kernelfields.estimators.beginning import PartOf
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.kept_field import blas_limit
from kernelfields.estimators.sequence_classifier import SequenceClassifier
from kernelfields.inference.choice import refuse_approximate
from kernelfields.models.fit import data_value, fit_field
from kernelfields.models.pilot_fit import with_variances
from kernelfields.models.placed import FittedField
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.selection.candidates import Candidate, Searched
from kernelfields.selection.folds import Items, Learnt, Part, Share
from kernelfields.solvers.choice import resolve_tolerance

# What a fit may raise because of the candidate; anything else is a fault and ends the search.
_FAILURES = (ValueError, ArithmeticError, MemoryError)

#: The fits of a path so far: candidates and their coefficients.
Trail = list[tuple[Candidate, list[np.ndarray]]]


class FitFailure(RuntimeError):
    """The fit of a candidate failed; the cause is the original error."""


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A candidate fitted to a fold, with its seconds and held-out items.

    Seconds include an equal share of those of the features. ``log_likelihood()`` is that of the held-out part, per
    position whose label is known; ValueError if inference is approximate.
    """

    candidate: Candidate
    estimator: Searched
    seconds: float
    test: Part
    log_likelihood: Callable[[], float]

    @property
    def converged(self) -> bool:
        """Whether the fit reached the tolerance of the estimator."""
        solution = self.estimator.solution_
        return solution.converged or solution.relative_gap <= resolve_tolerance(self.estimator.tol)


def follow_path(estimator: Searched, items: Items, share: Share, candidates: Sequence[Candidate]) -> Iterator[FoldFit]:
    """Yield the fits of the candidates of a path to a fold, from the smallest prior variance to the largest."""
    assert len(share.scored), "a share without items to score needs no fits"
    train, test = items.select(share.train), items.select(share.scored)
    if test.weights is not None and not test.weights.any():
        test = test._replace(weights=None)
    ordered = sorted(candidates, key=lambda candidate: candidate.level)
    if isinstance(estimator, FieldEstimator):
        return _fit_path(estimator, train, test, items.learnt, ordered)
    return _fit_each(estimator, train, test, ordered)


def _fit_each(
    described: SequenceClassifier, train: Part, test: Part, candidates: Sequence[Candidate]
) -> Iterator[FoldFit]:
    """Yield candidates fitted separately."""
    for candidate in candidates:
        begin = time.perf_counter()
        estimator = clone(described).set_params(**candidate.params)
        with _convert_failures(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the search counts them
            estimator.fit(train.X, train.y, train.weights)
        _check_interrupt(estimator)
        yield FoldFit(candidate, estimator, time.perf_counter() - begin, test, partial(_score_classes, estimator, test))


def _score_classes(estimator: SequenceClassifier, test: Part) -> float:
    chances = estimator.predict_proba(test.X)
    return -log_loss(test.y, chances, labels=estimator.classes_, sample_weight=test.weights)


def _fit_path(
    described: FieldEstimator, train: Part, test: Part, learnt: Learnt, candidates: Sequence[Candidate]
) -> Iterator[FoldFit]:
    """Yield candidates fitted to common features, each from the coefficients of previous fits."""
    begin = time.perf_counter()
    described = clone(described).set_params(**candidates[0].params)
    failing = partial(_convert_failures, blas_limit(described, train.n_positions))
    with failing():
        training = prepare_fit(described, train.X, train.y, train.weights, PartOf(*learnt))
        training.run.settings = replace(training.run.settings, workers=Workers(described.n_jobs))
        sample, designs = _designs(described, training, test.n_positions)
    anew = any(design.panel is not None for design in designs)
    shared = (time.perf_counter() - begin) / len(candidates)
    trail: Trail = []
    for candidate in candidates:
        begin = time.perf_counter()
        # Not a clone: what reading the data has noted on the estimator, such as names of columns, belongs to it.
        estimator = copy.copy(described).set_params(**candidate.params)
        with failing():
            if anew:
                sample, designs = _designs(estimator, training, test.n_positions)
            designs = with_variances(designs, estimator.structure.term_variances(training))
            start = None if anew else extrapolate_start(trail, candidate)
            fitted = fit_field(designs, sample, training.run.options, start=start, steps=training.run.steps)
            training.keep_fitted(estimator, fitted)
        _check_interrupt(estimator)
        if anew or not trail:
            held_out = cache(partial(_make_likelihood, estimator, training, test, failing))
        trail = [*_find_previous_fits(trail, candidate), (candidate, fitted.coefficients)]
        seconds = shared + time.perf_counter() - begin
        yield FoldFit(candidate, estimator, seconds, test, partial(_log_likelihood, fitted, held_out))


def _designs(estimator: FieldEstimator, training: FitState, beside: int) -> tuple[Sample, list[Design]]:
    """Build the designs of a candidate on the training part, with the random state of its estimator."""
    training.run.options.random = random_generator(clone(estimator).random_state)
    cliques = estimator.structure.clique_sets(training)
    sample = training.place(training.data, cliques, beside)
    return sample, estimator.structure.designs(training, sample, cliques)


def _make_likelihood(
    estimator: FieldEstimator, training: FitState, test: Part, failing: Callable[[], AbstractContextManager]
) -> tuple[Datafit, float]:
    """Return the likelihood of held-out items in the terms of a fit, and the weight of their labelled positions."""
    with failing():
        data = estimator.structure.read(test.X, test.y, test.weights)
        weights = np.ones(len(data.weights)) if test.weights is None else test.weights
        if not np.array_equal(data.weights, weights):  # those of classes are for fits
            data = replace(data, weights=weights)
        terms = estimator.field_.terms
        cliques = [(term.name, term.clique) for term in terms]
        sample = training.place(data, cliques, training.data.n_positions, solved=False)
        known = float(data.position_weights @ data.given.informative())
        return sample.datafit([sample.design(term) for term in terms]), known


def _log_likelihood(fitted: FittedField, held_out: Callable[[], tuple[Datafit, float]]) -> float:
    refuse_approximate(fitted.family, "scoring='log_likelihood'")
    datafit, weight = held_out()
    return -data_value(datafit, fitted.coefficients) / (weight or 1.0)


@contextmanager
def _convert_failures(limit: int | None = None) -> Iterator[None]:
    """Return a context that limits BLAS threads and turns errors of a candidate into FitFailure."""
    try:
        with blas_threads(limit):
            yield
    except _FAILURES as error:
        raise FitFailure(str(error)) from error


def _check_interrupt(estimator: Searched) -> None:
    if estimator.solution_.reason == "interrupted":
        raise KeyboardInterrupt


def extrapolate_start(trail: Trail, candidate: Candidate) -> list[np.ndarray] | None:
    """Extrapolate initial coefficients from the last two fits of the row, or copy those of the last fit."""
    row = _find_previous_fits(trail, candidate)
    if not row:
        return trail[0][1] if trail else None
    last, coefficients = row[-1]
    before, earlier = row[-2] if len(row) > 1 else row[-1]
    old, new, next_one = (fitted.level[1] for fitted in (before, last, candidate))
    if not old < new <= next_one < np.inf:
        return coefficients
    step = min(1.0, np.log(next_one / new) / np.log(new / old))
    return [V + step * (V - W) for V, W in zip(coefficients, earlier, strict=True)]


def _find_previous_fits(trail: Trail, candidate: Candidate) -> Trail:
    """Return the previous fits with the same prior variance of transitions."""
    return [(before, fit) for before, fit in trail if before.level[0] == candidate.level[0]]
