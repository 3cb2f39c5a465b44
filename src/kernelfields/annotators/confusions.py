"""Confusion matrices of annotators, estimated with the field: expectation and maximisation.

    p(z_t^r = b | y_t = a) = pi^r(a, b)                              what annotator r says where the label is a
    q_t(y) = prod_r pi^r(y, z_t^r)                                   evidence; an annotator who is silent has no factor
    J(theta, pi) = ||theta||^2 / (2 s) - sum_i w_i log p(z_i | x_i, theta, pi) - sum_r sum_ab c_ab log pi^r(a, b)

with pseudo-counts c of a Dirichlet prior on the rows of pi. Two steps in turn, neither of which can raise J:

    theta   some iterations of the solver on the field with evidence q (models/partial.py), from where it was
    pi      pi^r(a, b) proportional to c_ab + sum_t w_t p(y_t = a | x, z) [z_t^r = b], a few times: potentials stay
            the same, so that each costs one inference and no pass over the features

Everything happens inside one fit: inputs are read, a basis is chosen and features are computed once. Minima are local.
Cost: one fit to labels that are partly known, and an inference for each update of pi.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kernelfields.annotators.annotations import UNSAID, Annotations
from kernelfields.models.partial import FitOptions, FittingSteps, PartialLabels
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.loop import Keeper, Monitor, Solution

# The objective counts as settled when two steps bring less than this share of the tolerance.
_SETTLED = 0.1
# Steps of expectation and maximisation creep: a finer tolerance would take hundreds.
_FINEST = 1e-6


class Confusions:
    """Confusion matrices (R, L, L) of annotators, rows the labels and columns what was said, with their prior."""

    def __init__(self, annotations: Annotations, pseudo_counts: np.ndarray, matrices: np.ndarray | None = None):
        self.annotations = annotations
        self.pseudo_counts = pseudo_counts
        self.matrices = self._updated(_shares(annotations.counts)) if matrices is None else matrices

    def _updated(self, completed: np.ndarray) -> np.ndarray:
        n_labels = completed.shape[1]
        matrices = np.empty((self.annotations.n_annotators, n_labels, n_labels))
        for matrix, said in zip(matrices, self.annotations.codes.T, strict=True):
            matrix[:] = self.pseudo_counts
            for label in range(n_labels):
                matrix[:, label] += completed[said == label].sum(axis=0)
        return matrices / matrices.sum(axis=2, keepdims=True)

    def update(self, completed: np.ndarray) -> None:
        """Take the matrices that are best for weighted probabilities of the labels (N, L)."""
        self.matrices = self._updated(completed)

    def log_evidence(self) -> np.ndarray:
        """Return log q_t(y), (N, L)."""
        codes = self.annotations.codes
        total = np.zeros((len(codes), self.matrices.shape[1]))
        for matrix, said in zip(np.log(self.matrices), codes.T, strict=True):
            rows = np.flatnonzero(said != UNSAID)
            total[rows] += matrix.T[said[rows]]
        return total

    def log_prior(self) -> float:
        """Return the log density of the matrices under their prior, up to a constant."""
        return float(np.sum(self.pseudo_counts * np.log(self.matrices)))


def _shares(counts: np.ndarray) -> np.ndarray:
    """Return shares of the votes, (N, L); zero where nobody said anything."""
    totals = counts.sum(axis=1, keepdims=True)
    return counts / np.where(totals > 0, totals, 1.0)


def prior_counts(right: float, wrong: float, n_labels: int) -> np.ndarray:
    """Return pseudo-counts (L, L): ``right`` for the label itself, ``wrong`` shared by all others of its row."""
    counts = np.full((n_labels, n_labels), wrong / max(1, n_labels - 1))
    np.fill_diagonal(counts, right)
    return counts


class AnnotatedLabels(PartialLabels):
    """Settings of a fit in the place of :class:`PartialLabels`, which estimate confusions on the way.

    ``path`` has the value of J after each step, the start first.
    """

    def __init__(self, confusions: Confusions, usual: PartialLabels, max_steps: int, updates: int):
        super().__init__(
            usual.method,
            n_init=usual.n_init,
            inner_iterations=usual.inner_iterations,
            classes=confusions.annotations.classes.tolist(),
        )
        self.confusions = confusions
        self.max_steps = max_steps
        self.updates = updates
        self.path: list[float] = []

    def minimize(
        self,
        posterior: LogPosterior,
        options: FitOptions,
        start: np.ndarray | None,
        monitor: Monitor | None = None,
        keep: Keeper | None = None,
    ) -> Solution:
        """Return the lowest of the minima that were found, and keep the confusions that belong to it."""
        if keep is not None:
            raise ValueError("a fit to several annotators cannot go on from a checkpoint: leave out the Checkpoint")
        n_rows = len(self.confusions.annotations.codes)
        if posterior.datafit.family.n_positions != n_rows:
            raise ValueError("annotators need every position in the fit: leave out weights of zero and cliques='learn'")
        first = self.confusions.matrices
        best: tuple[Solution, np.ndarray] | None = None
        for attempt in range(self.n_init):
            if attempt:
                self.confusions.matrices = first
                start = options.random.standard_normal(posterior.size) * np.minimum(posterior.prior_deviation, 1.0)
            found = self._descend(posterior, options, start, monitor)
            if best is None or found.value < best[0].value:
                best = found, self.confusions.matrices
            if found.reason in ("interrupted", "callback"):
                break
        assert best is not None
        solution, self.confusions.matrices = best
        self.path = [step.value for step in solution.history]
        self._set_evidence(posterior)
        return replace(solution, reason=found.reason) if found.reason in ("interrupted", "callback") else solution

    def _descend(
        self, posterior: LogPosterior, options: FitOptions, start: np.ndarray | None, monitor: Monitor | None
    ) -> Solution:
        """Fit field and confusions in turn, from one start, until neither brings anything."""
        options = replace(options, tol=max(options.tol, _FINEST))
        steps = FittingSteps(posterior, options, monitor)
        self._set_evidence(posterior)
        self._go_to(steps, np.zeros(posterior.size) if start is None else start)
        reason = None
        while reason is None:
            options.report(f"field and confusions, step {len(steps.history)}: objective {steps.history[-1].value:.6g}")
            most = max(1, min(self.inner_iterations, options.max_iter - steps.iterations))
            objective = posterior.frozen(steps.point.theta) if self.completes(options.solver) else posterior
            theta, reason = steps.fit(objective, most)
            self._update_confusions(posterior, theta)
            self._go_to(steps, theta)
            reason = reason or self._end(steps, options)
        return steps.outcome(reason)

    def _set_evidence(self, posterior: LogPosterior) -> None:
        posterior.datafit.set_evidence(self.confusions.log_evidence())  # type: ignore[attr-defined]

    def _go_to(self, steps: FittingSteps, theta: np.ndarray) -> None:
        steps.go_to(steps.posterior.at(theta), penalty=-self.confusions.log_prior())

    def _update_confusions(self, posterior: LogPosterior, theta: np.ndarray) -> None:
        completed = posterior.datafit.completed(posterior.split(theta))  # type: ignore[attr-defined]
        for _ in range(self.updates):
            self.confusions.update(completed())
            self._set_evidence(posterior)

    def _end(self, steps: FittingSteps, options: FitOptions) -> str | None:
        before, last = (step.value for step in steps.history[-2:])
        if steps.stationary and before - last <= _SETTLED * options.tol * abs(last):
            return "stationary"
        out_of_steps = len(steps.history) > self.max_steps or steps.iterations >= options.max_iter
        return "max_iter" if out_of_steps else None
