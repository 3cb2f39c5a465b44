"""L-BFGS after a stochastic start, for sparse features.

A few epochs of stochastic gradient steps come close to the optimum for the price of as many passes on one thread;
the curvature there then measures the coordinates for L-BFGS. benchmarks/crfsuite_speed.py prints what this saves.
"""

from __future__ import annotations

import numpy as np

from kernelfields.posterior import LogPosterior
from kernelfields.solvers.lbfgs import LBFGS


class StochasticLBFGS(LBFGS):
    """L-BFGS that starts where ``epochs`` of stochastic gradient descent end."""

    name = "sgd+lbfgs"

    def __init__(self, memory: int = 20, epochs: int = 4, random_state: int | np.random.Generator | None = 0):
        super().__init__(memory)
        self.epochs = epochs
        self.random_state = random_state

    def first_point(self, posterior: LogPosterior) -> np.ndarray:
        """Return the coefficients after the epochs; zero if the field has no stochastic start or it is no help."""
        zero = np.zeros(posterior.size)
        descent = posterior.engine.stochastic_descent()
        if descent is None:
            return zero
        start = posterior.flatten(descent.run(self.epochs, np.random.default_rng(self.random_state)))
        posterior.engine.passes += self.epochs
        if not np.all(np.isfinite(start)) or posterior.trial(start).value >= posterior.trial(zero).value:
            return zero
        return start
