"""Fits along a path of prior variances, with basis and features of the kernel computed once.

Whitened features Z do not depend on the prior variance s: the objective is ||V||^2 / (2 s) plus the likelihood of
Z V. So one fold, kernel and rank need one basis, one Z of the training and one of the held-out sequences, and a
fit for each s, from the smallest to the largest. Coefficients change about linearly with log s; a fit starts from

    V(s_2) + t (V(s_2) - V(s_1)),     t = min(1, log(s / s_2) / log(s_2 / s_1))

with the two variances before it, and ends at the optimum for s, to within tol, wherever it started.
A basis that grows by the gradient depends on s: it is chosen anew for each.

Cost: features once, O(N r (d + r)), held-out ones included; then passes over them. Both are kept in memory.
Fails: FitFailure where ChainCRF.fit would raise, KeyboardInterrupt where it would keep an unfinished estimate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelfields.basis import Gradient
from kernelfields.engines import Potentials, ThreadsEngine
from kernelfields.engines.blas_threads import blas_threads
from kernelfields.estimators import ChainCRF
from kernelfields.estimators.chain_cliques import chain_cliques
from kernelfields.estimators.chain_engines import chain_engine
from kernelfields.estimators.chain_fitting import FitParts, blas_limit
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.fitting import FittedField, fit_field
from kernelfields.estimators.spaces import CliqueSpace, build_space, name_cliques
from kernelfields.estimators.warm_start import continued_space
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.workers import Workers
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.training_data import Part

# What a fit may raise because of the candidate; anything else is a fault and ends the search.
_FAILURES = (ValueError, ArithmeticError, MemoryError)


class FitFailure(RuntimeError):
    """A candidate that cannot be fitted; the cause says why."""


class HeldOut:
    """Held-out chains in the spaces of the training ones: features once, scores for any coefficients."""

    def __init__(self, chains: Chains, engine: ThreadsEngine, masks: ConstraintMasks, workers: Workers):
        self.chains = chains
        self._engine, self._masks, self._workers = engine, masks, workers

    def log_likelihood(self, coefficients: Sequence[np.ndarray]) -> float:
        """Return log p(y | x), summed over the sequences."""
        return -self._engine.evaluate(self._potentials(coefficients)).value

    def best_labels(self, coefficients: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the most probable labelling of each sequence, as numbers of labels."""
        from kernelfields.inference.chain_decoding import viterbi  # loads the compiler

        potentials = self._potentials(coefficients)
        node = self._masks.apply(potentials.node, self.chains.offsets)
        edge = potentials.edge + self._masks.edge
        return self.chains.split(viterbi(node, edge, self.chains.offsets, workers=self._workers)[0])

    def _potentials(self, coefficients: Sequence[np.ndarray]) -> Potentials:
        sets = self._engine.sets
        return self._engine.potentials([each.compress(V) for each, V in zip(sets, coefficients, strict=True)])


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A candidate fitted to the training part of a fold, and what scores need of the held-out part."""

    description: ChainCRF
    part: Part
    classes: np.ndarray
    masks: ConstraintMasks
    spaces: list[CliqueSpace]
    fitted: FittedField
    held_out: HeldOut

    def log_likelihood(self) -> float:
        """Return the log-likelihood of the held-out sequences."""
        return self.held_out.log_likelihood(self.fitted.coefficients)

    def predictions(self) -> list[np.ndarray]:
        """Return the labels that Viterbi decoding gives the held-out sequences."""
        return [self.classes[labels] for labels in self.held_out.best_labels(self.fitted.coefficients)]

    def estimator(self) -> ChainCRF:
        """Return the field as a fitted ChainCRF."""
        parts = FitParts(self.part.inputs, self.classes, self.masks, self.spaces, engine_of=None)
        return clone(self.description)._take_over(parts, self.fitted)


class VariancePath:
    """One fold, kernel and rank: spaces once, then any number of prior variances.

    ``description`` is an unfitted ChainCRF with the kernel and the rank of the path.
    """

    def __init__(
        self, description: ChainCRF, part: Part, classes: np.ndarray, masks: ConstraintMasks, workers: Workers
    ):
        assert part.test is not None, "a part without sequences to score needs no fits"
        self._description, self._part, self._classes = description, part, classes
        self._masks, self._workers = masks, workers
        self._threads = blas_limit(description, workers, part.train.n_positions)
        self._precision = {"tol": description.tol, "dtype": description.dtype}

    def follow(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, FoldFit, float]]:
        """Yield each candidate, from the smallest prior variance to the largest, with its fit and its seconds.

        Seconds include an equal share of what the features took.
        """
        begin = time.perf_counter()
        with self._failing():
            random, spaces = self._spaces(candidates[0])
            growing = any(isinstance(space.basis, Gradient) for space in spaces)
            held_out = None if growing else self._held_out(spaces)
        shared = (time.perf_counter() - begin) / len(candidates)
        trail: list[tuple[Candidate, list[np.ndarray]]] = []
        for candidate in sorted(candidates, key=lambda each: each.level):
            begin = time.perf_counter()
            with self._failing():
                if growing:
                    random, spaces = self._spaces(candidate)
                cliques = [clique for _, clique in self._cliques(candidate)]
                spaces = [replace(space, clique=clique) for space, clique in zip(spaces, cliques, strict=True)]
                fitted = self._fit(spaces, random, None if growing else extrapolated(trail, candidate))
                if growing:
                    held_out = self._held_out(spaces)
            trail = [*_same_row(trail, candidate), (candidate, fitted.coefficients)]
            description = clone(self._description).set_params(**candidate.params)
            assert held_out is not None
            fit = FoldFit(description, self._part, self._classes, self._masks, spaces, fitted, held_out)
            yield candidate, fit, shared + time.perf_counter() - begin

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Hold BLAS to the threads of the fit, and turn errors of the candidate into FitFailure."""
        try:
            with blas_threads(self._threads):
                yield
        except _FAILURES as error:
            raise FitFailure(str(error)) from error

    def _cliques(self, candidate: Candidate) -> list:
        return name_cliques(chain_cliques(clone(self._description).set_params(**candidate.params)))

    def _spaces(self, candidate: Candidate) -> tuple[np.random.Generator, list[CliqueSpace]]:
        """Return the spaces of a candidate, and the generator in the state that choosing them left."""
        random = random_generator(clone(self._description).random_state)
        return random, [
            build_space(name, clique, self._part.train, len(self._classes), random=random, **self._precision)
            for name, clique in self._cliques(candidate)
        ]

    def _held_out(self, spaces: Sequence[CliqueSpace]) -> HeldOut:
        chains, sets = self._part.test, []
        assert chains is not None
        for space in spaces:
            known = FittedSet(
                space.clique, space.name, space.subspace, space.label_factor, np.empty((0, 0)), space.support
            )
            there = continued_space(space.name, space.clique, known, chains, **self._precision)
            sets.append(there.clique_features(len(self._classes)))
        engine = chain_engine(chains, sets, **self._engine_settings())
        return HeldOut(chains, engine, self._masks, self._workers)

    def _engine_settings(self) -> dict[str, Any]:
        return {"n_labels": len(self._classes), "masks": self._masks, "workers": self._workers}

    def _fit(self, spaces: list[CliqueSpace], random: np.random.Generator, start: Any) -> FittedField:
        fitted = fit_field(
            spaces,
            partial(chain_engine, self._part.train, **self._engine_settings()),
            len(self._classes),
            solver=self._description.solver,
            max_iter=self._description.max_iter,
            watch=None,
            random=random,
            start=start,
            **self._precision,
        )
        if fitted.solution.reason == "interrupted":
            raise KeyboardInterrupt
        return fitted


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
