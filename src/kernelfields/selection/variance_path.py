"""Fits along a path of prior variances, with basis and features of the kernel computed once, and their scores.

Whitened features Z do not depend on the prior variance s: the objective is ||V||^2 / (2 s) plus the likelihood of
Z V. So one fold, kernel and rank need one basis, one Z of the training and one of the held-out sequences, and a
fit for each s, from the smallest to the largest. Coefficients change about linearly with log s; a fit starts from

    V(s_2) + t (V(s_2) - V(s_1)),     t = min(1, log(s / s_2) / log(s_2 / s_1))

with the two variances before it, and ends at the optimum for s, to within tol, wherever it started.
A basis that grows by the gradient depends on s: it is chosen anew for each.

Scores are those of the sequences that were held out; higher is better.

    "log_likelihood"   log p(y | x) per token: proper and smooth, so it can tell close candidates apart
    "accuracy"         share of tokens whose Viterbi label is right, as ChainCRF.score
    "entity_f1"        F1 of entities, micro-averaged; the scheme is that of the estimator's constraints where they
                       name one, else it is guessed from the labels
    a function         scoring(estimator, X, y) of a fitted ChainCRF and the held-out sequences

Cost: features once, O(N r (d + r)), held-out ones included; then passes over them. Both are kept where the
estimator's engine keeps them, within its memory.
Fails: FitFailure where ChainCRF.fit would raise, KeyboardInterrupt where it would keep an unfinished estimate;
before any fit, ValueError for an unknown score or for labels that hold no entities.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelfields.engines.engine import Sample
from kernelfields.estimators.base import Training
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.evaluation.label_scores import token_accuracy
from kernelfields.fields.chains import Chains
from kernelfields.fields.constraints import ConstraintMasks, Constraints, guess_scheme
from kernelfields.fields.reading import random_generator
from kernelfields.models.build import NamedCliques, build_designs, name_cliques
from kernelfields.models.field import Field
from kernelfields.models.fit import FitOptions, FittedField, data_value, fit_field
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.objective.likelihoods.chain import ChainStructure
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.folds import Part

SCORES = ("log_likelihood", "accuracy", "entity_f1")
Scorer = Callable[["FoldFit"], float]
# What a fit may raise because of the candidate; anything else is a fault and ends the search.
_FAILURES = (ValueError, ArithmeticError, MemoryError)


class FitFailure(RuntimeError):
    """A candidate that cannot be fitted; the cause says why."""


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A candidate fitted to the training part of a fold, and what scores need of the held-out part."""

    description: ChainCRF
    part: Part
    training: Training
    fitted: FittedField
    held_out: Datafit

    @property
    def chains(self) -> Chains:
        """The held-out sequences."""
        assert self.part.test is not None
        return self.part.test

    def log_likelihood(self) -> float:
        """Return the log-likelihood of the held-out sequences."""
        return -data_value(self.held_out, self.fitted.coefficients)

    def predictions(self) -> list[np.ndarray]:
        """Return the labels that Viterbi decoding gives the held-out sequences."""
        field, workers = Field(self.fitted.terms, self.training.structure), self.training.settings.workers
        labels = field.answers(self.chains, workers, self.training.engine).best_labels()
        return self.chains.split(self.training.classes[labels])

    def estimator(self) -> ChainCRF:
        """Return the field as a fitted ChainCRF."""
        return clone(self.description)._set_fitted(self.training, self.fitted)


