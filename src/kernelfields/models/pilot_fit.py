"""Parameters by pilot fits: short fits on a part of the data, judged by what was held out of them.

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

What describes items by more columns needs more of them: facies of wells are predicted worse with windows than without
after learning from three quarters of ten wells (log-loss 1.33 and 1.25), better after nine (1.16 and 1.17). So the best
candidates on two kinds of columns are compared once more where all items but one are learnt from, if these are few and
the losses near.

Cost: some twenty passes a fit over ``MOST_POSITIONS`` positions at most, however many the data have. Candidates are
compared fold by fold: one whose loss on some folds is far above the least has no fits on the others, and ranks are
compared on one. Of facies and gestures, the best of 65 candidates on four folds is 4 % above the least on the first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np

from kernelfields.engines.engine import PackedData, Sample
from kernelfields.models.choices import TRIED_RANK, Settings, Trial, in_words, least_gain
from kernelfields.models.fit import fit_field, predicted_marginals
from kernelfields.models.placed import FittedField
from kernelfields.models.position_loss import PositionLoss, position_loss
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
_RATIO, _HALF_STEPS = 10.0, (3.0, 0.3)
_SMALLEST, _LARGEST = 1e-3, 1e5
# Of so many candidates the path of variances is followed. On other columns than those of the best, a loss of so many
# times the least is near enough to be compared with it in the last round.
_FOLLOWED, _NEAR = 3, 1.1
# Candidates whose loss is so many times the least at the smaller variance may not be compared at the usual one.
_LOST = 1.5
# What is left out of the weights of a field, or shrunk to zero, has to bring this share.
_CHANGE = 3e-3
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
    """Where settings are tried on one fold: both parts of the data in place, the terms, their variances at a variance.

    ``start`` are coefficients to start from, those of the fit before; None for zero.
    """

    sample: Sample
    judge: Datafit
    held_out: PackedData
    designs: Sequence[Design]
    variances_of: Callable[[float], Sequence[float]]
    start: Sequence[np.ndarray] | None = None

    def fit(self, variance: float | None) -> FittedField:
        """Return a short fit with a prior variance, None for that of the terms."""
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
        """Return the terms of a short fit, and the marginals (N, L) that it predicts for what is held out."""
        fitted = self.fit(variance)
        return fitted.terms, predicted_marginals(self.judge, fitted.coefficients)


@dataclass(eq=False)
class _Tried:
    """Fits with some settings on one fold, two and so on: what they predict, and the loss of all of it together.

    ``rest`` is by how much the best settings lose more on all folds than on those that were tried here.
    """

    terms: list[Term] = field(default_factory=list)
    predicted: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)
    judged: list[PositionLoss] = field(default_factory=list)
    rest: float = 0.0

    @property
    def losses(self) -> list[float]:
        """The loss on one fold, on two and so on."""
        return [judged.loss for judged in self.judged]

    @property
    def loss(self) -> float:
        """The loss on all folds."""
        return self.judged[-1].loss + self.rest


class Judge(Protocol):
    """What predicts the part of a fold that is held out: a :class:`Stage`, or a classifier that fields are beside."""

    held_out: PackedData

    def predicted(self, variance: float | None) -> tuple[list[Term], np.ndarray]:
        """Return terms, where there are some, and marginals (N, L)."""


class Pilot:
    """Short fits, each judged by the same held-out positions.

    ``stages_of`` returns where settings are tried, by the number of the fold, given whether it is of the last round;
    settings that differ in the prior variance alone share them, and go on from each other's coefficients. ``n_folds``
    are those of the first round and of the last one, 0 where there is none. ``announce`` takes lines of progress.
    """

    def __init__(
        self,
        stages_of: Callable[[Settings, bool], Callable[[int], Judge]],
        n_folds: tuple[int, int],
        announce: Callable[[str], None],
    ):
        self._stages_of, self._n_folds, self._announce = stages_of, n_folds, announce
        self._last = False
        # By round, whether it is the last.
        self._trials: dict[bool, dict[tuple, Trial]] = {False: {}, True: {}}
        self._found: dict[bool, dict[tuple, _Tried]] = {False: {}, True: {}}
        self._stages: dict[tuple, Callable[[int], Judge]] = {}
        self._kinds: set[tuple] = set()
        self._n_kinds = 0

    @property
    def trials(self) -> list[Trial]:
        """What was tried in both rounds."""
        return [*self._trials[True].values(), *self._trials[False].values()]

    def loss(self, settings: Settings, before: Settings | None = None) -> float:
        """Return the log-loss of held-out positions after fits with some settings; see :meth:`race`."""
        self.race([settings], before)
        return self._found[self._last][_key(settings)].loss

    def terms(self, settings: Settings) -> list[Term]:
        """Return the terms of the first fold's fit with some settings."""
        self.race([settings])
        return self._found[self._last][_key(settings)].terms

    def race(self, candidates: Sequence[Settings], before: Settings | None = None) -> None:
        """Fit with all candidates, fold by fold, and leave those that are far behind.

        These are the ones whose loss is far above that of the best settings so far on the same folds, or above that of
        the settings ``before``. Their loss on all folds is taken to be as much above that of the best as on these.
        """
        found, n_folds = self._found[self._last], self._n_folds[self._last]
        new = {_key(own): own for own in candidates if _key(own) not in found}
        whole = [own for own in found.values() if len(own.judged) == n_folds]
        rivals = [(min(whole, key=lambda own: own.loss), _BEHIND)] if whole else []
        rivals += [(found[_key(before)], _WORSE)] if before else []
        running = dict(new)
        for number in range(n_folds):
            for key, settings in running.items():
                self._fit(settings, found.setdefault(key, _Tried()), number)
            first = min((found[key] for key in running), key=lambda own: own.loss, default=None)
            ahead = [*rivals, (first, _BEHIND)] if first else rivals
            running = {
                key: settings
                for key, settings in running.items()
                if TRIED_RANK not in settings and not any(_is_behind(found[key], *other) for other in ahead)
            }
        best = min((own for own in found.values() if len(own.judged) == n_folds), key=lambda own: own.loss)
        for key, settings in new.items():
            tried = found[key]
            tried.rest, tried.predicted = best.loss - best.losses[len(tried.judged) - 1], []
            last = tried.judged[-1]
            trial = Trial(dict(settings), last.accuracy, tried.loss, last.temperature, self._last)
            self._trials[self._last][key] = trial
            if settings:
                self._announce(str(trial))

    def _fit(self, settings: Settings, tried: _Tried, number: int) -> None:
        """Fit with some settings on a further fold, and judge what all folds so far predict."""
        shared = _kind(settings)
        if shared not in self._stages:
            if shared not in self._kinds and len(self._kinds) < self._n_kinds:
                self._kinds.add(shared)
                self._announce(f"trying {len(self._kinds)} of {self._n_kinds}: {in_words(dict(shared))}")
            self._stages[shared] = cache(self._stages_of(settings, self._last))
        stage = self._stages[shared](number)
        terms, marginals = stage.predicted(settings.get("prior_variance"))
        tried.terms = tried.terms or terms
        tried.predicted.append((marginals, stage.held_out.given.judged(), stage.held_out.position_weights))
        tried.judged.append(position_loss(*map(np.concatenate, zip(*tried.predicted, strict=True))))

    def along_variances(self, settings: Settings, ratios: Sequence[float] = (_RATIO, 1.0 / _RATIO)) -> Settings:
        """Return settings with the prior variance of the path from theirs on that predicts best, up, else down."""

        def at(variance: float) -> dict[str, Any]:
            return {**settings, "prior_variance": float(f"{variance:.6g}")}

        best = first = settings.get("prior_variance", FALLBACK)
        for ratio in ratios:
            while _SMALLEST <= (variance := best * ratio) <= _LARGEST and self.gains(at(best), at(variance)):
                best = variance
            if best != first:
                break
        return at(best)

    def along_parts(self, settings: Settings, n_parts: int) -> Settings:
        """Return settings in which parts of the columns have variances of their own, where that brings enough."""

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
        """Whether other settings bring enough to be worth it, by default more than a tie."""
        margin = margin or least_gain
        least = self.loss(before)
        return self.loss(after, before) < least - margin(least)

    def best(self, columns: Sequence[Settings], kernels: Sequence[str], path: bool) -> Settings:
        """Return the settings of the least loss: of columns, then, on the best columns, of kernels, the simplest first.

        With a ``path``, the prior variance is the best one. The first of those that others do not gain enough on is
        taken: last digits, and where short fits end by them, make no choice. In the last round, the best one and the
        best on other columns are compared once more, after fits to nearly all items.
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
            followed = {_key(own): self.along_variances(own) for own in [ranked[0], *near]}
            candidates = [followed.get(_key(own), own) for own in candidates]
        best = self._first_best(candidates)
        others = [own for own in candidates if _columns(own) != _columns(best)]
        other = min(others, key=self.loss, default=best)
        if self._n_folds[True] and other is not best and self.loss(other) <= _NEAR * self.loss(best):
            self._announce("comparing the best on two kinds of columns, each item held out by itself")
            kept, self._stages, self._last = self._stages, {}, True
            best = self._first_best([own for own in candidates if own in (best, other)])
            self._stages, self._last = kept, False
        return self.along_variances(best, _HALF_STEPS) if path and len(kernels) > 1 else best

    def _at_first(self, candidates: Sequence[Settings], path: bool) -> list[Settings]:
        """Return candidates, each with the better of two prior variances where there is a path of them."""
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
        return [later if later in near and self.gains(first, later) else first for first, later in pairs]

    def _first_best(self, candidates: Sequence[Settings]) -> Settings:
        """Return the first candidate that no other gains enough on."""
        if len(candidates) == 1:
            return candidates[0]
        self.race(candidates)
        least = min(candidates, key=self.loss)
        return next(own for own in candidates if not self.gains(own, least))

    def improved(self, settings: Settings, changes: Sequence[Settings]) -> Settings:
        """Return settings with the first of the changes that brings enough, if one does, and a larger variance then.

        Weights that are shrunk to zero need less of what shrinks all of them.
        """
        changed = ({**settings, **change} for change in changes)
        taken = next((each for each in changed if self.gains(settings, each, lambda loss: _CHANGE * loss)), settings)
        return self.along_variances(taken, (_RATIO,)) if taken.get("l1") else taken


def _is_behind(tried: _Tried, other: _Tried, ratio: float) -> bool:
    """Whether settings have lost so much more than others on the folds so far that further ones will not change it."""
    number = min(len(tried.judged), len(other.judged)) - 1
    theirs = other.judged[number].loss
    # A share of what all folds lose: on one that is easy, cautious fields lose many times a small loss.
    most = (ratio - 1.0) * max(theirs, other.loss) + _LITTLE
    return tried.judged[number].loss > theirs + most


def _key(settings: Settings) -> tuple:
    return tuple(sorted(settings.items()))


def _kind(settings: Settings) -> tuple:
    return _key({name: value for name, value in settings.items() if name != "prior_variance"})


def _columns(settings: Settings) -> tuple:
    return _key({name: value for name, value in settings.items() if name in ("scale", "window", "neighbours")})


def with_variances(designs: Sequence[Design], variances: Sequence[float]) -> list[Design]:
    """Return designs with other prior variances."""
    return [
        design.with_clique(copy.copy(design.term.clique).set_params(prior_variance=variance))
        for design, variance in zip(designs, variances, strict=True)
    ]
