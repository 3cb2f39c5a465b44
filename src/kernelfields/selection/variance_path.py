"""Fits along a path of prior variances, with basis and features of the kernel computed once.

Whitened features Z do not depend on the prior variance s: the objective is ||V||^2 / (2 s) plus the likelihood of
Z V. So one fold, kernel and rank need one basis, one Z of the training and at most one of the held-out items, and a
fit for each s, from the smallest to the largest. Coefficients change about linearly with log s; a fit starts from

    V(s_2) + t (V(s_2) - V(s_1)),     t = min(1, log(s / s_2) / log(s_2 / s_1))

with the two variances before it, and ends at the optimum for s, to within tol, wherever it started.
A basis that grows by the gradient, and a graph of labels that is learnt, depend on s: they are chosen anew for each.
The objective of hidden states has several minima: a SequenceClassifier starts anew, as it does by itself.

Cost: features once, O(N r (d + r)), held-out ones included where a likelihood is computed; then passes over them.
Both are kept where the estimator's engine keeps them, within its memory.
Fails: FitFailure where the estimator's fit would raise, KeyboardInterrupt where it would keep an unfinished estimate.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from kernelfields.engines.engine import Sample
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.settling import Silence, Training
from kernelfields.fields.evidence import informative
from kernelfields.fields.reading import random_generator
from kernelfields.models.fit import FittedField, data_value, fit_field
from kernelfields.models.rehearsal import with_variances
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.objective.likelihoods.graph import refuse_approximate
from kernelfields.selection.candidates import Candidate, Searched
from kernelfields.selection.folds import Items, Share

# What a fit may raise because of the candidate; anything else is a fault and ends the search.
_FAILURES = (ValueError, ArithmeticError, MemoryError)

#: The fits of a path so far: candidates and their coefficients.
Trail = Sequence[tuple[Candidate, list[np.ndarray]]]


class FitFailure(RuntimeError):
    """A candidate that cannot be fitted; the cause says why."""


@dataclass(frozen=True, eq=False)
class FoldFit:
    """An estimator fitted to the training part of a fold, and the held-out part as it was given.

    ``log_likelihood()`` is that of the held-out part, for each position whose label is known; ValueError if inference
    is approximate.
    """

    estimator: Searched
    X_test: Any
    y_test: Any
    log_likelihood: Callable[[], float]

    @property
    def converged(self) -> bool:
        """Whether the fit has reached the estimator's tolerance."""
        solution = self.estimator.solution_
        return solution.converged or solution.relative_gap <= self.estimator.tol


