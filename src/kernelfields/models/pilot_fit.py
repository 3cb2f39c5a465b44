"""Parameters by pilot fits: short fits on a part of the data, judged by what was held out of them.

    scale, kernel      each of the candidates, along a path of prior variances of its own; then the sum of the best two
    prior variance     s = 1, 10, 100, ... as long as the log-likelihood of the held-out part rises; else 1/10, ...
    support, l1        the path with the weights that were seen in training, without l1; then, at that variance, all of
                       them with l1, all without, those seen with l1, until one brings enough
    rank               the largest there is, where the likelihood still rises from half a pilot's rank to the whole

A variance is the size of the functions that the field expects. One that is too small shrinks rare labels to nothing,
one that is too large believes every training label, and the right one differs between problems by factors of thousands.
So a few thousand positions are drawn, a fifth of them is held out, and fits go up the path, each from the coefficients
of the one before, to a loose tolerance and in a small basis. The last fit on all data then has the settings that won.

Whole sequences, graphs or instances are held out: positions of one sequence resemble each other, and a part of it would
be predicted too well. Only where there are fewer than five are sequences cut into pieces, and of graphs labelled nodes
are held out, each a graph of its own, see auto_parameters.py. The draws are the same
in every fit: two fits on the same data choose the same settings. Where there is too little to hold out, the estimator
has fallbacks, ``FALLBACK`` for the prior variance.

Cost: some ten passes a trial over ``MOST_POSITIONS`` positions at most, however many the data have.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from kernelfields.data.chains import Chains
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.engines.engine import PackedData, Sample
from kernelfields.models.fit import FittedField, data_value, fit_field
from kernelfields.models.stored_values import record
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term
from kernelfields.solvers.choice import FitOptions

#: The variance where it cannot be chosen.
FALLBACK = 1.0
#: The largest rank, and how many positions are learnt from at most.
MOST_RANK = 500
MOST_POSITIONS = 8000
#: The name of the rank of a pilot fit among its settings: it shows whether more would help, and is never chosen itself.
PILOT_RANK = "pilot_rank"
_LEAST_POSITIONS = 200
_LEAST_ITEMS = 5
# Labels of one instance are less informative than as many labels of others.
_LEAST_INSTANCES = 100
_PIECES = 20
_HELD_OUT = 0.2
_RATIO = 10.0
_SMALLEST, _LARGEST = 1e-3, 1e5
# Other settings have to bring this share of the loss to be worth it. It is more than rounding makes of short fits.
_LEAST_GAIN = 3e-3
# A path is left where its loss is so many times the least of all others.
_HOPELESS = 2.0
_TOLERANCE, _MAX_ITER = 1e-2, 100
# A gap of so many nats a position is fine enough, whatever share of the value it is.
_NATS_PER_POSITION = 2e-3

#: Values of parameters, by name; those of a pilot fit are of the estimator but for "scale".
Settings: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """What was tried, and how well it predicted held-out data: log-likelihood a position, or the share of right labels.

    ``measure`` is the name of that number.
    """

    settings: dict[str, Any]
    score: float
    measure: str = "log-likelihood"

    def __str__(self) -> str:
        return f"{in_words(self.settings)}: held-out {self.measure} {self.score:.4f} a position"


@dataclass(frozen=True)
class Choices:
    """Parameters that were left to the data: what they are in the fit, and all that was tried on held-out data.

    ``trials`` is empty where there was too little to hold out, or nothing to choose between.
    """

    chosen: dict[str, Any] = field(default_factory=dict)
    trials: tuple[Trial, ...] = ()

    def __str__(self) -> str:
        if not self.chosen:
            return "nothing was left to the data"
        judged = "chosen on held-out data" if self.trials else "chosen by rule"
        lines = [f"{judged}: {in_words(self.chosen)}", *map(str, self.trials)]
        if any(PILOT_RANK in trial.settings for trial in self.trials):
            lines.append(
                f"the other pilot fits have rank {MOST_RANK}: where half of it predicts as well, {MOST_RANK} is enough "
                "for all data"
            )
        return "\n".join(lines)

    def describe(self) -> dict[str, Any]:
        """Return plain values for a model file."""
        return asdict(self)

    @classmethod
    def rebuild(cls, described: Mapping[str, Any] | None) -> Choices:
        """Return the choices that were described; none for None."""
        if described is None:
            return cls()
        trials = tuple(record(Trial, each, "a trial") for each in described["trials"])
        return cls(dict(described["chosen"]), trials)


def in_words(settings: Settings) -> str:
    """Return settings as a line of text: "scale False, kernel rbf, prior variance 10"."""
    words = (f"{value:g}" if isinstance(value, float) else str(value) for value in settings.values())
    return ", ".join(f"{name.replace('_', ' ')} {word}" for name, word in zip(settings, words, strict=True))


@dataclass(frozen=True, eq=False)
class Stage:
    """Where settings are tried: the two parts of the data in place, the terms, and their variances at a variance."""

    sample: Sample
    judge: Datafit
    designs: Sequence[Design]
    variances_of: Callable[[float], Sequence[float]]

    @classmethod
    def build(
        cls, sample: Sample, beside: Sample, designs: Sequence[Design], variances_of: Callable[[float], Sequence[float]]
    ) -> Stage:
        """Return the stage of some terms on the sample that is learnt from, with the one beside it to judge by."""
        return cls(sample, beside.datafit([beside.design(design.term) for design in designs]), designs, variances_of)


class Pilot:
    """Short fits, each judged by the log-likelihood of the same held-out positions.

    ``stage_of`` returns where settings are tried; those that differ in the prior variance alone share one, and go on
    from each other's coefficients. ``announce`` takes lines about the progress.
    """

    def __init__(self, stage_of: Callable[[Settings], Stage], n_held_out: int, announce: Callable[[str], None]):
        self.trials: list[Trial] = []
        self._stage_of, self._n_held_out, self._announce = stage_of, n_held_out, announce
        self._found: dict[tuple, tuple[float, list[Term]]] = {}
        self._shared: tuple | None = None

    def loss(self, settings: Settings) -> float:
        """Return the loss of held-out data a position, minus their log-likelihood, after a fit with some settings."""
        return self._tried(settings)[0]

    def terms(self, settings: Settings) -> list[Term]:
        """Return the terms of the fit with some settings."""
        return self._tried(settings)[1]

    def _tried(self, settings: Settings) -> tuple[float, list[Term]]:
        key = _key(settings)
        if key not in self._found:
            loss, fitted = self._fit(settings)
            self._found[key] = loss, fitted.terms
            self.trials.append(Trial(dict(settings), -loss))
            if settings:
                self._announce(str(self.trials[-1]))
        return self._found[key]

    def _fit(self, settings: Settings) -> tuple[float, FittedField]:
        shared = _key({name: value for name, value in settings.items() if name != "prior_variance"})
        if self._shared != shared:
            self._shared, self._stage = shared, self._stage_of(settings)
            self._start: tuple[float, Sequence[np.ndarray] | None] = np.inf, None
        stage, variance = self._stage, settings.get("prior_variance")
        designs = stage.designs if variance is None else with_variances(stage.designs, stage.variances_of(variance))
        enough = _NATS_PER_POSITION * stage.sample.n_positions
        options = FitOptions("auto", _TOLERANCE, _MAX_ITER, random=np.random.default_rng(0), enough=enough)
        fitted = fit_field(designs, stage.sample, options, start=self._start[1])
        if fitted.solution.reason == "interrupted":
            raise KeyboardInterrupt
        loss = data_value(stage.judge, fitted.coefficients) / self._n_held_out
        if loss < self._start[0]:
            self._start = loss, fitted.coefficients
        return loss, fitted

    def along_variances(self, settings: Settings) -> Settings:
        """Return settings with the prior variance of the path under which the held-out data are most likely."""

        def at(variance: float) -> dict[str, Any]:
            return {**settings, "prior_variance": variance}

        best = FALLBACK
        hopeless = self.loss(at(best)) > _HOPELESS * min(loss for loss, _ in self._found.values())
        for ratio in () if hopeless else (_RATIO, 1.0 / _RATIO):
            while _SMALLEST <= (variance := best * ratio) <= _LARGEST and self.gains(at(best), at(variance)):
                best = variance
            if best != FALLBACK:
                break
        return at(best)

    def gains(self, before: Settings, after: Settings) -> bool:
        """Whether other settings bring enough to be worth it."""
        least = self.loss(before)
        return self.loss(after) < least * (1.0 - _LEAST_GAIN)

    def ranked(self, candidates: Sequence[Settings], path: bool) -> list[Settings]:
        """Return candidates by increasing loss, each with the best prior variance if there is a path of them.

        The first of those that others do not gain enough on goes first: last digits, and where short fits end by them,
        make no choice. Those whose loss is far above the least are left out.
        """
        found = [self.along_variances(own) if path else own for own in candidates]
        least = min(found, key=self.loss)
        best = next(own for own in found if not self.gains(own, least))
        others = sorted((own for own in found if own is not best), key=self.loss)
        return [own for own in (best, *others) if self.loss(own) <= _HOPELESS * self.loss(least)]

    def improved(self, settings: Settings, changes: Sequence[Settings]) -> Settings:
        """Return settings with the first of the changes that brings enough, if one does."""
        changed = ({**settings, **change} for change in changes)
        return next((each for each in changed if self.gains(settings, each)), settings)


def _key(settings: Settings) -> tuple:
    return tuple(sorted(settings.items()))


def with_variances(designs: Sequence[Design], variances: Sequence[float]) -> list[Design]:
    """Return designs with other prior variances."""
    return [
        design.with_clique(copy.copy(design.term.clique).set_params(prior_variance=variance))
        for design, variance in zip(designs, variances, strict=True)
    ]


def split(data: PackedData) -> tuple[PackedData, PackedData] | None:
    """Return a part to learn from and a part to judge by; None where there is too little for both.

    Items of the second part with labels that the first does not have are left out.
    """
    if data.lie_with is not None or data.n_positions < _LEAST_POSITIONS:
        return None
    if isinstance(data, LabelledInstances) and data.n_instances < _LEAST_INSTANCES:
        return None
    if isinstance(data, Chains) and np.count_nonzero(data.weights) < _LEAST_ITEMS:
        data = in_pieces(data, max(1, data.n_positions // _PIECES))
    items = np.flatnonzero(data.weights > 0)
    if len(items) < _LEAST_ITEMS:
        return None
    order = np.random.default_rng(0).permutation(items)
    sizes = data.lengths[order]
    ends = np.cumsum(sizes)
    budget = min(ends[-1], MOST_POSITIONS / (1.0 - _HELD_OUT))
    n_held = max(1, int(np.searchsorted(ends, _HELD_OUT * budget, side="right")))
    n_all = max(n_held + 1, int(np.searchsorted(ends, ends[n_held - 1] + MOST_POSITIONS, side="right")))
    train, held_out = data.subset(np.sort(order[n_held:n_all])), data.subset(np.sort(order[:n_held]))
    known = np.zeros(1 + int(data.required_labels.max()), dtype=bool)
    known[train.required_labels] = True
    seen = known[held_out.required_labels]
    if seen.all():
        return train, held_out
    sizes = held_out.lengths
    whole = np.logical_and.reduceat(seen, np.cumsum(sizes) - sizes)
    return (train, held_out.subset(whole)) if whole.any() else None


def in_pieces(chains: Chains, length: int) -> Chains:
    """Return the sequences cut into pieces of about so many positions."""
    cuts = [
        np.linspace(begin, end, max(1, round((end - begin) / length)) + 1).round().astype(np.int64)[1:]
        for begin, end in pairwise(chains.offsets.tolist())
    ]
    counts = [len(each) for each in cuts]
    offsets = np.concatenate([[0], *cuts])
    return replace(chains, offsets=offsets, weights=np.repeat(chains.weights, counts))
