"""Parameters by pilot fits: short fits on a part of the data, judged by held-out positions.

    scale, window,     all candidates at two prior variances, the best three along a path of variances of their own;
    kernel             of few items then the best one and the best on other columns, each item held out by itself
    prior variance     s, 10 s, 100 s, ... as long as the loss of held-out positions falls; else s/10, ...; of the best
                       of several kernels also 3 times its variance, else 0.3 times
    parts              of columns that several transformers made: ten times the variance of one or a tenth, and so on
    support, l1        the path with the weights that were seen in training, without l1; then, at that variance, all of
                       them with l1, all without, those seen with l1, until one brings enough; up the path with l1
    rank               the largest there is, where the loss still falls from a pilot's rank to twice that

A variance is the size of the functions that the field expects. One that is too small shrinks rare labels to nothing,
one that is too large believes every training label, and the right one differs between problems by factors of thousands.
So a few thousand positions are drawn and held out in turn (pilot_folds.py), and fits go up the path, each from the
coefficients of the one before, to a loose tolerance and in a small basis. What all folds predict for the positions held
out is judged together, by their log-loss (position_loss.py). Candidates that differ by less than ``least_gain`` are
alike: the first of them, the simplest, is taken. The last fit on all data then has the settings that won. Where there
is too little to hold out, parameters have their usual values, ``FALLBACK`` for the prior variance.

Far from the training data a linear function grows on, and bounded kernels fall back to the shares of the labels. Where
whole items are held out, a linear kernel has to predict them better than a bounded one beyond their spread
(item_losses.py), and so has a kernel without windows beside those on windows: of four days in a room the linear one has
a loss of .035 and the Laplacian one of .18, and of three new days .58 and .21.

What describes items by more columns needs more of them: facies of wells are predicted worse with windows than without
after learning from three quarters of ten wells (log-loss 1.33 and 1.25), better after nine (1.16 and 1.17). So the best
candidates on two kinds of columns are compared once more where all items but one are learnt from, if these are few and
the losses near.

Cost: some twenty passes a fit over ``MOST_POSITIONS`` positions at most, however many the data have. Candidates are
compared fold by fold: one whose loss on some folds is far above the least has no fits on the others, and ranks are
compared on one. Of facies and gestures, the best of 65 candidates on four folds is 4 % above the least on the first.
Candidates are fitted side by side, and folds ahead where threads are left; each fit has one thread, and what is not
needed in the end is undone, so that the choice has the same digits on any number of threads.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from kernelfields.engines.engine import PackedData, Sample
from kernelfields.models.choices import TRIED_RANK, Settings, Trial, in_words, least_gain
from kernelfields.models.fit import compute_marginals, fit_field
from kernelfields.models.item_losses import ItemLosses
from kernelfields.models.placed import FittedField
from kernelfields.models.position_loss import PositionLoss, compute_losses, position_loss
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.wording import inflect
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term
from kernelfields.solvers.choice import FitOptions

#: The variance where it cannot be chosen; candidates are compared first at this one and at a smaller one.
FALLBACK, SMALL = 1.0, 0.1
#: How many positions pilot fits learn from, and how many where these are features, as of words.
MOST_POSITIONS, MOST_OF_FEATURES = 5000, 8000
#: The name of how many times the prior variance parts of the columns have.
PARTS = "part_variances"
#: The kernel that adds up differences of columns.
DISTANCES = "laplacian"
#: The names of settings of columns.
COLUMNS = ("scale", "window", "neighbours")
_RATIO, _HALF_STEPS = 10.0, (3.0, 0.3)
_SMALLEST, _LARGEST = 1e-3, 1e5
# Of so many candidates the path of variances is followed. On other columns than those of the best, a loss of so many
# times the least is near enough to be compared with it in the last round.
_FOLLOWED, _NEAR = 3, 1.1
# Candidates whose loss is so many times the least at the smaller variance may not be compared at the usual one.
_LOST = 1.5
# What is left out of the weights of a field, or shrunk to zero, has to bring this share.
_CHANGE = 3e-3
# Another variance of the same kernel has to bring this share of what another kernel has to.
_FINER = 0.2
# The path of a candidate is not followed where its loss is so many times the least, and more by so many nats.
_HOPELESS, _FAR = 2.0, 0.2
# A candidate has no fits on further folds where its loss on some is above that of the best, or of the step before on
# its path, by this share of the loss on all folds and by so many nats.
_BEHIND, _WORSE, _LITTLE = 1.15, 1.1, 0.01
_TOLERANCE, _MAX_ITER = 1e-2, 100
# A gap of so many nats a position is fine enough, whatever share of the value it is.
_NATS_PER_POSITION = 2e-3


@dataclass(eq=False)
class Stage:
    """Data and terms of one fold for short fits.

    ``units`` (N,) are the items, or groups of them, of held-out positions. ``start`` are coefficients to start from,
    those of the fit before; None for zero.
    """

    sample: Sample
    judge: Datafit
    held_out: PackedData
    units: np.ndarray
    designs: Sequence[Design]
    variances_of: Callable[[float], Sequence[float]]
    start: Sequence[np.ndarray] | None = None

    def fit(self, variance: float | None) -> FittedField:
        """Fit with a prior variance, None for the variance of the terms."""
        designs = self.designs if variance is None else with_variances(self.designs, self.variances_of(variance))
        enough = _NATS_PER_POSITION * self.sample.n_positions
        # Newton's method takes hundreds of passes for linear functions of correlated columns at a large variance.
        solver = "auto" if any(design.sparse for design in designs) else "lbfgs"
        options = FitOptions(solver, _TOLERANCE, _MAX_ITER, random=np.random.default_rng(0), enough=enough)
        fitted = fit_field(designs, self.sample, options, start=self.start)
        if fitted.solution.reason == "interrupted":
            raise KeyboardInterrupt
        self.start = fitted.coefficients
        return fitted

    def predicted(self, variance: float | None) -> tuple[list[Term], np.ndarray]:
        """Return the terms of a short fit, and its marginals (N, L) of held-out positions."""
        fitted = self.fit(variance)
        return fitted.terms, compute_marginals(self.judge, fitted.coefficients)


@dataclass(eq=False)
class _FoldTrials:
    """Fits with some settings on the first folds: their predictions and their losses.

    ``rest`` is by how much the best settings lose more on all folds than on those that were tried here.
    """

    terms: list[Term] = field(default_factory=list)
    predicted: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    judged: list[PositionLoss] = field(default_factory=list)
    items: list[ItemLosses] = field(default_factory=list)
    rest: float = 0.0

    @property
    def losses(self) -> list[float]:
        """The losses on the first fold, the first two folds and so on."""
        return [judged.loss for judged in self.judged]

    @property
    def loss(self) -> float:
        """The loss on all folds."""
        return self.judged[-1].loss + self.rest


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of short fits for the held-out positions of all folds.

    ``marginals`` (N, L), ``labels`` (N,) and ``weights`` (N,), 0 where nothing is known of the label.
    """

    marginals: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class Judge(Protocol):
    """A predictor of the held-out part of a fold: a :class:`Stage`, or a classifier to compare with."""

    held_out: PackedData
    units: np.ndarray
    #: What the next fit begins with; None for nothing.
    start: Sequence[np.ndarray] | None

    def predicted(self, variance: float | None) -> tuple[list[Term], np.ndarray]:
        """Return terms, if there are any, and marginals (N, L)."""


