"""Lower bounds on the minimum: below it at every step, never falling, and the best that the cuts allow."""

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelfields.data.chains import Chains
from kernelfields.objective.bounds import LowerBound, maximise_on_simplex
from kernelfields.objective.posterior import LogPosterior
from tests.samples import chain_datafit, design_of


def small_posterior(seed=0, n_labels=3):
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, 41, 5)
    chains = Chains(rng.normal(size=(40, 6)), offsets, rng.integers(n_labels, size=40))
    steps = np.flatnonzero(~chains.is_start)
    node = design_of("node", chains.inputs, positions=None, labels_per_clique=1, n_labels=n_labels, prior_variance=0.5)
    edge = design_of("edge", None, positions=steps, labels_per_clique=2, n_labels=n_labels, prior_variance=4.0)
    return LogPosterior(chain_datafit(chains, [node, edge], n_labels))


def optimum(posterior):
    """Newton's method spelled out, until the gradient is rounding."""
    theta = np.zeros(posterior.size)
    for _ in range(30):
        point = posterior.at(theta)
        hessian = np.column_stack([posterior.hessian_product(point, unit)[0] for unit in np.eye(posterior.size)])
        theta = theta - np.linalg.solve(hessian, point.gradient)
    point = posterior.at(theta)
    assert np.linalg.norm(point.gradient) < 1e-11
    return point


def gradient_descent(posterior, n_points, step=0.02):
    theta = np.random.default_rng(1).normal(size=posterior.size)
    for _ in range(n_points):
        point = posterior.at(theta)
        yield point
        theta = theta - step * point.gradient


@pytest.mark.parametrize("size", [1, 3, 10])
def test_below_the_minimum_and_never_falling(size):
    posterior = small_posterior()
    best = optimum(posterior).value
    bound, values, singles = LowerBound(size), [-np.inf], []
    for point in gradient_descent(posterior, 30):
        values.append(bound.add(point))
        lemma = point.value - sum(posterior.gap_parts(point).values())
        np.testing.assert_allclose(bound.single, lemma, rtol=1e-13)
        singles.append(bound.single)
        assert bound.value == values[-1] >= max(singles)
        assert len(bound._slopes) <= size
    assert np.all(np.diff(values) >= 0)
    assert values[-1] <= best + 1e-10
    if size == 1:
        assert values[-1] == pytest.approx(max(singles), rel=1e-14)


def test_far_from_the_gap_that_is_wanted_single_cuts_do():
    posterior = small_posterior()
    wanted, eager = LowerBound(wanted=1e-6), LowerBound()
    points = list(gradient_descent(posterior, 10))
    singles = []
    for point in points:
        wanted.add(point)
        eager.add(point)
        singles.append(wanted.single)
    assert wanted.value == max(singles) <= eager.value
    best = optimum(posterior)
    sideways = 1e-3 * np.random.default_rng(3).normal(size=posterior.size)
    for sign in (1, -1):
        wanted.add(posterior.at(best.theta + sign * sideways))
        singles.append(wanted.single)
    gap, single_gap = best.value - wanted.value, best.value - max(singles)
    assert single_gap > 1e-6, "rounding does not decide"
    assert -1e-10 <= gap < 0.2 * single_gap, "near the end cuts are combined"


def test_averaging_cancels_what_oscillates():
    # Gradients at theta* + d and theta* - d are opposite to first order, and their mean is small.
    posterior = small_posterior()
    best = optimum(posterior)
    sideways = 0.1 * np.random.default_rng(3).normal(size=posterior.size)
    bound = LowerBound()
    singles = []
    for sign in (1, -1):
        bound.add(posterior.at(best.theta + sign * sideways))
        singles.append(bound.single)
    assert bound.value <= best.value
    assert best.value - bound.value < 0.2 * (best.value - max(singles))


def test_at_the_minimum_the_bound_is_the_value():
    posterior = small_posterior()
    point = optimum(posterior)
    np.testing.assert_allclose(LowerBound().add(point), point.value, rtol=1e-13)


def test_any_weights_give_a_bound_and_the_simplex_finds_the_best():
    posterior = small_posterior()
    best = optimum(posterior).value
    points = list(gradient_descent(posterior, 5, step=0.05))
    covariance = 1 / posterior.prior_precision
    slopes = np.array([point.gradient - posterior.prior_precision * point.theta for point in points])
    intercepts = [
        point.value - 0.5 * point.theta @ (posterior.prior_precision * point.theta) - slope @ point.theta
        for point, slope in zip(points, slopes, strict=True)
    ]

    def bound(weights):
        slope = weights @ slopes
        return weights @ intercepts - 0.5 * slope @ (covariance * slope)

    bundle = LowerBound()
    for point in points:
        bundle.add(point)
    rng = np.random.default_rng(2)
    for weights in [*np.eye(5), *rng.dirichlet(np.ones(5), size=200)]:
        assert bound(weights) <= bundle.value + 1e-8
    np.testing.assert_allclose(bound(bundle._weights), bundle.value, rtol=1e-12)
    assert bundle.value <= best


@pytest.mark.parametrize("rank", [1, 4, 12])
@pytest.mark.parametrize("seed", range(5))
def test_the_simplex_problem_against_slsqp(seed, rank):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(8, rank))
    linear, gram = rng.normal(size=8), half @ half.T
    weights, value = maximise_on_simplex(linear, gram, max_steps=2000)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(value, weights @ linear - 0.5 * weights @ gram @ weights, rtol=1e-12)
    peer = minimize(
        lambda w: 0.5 * w @ gram @ w - w @ linear,
        np.full(8, 1 / 8),
        jac=lambda w: gram @ w - linear,
        bounds=[(0, 1)] * 8,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(8)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(value, -peer.fun, rtol=1e-7, atol=1e-7)
    # Fewer steps give a lower bound all the same, and earlier weights are not made worse.
    early, below = maximise_on_simplex(linear, gram, max_steps=5)
    assert below <= value + 1e-12
    assert maximise_on_simplex(linear, gram, early, max_steps=5)[1] >= below - 1e-12
    assert maximise_on_simplex(linear, gram, weights, max_steps=0)[1] >= value - 1e-12


def test_the_simplex_problem_where_the_answer_is_known():
    weights, value = maximise_on_simplex(np.array([0.0, 3.0, 1.0]), np.zeros((3, 3)))
    np.testing.assert_array_equal(weights, [0, 1, 0])
    assert value == 3.0
    weights, value = maximise_on_simplex(np.zeros(4), np.eye(4))
    np.testing.assert_allclose(weights, 0.25, atol=1e-8)
    np.testing.assert_allclose(value, -0.125, rtol=1e-12)
    opposite = np.array([[1.0, -1.0], [-1.0, 1.0]])
    np.testing.assert_allclose(maximise_on_simplex(np.zeros(2), opposite)[0], 0.5, atol=1e-12)