class VariancePath:
    """One fold, kernel and rank: features once, then any number of prior variances.

    ``description`` is an unfitted ChainCRF with the kernel and the rank of the path.
    """

    def __init__(
        self, description: ChainCRF, part: Part, classes: np.ndarray, masks: ConstraintMasks, workers: Workers
    ):
        assert part.test is not None, "a part without sequences to score needs no fits"
        self._description, self._part = description, part
        self._threads = description._blas_limit(part.train.n_positions)
        self._training = Training(
            part.reader,
            part.train,
            classes,
            ChainStructure(len(classes), masks),
            description._engine(part.train),
            FitOptions(description.solver, description.tol, description.max_iter),
            _say_nothing,
            replace(description._sample_settings(), workers=workers),
        )

    def follow(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, FoldFit, float]]:
        """Yield each candidate, from the smallest prior variance to the largest, with its fit and its seconds.

        Seconds include an equal share of what the features took.
        """
        begin = time.perf_counter()
        with self._failing():
            sample, designs = self._designs(candidates[0])
            growing = any(design.panel is not None for design in designs)
            held_out = None if growing else self._held_out(designs)
        shared = (time.perf_counter() - begin) / len(candidates)
        trail: list[tuple[Candidate, list[np.ndarray]]] = []
        for candidate in sorted(candidates, key=lambda each: each.level):
            begin = time.perf_counter()
            with self._failing():
                if growing:
                    sample, designs = self._designs(candidate)
                cliques = [clique for _, clique in self._cliques(candidate)]
                designs = [design.with_clique(own) for design, own in zip(designs, cliques, strict=True)]
                start = None if growing else extrapolated(trail, candidate)
                fitted = fit_field(designs, sample, self._training.options, start=start)
                if fitted.solution.reason == "interrupted":
                    raise KeyboardInterrupt
                if growing:
                    held_out = self._held_out(fitted.terms)
            trail = [*_same_row(trail, candidate), (candidate, fitted.coefficients)]
            description = clone(self._description).set_params(**candidate.params)
            assert held_out is not None
            fit = FoldFit(description, self._part, self._training, fitted, held_out)
            yield candidate, fit, shared + time.perf_counter() - begin

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Hold BLAS to the threads of the fit, and turn errors of the candidate into FitFailure."""
        try:
            with blas_threads(self._threads):
                yield
        except _FAILURES as error:
            raise FitFailure(str(error)) from error

    def _cliques(self, candidate: Candidate) -> NamedCliques:
        return name_cliques(clone(self._description).set_params(**candidate.params)._described_cliques())

    def _designs(self, candidate: Candidate) -> tuple[Sample, list[Design]]:
        """Return the terms of a candidate on the training part, drawn from the seed of the description."""
        training, cliques = self._training, self._cliques(candidate)
        assert self._part.test is not None
        sample = training.place(training.data, cliques, self._part.test.n_positions)
        training.options.random = random_generator(clone(self._description).random_state)
        return sample, build_designs(cliques, sample, training.options.random)

    def _held_out(self, fitted: Sequence[Any]) -> Datafit:
        """Return the likelihood of the held-out sequences in terms, or those of designs."""
        terms = [getattr(each, "term", each) for each in fitted]
        cliques = [(term.name, term.clique) for term in terms]
        assert self._part.test is not None
        sample = self._training.place(self._part.test, cliques, self._part.train.n_positions, solved=False)
        return sample.datafit([term.on(sample) for term in terms])


def _say_nothing(text: str) -> None:
    """Progress that nobody asked for."""


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


def resolve_scoring(scoring: Any, estimator: ChainCRF, classes: np.ndarray) -> Scorer:
    """Return the function of a fold's fit that ``scoring`` means; ``classes`` are all labels there are."""
    if callable(scoring):
        return lambda fit: _number(scoring(fit.estimator(), fit.part.X_test, fit.part.y_test), scoring)
    if scoring == "log_likelihood":
        return lambda fit: fit.log_likelihood() / fit.chains.n_positions
    if scoring == "accuracy":
        return lambda fit: token_accuracy(fit.part.y_test, fit.predictions())
    if scoring == "entity_f1":
        scheme = _entity_scheme(estimator, classes)
        return lambda fit: entity_f1_score(fit.part.y_test, fit.predictions(), scheme=scheme)
    raise ValueError(f"scoring must be one of {', '.join(map(repr, SCORES))} or a function, got {scoring!r}")


def _entity_scheme(estimator: ChainCRF, classes: np.ndarray) -> str:
    """Return the name of the scheme that the labels follow; guessed from all of them, not fold by fold."""
    named = Constraints.of(estimator.constraints).scheme
    if named is not None:
        return named
    guessed = guess_scheme(classes.tolist())
    if guessed is None:
        shown = ", ".join(map(repr, classes[:10].tolist())) + (" and more" if len(classes) > 10 else "")
        raise ValueError(
            f"scoring='entity_f1' needs labels such as 'B-NP', 'I-NP' and 'O', got {shown}: use 'accuracy', or "
            "name their scheme in the estimator's constraints"
        )
    return guessed.name


def _number(value: Any, scoring: Any) -> float:
    if not isinstance(value, Real | np.number) or isinstance(value, bool):
        raise TypeError(f"scoring {scoring!r} must return a number, got {value!r}")
    return float(value)
