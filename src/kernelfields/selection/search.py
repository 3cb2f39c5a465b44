"""The loop of a search: rungs of successive halving, paths of prior variances, folds.

    for each rung:                          candidates left, sequences used
        for each path, the most promising first:      one kernel and rank, several prior variances
            for each fold:                  features once, then a fit and a score per prior variance

    rung i of R      c_i candidates         n_i training sequences of each fold
                     c_0 = all              n_i = n / factor^(R - 1 - i)
                     c_i+1 = ceil(c_i / factor)

Rungs are added until at most ``factor`` candidates are left for the last one, or until the first one would have
fewer than ``smallest`` sequences. All rungs cost about the same. One rung is plain cross-validation.

An interrupt ends the loop; what was evaluated on all folds stays. A fit that fails (a kernel that is not positive
semi-definite, features that do not fit in memory) costs its path the scores and not the search; only when every
candidate has failed is there nothing to choose from, and ValueError.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.numerics.threads import Workers
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.folds import Fold, Share, TrainingData
from kernelfields.selection.results import Evaluation, SearchProgress, best_first
from kernelfields.selection.variance_path import FitFailure, Scorer, VariancePath


@dataclass(frozen=True)
class Rung:
    """How many candidates are compared, on how many training sequences of each fold; None for all of them."""

    n_candidates: int
    n_sequences: int | None


def plan_rungs(n_candidates: int, n_sequences: int, *, factor: int, smallest: int) -> list[Rung]:
    """Return the rungs for folds with ``n_sequences`` training sequences."""
    counts = [n_candidates]
    while counts[-1] > factor and n_sequences // factor ** len(counts) >= smallest:
        counts.append(-(-counts[-1] // factor))
    last = len(counts) - 1
    sizes = [n_sequences // factor ** (last - index) for index in range(last)]
    return [Rung(count, size) for count, size in zip(counts, [*sizes, None], strict=True)]


class _FoldScore(NamedTuple):
    """A candidate on one fold; NaN where nothing could be scored, or the fit failed."""

    score: float = np.nan
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    converged: bool = True


class Search:
    """A search over candidates; ``evaluations`` grows while :meth:`run` works."""

    def __init__(
        self, estimator: ChainCRF, data: TrainingData, folds: Sequence[Fold], masks: ConstraintMasks, scorer: Scorer
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
        shares = [self._data.share(*fold.part(rung.n_sequences, self._data.labels)) for fold in self._folds]
        if not any(share.scored for share in shares):
            raise ValueError(
                "no held-out sequence can be scored: each holds a label that the training part of its fold lacks. "
                "Lower cv, or give more sequences."
            )
        paths: dict[tuple, list[Candidate]] = {}
        for candidate in candidates:
            paths.setdefault(candidate.path, []).append(candidate)
        for path in paths.values():
            new = self._evaluate_path(path, shares, number, where, progress)
            self.evaluations += new
            progress.evaluated(new, where)

    def _evaluate_path(
        self, path: list[Candidate], shares: Sequence[Share], number: int, where: str, progress: SearchProgress
    ) -> list[Evaluation]:
        failures: dict[Candidate, FitFailure] = {}
        scored: list[dict[Candidate, _FoldScore]] = []
        for fold, share in enumerate(shares):
            left = [each for each in path if each not in failures]
            place = f"{where}, fold {fold + 1} of {len(shares)}"
            scored.append(self._score_path(left, failures, share, place, progress) if share.scored and left else {})
        evaluations = []
        for candidate in path:
            scores, fit_seconds, score_seconds, converged = zip(
                *(fold.get(candidate, _FoldScore()) for fold in scored), strict=True
            )
            evaluations.append(
                Evaluation(
                    candidate,
                    number,
                    max(len(share.train) for share in shares),
                    np.array(scores),
                    np.array([bool(share.scored) for share in shares]),
                    np.array(fit_seconds),
                    np.array(score_seconds),
                    sum(share.n_dropped for share in shares),
                    converged.count(False),
                    failures.get(candidate),
                )
            )
        return evaluations

    def _score_path(
        self,
        path: list[Candidate],
        failures: dict[Candidate, FitFailure],
        share: Share,
        where: str,
        progress: SearchProgress,
    ) -> dict[Candidate, _FoldScore]:
        """Fit and score the candidates of a path on one fold; after a failure the rest of them count as failed."""
        scored: dict[Candidate, _FoldScore] = {}
        description = clone(self._estimator).set_params(**path[0].params)
        fits = VariancePath(description, self._data.part(share), self._data.classes, self._masks, self._workers)
        try:
            for candidate, fit, seconds in fits.follow(path):
                begin = time.perf_counter()
                score = self._scorer(fit)
                converged = fit.fitted.solution.reason == "gap"
                scored[candidate] = _FoldScore(score, seconds, time.perf_counter() - begin, converged)
                progress.fitted(candidate, where)
        except FitFailure as failure:
            failures.update(dict.fromkeys((each for each in path if each not in scored), failure))
        return scored


def _nothing_to_choose(evaluations: Sequence[Evaluation]) -> ValueError:
    failures = [each.error for each in evaluations if each.error is not None]
    if not failures:
        return ValueError("scoring gave NaN for every candidate: there is nothing to choose from")
    error = ValueError(f"every candidate failed, the first with: {failures[0]}")
    error.__cause__ = failures[0]
    return error
