"""The prior variance by a pilot fit: short fits on a part of the data, judged by what was held out of them.

    s = 1, 10, 100, ...   as long as the log-likelihood of the held-out part rises; else 1/10, 1/100, ...

A variance is the size of the functions that the field expects. One that is too small shrinks rare labels to nothing,
one that is too large believes every training label, and the right one differs between problems by factors of thousands.
So a few thousand positions are drawn, a fifth of them is held out, and fits go up the path, each from the coefficients
of the one before, to a loose tolerance and in a small basis. The last fit on all data then has the variance that won.

Whole sequences, graphs or instances are held out: positions of one sequence resemble each other, and a part of it would
be predicted too well. Only where there are fewer than five are sequences cut into pieces. The draws are the same
in every fit: two fits on the same data choose the same variance. Where there is too little to hold out, ``FALLBACK``.

Cost: some ten passes a step over ``MOST_POSITIONS`` positions at most, however many the data have.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kernelfields.engines.engine import PackedData, Sample
from kernelfields.fields.chains import Chains
from kernelfields.fields.label_cliques import LabelledInstances
from kernelfields.models.fit import FitOptions, FittedField, data_value, fit_field
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term

#: The variance where it cannot be chosen.
FALLBACK = 1.0
#: The largest rank, and how many positions are learnt from at most.
MOST_RANK = 500
MOST_POSITIONS = 8000
_LEAST_POSITIONS = 200
_LEAST_ITEMS = 5
# Labels of one instance are less informative than as many labels of others.
_LEAST_INSTANCES = 100
_PIECES = 20
_HELD_OUT = 0.2
_RATIO = 10.0
_SMALLEST, _LARGEST = 1e-3, 1e5
# A step has to bring this share of the loss, or it is not worth a larger variance.
_LEAST_GAIN = 3e-3
_TOLERANCE, _MAX_ITER = 1e-2, 100


@dataclass(frozen=True, eq=False)
class Chosen:
    """A prior variance, the loss of held-out data under it for each position, and the terms that were fitted."""

    variance: float
    loss: float
    terms: list[Term]


@dataclass(frozen=True, eq=False)
class PilotFit:
    """Where short fits take place: ``place`` puts data where they can be fitted, ``designs_on`` makes the terms.

    ``variances_of`` returns the prior variance of each term for a variance of the path. ``announce`` takes lines about
    the progress.
    """

    place: Callable[[PackedData, bool], Sample]
    designs_on: Callable[[Sample], Sequence[Design]]
    variances_of: Callable[[float], Sequence[float]]
    announce: Callable[[str], None]

    def choose(self, train: PackedData, held_out: PackedData, path: bool = True) -> Chosen:
        """Return the variance of the path under which the held-out data are most likely.

        Without a path there is one fit, with the variances that the terms have.
        """
        sample, beside = self.place(train, True), self.place(held_out, False)
        designs = list(self.designs_on(sample))
        judge = beside.datafit([beside.design(design.term) for design in designs])
        fits: dict[float, FittedField] = {}

        def loss(variance: float, start: float | None) -> float:
            own = with_variances(designs, self.variances_of(variance)) if path else designs
            options = FitOptions("auto", _TOLERANCE, _MAX_ITER, random=np.random.default_rng(0))
            fitted = fit_field(own, sample, options, start=None if start is None else fits[start].coefficients)
            if fitted.solution.reason == "interrupted":
                raise KeyboardInterrupt
            fits[variance] = fitted
            value = data_value(judge, fitted.coefficients) / held_out.n_positions
            if path:
                self.announce(f"prior variance {variance:g}: held-out log-likelihood {-value:.4f} a position")
            return value

        best, least = FALLBACK, loss(FALLBACK, None)
        for ratio in (_RATIO, 1.0 / _RATIO) if path else ():
            while _SMALLEST <= (variance := best * ratio) <= _LARGEST:
                value = loss(variance, best)
                if not value < least * (1.0 - _LEAST_GAIN):
                    break
                best, least = variance, value
            if best != FALLBACK:
                break
        return Chosen(best, least, fits[best].terms)


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
    if not hasattr(data, "subset") or data.n_positions < _LEAST_POSITIONS:
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
