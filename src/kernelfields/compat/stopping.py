"""When CRFsuite's trainer stops, as a callback of a fit.

With loss f_k (regularisation included), gradient g_k (the pseudo-gradient under an L1 penalty) and weights w_k
after iteration k, training ends at the first k where

    ||g_k|| <= epsilon max(1, ||w_k||)               "epsilon"
    f_{k - period} - f_k < delta f_k,  k >= period    "delta"; a period of 0 leaves this rule out
    k = max_iterations                               "max_iterations"; 0 means no limit
"""

from __future__ import annotations

from kernelfields.solvers import Iteration

#: Why training ended, in words.
MESSAGES = {
    "epsilon": "the gradient is small: its norm is at most epsilon times that of the weights",
    "delta": "the loss fell by less than a share delta over the last period iterations",
    "max_iterations": "max_iterations iterations were made before epsilon or delta ended training",
    "one label": "all positions have the same label, so there is nothing to learn",
}


class CRFsuiteStopping:
    """Returns True when CRFsuite would stop; ``reason`` then says which rule it was."""

    def __init__(self, epsilon: float, period: int, delta: float, max_iterations: int):
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.max_iterations = max_iterations
        self.reason: str | None = None
        self._losses: list[float] = []

    def __call__(self, iteration: Iteration) -> bool:
        """Take note of an iteration and decide."""
        self._losses.append(iteration.value)
        loss = iteration.value
        if iteration.gradient_norm <= self.epsilon * max(1.0, iteration.coefficient_norm):
            self.reason = "epsilon"
        elif 0 < self.period < len(self._losses) and self._losses[-1 - self.period] - loss < self.delta * loss:
            self.reason = "delta"
        elif 0 < self.max_iterations <= iteration.iteration:
            self.reason = "max_iterations"
        return self.reason is not None
