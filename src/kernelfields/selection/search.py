"""The loop of a search: rungs of successive halving, paths of prior variances, folds.

    for each rung:                          candidates left, sequences used
        for each path, the most promising first:      one kernel and rank, several prior variances
            for each fold:                  features once, then a fit and a score per prior variance

    rung i of R      c_i candidates         n_i training sequences of each fold
                     c_0 = all              n_i = n / factor^(R - 1 - i)
                     c_i+1 = ceil(c_i / factor)

Rungs are added until at most ``factor`` candidates are left for the last one, or until the first one would have
fewer than ``smallest`` sequences. All rungs cost about the same. One rung is plain cross-validation.

A label that the training part of a fold never shows cannot be learnt there. So sequences are dealt out to the
folds in turn, in random order, but with those next to each other that share the rarest label they hold: a label
that occurs in two sequences or more then is in every training part, unless rarer labels of those sequences pull
them together. Smaller training parts are the first of a random order, and for each label they lack the next
sequence that holds it. Cost of folds: O(N + S log S).

An interrupt ends the loop; what was evaluated on all folds stays. A fit that fails (a kernel that is not positive
semi-definite, features that do not fit in memory) costs its path the scores and not the search; only when every
candidate has failed is there nothing to choose from, and ValueError, as for folds that cannot be made.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, check_cv

from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.numerics.parameters import is_whole
from kernelfields.numerics.threads import Workers
from kernelfields.selection.candidates import Candidate
from kernelfields.selection.progress import SearchProgress
from kernelfields.selection.results import Evaluation, best_first
from kernelfields.selection.scoring import Scorer
from kernelfields.selection.training_data import Part, TrainingData
from kernelfields.selection.variance_path import FitFailure, VariancePath


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and held-out sequences, and the random orders in which smaller parts take them."""

    train: np.ndarray
    test: np.ndarray
    train_order: np.ndarray
    test_order: np.ndarray

    def part(self, n_sequences: int | None, labels: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return ``n_sequences`` for training, a few more for their labels, and as many held-out ones at most."""
        if n_sequences is None:
            return self.train, self.test
        chosen = list(self.train_order[:n_sequences])
        known = set(np.concatenate([labels[i] for i in chosen]).tolist())
        for index in self.train_order[n_sequences:]:
            if not known.issuperset(labels[index].tolist()):
                known.update(labels[index].tolist())
                chosen.append(index)
        return np.sort(chosen), np.sort(self.test_order[:n_sequences])


def make_folds(
    cv: Any, X: list, y: list, groups: Any, labels: Sequence[np.ndarray], random: np.random.Generator
) -> list[Fold]:
    """Return the folds that ``cv`` describes: a number, a scikit-learn splitter or a list of index pairs."""
    if is_whole(cv):
        if cv < 2:
            raise ValueError(f"cv must be at least 2, got {cv}: scores need sequences that were held out")
        if cv > len(X):
            raise ValueError(f"cv={cv} folds need at least as many sequences, X has {len(X)}: lower cv")
    elif cv is None or isinstance(cv, bool | float | str):
        raise TypeError(f"cv must be a number of folds, a splitter or a list of (train, test) indices, got {cv!r}")
    if is_whole(cv) and groups is None:
        splits = spread_folds(labels, int(cv), random)
    else:
        splitter = GroupKFold(int(cv)) if is_whole(cv) else check_cv(cv)
        splits = [_checked(split, number, len(X)) for number, split in enumerate(splitter.split(X, y, groups))]
    if not splits:
        raise ValueError("cv holds no folds: give pairs of training and held-out indices")
    return [Fold(train, test, random.permutation(train), random.permutation(test)) for train, test in splits]


def spread_folds(
    labels: Sequence[np.ndarray], n_folds: int, random: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds of equal size over which the holders of rare labels are spread; labels are small numbers."""
    present = [np.unique(each) for each in labels]
    holders = np.bincount(np.concatenate(present))
    rarest = np.array([each[np.argmin(holders[each])] for each in present])
    order = random.permutation(len(labels))
    order = order[np.argsort(rarest[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.int64)
    fold[order] = np.arange(len(labels)) % n_folds
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]


def _checked(split: Any, number: int, n_sequences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of one fold as arrays; ValueError if they cannot be used."""
    train, test = (_indices(part, f"fold {number} of cv", n_sequences) for part in split)
    if np.intersect1d(train, test).size:
        raise ValueError(f"fold {number} of cv holds out sequences that it trains on; remove them from one side")
    return train, test


def _indices(part: Any, where: str, n_sequences: int) -> np.ndarray:
    indices = np.asarray(part)
    if indices.dtype == bool and indices.shape == (n_sequences,):
        indices = np.flatnonzero(indices)
    if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
        raise ValueError(f"{where} must hold two lists of indices of sequences, neither empty")
    outside = indices[(indices < 0) | (indices >= n_sequences)]
    if outside.size:
        raise ValueError(f"{where} names sequence {outside[0]}, but X holds 0 to {n_sequences - 1}")
    return indices


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


@dataclass
class _Record:
    """Scores of one candidate, fold by fold."""

    scores: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    score_seconds: list[float] = field(default_factory=list)
    n_unconverged: int = 0
    error: FitFailure | None = None

    def add(self, score: float, fit_seconds: float = 0.0, score_seconds: float = 0.0, converged: bool = True) -> None:
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
                self._score_path([each for each in path if records[each].error is None], records, part, place, progress)
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
