"""The penalty, its conjugate and the gap between them, against one-dimensional problems solved by brute force."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from kernelfields.objective.penalty import term_gap, term_penalty

VARIANCES = [0.3, 1.0, 7.0]
WEIGHTS = [0.0, 0.2, 1.5]


class Prior(NamedTuple):
    """What the penalty asks of a term."""

    prior_variance: float
    l1: float


def single(v, prior_variance, l1):
    return v * v / (2 * prior_variance) + l1 * abs(v)


def conjugate(slope, prior_variance, l1):
    """max_v -slope v - R(v), by searching both sides of the kink at zero."""
    best = 0.0
    for bounds in ((-50.0, 0.0), (0.0, 50.0)):
        found = scipy.optimize.minimize_scalar(
            lambda v: slope * v + single(v, prior_variance, l1),
            bounds=bounds,
            method="bounded",
            options={"xatol": 1e-10},
        )
        best = max(best, -found.fun)
    return best


@pytest.mark.parametrize("l1", WEIGHTS)
@pytest.mark.parametrize("prior_variance", [*VARIANCES, np.inf])
def test_the_penalty_is_a_sum_over_coefficients(prior_variance, l1):
    coefficients = np.random.default_rng(0).normal(size=(4, 3))
    expected = sum(single(v, prior_variance, l1) for v in coefficients.ravel())
    assert term_penalty(Prior(prior_variance, l1), coefficients) == pytest.approx(expected, rel=1e-13)
    assert term_penalty(Prior(prior_variance, l1), np.zeros((2, 1))) == 0.0


@pytest.mark.parametrize("l1", WEIGHTS)
@pytest.mark.parametrize("prior_variance", VARIANCES)
def test_the_gap_is_that_of_fenchel_and_young(prior_variance, l1):
    rng = np.random.default_rng(1)
    coefficients, slopes = 2.0 * rng.normal(size=6), 2.0 * rng.normal(size=6)
    expected = [
        single(v, prior_variance, l1) + conjugate(d, prior_variance, l1) + v * d
        for v, d in zip(coefficients, slopes, strict=True)
    ]
    gaps = [
        term_gap(Prior(prior_variance, l1), coefficients[i : i + 1], slopes[i : i + 1])
        for i in range(len(coefficients))
    ]
    np.testing.assert_allclose(gaps, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        term_gap(Prior(prior_variance, l1), coefficients.reshape(2, 3), slopes.reshape(2, 3)), sum(gaps), rtol=1e-12
    )


numbers = st.floats(-1e3, 1e3, allow_nan=False)


@given(numbers, numbers, st.floats(1e-3, 1e3), st.floats(0.0, 1e2))
def test_the_gap_is_never_negative_and_nothing_at_the_optimum(v, d, prior_variance, l1):
    assert term_gap(Prior(prior_variance, l1), np.array([v]), np.array([d])) >= 0.0
    # The v that minimises d v + R(v) is where soft thresholding puts it.
    best = -prior_variance * np.sign(d) * max(abs(d) - l1, 0.0)
    scale = max(1.0, abs(best * d), single(best, prior_variance, l1))
    assert term_gap(Prior(prior_variance, l1), np.array([best]), np.array([d])) <= 1e-12 * scale


def test_without_a_gaussian_prior_slopes_above_l1_are_not_bounded():
    v = np.array([1.0, -2.0, 0.0])
    assert term_gap(Prior(np.inf, 0.5), v, np.array([0.1, 0.3, 0.5001])) == np.inf
    # R(v) + v d, where |d| <= l1: nothing is left where d = -l1 sign(v).
    assert term_gap(Prior(np.inf, 0.5), v, np.array([0.1, 0.3, -0.2])) == pytest.approx(1.5 + 0.1 - 0.6)
    assert term_gap(Prior(np.inf, 0.5), v, np.array([-0.5, 0.5, 0.5])) == pytest.approx(0.0, abs=1e-15)
    assert term_gap(Prior(np.inf, 0.0), v, np.array([0.1, 0.0, 0.0])) == np.inf
    assert term_gap(Prior(np.inf, 0.0), v, np.zeros(3)) == 0.0