@dataclass(frozen=True, eq=False)
class _Attempt:
    """A fit on a fold: its result and its start."""

    judge: Judge
    start: Sequence[np.ndarray] | None
    terms: list[Term]
    marginals: np.ndarray

    def undo(self) -> None:
        """Let the next fit begin as if this one had not been."""
        self.judge.start = self.start


class Pilot:
    """Short fits that share the held-out positions of all folds.

    ``stages_of`` returns where settings are tried, by the number of the fold, given whether it is of the last round;
    settings that differ in the prior variance alone share them, and go on from each other's coefficients. ``n_folds``
    are those of the first round and of the last one, 0 where there is none. ``announce`` takes lines of progress, and
    ``workers`` are the threads of fits side by side.
    """

    def __init__(
        self,
        stages_of: Callable[[Settings, bool], Callable[[int], Judge]],
        n_folds: tuple[int, int],
        announce: Callable[[str], None],
        workers: Workers | None = None,
    ):
        self._stages_of, self._n_folds, self._announce = stages_of, n_folds, announce
        self._workers, self._lock = workers or Workers(1), Lock()
        self._lines: list[str] = []
        self._last = False
        # By round, whether it is the last.
        self._trials: dict[bool, dict[tuple, Trial]] = {False: {}, True: {}}
        self._found: dict[bool, dict[tuple, _FoldTrials]] = {False: {}, True: {}}
        self._stages: dict[tuple, Callable[[int], Judge]] = {}
        self._kinds: set[tuple] = set()
        self._n_kinds = self._n_fits = 0
        self._begin = perf_counter()

    @property
    def trials(self) -> list[Trial]:
        """All trials of both rounds."""
        return [*self._trials[True].values(), *self._trials[False].values()]

    def loss(self, settings: Settings, before: Settings | None = None) -> float:
        """Return the log-loss of held-out positions after fits with some settings; see :meth:`race`."""
        self.race([settings], before)
        return self._found[self._last][_key(settings)].loss

    def terms(self, settings: Settings) -> list[Term]:
        """Return the terms of the first fold's fit with some settings."""
        self.race([settings])
        return self._found[self._last][_key(settings)].terms

    def predictions(self, settings: Settings) -> Predictions:
        """Return predictions of short fits with some settings for the held-out positions of all folds."""
        parts = []
        with closing(self._attempts([settings], range(self._n_folds[self._last]))) as attempts:
            for attempt in attempts:
                held_out = attempt.judge.held_out
                weights = held_out.position_weights * held_out.given.informative()
                parts.append((attempt.marginals, held_out.required_labels, weights))
        return Predictions(*map(np.concatenate, zip(*parts, strict=True)))

    def race(self, candidates: Sequence[Settings], before: Settings | None = None) -> None:
        """Fit with all candidates, fold by fold, and drop candidates with much larger losses.

        These are the ones whose loss is far above that of the best settings so far on the same folds, or above that of
        the settings ``before``. Their loss on all folds is taken to be as much above that of the best as on these.
        """
        found, n_folds = self._found[self._last], self._n_folds[self._last]
        new = {_key(own): own for own in candidates if _key(own) not in found}
        whole = [own for own in found.values() if len(own.judged) == n_folds]
        rivals = [(min(whole, key=lambda own: own.loss), _BEHIND)] if whole else []
        rivals += [(found[_key(before)], _WORSE)] if before else []
        running, number = dict(new), 0
        while running and number < n_folds:
            batch, numbers = list(running.items()), range(number, number + self._count_folds(running, n_folds - number))
            with closing(self._attempts([settings for _, settings in batch], numbers)) as attempts:
                for _ in numbers:
                    for key, _ in batch:
                        attempt = next(attempts)
                        if key in running:
                            self._judge(found.setdefault(key, _FoldTrials()), attempt)
                        else:
                            attempt.undo()
                    first = min((found[key] for key in running), key=lambda own: own.loss, default=None)
                    ahead = [*rivals, (first, _BEHIND)] if first else rivals
                    running = {
                        key: settings
                        for key, settings in running.items()
                        if TRIED_RANK not in settings and not any(_is_behind(found[key], *other) for other in ahead)
                    }
            number = numbers.stop
        best = min((own for own in found.values() if len(own.judged) == n_folds), key=lambda own: own.loss)
        for settings in new.values():
            self._end_trial(settings, best)

    def _end_trial(self, settings: Settings, best: _FoldTrials) -> None:
        """Store the trial of some settings; ``best`` are the settings of the least loss on all folds."""
        tried = self._found[self._last][_key(settings)]
        tried.rest, tried.predicted = best.loss - best.losses[len(tried.judged) - 1], []
        last = tried.judged[-1]
        dropped = len(tried.judged) < self._n_folds[self._last] and TRIED_RANK not in settings
        trial = Trial(dict(settings), last.accuracy, tried.loss, last.temperature, self._last, dropped)
        self._trials[self._last][_key(settings)] = trial
        if settings:
            self._announce(str(trial))

    def item_losses(self, settings: Settings) -> ItemLosses:
        """Return the losses of the held-out items of all folds; settings that were dropped are fitted again."""
        found, n_folds = self._found[self._last], self._n_folds[self._last]
        tried = found.get(_key(settings))
        if tried is None or len(tried.judged) < n_folds:
            tried = found[_key(settings)] = _FoldTrials()
            with closing(self._attempts([settings], range(n_folds))) as attempts:
                for attempt in attempts:
                    self._judge(tried, attempt)
            self._end_trial(settings, tried)
        return ItemLosses.concatenate(tried.items)

    def _count_folds(self, running: Mapping[tuple, Settings], left: int) -> int:
        """Count the folds on which candidates are fitted at once: more than one where threads are left."""
        one = any(TRIED_RANK in settings for settings in running.values())
        return 1 if one else min(left, max(1, self._workers.n_threads // len(running)))

    def _attempts(self, candidates: Sequence[Settings], numbers: Sequence[int]) -> Generator[_Attempt, None, None]:
        """Yield the fits of all candidates on the first of some folds, on the next, and so on."""
        # Those of one kind go on from each other.
        apart = len(set(map(_kind, candidates))) == len(candidates)
        workers = self._workers if apart else Workers(1)
        calls = [partial(self._attempt, settings, number) for number in numbers for settings in candidates]
        with closing(workers.in_order(calls)) as found:
            for _ in numbers:
                for settings in candidates:
                    self._announce_kind(settings)
                    yield next(found)

    def _attempt(self, settings: Settings, number: int) -> _Attempt:
        """Fit with some settings on a fold."""
        judge = self._stages_with(settings)(number)
        start = judge.start
        return _Attempt(judge, start, *judge.predicted(settings.get("prior_variance")))

    def _judge(self, tried: _FoldTrials, attempt: _Attempt) -> None:
        """Judge the predictions of settings on all folds so far, of which the last is new."""
        judge, marginals = attempt.judge, attempt.marginals
        known, weights = judge.held_out.given.get_truth(), judge.held_out.position_weights
        self._n_fits += 1
        tried.terms = tried.terms or attempt.terms
        tried.predicted.append((marginals, known, weights))
        tried.judged.append(position_loss(*map(np.concatenate, zip(*tried.predicted, strict=True))))
        tried.items.append(ItemLosses.from_positions(judge.units, compute_losses(marginals, known), weights))

    def _stages_with(self, settings: Settings) -> Callable[[int], Judge]:
        """Return a function from the number of a fold to its data and terms."""
        shared = _kind(settings)
        with self._lock:
            if shared not in self._stages:
                self._stages[shared] = cache(self._stages_of(settings, self._last))
            return self._stages[shared]

    def _announce_kind(self, settings: Settings) -> None:
        """Announce settings that are the first of their kind."""
        shared = _kind(settings)
        if shared not in self._kinds and len(self._kinds) < self._n_kinds:
            self._announce(f"{self._progress()}: {in_words(dict(shared))}")
            self._kinds.add(shared)

    def _progress(self) -> str:
        """Describe the progress of the candidates: pilot fits so far, and the estimated time of the others."""
        done, seconds = len(self._kinds), perf_counter() - self._begin
        what = f"candidate {done + 1} of {self._n_kinds}"
        if not done:
            return what
        left = seconds / done * (self._n_kinds - done)
        return f"{what}, {inflect(self._n_fits, 'pilot fit')} so far, about {max(1.0, left):.0f} s left"

    def along_variances(self, settings: Settings, ratios: Sequence[float] = (_RATIO, 1.0 / _RATIO)) -> Settings:
        """Return settings with the best prior variance of the path, upwards or else downwards."""

        def at(variance: float) -> dict[str, Any]:
            return {**settings, "prior_variance": float(f"{variance:.6g}")}

        best = first = settings.get("prior_variance", FALLBACK)
        for ratio in ratios:
            while _SMALLEST <= (variance := best * ratio) <= _LARGEST and self.gains(at(best), at(variance), _finer):
                best = variance
            if best != first:
                break
        return at(best)

    def _follow(self, candidates: Sequence[Settings]) -> dict[tuple, Settings]:
        """Return, by candidate, the settings with the best prior variance of its path."""
        apart = len(set(map(_kind, candidates))) == len(candidates)
        if self._n_folds[self._last] > 1 or not apart:  # a path ends sooner where others have come further
            return {_key(own): self.along_variances(own) for own in candidates}
        branches = [self._branch() for _ in candidates]
        paths = [partial(each.along_variances, own) for each, own in zip(branches, candidates, strict=True)]
        followed: dict[tuple, Settings] = {}
        with closing(self._workers.in_order(paths)) as ends:
            for branch, own in zip(branches, candidates, strict=True):
                followed[_key(own)] = next(ends)
                self._join(branch)
        return followed

    def _branch(self) -> Pilot:
        """Return a pilot that shares all fits so far, and stores its own findings and messages."""
        branch = copy.copy(self)
        branch._lines = []
        branch._announce, branch._workers, branch._n_fits = branch._lines.append, Workers(1), 0
        branch._trials, branch._found = (
            {last: dict(found) for last, found in each.items()} for each in (self._trials, self._found)
        )
        return branch

    def _join(self, branch: Pilot) -> None:
        """Add the findings and the messages of a branch."""
        for line in branch._lines:
            self._announce(line)
        self._n_fits += branch._n_fits
        for last in self._trials:
            self._trials[last].update(branch._trials[last])
            self._found[last].update(branch._found[last])

    def along_parts(self, settings: Settings, n_parts: int) -> Settings:
        """Return settings with a prior variance for each part of the columns, if that gains enough."""

        def at(own: Settings, part: int, ratio: float) -> dict[str, Any]:
            times = own.get(PARTS, (1.0,) * n_parts)
            return {**own, PARTS: (*times[:part], float(f"{times[part] * ratio:.6g}"), *times[part + 1 :])}

        for part in range(n_parts):
            for ratio in (_RATIO, 1.0 / _RATIO):
                before = settings
                while _SMALLEST <= (after := at(settings, part, ratio))[PARTS][part] <= _LARGEST and self.gains(
                    settings, after
                ):
                    settings = after
                if settings is not before:
                    break
        return settings

    def gains(self, before: Settings, after: Settings, margin: Callable[[float], float] | None = None) -> bool:
        """Whether settings gain more than a tie."""
        margin = margin or least_gain
        least = self.loss(before)
        return self.loss(after, before) < least - margin(least)

    def best(self, columns: Sequence[Settings], kernels: Sequence[str], path: bool, by_items: bool = False) -> Settings:
        """Return the settings of the least loss: of columns, then of kernels on the best columns, the simplest first.

        With a ``path``, the prior variance is the best one. The first of those that others do not gain enough on is
        taken: last digits, and where short fits end by them, make no choice. In the last round, the best one and the
        best on other columns are compared once more, after fits to nearly all items. ``by_items``, bounded kernels come
        before others, where these are not better beyond the spread over items.
        """
        self._n_kinds = len(columns) + max(0, len(kernels) - 1)
        # Of one kind of columns all kernels are compared at once.
        best, candidates = columns[0], []
        if len(columns) > 1 or len(kernels) <= 1:
            candidates = self._at_first(columns, path and self._n_kinds > 1)
            if len(columns) > 1 and DISTANCES in kernels:
                # Columns may be worth more to a kernel that adds up their differences.
                self._n_kinds += 1
                nearest = sorted(candidates, key=self.loss)[:2]
                candidates += self._at_first([{**own, "kernel": DISTANCES} for own in nearest], path)
            best = self._first_best(candidates)
        if len(kernels) > 1:
            on_best = [{**best, "kernel": kernel} for kernel in kernels]
            self._n_kinds = len(self._kinds | {_kind(own) for own in on_best})
            named = self._at_first(on_best, path)
            candidates = named + [own for own in candidates if own not in named]
        if path:
            ranked = sorted(candidates, key=self.loss) if len(candidates) > 1 else candidates
            near = [own for own in ranked[1:_FOLLOWED] if self.loss(own) <= _HOPELESS * self.loss(ranked[0]) + _FAR]
            kinds = {_kind(own) for own in [ranked[0], *near]}
            self._stages = {kind: stages for kind, stages in self._stages.items() if kind in kinds}
            followed = self._follow([ranked[0], *near])
            candidates = [followed.get(_key(own), own) for own in candidates]
        best = self._first_best(candidates)
        others = [own for own in candidates if _columns(own) != _columns(best)]
        other = min(others, key=self.loss, default=best)
        if self._n_folds[True] and other is not best and self.loss(other) <= _NEAR * self.loss(best):
            self._announce("comparing the best on two kinds of columns, each item held out by itself")
            kept, self._stages, self._last = self._stages, {}, True
            best = self._first_best([own for own in candidates if own in (best, other)])
            self._stages, self._last = kept, False
        if path and len(kernels) > 1:
            best = self.along_variances(best, _HALF_STEPS)
        return self._safest(best, _bounded(columns, kernels, best), path) if by_items and len(kernels) > 1 else best

    def _safest(self, best: Settings, bounded: Sequence[Settings], path: bool) -> Settings:
        """Return the first ``bounded`` settings that are not worse than the best, at usual variances; else the best."""
        for kind in bounded:
            if kind.items() <= best.items():
                break
            (other,) = self._at_first([kind], path)
            if not self.item_losses(other).is_worse(self.item_losses(best)):
                return other
        return best

    def _at_first(self, candidates: Sequence[Settings], path: bool) -> list[Settings]:
        """Return candidates with the better of two prior variances."""
        if not path:
            self.race(candidates)
            return list(candidates)
        small, usual = ([{**own, "prior_variance": at} for own in candidates] for at in (SMALL, FALLBACK))
        self.race(small)
        most = _LOST * min(map(self.loss, small))
        # One that is far behind because it is too certain does not get better by a larger variance.
        lost = (self.loss(own) > most and self._trials[self._last][_key(own)].temperature > 1.0 for own in small)
        near = [own for own, is_lost in zip(usual, lost, strict=True) if not is_lost]
        self.race(near)
        pairs = zip(small, usual, strict=True)
        return [later if later in near and self.gains(first, later, _finer) else first for first, later in pairs]

    def _first_best(self, candidates: Sequence[Settings]) -> Settings:
        """Return the first candidate within a tie of the best."""
        if len(candidates) == 1:
            return candidates[0]
        self.race(candidates)
        least = min(candidates, key=self.loss)
        return next(own for own in candidates if not self.gains(own, least))

    def improved(self, settings: Settings, changes: Sequence[Settings]) -> Settings:
        """Return settings with the first change that gains enough, and with a larger variance if that gains.

        Weights that are shrunk to zero need less of what shrinks all of them.
        """
        changed = ({**settings, **change} for change in changes)
        taken = next((each for each in changed if self.gains(settings, each, lambda loss: _CHANGE * loss)), settings)
        return self.along_variances(taken, (_RATIO,)) if taken.get("l1") else taken


def _is_behind(tried: _FoldTrials, other: _FoldTrials, ratio: float) -> bool:
    """Whether the loss of settings on the first folds excludes them from the best."""
    number = min(len(tried.judged), len(other.judged)) - 1
    theirs = other.judged[number].loss
    # A share of what all folds lose: on one that is easy, cautious fields lose many times a small loss.
    most = (ratio - 1.0) * max(theirs, other.loss) + _LITTLE
    return tried.judged[number].loss > theirs + most


def _finer(loss: float) -> float:
    """Return the difference below which losses of two variances count as equal."""
    return _FINER * least_gain(loss)


def _bounded(columns: Sequence[Settings], kernels: Sequence[str], best: Settings) -> list[Settings]:
    """Return kernels that fall back to the shares of labels far from the data, on windows, then on the best columns.

    On the columns of a choice that is bounded itself there is nothing to fall back from.
    """
    is_linear = best["kernel"] == "linear"
    own = {name: value for name, value in best.items() if name != "prior_variance"}
    own |= {"scale": True} if "scale" in best else {}
    windows = [each for each in columns if each.get("window", 1) != 1 and (is_linear or best["window"] == 1)]
    return [
        {**each, "kernel": kernel}
        for each, given in [*((each, [each["kernel"]]) for each in windows), *([(own, [])] if is_linear else [])]
        for kernel in (DISTANCES, *given, "forest", "rbf")
        if kernel in (*kernels, *given)
    ]


def _key(settings: Settings) -> tuple:
    return tuple(sorted(settings.items()))


def _kind(settings: Settings) -> tuple:
    return _key({name: value for name, value in settings.items() if name != "prior_variance"})


def _columns(settings: Settings) -> tuple:
    return _key({name: value for name, value in settings.items() if name in COLUMNS})


def with_variances(designs: Sequence[Design], variances: Sequence[float]) -> list[Design]:
    """Return designs with other prior variances."""
    return [
        design.with_clique(copy.copy(design.term.clique).set_params(prior_variance=variance))
        for design, variance in zip(designs, variances, strict=True)
    ]
