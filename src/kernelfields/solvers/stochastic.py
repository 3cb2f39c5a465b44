"""A stochastic start for L-BFGS on sparse features.

A few epochs of stochastic gradient steps come close to the optimum for the price of as many passes on one thread;
the curvature there then measures the coordinates for L-BFGS. benchmarks/crfsuite_speed.py prints what this saves.
"""

from __future__ import annotations

import numpy as np

from kernelfields.posterior import LogPosterior


class StochasticStart:
    """Where ``epochs`` of stochastic gradient descent from zero end."""

    def __init__(self, epochs: int = 4, random_state: int | np.random.Generator | None = 0):
        self.epochs = epochs
        self.random_state = random_state

    def point(self, posterior: LogPosterior) -> np.ndarray:
        """Return the coefficients after the epochs; zero if the field has no stochastic start or it is no help."""
        zero = np.zeros(posterior.size)
        descent = posterior.engine.stochastic_descent()
        if descent is None:
            return zero
        start = posterior.flatten(descent.run(self.epochs, np.random.default_rng(self.random_state)))
        posterior.engine.passes += self.epochs
        if not np.all(np.isfinite(start)):
            return zero
        there = posterior.trial(start)
        return start if there is not None and there.value < posterior.value_at_zero else zero
