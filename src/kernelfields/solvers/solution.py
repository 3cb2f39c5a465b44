"""What a solver returns, whichever solver it was."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kernelfields.posterior.certificate import relative_gap

#: Why a solver stopped, and what to do about it.
REASONS = {
    "gap": "the relative duality gap is below tol",
    "max_iter": "max_iter iterations were made before the gap fell below tol; raise max_iter or tol",
    "precision": "no step improves the objective at this precision; the gap reached is what the features' "
    "float type allows (dtype='float64' goes further)",
    "interrupted": "interrupted; the best estimate so far was kept",
    "callback": "a callback asked to stop",
    "early": "the development set did not improve for `patience` iterations; the best estimate there was kept",
}


@dataclass(frozen=True)
class Iteration:
    """One line of a fit's history."""

    iteration: int
    passes: float
    seconds: float
    value: float
    lower_bound: float
    gradient_norm: float
    step: float
    coefficient_norm: float = 0.0

    @property
    def gap(self) -> float:
        """Value minus lower bound."""
        return self.value - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap over the value."""
        return relative_gap(self.value, self.lower_bound)


@dataclass
class Solution:
    """Coefficients, how good they are, and how they were found."""

    theta: np.ndarray = field(repr=False)
    solver: str
    value: float
    lower_bound: float
    gradient_norm: float
    iterations: int
    passes: float
    seconds: float
    reason: str
    history: list[Iteration] = field(repr=False, default_factory=list)
    #: (s_c / 2) ||grad_c||^2 of each clique set at the last point.
    gap_parts: dict[str, float] = field(repr=False, default_factory=dict)

    @property
    def gap(self) -> float:
        """Value minus the best lower bound found."""
        return self.value - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """Gap over the value."""
        return relative_gap(self.value, self.lower_bound)

    @property
    def converged(self) -> bool:
        """Whether the gap fell below the tolerance."""
        return self.reason == "gap"

    @property
    def message(self) -> str:
        """Why the solver stopped, in words."""
        return REASONS[self.reason]