class VariancePath:
    """One fold, kernel and rank: features once, then any number of prior variances.

    ``description`` is an unfitted estimator with the kernel and the rank of the path.
    """

    def __init__(self, description: Searched, items: Items, share: Share, workers: Workers):
        assert len(share.scored), "a share without items to score needs no fits"
        self._description, self._workers = description, workers
        self._X, self._y = items.take(share.train)
        self._weights = None if items.weights is None else items.weights[share.train]
        self._test = items.take(share.scored)
        self._learnt = items.learnt
        self._n_positions, self._n_held_out = (int(items.lengths[units].sum()) for units in (share.train, share.scored))

    def follow(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, FoldFit, float]]:
        """Yield each candidate, from the smallest prior variance to the largest, with its fit and its seconds.

        Seconds include an equal share of those that the features took.
        """
        ordered = sorted(candidates, key=lambda candidate: candidate.level)
        described = self._description
        return self._along(described, ordered) if isinstance(described, FieldEstimator) else self._one_by_one(ordered)

    def _one_by_one(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, FoldFit, float]]:
        """Fit each candidate by itself."""
        for candidate in candidates:
            begin = time.perf_counter()
            estimator = clone(self._description).set_params(**candidate.params)
            with self._failing(), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # counted by the search
                _refuse_interrupted(estimator.fit(self._X, self._y, self._weights).solution_)
            fit = FoldFit(estimator, *self._test, partial(_class_log_likelihood, estimator, *self._test))
            yield candidate, fit, time.perf_counter() - begin

    def _along(
        self, description: FieldEstimator, candidates: Sequence[Candidate]
    ) -> Iterator[tuple[Candidate, FoldFit, float]]:
        """Fit candidates to shared features, each from the coefficients of those before it."""
        begin = time.perf_counter()
        with self._failing():
            training = description._training(self._X, self._y, self._weights, Silence(), self._learnt)
            training.settings = replace(training.settings, workers=self._workers)
            sample, designs = self._designs(_varied(description, candidates[0]), training)
        anew = training.structure_path is not None or any(design.panel is not None for design in designs)
        shared = (time.perf_counter() - begin) / len(candidates)
        trail: Trail = []
        for candidate in candidates:
            begin = time.perf_counter()
            estimator = _varied(description, candidate)
            with self._failing():
                if anew:
                    sample, designs = self._designs(estimator, training)
                designs = with_variances(designs, estimator._term_variances(training))
                start = None if anew else extrapolated(trail, candidate)
                fitted = fit_field(designs, sample, training.options, start=start)
                _refuse_interrupted(fitted.solution)
                estimator._set_fitted(training, fitted)
            if anew or not trail:
                held_out = cache(partial(self._held_out, training, estimator))
            trail = [*_same_row(trail, candidate), (candidate, fitted.coefficients)]
            fit = FoldFit(estimator, *self._test, partial(_log_likelihood, fitted, held_out))
            yield candidate, fit, shared + time.perf_counter() - begin

    def _designs(self, estimator: FieldEstimator, training: Training) -> tuple[Sample, list[Design]]:
        """Return the terms of a candidate on the training part, drawn from the seed of its estimator."""
        training.options.random = random_generator(clone(estimator).random_state)
        training.cliques = estimator._cliques(training)
        sample = training.place(training.data, training.cliques, self._n_held_out)
        return sample, estimator._designs(training, sample)[0]

    def _held_out(self, training: Training, estimator: FieldEstimator) -> tuple[Datafit, int]:
        """Return the likelihood of the held-out items in the terms of a fit, and how many positions are known."""
        with self._failing():
            data = estimator._read(*self._test)
            if not (data.weights == 1).all():  # those of classes are for fits
                data = replace(data, weights=np.ones(len(data.weights)))
            terms = estimator.field_.terms
            cliques = [(term.name, term.clique) for term in terms]
            sample = training.place(data, cliques, training.data.n_positions, solved=False)
            n_known = data.n_positions if data.evidence is None else max(1, int(informative(data.evidence).sum()))
            return sample.datafit([term.on(sample) for term in terms]), n_known

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Hold BLAS to the threads of a fit, and turn errors of the candidate into FitFailure."""
        described = self._description
        limit = described._blas_limit(self._n_positions) if isinstance(described, FieldEstimator) else None
        try:
            with blas_threads(limit):
                yield
        except _FAILURES as error:
            raise FitFailure(str(error)) from error


def _varied(description: FieldEstimator, candidate: Candidate) -> FieldEstimator:
    """Return the estimator of a candidate."""
    # Not a clone: what reading the data has noted on the description, such as names of columns, belongs to it.
    return copy.copy(description).set_params(**candidate.params)


def _refuse_interrupted(solution: Any) -> None:
    if solution.reason == "interrupted":
        raise KeyboardInterrupt


def _log_likelihood(fitted: FittedField, held_out: Callable[[], tuple[Datafit, int]]) -> float:
    refuse_approximate(fitted.inference, "scoring='log_likelihood'")
    datafit, n_known = held_out()
    return -data_value(datafit, fitted.coefficients) / n_known


def _class_log_likelihood(estimator: Any, X: Any, y: Any) -> float:
    return -log_loss(y, estimator.predict_proba(X), labels=estimator.classes_)


def extrapolated(trail: Trail, candidate: Candidate) -> list[np.ndarray] | None:
    """Return where to start the fit of a candidate: continued from the last two of its row, or what is there."""
    row = _same_row(trail, candidate)
    if not row:
        return trail[0][1] if trail else None
    last, coefficients = row[-1]
    before, earlier = row[-2] if len(row) > 1 else row[-1]
    old, new, next_one = (each.level[1] for each in (before, last, candidate))
    if not old < new <= next_one < np.inf:
        return coefficients
    step = min(1.0, np.log(next_one / new) / np.log(new / old))
    return [V + step * (V - W) for V, W in zip(coefficients, earlier, strict=True)]


def _same_row(trail: Trail, candidate: Candidate) -> list[tuple[Candidate, list[np.ndarray]]]:
    """Return the fits before a candidate that share its prior variance of transitions."""
    return [(before, fit) for before, fit in trail if before.level[0] == candidate.level[0]]
