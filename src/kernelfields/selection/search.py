"""The loop of a search: rungs of successive halving, paths of prior variances, folds.

    for each rung:                          remaining candidates, number of positions
        for each path, the most promising first:      one kernel and rank, several prior variances
            for each fold:                  features once, then a fit and a score per prior variance

    rung i of R      c_i candidates         n_i training positions of each fold
                     c_0 = all              n_i = n / factor^(R - 1 - i)
                     c_i+1 = ceil(c_i / factor)

Rungs are added until at most ``factor`` candidates are left for the last one, or until the first one would have
fewer than ``smallest`` items. All rungs cost about the same. One rung is plain cross-validation.

An interrupt ends the loop, with the candidates that were evaluated on all folds. A fit that fails (a kernel that is not
positive semi-definite, features that exceed the memory) leaves the rest of its path without scores, and the search
continues. Raises ValueError if every candidate fails.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelfields.selection.candidates import Candidate, Searched
from kernelfields.selection.folds import Fold, Items
from kernelfields.selection.results import Evaluation, SearchProgress, sort_evaluations
from kernelfields.selection.scores import Scorer
from kernelfields.selection.variance_path import FitFailure, follow_path


@dataclass(frozen=True)
class Rung:
    """The number of candidates of a rung, and of training positions of each fold; None means all."""

    n_candidates: int
    n_positions: int | None


def count_candidates(n_candidates: int, factor: int) -> list[int]:
    """Return the number of candidates of each rung, until at most ``factor`` remain."""
    counts = [n_candidates]
    while counts[-1] > factor:
        counts.append(-(-counts[-1] // factor))
    return counts


def plan_rungs(n_candidates: int, n_items: int, n_positions: int, *, factor: int, smallest: int) -> list[Rung]:
    """Return the rungs for folds of ``n_items`` training items with ``n_positions`` in total."""
    counts = count_candidates(n_candidates, factor)
    last = max((n for n in range(len(counts)) if n_items // factor**n >= smallest), default=0)
    sizes = [n_positions // factor ** (last - index) for index in range(last)]
    return [Rung(count, size) for count, size in zip(counts[: last + 1], [*sizes, None], strict=True)]


class Search:
    """A search over candidates; :meth:`run` adds to ``evaluations``."""

    def __init__(
        self, estimator: Searched, items: Items, folds: Sequence[Fold], scorer: Scorer, progress: SearchProgress
    ):
        self.evaluations: list[Evaluation] = []
        self.interrupted = False
        self._estimator, self._items, self._folds = estimator, items, folds
        self._scorer, self._progress = scorer, progress

    def run(self, candidates: Sequence[Candidate], rungs: Sequence[Rung]) -> None:
        """Evaluate candidates rung by rung; KeyboardInterrupt ends the search if there is a score."""
        left = list(candidates)
        for rung in rungs:
            self._announce(left, rung)
        try:
            for number, rung in enumerate(rungs):
                self._evaluate(left[: rung.n_candidates], number, rung, f"rung {number + 1} of {len(rungs)}")
                ranked = sort_evaluations([evaluation for evaluation in self.evaluations if evaluation.rung == number])
                if np.isnan(ranked[0].mean):
                    raise _no_score_error(ranked)
                left = [evaluation.candidate for evaluation in ranked]
        except KeyboardInterrupt:
            if all(np.isnan(evaluation.mean) for evaluation in self.evaluations):
                raise
            self.interrupted = True

    def _announce(self, candidates: Sequence[Candidate], rung: Rung) -> None:
        """Add the fits of a rung to the progress, with an estimate of their cost."""
        sizes = [rung.n_positions or int(self._items.lengths[fold.train].sum()) for fold in self._folds]
        work = sum(_estimate_work(candidate, size) for candidate in candidates for size in sizes)
        self._progress.add(rung.n_candidates * len(sizes), work * rung.n_candidates / len(candidates))

    def _evaluate(self, candidates: Sequence[Candidate], number: int, rung: Rung, where: str) -> None:
        """Fit and score candidates on all folds, path by path; after a failure the rest of its path has no scores."""
        shares = [self._items.share(fold, rung.n_positions) for fold in self._folds]
        scorable = np.array([len(share.scored) > 0 for share in shares])
        if not scorable.any():
            noun = self._items.noun
            raise ValueError(
                f"no held-out {noun} can be scored: each holds a label that the training part of its fold lacks. "
                f"Lower cv, or give more {noun}s."
            )
        sizes = [int(self._items.lengths[share.train].sum()) for share in shares]
        n_dropped = sum(share.n_dropped for share in shares)
        paths: dict[tuple, list[Evaluation]] = {}
        for candidate in candidates:
            paths.setdefault(candidate.path, []).append(Evaluation(candidate, number, max(sizes), scorable, n_dropped))
        for path in paths.values():
            for fold in np.flatnonzero(scorable).tolist():
                left = {evaluation.candidate: evaluation for evaluation in path if evaluation.error is None}
                try:
                    for fit in follow_path(self._estimator, self._items, shares[fold], list(left)) if left else ():
                        begin = time.perf_counter()
                        score = self._scorer(fit)
                        left.pop(fit.candidate).add(fold, score, fit, time.perf_counter() - begin)
                        self._progress.count_fit(_estimate_work(fit.candidate, sizes[fold]))
                except FitFailure as failure:
                    for evaluation in left.values():
                        evaluation.error = failure
            self.evaluations += path
            self._progress.report_path(path, where)


def _estimate_work(candidate: Candidate, n_positions: int) -> int:
    return n_positions * min(candidate.params["rank"] or n_positions, n_positions)


def _no_score_error(evaluations: Sequence[Evaluation]) -> ValueError:
    failures = [evaluation.error for evaluation in evaluations if evaluation.error is not None]
    if not failures:
        return ValueError("scoring gave NaN for every candidate: there is nothing to choose from")
    error = ValueError(f"every candidate failed, the first with: {failures[0]}")
    error.__cause__ = failures[0]
    return error
