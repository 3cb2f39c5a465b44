"""A stochastic start for L-BFGS on sparse features.

A few epochs of stochastic gradient steps come close to the optimum for the price of as many passes on one thread;
the curvature there then measures the coordinates for L-BFGS. benchmarks/crfsuite_speed.py prints what this saves.
"""

from __future__ import annotations

import numpy as np

from kernelfields.objective.posterior import LogPosterior


class StochasticStart:
    """Where ``epochs`` of stochastic gradient descent from zero end."""

    def __init__(self, epochs: int = 4, random_state: int | np.random.Generator | None = 0):
        self.epochs = epochs
        self.random_state = random_state

    def point(self, posterior: LogPosterior) -> np.ndarray:
        """Return the coefficients after the epochs; zero if the field has no stochastic start or it is no help."""
        zero = np.zeros(posterior.size)
        start = posterior.stochastic_start(self.epochs, np.random.default_rng(self.random_state))
        if start is None or not np.all(np.isfinite(start)):
            return zero
        trial = posterior.trial(start)
        return start if trial is not None and trial.value < posterior.value_at_zero else zero
