"""The loop of a search: rungs, paths of prior variances, folds.

    for each rung:                          candidates left, sequences used
        for each path, the most promising first:      one kernel and rank, several prior variances
            for each fold:                  features once, then a fit and a score per prior variance

An interrupt ends the loop; what was evaluated on all folds stays. A fit that fails (a kernel that is not positive
semi-definite, features that do not fit in memory) costs its path the scores and not the search; only when every
candidate has failed is there nothing to choose from, and ValueError.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import clone

from kernelfields.estimators import ChainCRF
from kernelfields.fields import ConstraintMasks
from kernelfields.inference.workers import Workers
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.folds import Fold
from kernelfields.selection.halving import Rung
from kernelfields.selection.progress import SearchProgress
from kernelfields.selection.results import Evaluation, best_first
from kernelfields.selection.scoring import Scorer
from kernelfields.selection.training_data import Part, TrainingData
from kernelfields.selection.variance_path import FitFailure, VariancePath


@dataclass
class _Record:
    """Scores of one candidate, fold by fold."""

    scores: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    score_seconds: list[float] = field(default_factory=list)
    n_unconverged: int = 0
    error: FitFailure | None = None

    def add(
        self, score: float, fit_seconds: float = 0.0, score_seconds: float = 0.0, converged: bool = True
    ) -> None:
        self.scores.append(score)
        self.fit_seconds.append(fit_seconds)
        self.score_seconds.append(score_seconds)
        self.n_unconverged += not converged


class Search:
    """A search over candidates; ``evaluations`` grows while :meth:`run` works."""

    def __init__(
        self,
        estimator: ChainCRF,
        data: TrainingData,
        folds: Sequence[Fold],
        masks: ConstraintMasks,
        scorer: Scorer,
    ):
        self.evaluations: list[Evaluation] = []
        self.interrupted = False
        self._estimator, self._data, self._folds = estimator, data, folds
        self._masks, self._scorer = masks, scorer
        self._workers = Workers(estimator.n_jobs)

    def run(self, candidates: Sequence[Candidate], rungs: Sequence[Rung], progress: SearchProgress) -> None:
        """Evaluate candidates rung by rung; KeyboardInterrupt goes on only if nothing has a score yet."""
        left = list(candidates)
        try:
            for number, rung in enumerate(rungs):
                left = left[: rung.n_candidates]
                self._run_rung(left, number, rung, f"rung {number + 1} of {len(rungs)}", progress)
                ranked = best_first([each for each in self.evaluations if each.rung == number])
                if np.isnan(ranked[0].mean):
                    raise _nothing_to_choose(ranked)
                left = [each.candidate for each in ranked]
        except KeyboardInterrupt:
            if all(np.isnan(each.mean) for each in self.evaluations):
                raise
            self.interrupted = True

    def _run_rung(
        self, candidates: Sequence[Candidate], number: int, rung: Rung, where: str, progress: SearchProgress
    ) -> None:
        parts = [self._data.part(*fold.part(rung.n_sequences, self._data.labels)) for fold in self._folds]
        if all(part.test is None for part in parts):
            raise ValueError(
                "no held-out sequence can be scored: each holds a label that the training part of its fold lacks. "
                "Lower cv, or give more sequences."
            )
        paths: dict[tuple, list[Candidate]] = {}
        for candidate in candidates:
            paths.setdefault(candidate.path, []).append(candidate)
        for path in paths.values():
            new = self._evaluate_path(path, parts, number, where, progress)
            self.evaluations += new
            progress.evaluated(new, where)

    def _evaluate_path(
        self, path: list[Candidate], parts: Sequence[Part], number: int, where: str, progress: SearchProgress
    ) -> list[Evaluation]:
        records = {candidate: _Record() for candidate in path}
        for fold, part in enumerate(parts):
            if part.test is not None:
                place = f"{where}, fold {fold + 1} of {len(parts)}"
                self._score_path(
                    [each for each in path if records[each].error is None], records, part, place, progress
                )
            for record in records.values():
                if len(record.scores) == fold:
                    record.add(np.nan)
        return [
            Evaluation(
                candidate,
                number,
                max(part.train.n_sequences for part in parts),
                np.array(record.scores),
                np.array([part.test is not None for part in parts]),
                np.array(record.fit_seconds),
                np.array(record.score_seconds),
                sum(part.n_dropped for part in parts),
                record.n_unconverged,
                record.error,
            )
            for candidate, record in records.items()
        ]

    def _score_path(
        self,
        path: list[Candidate],
        records: dict[Candidate, _Record],
        part: Part,
        where: str,
        progress: SearchProgress,
    ) -> None:
        """Fit and score the candidates of a path on one fold; after a failure the rest of them count as failed."""
        if not path:
            return
        waiting = set(path)
        fits = VariancePath(
            clone(self._estimator).set_params(**path[0].params),
            part,
            self._data.classes,
            self._masks,
            self._workers,
        )
        try:
            for candidate, fit, seconds in fits.follow(path):
                begin = time.perf_counter()
                score = self._scorer(fit)
                converged = fit.fitted.solution.reason == "gap"
                records[candidate].add(score, seconds, time.perf_counter() - begin, converged)
                waiting.remove(candidate)
                progress.fitted(candidate, where)
        except FitFailure as failure:
            for candidate in waiting:
                records[candidate].error = failure


def _nothing_to_choose(evaluations: Sequence[Evaluation]) -> ValueError:
    failures = [each.error for each in evaluations if each.error is not None]
    if not failures:
        return ValueError("scoring gave NaN for every candidate: there is nothing to choose from")
    error = ValueError(f"every candidate failed, the first with: {failures[0]}")
    error.__cause__ = failures[0]
    return error
