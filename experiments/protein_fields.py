"""The fields of experiments/protein_stack.py: what each sees, its labels, kernels and prior variances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.protein_inputs import (
    Proteins,
    flanks,
    joined,
    normalised,
    profile,
    whole,
    windows,
    with_presence,
)
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.engines import Threads, Torch
from kernelfields.kernels import RBF, Polynomial

Inputs = list[np.ndarray]
_SMALLEST = 1e-3
_TWO = Polynomial(2, gamma=1.0)


@dataclass(frozen=True)
class Field:
    """A field on windows of the profile."""

    kernel: Any
    prior_variance: float
    labels: str = "ends"
    view: str = "lo"
    width: int = 21
    spread: float = 5.0
    #: Weights of the protein's mean profile, and of the mean profiles 11 to 25 residues before and after.
    whole: float = 0.5
    flanks: float = 0.0
    edge_kernel: Any = None
    edge_prior_variance: float = 10.0
    rank: int = 3000
    passes: int = 1

    def crf(self, engine: str, seed: int) -> ChainCRF:
        """Return the field, not fitted."""
        return ChainCRF(
            self.kernel,
            edges=EdgeCliques(self.edge_kernel, prior_variance=self.edge_prior_variance),
            rank=self.rank,
            prior_variance=self.prior_variance,
            engine=Torch("cuda") if engine == "torch" else Threads(),
            random_state=seed,
            tol=5e-3,
            max_iter=300,
        )

    def inputs(self, train: Proteins, blind: Proteins, first: dict[str, np.ndarray] | None) -> tuple[Inputs, Inputs]:
        """Return what the field sees of training and blind proteins; ``first`` is for those of the second pass."""
        both = normalised(profile(train, self.view), profile(blind, self.view))
        train_inputs, blind_inputs = (
            self._parts(proteins.split(columns), proteins.split(with_presence(columns)))
            for proteins, columns in zip((train, blind), both, strict=True)
        )
        return joined(train_inputs), joined(blind_inputs)

    def _parts(self, columns: Inputs, present: Inputs) -> list[Inputs]:
        parts = [windows(present, self.width, self.spread)]
        if self.whole:
            parts.append([self.whole * rows for rows in whole(columns)])
        if self.flanks:
            parts.append([self.flanks * rows for rows in flanks(columns, 11, 25)])
        return parts


@dataclass(frozen=True)
class Second(Field):
    """A field on windows of the mean marginals of the first pass beside the profile."""

    #: Which marginals, those of "states" or of their "ends", as they are or their logarithms; weights and windows.
    seen: str = "ends"
    logarithms: bool = False
    own_weight: float = 1.0
    own_width: int = 21
    own_spread: float = 6.0
    own_whole: float = 0.5
    profile_weight: float = 0.7
    width: int = 15
    rank: int = 2500
    passes: int = 2

    def inputs(self, train: Proteins, blind: Proteins, first: dict[str, np.ndarray] | None) -> tuple[Inputs, Inputs]:
        """Return windows of marginals beside those of the profile."""
        assert first is not None, "a field of the second pass sees the marginals of the first"
        marginals = [first[f"{self.seen}_train"][: len(train.states)], first[f"{self.seen}_blind"]]
        if self.logarithms:
            marginals = [np.log(rows + _SMALLEST) for rows in marginals]
        found = []
        profiles = super().inputs(train, blind, None)
        for proteins, columns, seen in zip((train, blind), normalised(*marginals), profiles, strict=True):
            own = proteins.split(columns)
            parts = [
                [self.own_weight * rows for rows in windows(own, self.own_width, self.own_spread)],
                [self.own_whole * rows for rows in whole(own)],
            ]
            if self.profile_weight:
                parts.append([self.profile_weight * rows for rows in seen])
            found.append(joined(parts))
        return found[0], found[1]


FIRST: dict[str, Field] = {
    "ends, RBF 0.5": Field(RBF(0.5), 3.0),
    "transitions, degree 2": Field(
        _TWO,
        1.0,
        "states",
        edge_kernel=_TWO,
        edge_prior_variance=1.0,
        rank=1500,
    ),
    "transitions, RBF": Field(
        RBF(0.3), 3.0, "states", edge_kernel=RBF(0.3), edge_prior_variance=3.0, rank=1500, whole=0.7
    ),
    "transitions between ends": Field(_TWO, 1.0, edge_kernel=RBF(0.3), edge_prior_variance=1.0, rank=1500),
    "ends, degree 2": Field(_TWO, 1.0),
    "two ends, RBF 0.5, names": Field(RBF(0.5), 3.0, "two ends", view="lon"),
    "ends, RBF 0.3, variance 10, softer": Field(RBF(0.3), 10.0, view="mq"),
    "all ends, RBF 0.5, flanks": Field(RBF(0.5), 3.0, "all ends", flanks=0.4),
    "ends, degree 3, softer": Field(Polynomial(3, gamma=0.5), 1.0, view="m"),
    "two ends, degree 2, names": Field(_TWO, 1.0, "two ends", view="lon"),
    "ends, RBF 0.5, narrow": Field(RBF(0.5), 3.0, view="lon", width=13, spread=3.5),
    "three ends, RBF 0.5": Field(RBF(0.5), 3.0, "three ends"),
    "ends, RBF 0.5, rank 5000, mean profile 1": Field(RBF(0.5), 3.0, rank=5000, whole=1.0),
    "two ends, RBF 0.3, wide": Field(RBF(0.3), 10.0, "two ends", width=27, spread=8.0, flanks=0.4),
    "all ends, degree 2, softer": Field(_TWO, 1.0, "all ends", view="mq", flanks=0.4),
    "ends, RBF 1, variance 3": Field(RBF(1.0), 3.0, rank=4000),
    "three ends, degree 3, names": Field(Polynomial(3, gamma=0.5), 1.0, "three ends", view="lon"),
    "ends, degree 2, narrow": Field(_TWO, 1.0, view="lq", width=13, spread=3.5),
    "two ends, degree 2, wide": Field(_TWO, 1.0, "two ends", view="mo", width=27, spread=8.0),
    "ends, RBF 0.5, variance 10": Field(RBF(0.5), 10.0, "ends", view="lon", rank=4000),
}

SECOND: dict[str, Field] = {
    "second: transitions, RBF": Second(
        RBF(0.3), 3.0, "states", edge_kernel=RBF(0.3), edge_prior_variance=1.0, rank=1200
    ),
    "second: ends, RBF 0.3": Second(RBF(0.3), 3.0),
    "second: ends, degree 2": Second(_TWO, 1.0),
    "second: states, RBF 0.3": Second(RBF(0.3), 3.0, "states"),
    "second: two ends, RBF 0.3, logarithms": Second(RBF(0.3), 3.0, "two ends", logarithms=True),
    "second: ends, RBF 0.3, own 2": Second(RBF(0.3), 3.0, own_weight=2.0, own_whole=1.0),
    "second: ends, degree 2, logarithms of states": Second(_TWO, 1.0, seen="states", logarithms=True),
    "second: two ends, RBF 0.3, wide": Second(RBF(0.3), 3.0, "two ends", own_width=41, own_spread=12.0),
    "second: ends, RBF 0.3, marginals alone": Second(
        RBF(0.3), 3.0, own_weight=1.5, own_whole=1.0, profile_weight=0.0, rank=1500
    ),
    "second: ends, RBF 0.3, own 0.5": Second(RBF(0.3), 3.0, own_weight=0.5, profile_weight=1.0),
    "second: ends, RBF 0.5, variance 1": Second(RBF(0.5), 1.0),
    "second: all ends, degree 2, wide": Second(_TWO, 1.0, "all ends", own_width=31, own_spread=10.0),
    "second: three ends, RBF 0.3": Second(RBF(0.3), 3.0, "three ends"),
    "second: two ends, degree 2, variance 0.3": Second(_TWO, 0.3, "two ends"),
    "second: ends, RBF 0.3, names": Second(RBF(0.3), 3.0, view="lon", own_weight=1.5),
    "second: ends, degree 2, own 2": Second(_TWO, 1.0, own_weight=2.0, own_whole=1.0, profile_weight=1.0),
}
