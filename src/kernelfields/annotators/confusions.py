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

import time
from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.annotators.annotations import UNSAID, Annotations
from kernelfields.models.partial import PartialLabels, needs_hessian
from kernelfields.objective.posterior import LogPosterior
from kernelfields.solvers.choice import resolve_solver
from kernelfields.solvers.loop import Iteration, Solution, minimize

# The objective counts as settled when two steps bring less than this share of the tolerance.
_SETTLED = 0.1
# Steps of expectation and maximisation creep: what is asked beyond this would take hundreds.
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
    """What a fit is told in the place of :class:`PartialLabels`: it estimates confusions on the way.

    ``path`` has the value of J after each step, the start first.
    """

    def __init__(self, confusions: Confusions, usual: PartialLabels, max_steps: int, updates: int):
        super().__init__(
            usual.method,
            n_restarts=usual.n_restarts,
            inner_iterations=usual.inner_iterations,
            classes=confusions.annotations.classes.tolist(),
        )
        self.confusions = confusions
        self.max_steps = max_steps
        self.updates = updates
        self.path: list[float] = []

    def minimize(self, posterior: LogPosterior, solver: Any, **options: Any) -> Solution:
        """Return the lowest of the minima that were found, and keep the confusions that belong to it."""
        if options.pop("keep", None) is not None:
            raise ValueError("a fit to several annotators cannot go on from a checkpoint: leave out the Checkpoint")
        n_rows = len(self.confusions.annotations.codes)
        if posterior.datafit.likelihood.layout.zeros().node.shape[0] != n_rows:  # type: ignore[attr-defined]
            raise ValueError("annotators need every position in the fit: leave out weights of zero and cliques='learn'")
        random, start, first = options["random"], options.pop("start"), self.confusions.matrices
        best: tuple[Solution, np.ndarray, list[float]] | None = None
        for attempt in range(1 + self.n_restarts):
            if attempt:
                self.confusions.matrices = first
                start = random.standard_normal(posterior.size) * np.minimum(posterior.prior_deviation, 1.0)
            steps = _Steps(self, posterior)
            found = steps.run(solver, start, **options)
            if best is None or found.value < best[0].value:
                best = found, self.confusions.matrices, steps.path
            if found.reason in ("interrupted", "callback"):
                break
        assert best is not None
        solution, self.confusions.matrices, self.path = best
        posterior.datafit.tell(self.confusions.log_evidence())  # type: ignore[attr-defined]
        return replace(solution, reason=found.reason) if found.reason in ("interrupted", "callback") else solution


class _Steps:
    """Steps of field and confusions in turn, from one start."""

    def __init__(self, settings: AnnotatedLabels, posterior: LogPosterior):
        self._settings, self._posterior = settings, posterior
        self._datafit: Any = posterior.datafit
        self._history: list[Iteration] = []
        self._iterations, self._name = 0, ""
        self._begin, self._passes = time.perf_counter(), posterior.passes
        self.path: list[float] = []

    def run(
        self,
        solver: Any,
        start: np.ndarray | None,
        *,
        tol: float,
        max_iter: int,
        random: np.random.Generator,
        watch: Any = None,
        monitor: Any = None,
        say: Any = None,
    ) -> Solution:
        """Make steps until neither the field nor the confusions bring anything."""
        theta, tol = np.zeros(self._posterior.size) if start is None else start, max(tol, _FINEST)
        self._datafit.tell(self._settings.confusions.log_evidence())
        self._record(theta)
        reason = None
        while reason is None:
            if say is not None:
                say(f"field and confusions, step {len(self.path)}: objective {self.path[-1]:.6g}")
            most = max(1, min(self._settings.inner_iterations, max_iter - self._iterations))
            theta, reason = self._fit_field(theta, solver, most, random, tol, watch, monitor)
            self._update_confusions(theta)
            self._record(theta)
            reason = reason or self._end(tol, max_iter)
        return self._outcome(theta, reason)

    def _fit_field(
        self, theta: np.ndarray, solver: Any, most: int, random: Any, tol: float, watch: Any, monitor: Any
    ) -> tuple[np.ndarray, str | None]:
        """Return better coefficients, and why there should be no further step, None if there should."""
        settings, done = self._settings, self._iterations
        completes = settings.method == "em" or (settings.method == "auto" and needs_hessian(solver))
        objective = self._posterior.frozen(theta) if completes else self._posterior
        rule = resolve_solver(solver, objective, tol, random)
        self._name = f"em+{rule.name}"

        def watch_all(iteration: Iteration) -> object:
            return watch is not None and watch(replace(iteration, iteration=done + iteration.iteration))

        # The confusions are about to change, so that a far closer fit to these would be lost.
        found = minimize(
            objective, rule, start=theta, tol=_SETTLED * tol, max_iter=most, watch=watch_all, monitor=monitor
        )
        self._datafit.passes = objective.passes
        self._iterations += max(1, found.iterations)
        return found.theta, found.reason if found.reason in ("interrupted", "callback", "early") else None

    def _update_confusions(self, theta: np.ndarray) -> None:
        completed = self._datafit.completed(self._posterior.split(theta))
        for _ in range(self._settings.updates):
            self._settings.confusions.update(completed())
            self._datafit.tell(self._settings.confusions.log_evidence())

    def _record(self, theta: np.ndarray) -> None:
        posterior, point = self._posterior, self._posterior.at(theta)
        value = point.value - self._settings.confusions.log_prior()
        self._parts = posterior.gap_parts(point)
        self.path.append(value)
        self._history.append(
            Iteration(
                iteration=self._iterations,
                passes=posterior.passes - self._passes,
                seconds=time.perf_counter() - self._begin,
                value=value,
                lower_bound=value - sum(self._parts.values()),
                gradient_norm=float(np.sqrt(point.steepest @ point.steepest)),
                step=1.0 if self._history else 0.0,
                coefficient_norm=float(np.sqrt(theta @ theta)),
            )
        )

    def _end(self, tol: float, max_iter: int) -> str | None:
        gained = self.path[-2] - self.path[-1]
        if self._history[-1].relative_gap <= tol and gained <= _SETTLED * tol * abs(self.path[-1]):
            return "gap"
        out_of_steps = len(self.path) > self._settings.max_steps or self._iterations >= max_iter
        return "max_iter" if out_of_steps else None

    def _outcome(self, theta: np.ndarray, reason: str) -> Solution:
        last = self._history[-1]
        return Solution(
            theta=theta,
            solver=self._name,
            value=last.value,
            lower_bound=last.lower_bound,
            gradient_norm=last.gradient_norm,
            iterations=self._iterations,
            passes=last.passes,
            seconds=last.seconds,
            reason=reason,
            history=list(self._history),
            gap_parts=self._parts,
        )
