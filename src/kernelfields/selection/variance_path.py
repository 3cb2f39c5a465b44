"""Fits along a path of prior variances, with basis and features of the kernel computed once.

Whitened features Z do not depend on the prior variance s: the objective is ||V||^2 / (2 s) plus the likelihood of
Z V. So one fold, kernel and rank need one basis, one Z of the training and at most one of the held-out items, and a
fit for each s, from the smallest to the largest. Coefficients change about linearly with log s; a fit starts from

    V(s_2) + t (V(s_2) - V(s_1)),     t = min(1, log(s / s_2) / log(s_2 / s_1))

with the two variances before it, and ends at the optimum for s, to within tol, wherever it started.
A basis that grows by the gradient, and a graph of labels that is learnt, depend on s: they are chosen anew for each.

Cost: features once, O(N r (d + r)), held-out ones included where a likelihood is asked for; then passes over them.
Both are kept where the estimator's engine keeps them, within its memory.
Fails: FitFailure where the estimator's fit would raise, KeyboardInterrupt where it would keep an unfinished estimate.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelfields.engines.engine import Sample
from kernelfields.estimators.base import FieldEstimator
from kernelfields.fields.reading import random_generator
from kernelfields.models.fit import FittedField, data_value, fit_field
from kernelfields.models.pilot_fit import with_variances
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.objective.likelihoods.graph import refuse_approximate
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.training_data import Part, Share, TrainingData

# What a fit may raise because of the candidate; anything else is a fault and ends the search.
_FAILURES = (ValueError, ArithmeticError, MemoryError)


class FitFailure(RuntimeError):
    """A candidate that cannot be fitted; the cause says why."""


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A candidate fitted to the training part of a fold, and what scores need of the held-out part."""

    description: Any
    part: Part
    fitted: FittedField
    held_out: Callable[[], Datafit]

    def log_likelihood(self) -> float:
        """Return the log-likelihood of the held-out items; ValueError if inference is approximate."""
        refuse_approximate(self.fitted.inference, "scoring='log_likelihood'")
        return -data_value(self.held_out(), self.fitted.coefficients)

    def predictions(self) -> Any:
        """Return the labels that the estimator gives the held-out items."""
        return self.estimator().predict(self.part.X_test)

    def estimator(self) -> Any:
        """Return the field as a fitted estimator."""
        # Not a clone: what reading the data has noted on the estimator, such as names of columns, belongs to it.
        return copy.copy(self.description)._set_fitted(self.part.training, self.fitted)

    @property
    def converged(self) -> bool:
        """Whether the fit has reached the estimator's tolerance."""
        solution = self.fitted.solution
        return solution.converged or solution.relative_gap <= self.description.tol


class VariancePath:
    """One fold, kernel and rank: features once, then any number of prior variances.

    ``description`` is an unfitted estimator with the kernel and the rank of the path.
    """

    def __init__(self, description: FieldEstimator, data: TrainingData, share: Share, workers: Workers):
        assert share.scored, "a share without items to score needs no fits"
        self._description, self._data, self._share, self._workers = description, data, share, workers

    def follow(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, FoldFit, float]]:
        """Yield each candidate, from the smallest prior variance to the largest, with its fit and its seconds.

        Seconds include an equal share of what the features took.
        """
        begin = time.perf_counter()
        with self._failing():
            part = self._part
            sample, designs = self._designs(self._described(candidates[0]))
        training = part.training
        anew = training.structure_path is not None or any(design.panel is not None for design in designs)
        held_out = self._held_out(designs)
        shared = (time.perf_counter() - begin) / len(candidates)
        trail: list[tuple[Candidate, list[np.ndarray]]] = []
        for candidate in sorted(candidates, key=lambda each: each.level):
            begin = time.perf_counter()
            description = self._described(candidate)
            with self._failing():
                if anew:
                    sample, designs = self._designs(description)
                designs = with_variances(designs, description._term_variances(training))
                start = None if anew else extrapolated(trail, candidate)
                fitted = fit_field(designs, sample, training.options, start=start)
                if fitted.solution.reason == "interrupted":
                    raise KeyboardInterrupt
            if anew:
                held_out = self._held_out(fitted.terms)
            trail = [*_same_row(trail, candidate), (candidate, fitted.coefficients)]
            yield candidate, FoldFit(description, part, fitted, held_out), shared + time.perf_counter() - begin

    @cached_property
    def _part(self) -> Part:
        part = self._data.part(self._share, self._description)
        part.training.settings = replace(part.training.settings, workers=self._workers)
        return part

    def _described(self, candidate: Candidate) -> Any:
        """Return the estimator of a candidate; what reading the data has noted on that of the path is there, too."""
        return copy.copy(self._description).set_params(**candidate.params)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Hold BLAS to the threads of a fit, and turn errors of the candidate into FitFailure."""
        n_positions = int(self._data.lengths[self._share.train].sum())
        try:
            with blas_threads(self._description._blas_limit(n_positions)):
                yield
        except _FAILURES as error:
            raise FitFailure(str(error)) from error

    def _designs(self, description: FieldEstimator) -> tuple[Sample, list[Design]]:
        """Return the terms of a candidate on the training part, drawn from the seed of the description."""
        training = self._part.training
        training.options.random = random_generator(clone(description).random_state)
        training.cliques = description._cliques(training)
        sample = training.place(training.data, training.cliques, self._part.test.n_positions)
        return sample, description._designs(training, sample)[0]

    def _held_out(self, fitted: Sequence[Any]) -> Callable[[], Datafit]:
        """Return the likelihood of the held-out items in terms, or those of designs; it is made when asked for."""
        terms = [getattr(each, "term", each) for each in fitted]
        made: list[Datafit] = []

        def likelihood() -> Datafit:
            if not made:
                with self._failing():
                    training = self._part.training
                    cliques = [(term.name, term.clique) for term in terms]
                    beside = training.data.n_positions
                    sample = training.place(self._part.test, cliques, beside, solved=False)
                    made.append(sample.datafit([term.on(sample) for term in terms]))
            return made[0]

        return likelihood


def extrapolated(trail: Sequence[tuple[Candidate, list[np.ndarray]]], candidate: Candidate) -> list | None:
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


def _same_row(trail: Sequence[tuple[Candidate, list[np.ndarray]]], candidate: Candidate) -> list:
    """Return the fits before a candidate that share its prior variance of transitions."""
    return [each for each in trail if each[0].level[0] == candidate.level[0]]
