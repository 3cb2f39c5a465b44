"""The line search on convex functions of one variable, with and without an edge of the finite numbers."""

import numpy as np
import pytest

from kernelfields.solvers.loop import SLOPE_REDUCTION, SUFFICIENT_DECREASE, search


class Convex:
    """f and f' as the search sees them, and the trials it made."""

    def __init__(self, function, derivative):
        self.function, self.derivative = function, derivative
        self.value, self.slope = float(function(0.0)), float(derivative(0.0))
        self.trials = []

    def __call__(self, step):
        self.trials.append(step)
        with np.errstate(all="ignore"):
            return float(self.function(step)), float(self.derivative(step))


def quadratic(minimiser):
    return Convex(lambda a: 0.5 * (a / minimiser - 1) ** 2, lambda a: (a / minimiser - 1) / minimiser)


FUNCTIONS = {
    **{f"quadratic {m:g}": (lambda m=m: quadratic(m)) for m in (1e-6, 1e-3, 0.3, 1.0, 2.0, 40.0, 1e5)},
    "log cosh": lambda: Convex(lambda a: np.logaddexp(a - 9, 9 - a), lambda a: np.tanh(a - 9)),
    "softplus": lambda: Convex(lambda a: np.logaddexp(0, a) - 0.99 * a, lambda a: 1 / (1 + np.exp(-a)) - 0.99),
    "exponential": lambda: Convex(lambda a: np.exp(50 * a) - 60 * a, lambda a: 50 * np.exp(50 * a) - 60),
    # A steep descent that ends after a tiny step, then a slow rise: the secant alone crawls back from the right.
    "elbow": lambda: Convex(
        lambda a: 10 * a + 1.01e-7 * np.expm1(-a / 1e-10), lambda a: 10 - 1010 * np.exp(-a / 1e-10)
    ),
    "kink": lambda: Convex(
        lambda a: np.abs(a - 0.37) + 0.01 * (a - 0.37) ** 2, lambda a: np.sign(a - 0.37) + 0.02 * (a - 0.37)
    ),
    "barrier": lambda: Convex(
        lambda a: -np.log(0.01 - a) - 150 * a if a < 0.01 else np.inf,
        lambda a: 1 / (0.01 - a) - 150 if a < 0.01 else np.inf,
    ),
    "wall": lambda: Convex(lambda a: -a + a**2 if a < 0.9 else np.inf, lambda a: 2 * a - 1 if a < 0.9 else np.inf),
    "not a number": lambda: Convex(
        lambda a: -a + a**2 if a < 0.9 else np.nan, lambda a: 2 * a - 1 if a < 0.9 else np.nan
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accepted_steps_descend_and_flatten(name):
    line = FUNCTIONS[name]()
    step = search(line, line.value)
    assert step is not None
    assert step > 0
    value, slope = line(step)
    assert value <= line.value + SUFFICIENT_DECREASE * step * line.slope + 1e-12 * abs(line.value)
    if name != "kink":  # no step flattens the slope of a kink
        assert abs(slope) <= SLOPE_REDUCTION * abs(line.slope)
    assert len(line.trials) <= 42


def test_a_good_first_step_is_taken_at_once():
    line = quadratic(1.0)
    assert search(line, line.value) == 1.0
    assert line.trials == [1.0]
    line = quadratic(0.25)
    assert search(line, line.value, first_step=0.25) == 0.25


@pytest.mark.parametrize("slope", [0.0, 1.0, np.nan])
def test_no_step_where_the_direction_does_not_descend(slope):
    line = quadratic(1.0)
    line.slope = slope
    assert search(line, line.value) is None
    assert line.trials == []


def test_no_step_where_everything_else_is_infinite():
    line = Convex(lambda a: np.inf if a else 1.0, lambda a: np.inf if a else -1.0)
    assert search(line, line.value) is None
    assert len(line.trials) <= 40


def test_no_step_where_the_slope_is_only_rounding():
    # The value rises wherever one steps although the slope at 0 says otherwise.
    line = Convex(lambda a: 1.0 + a, lambda a: 1.0)
    line.slope = -1e-12
    assert search(line, line.value) is None
    assert len(line.trials) <= 40


def test_linear_functions_end_in_a_finite_step():
    line = Convex(lambda a: -a, lambda a: -1.0)
    step = search(line, line.value)
    assert step is not None
    assert np.isfinite(step)
    assert len(line.trials) <= 40


def test_steps_grow_fourfold_while_the_function_falls():
    line = quadratic(100.0)
    search(line, line.value, slope_reduction=0.5)
    assert line.trials == [1.0, 4.0, 16.0, 64.0]
