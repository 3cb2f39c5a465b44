"""A stochastic start for L-BFGS on sparse features.

Some epochs of stochastic steps come close to the optimum for the price of as many passes on one thread; the curvature
there then measures the coordinates for L-BFGS. The steps climb the dual where every coefficient has a Gaussian prior
and end by a gap of their own; else, or where that prior is very weak, they are gradient steps
(objective/stochastic.py). benchmarks/crfsuite_speed.py prints what this saves.
"""

from __future__ import annotations

import numpy as np

from kernelfields.objective.posterior import LogPosterior

_GRADIENT_EPOCHS = 4


class StochasticStart:
    """Where stochastic steps from zero end: those of the dual, or ``epochs`` of gradient steps if a number is given."""

    def __init__(self, epochs: int | None = None, random_state: int | np.random.Generator | None = 0):
        self.epochs = epochs
        self.random_state = random_state
        #: Whether the last start took the l1 penalty into account.
        self.knows_l1 = False

    def point(self, posterior: LogPosterior) -> np.ndarray:
        """Return the coefficients after the epochs; zero if the field has no stochastic start or it is no help."""
        random = np.random.default_rng(self.random_state)
        start = posterior.dual_start(random) if self.epochs is None else None
        self.knows_l1 = start is not None
        if start is not None:
            return start
        zero = np.zeros(posterior.size)
        start = posterior.stochastic_start(self.epochs or _GRADIENT_EPOCHS, random)
        if start is None or not np.all(np.isfinite(start)):
            return zero
        trial = posterior.trial(start)
        return start if trial is not None and trial.value < posterior.value_at_zero else zero
