"""The loop of a search: rungs of successive halving, paths of prior variances, folds; then beyond the ends of the grid.

    for each rung:                          candidates left, positions used
        for each path, the most promising first:      one kernel and rank, several prior variances
            for each fold:                  features once, then a fit and a score per prior variance

    rung i of R      c_i candidates         n_i training positions of each fold
                     c_0 = all              n_i = n / factor^(R - 1 - i)
                     c_i+1 = ceil(c_i / factor)

    while the best lies at an end of its grid: the candidate beyond it, on all data, as long as that is better

Rungs are added until at most ``factor`` candidates are left for the last one, or until the first one would have
fewer than ``smallest`` units. All rungs cost about the same. One rung is plain cross-validation.

An interrupt ends the loop; what was evaluated on all folds stays. A fit that fails (a kernel that is not positive
semi-definite, features that do not fit in memory) costs its path the scores and not the search; only when every
candidate has failed is there nothing to choose from, and ValueError.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from kernelfields.numerics.threads import Workers
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.folds import Fold
from kernelfields.selection.grid_ends import Grid, GridEnd
from kernelfields.selection.results import Evaluation, SearchProgress, best_first
from kernelfields.selection.scores import Scorer
from kernelfields.selection.training_data import Share, TrainingData
from kernelfields.selection.variance_path import FitFailure, VariancePath

#: How many values beyond its grid are tried on each axis.
MOST_STEPS = 3


@dataclass(frozen=True)
class Rung:
    """How many candidates are compared, on how many training positions of each fold; None for all of them."""

    n_candidates: int
    n_positions: int | None


def count_candidates(n_candidates: int, factor: int) -> list[int]:
    """Return how many candidates each rung has until at most ``factor`` are left."""
    counts = [n_candidates]
    while counts[-1] > factor:
        counts.append(-(-counts[-1] // factor))
    return counts


def plan_rungs(n_candidates: int, n_units: int, n_positions: int, *, factor: int, smallest: int) -> list[Rung]:
    """Return the rungs for folds whose training part has ``n_units`` units of ``n_positions`` together."""
    counts = count_candidates(n_candidates, factor)
    last = max((n for n in range(len(counts)) if n_units // factor**n >= smallest), default=0)
    sizes = [n_positions // factor ** (last - index) for index in range(last)]
    return [Rung(count, size) for count, size in zip(counts[: last + 1], [*sizes, None], strict=True)]


class _FoldScore(NamedTuple):
    """A candidate on one fold; NaN where nothing could be scored, or the fit failed."""

    score: float = np.nan
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    converged: bool = True


class Search:
    """A search over candidates; ``evaluations`` grows while :meth:`run` works.

    ``ends`` are those ends of the grid at which the best candidate lies in the end, ``tried_beyond`` what was tried
    beyond some.
    """

    def __init__(self, estimator: Any, data: TrainingData, folds: Sequence[Fold], scorer: Scorer):
        self.evaluations: list[Evaluation] = []
        self.interrupted = False
        self.ends: list[GridEnd] = []
        self.tried_beyond: list[GridEnd] = []
        self._estimator, self._data, self._folds = estimator, data, folds
        self._scorer = scorer
        self._workers = Workers(estimator.n_jobs)

    def work(self, candidates: Sequence[Candidate], rungs: Sequence[Rung]) -> float:
        """Return about how much work the rungs are, in the unit of :meth:`_work_of`, if ranks go on alike."""
        total = 0.0
        for rung in rungs:
            sizes = [self._data.lengths[fold.train].sum() for fold in self._folds]
            sizes = sizes if rung.n_positions is None else [rung.n_positions] * len(sizes)
            share = rung.n_candidates / len(candidates)
            total += share * sum(self._work_of(candidate, size) for candidate in candidates for size in sizes)
        return total

    def _work_of(self, candidate: Candidate, n_positions: float) -> float:
        """Return how many features a fit works on, about."""
        return n_positions * min(candidate.params["rank"] or n_positions, n_positions)

    def run(
        self, candidates: Sequence[Candidate], rungs: Sequence[Rung], progress: SearchProgress, extend: bool
    ) -> None:
        """Evaluate candidates rung by rung; KeyboardInterrupt goes on only if nothing has a score yet."""
        left = list(candidates)
        grid = Grid(candidates)
        try:
            for number, rung in enumerate(rungs):
                left = left[: rung.n_candidates]
                self._run_rung(left, number, rung, f"rung {number + 1} of {len(rungs)}", progress)
                ranked = best_first([each for each in self.evaluations if each.rung == number])
                if np.isnan(ranked[0].mean):
                    raise _nothing_to_choose(ranked)
                left = [each.candidate for each in ranked]
            if extend:
                self._extend(grid, len(rungs) - 1, progress)
        except KeyboardInterrupt:
            if all(np.isnan(each.mean) for each in self.evaluations):
                raise
            self.interrupted = True
        self.ends = grid.ends(best_first(self.evaluations)[0].candidate)

    def _extend(self, grid: Grid, number: int, progress: SearchProgress) -> None:
        """Go beyond the ends of the grid for as long as it pays, ``MOST_STEPS`` on each axis."""
        steps: Counter[str] = Counter()
        while True:
            best = best_first(self.evaluations)[0].candidate
            end = next((end for end in grid.ends(best) if steps[end.axis] < MOST_STEPS), None)
            if end is None:
                return
            steps[end.axis] += 1
            candidate = end.beyond
            progress.say(f"{end.words}: trying {candidate.words}")
            sizes = [self._data.lengths[fold.train].sum() for fold in self._folds]
            progress.add(len(sizes), sum(self._work_of(candidate, size) for size in sizes))
            self._run_rung([candidate], number, Rung(1, None), "beyond the grid", progress)
            grid.extend(candidate)
            self.tried_beyond.append(end)

    def _run_rung(
        self, candidates: Sequence[Candidate], number: int, rung: Rung, where: str, progress: SearchProgress
    ) -> None:
        data = self._data
        shares = [data.share(*fold.part(rung.n_positions, data.labels, data.lengths)) for fold in self._folds]
        if not any(share.scored for share in shares):
            raise ValueError(
                f"no held-out {data.noun} can be scored: each holds a label that the training part of its fold lacks. "
                f"Lower cv, or give more {data.noun}s."
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
                    max(self._size(share) for share in shares),
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

    def _size(self, share: Share) -> int:
        """Return how many positions a share trains on."""
        return int(self._data.lengths[share.train].sum())

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
        fits = VariancePath(description, self._data, share, self._workers)
        try:
            for candidate, fit, seconds in fits.follow(path):
                begin = time.perf_counter()
                score = self._scorer(fit)
                scored[candidate] = _FoldScore(score, seconds, time.perf_counter() - begin, fit.converged)
                progress.fitted(candidate, where, self._work_of(candidate, self._size(share)))
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
