"""Fits of a field to labels of several annotators, with confusion matrices estimated in the same fit.

A field with many weights that is fitted to its own completed labels memorises the errors of annotators. Therefore the
labels of a fold are completed by a field fitted to the other folds:

    fields  theta_k minimises ||theta||^2 / (2 s) + sum of i outside fold k of w_i (log Z_i - <tau_i, theta>)
    tau_i   = E[phi | x_i, z_i; theta_k, pi] for i in fold k, and pi from the same completed labels (confusions.py)

The first tau are those of Dawid and Skene. No objective decreases monotonically: rounds end when the labels no longer
change. The final field is fitted to the tau of all folds, a convex problem with the usual certificate.

Inputs are read, a basis is chosen and features are computed once for all rounds.
Cost: one fit to known labels for each fold, most of it in the first round, and one for all; an inference for each fold
and round.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelfields.annotators.confusions import Confusions
from kernelfields.inference.potentials import Potentials
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.likelihoods.completion import Completion, frozen_posterior
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import FitOptions
from kernelfields.solvers.loop import Iteration, Solution

# Fields that complete labels need not be finer than this.
_FOLD_TOLERANCE = 0.3


class CrossFitting(FitStep):
    """A fit step that alternates completed labels, by fields of other folds, with fits to them.

    ``folds`` (S,) are the numbers of the folds of items. Rounds end when at most a share ``tol`` of the positions has
    another most probable label than in the round before; ``changes`` has this share for each round. After a fit,
    ``marginals`` (N, L) and ``best`` (N,) are the completed labels of all positions: probabilities, and the most
    probable labelling as a whole.
    """

    in_rounds = every_item = True
    marginals: np.ndarray
    best: np.ndarray

    def __init__(self, confusions: Confusions, max_steps: int, folds: np.ndarray, tol: float):
        self.confusions = confusions
        self.max_steps = max_steps
        self.folds = folds
        self.tol = tol
        self.changes: list[float] = []

    def around(self, solve: Solve) -> Solve:
        """Return a solve for completed labels, which sets ``confusions`` to the last confusion matrices."""

        def complete_first(placed: Placed) -> FittedField:
            if placed.keep is not None:
                raise ValueError("a fit to several annotators cannot go on from a checkpoint: leave out the Checkpoint")
            return self._fit(solve, placed)

        return complete_first

    def _fit(self, solve: Solve, placed: Placed) -> FittedField:
        posterior, options = placed.posterior, placed.options
        begin, passes_before = time.perf_counter(), posterior.passes
        labels = Completion(posterior.datafit)
        fields = [np.zeros(posterior.size)] * (int(self.folds.max()) + 1)
        all_weights, nothing = labels.item_weights, posterior.potentials(fields[0])
        own = [np.where(self.folds == fold, all_weights, 0.0) for fold in range(len(fields))]
        completed = [labels.complete_statistics(nothing, weights) for weights in own]
        targets, reason, done = _add_statistics(completed), None, 0
        self.changes = []
        try:
            while reason is None:
                options.report(self._report(len(fields)))
                for fold, weights in enumerate(own):
                    others = labels.fit_targets(targets.plus(-1.0, completed[fold]), all_weights - weights)
                    found = _minimize(posterior, others, options, fields[fold], done)
                    fields[fold], done = found.theta, done + found.iterations
                    if found.reason in ("interrupted", "callback"):
                        reason = found.reason
                        break
                labels.set_log_weights(self.confusions.log_weights())
                completed = [
                    labels.complete_statistics(posterior.potentials(theta), weights)
                    for theta, weights in zip(fields, own, strict=True)
                ]
                before, targets = labels.label_rows(targets), _add_statistics(completed)
                after = labels.label_rows(targets)
                self.confusions.update(after)
                self.changes.append(float(np.mean(after.argmax(axis=1) != before.argmax(axis=1))))
                if self.changes[-1] <= self.tol or len(self.changes) >= self.max_steps:
                    break
        except KeyboardInterrupt:
            reason = "interrupted"
        self._complete(posterior, labels, fields)
        labels.set_targets(targets)
        options.report("fitting the field to the completed labels")
        last = options if reason is None else replace(options, max_iter=0)
        start, objective = posterior.blocks.expand(np.mean(fields, axis=0)), frozen_posterior(posterior, fields[0])
        fitted = solve(replace(placed, objective=objective, options=last, start=start))
        posterior.datafit.passes = objective.passes
        solution = replace(
            fitted.solution,
            reason=reason or fitted.solution.reason,
            seconds=time.perf_counter() - begin,
            passes=posterior.passes - passes_before,
        )
        # The certificates are those of the labels as they were completed.
        span, rkhs = (replace(each, completed=True) for each in (fitted.span, fitted.rkhs))
        return replace(fitted, solution=solution, span=span, rkhs=rkhs, posterior=posterior)

    def _complete(self, posterior: LogPosterior, labels: Completion, fields: Sequence[np.ndarray]) -> None:
        """Complete the labels of each fold by the field of the other folds."""
        annotations, folds = self.confusions.annotations, self.folds
        # Samples are items of one position each, and annotated in one list.
        rows = folds if len(folds) == len(annotations.codes) else np.repeat(folds, np.diff(annotations.offsets))
        self.marginals = np.empty((len(rows), len(annotations.classes)))
        self.best = np.empty(len(rows), dtype=np.int64)
        for fold, theta in enumerate(fields):
            marginals, best = labels.labels(posterior.potentials(theta))
            self.marginals[rows == fold], self.best[rows == fold] = marginals[rows == fold], best[rows == fold]

    def _report(self, n_folds: int) -> str:
        changed = f": {self.changes[-1]:.2%} of the labels changed" if self.changes else ""
        return f"completing the labels of {n_folds} folds, round {len(self.changes) + 1}{changed}"


def _add_statistics(parts: Sequence[Potentials]) -> Potentials:
    """Sum statistics over folds."""
    total = parts[0].plus(0.0, parts[0])
    for part in parts[1:]:
        total.add(1.0, part)
    return total


def _minimize(
    posterior: LogPosterior, completed: Datafit, options: FitOptions, start: np.ndarray, done: int
) -> Solution:
    """Fit a field to completed labels of some items, after ``done`` earlier iterations."""
    watch, datafit = options.watch, posterior.datafit

    def watch_all(iteration: Iteration) -> object:
        return watch is not None and watch(replace(iteration, iteration=done + iteration.iteration, tol=None))

    objective = LogPosterior(completed)
    options = replace(options, tol=max(options.tol, _FOLD_TOLERANCE), watch=watch_all)
    found = options.minimize(objective, start)
    datafit.passes = objective.passes
    return found
