"""Places in theta: blocks of coefficients, values that may become points, points with gradients, directions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kernelfields.engines import Evaluation, Potentials

if TYPE_CHECKING:
    from kernelfields.posterior.log_posterior import LogPosterior


@dataclass(frozen=True)
class Block:
    """The coefficients of one clique set within theta."""

    name: str
    rows: slice
    shape: tuple[int, int]
    prior_variance: float
    l1: float = 0.0


@dataclass
class Trial:
    """A value that may become a point: its gradient, half a pass, is not computed yet."""

    theta: np.ndarray
    value: float
    potentials: Potentials | None
    evaluation: Evaluation | None
    #: Known already where value and gradient come from one fused pass.
    gradient: np.ndarray | None = None


class Point:
    """Where a solver stands: theta, value, gradient, and the potentials that go with them."""

    def __init__(
        self,
        posterior: LogPosterior,
        theta: np.ndarray,
        value: float,
        gradient: np.ndarray,
        potentials: Potentials | None,
        evaluation: Evaluation | None,
    ):
        self.posterior = posterior
        self.theta = theta
        self.value = value
        self.gradient = gradient
        self._potentials = potentials
        self._evaluation = evaluation

    @property
    def potentials(self) -> Potentials:
        """Potentials at this point, computed if a fused pass did not keep them."""
        if self._potentials is None:
            self._potentials = self.posterior.potentials(self.theta)
        return self._potentials

    @property
    def evaluation(self) -> Evaluation:
        """Beliefs at this point, recomputed if they were released."""
        if self._evaluation is None:
            self._evaluation = self.posterior.engine.evaluate(self.potentials)
        return self._evaluation

    @cached_property
    def steepest(self) -> np.ndarray:
        """The gradient; with l1, the subgradient of smallest norm."""
        return self.gradient if not self.posterior.has_l1 else self.posterior.pseudo_gradient(self)

    def release(self) -> None:
        """Let go of the beliefs: several (N, L) arrays that are cheap to compute again."""
        self._evaluation = None


@dataclass
class Direction:
    """A direction in theta; its potentials too if they are known already."""

    theta: np.ndarray
    potentials: Potentials | None = None
